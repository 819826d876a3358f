package main

import (
	"bytes"
	"fmt"
	"net/http"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

// clockNow is the real clock.
var clockNow = ledger.Clock{}

func localClient() *http.Client { return &http.Client{Timeout: time.Minute} }

// The people of the demo are invented; their addresses lie under example.com
// (RFC 2606) and their numbers are not given out.
var demoNames = []string{"aigerim", "daniyar", "madina", "yerlan", "asel", "timur", "zhanna", "nurlan", "dana", "ruslan"}

// demoDeletedLead is an event whose lead was deleted at Meta: it is refused, and the
// others of its batch go out.
const demoDeletedLead = "Lead-0123"

// demoWeek returns a week of a driving school as JSON lines: leads from a Meta form,
// a part of which is qualified and buys, website visits, and every kind of mistake
// that callers make.
func demoWeek(now time.Time) []byte {
	var b bytes.Buffer
	for i := range 240 {
		at := now.Add(-time.Duration(160-i*160/240) * time.Hour)
		lead := demoLead(i, "Lead", at)
		b.Write(lead.line())
		if i%3 == 0 {
			b.Write(demoLead(i, "QualifiedLead", at.Add(2*time.Hour)).line())
		}
		if i%24 == 0 {
			sale := demoLead(i, "Purchase", at.Add(5*time.Hour))
			sale["custom_data"] = event{"event_source": "crm", "lead_event_source": "Capiloop demo", "value": 185000, "currency": "KZT"}
			b.Write(sale.line())
		}
		if i%40 == 0 {
			b.Write(lead.line()) // the form's webhook came twice
		}
		if i%20 == 0 {
			b.Write(demoVisit(i, at).line())
		}
	}
	for _, e := range demoMistakes(now) {
		b.Write(e.line())
	}
	return b.Bytes()
}

func demoLead(i int, name string, at time.Time) event {
	person := fmt.Sprintf("%s.%03d", demoNames[i%len(demoNames)], i)
	return event{
		"event_name": name, "event_time": at.Unix(), "event_id": fmt.Sprintf("%s-%04d", name, i), "action_source": "system_generated",
		"user_data": event{
			"em": " " + person + "@Example.com ", "ph": fmt.Sprintf("8 (701) 555-%02d-%02d", i/100, i%100), "lead_id": 1200000000000000 + int64(i),
		},
		"custom_data": event{"event_source": "crm", "lead_event_source": "Capiloop demo"},
	}
}

func demoVisit(i int, at time.Time) event {
	return event{
		"event_name": "ViewContent", "event_time": at.Unix(), "event_id": fmt.Sprintf("view-%04d", i), "action_source": "website",
		"event_source_url": "https://avto-start.example.com/category-b?utm_source=ig&email=a%40example.com",
		"user_data": event{
			"client_user_agent": "Mozilla/5.0 (Linux; Android 14) AppleWebKit/537.36 Chrome/128.0 Mobile Safari/537.36",
			"client_ip_address": fmt.Sprintf("203.0.113.%d", i%200+1), "fbp": fmt.Sprintf("fb.1.%d.%d", at.UnixMilli(), 1000000000+i),
		},
	}
}

// demoMistakes are what the door turns away, holds or mends.
func demoMistakes(now time.Time) []event {
	user := func(email string) event { return event{"em": email, "client_user_agent": "Mozilla/5.0"} }
	base := func(id, name string, at time.Time, u event) event {
		return event{
			"event_name": name, "event_time": at.Unix(), "event_id": id, "action_source": "website",
			"event_source_url": "https://avto-start.example.com/", "user_data": u,
		}
	}
	ahead := base("clock-ahead", "Lead", now.Add(11*time.Minute), user("clock@example.com"))
	refused := base("no-consent", "Lead", now, user("private@example.com"))
	refused["consent"] = "denied"
	return []event{
		base("too-old", "Lead", now.Add(-9*24*time.Hour), user("old@example.com")),
		base("no-value", "Purchase", now, user("buyer@example.com")),
		base("nobody", "Lead", now, event{"client_user_agent": "Mozilla/5.0"}),
		base("bad-email", "Lead", now, event{"em": "not an address", "ph": "+77015559999"}),
		ahead, refused,
	}
}
