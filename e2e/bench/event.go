package main

import (
	"bytes"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"
)

// The event of every measurement: eleven personal fields as a website has them, raw,
// 1,010 bytes in; about 1.6 KB once they are hashed. The marks are replaced for each
// event, so that no two are the same person or have the same id.
const eventText = `{"event_name":"Lead","event_time":%d,"event_id":"7f3c2a90-5b1e-4d7c-%s","action_source":"website",` +
	`"event_source_url":"https://www.example.com/courses/category-b/evening?utm_source=facebook&utm_medium=cpc&utm_campaign=autumn-lessons&utm_content=video-2-beta","user_data":{` +
	`"em":["Jane.Doe.%s@Example.com"],"ph":["+1 (650) 555-0142"],"fn":["Jane"],"ln":["O'Brien"],"ge":["f"],"db":["1997-02-16"],` +
	`"ct":["New York"],"st":["NY"],"zp":["10001-2345"],"country":["US"],"external_id":["user-%s"],"client_ip_address":"203.0.113.7",` +
	`"client_user_agent":"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36",` +
	`"fbc":"fb.1.%d000.AbCdEfGhIjKlMnOpQrStUvWxYz0123456789","fbp":"fb.1.%d000.1098115397"},` +
	`"custom_data":{"currency":"USD","value":123.45,"content_name":"Category B, evenings","content_category":"courses","order_id":"",` +
	`"content_ids":["course-b-evening"],"content_type":"product","num_items":1}}`

// mark stands where an event's own sixteen hexadecimal digits come.
const mark = "################"

// counter numbers the events of a whole run.
var counter atomic.Uint64

// request is one HTTP request, ready to be sent; next makes its events new.
type request struct {
	raw    []byte
	marks  []int // where the digits come
	each   int   // marks of one event
	events int
}

// newRequest renders a POST of so many events.
func newRequest(path, key string, events int) *request {
	var body bytes.Buffer
	if events > 1 {
		body.WriteString(`{"data":[`)
	}
	for i := range events {
		if i > 0 {
			body.WriteByte(',')
		}
		body.WriteString(newEvent(time.Now()))
	}
	if events > 1 {
		body.WriteString(`]}`)
	}
	r := &request{events: events}
	r.raw = fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
		path, key, body.Len())
	r.raw = append(r.raw, body.Bytes()...)
	for at := 0; ; {
		i := bytes.Index(r.raw[at:], []byte(mark))
		if i < 0 {
			break
		}
		r.marks = append(r.marks, at+i)
		at += i + len(mark)
	}
	r.each = len(r.marks) / events
	return r
}

// newEvent renders one event that happened at a given time, with marks.
func newEvent(at time.Time) string {
	s := at.Unix()
	return fmt.Sprintf(eventText, s, mark, mark, mark, s, s)
}

// next gives the request's events new numbers.
func (r *request) next() {
	const hex = "0123456789abcdef"
	first := counter.Add(uint64(r.events)) //nolint:gosec // at most 1000
	for i, at := range r.marks {
		n := (first + uint64(i/r.each)) * 0x9E3779B97F4A7C15 //nolint:gosec // spreads the numbers; one to one
		for d := range len(mark) {
			r.raw[at+d] = hex[n>>(60-4*d)&15]
		}
	}
}

// eventSize is how long an event is as it comes in.
func eventSize() int { return len(newEvent(time.Now())) }

func itoa(n int) string { return strconv.Itoa(n) }
