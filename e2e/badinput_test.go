package e2e_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Hashes that must never leave: of nothing, and of words that stand for nothing.
var hashesOfNothing = []string{
	"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
	"74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b", // null
	"eb045d78d273107348b0300c01d29b7552d622ab",                         // undefined, its beginning
}

const (
	janesHash  = "8c87b489ce35cf2e2f39f80e282cb2e804932a56a213983eeeb428407d43b52d"
	phonesHash = "0910de91464a0150fdd831cef73b3492abd43c41f41aefe3032a1acd321e012c"
	jane       = `"em":"` + janesHash + `"`
)

// badEvent is an event as the world sends them, and what is right for it.
type badEvent struct {
	name  string
	event string   // members of the event beside name, time, id and source; may replace them
	field string   // refused, for this field; "": taken
	has   []string // in the payload
	lacks []string // not in the payload
}

var badEvents = []badEvent{
	{"C011: number of zeros", `"user_data":{"ph":"+0000000000",` + jane + `}`, "", []string{janesHash}, []string{`"ph"`}},
	{"C022: letters beyond ASCII", `"user_data":{"em":"jané@example.com","ph":"+16505550142"}`, "", []string{phonesHash}, nil},
	{"C023: no address", `"user_data":{"em":"not-an-email","ph":"+16505550142"}`, "", []string{phonesHash}, []string{`"em"`}},
	{"C025: lists of nothing", `"user_data":{"em":["","not-an-email"],"ph":[],"external_id":"u-1"}`, "", []string{`"external_id"`}, []string{`"em"`, `"ph"`}},
	{"C029: words for nothing", `"user_data":{"em":"null","fn":"undefined","ln":"N/A","external_id":"null","ph":"+16505550142"}`, "", []string{phonesHash}, []string{`"em"`, `"fn"`, `"ln"`, `"external_id"`}},
	{"C040: a name that is a number", `"user_data":{"name":12345,` + jane + `}`, "", []string{janesHash}, nil},
	{"C045: digits for a city", `"user_data":{"ct":"1770",` + jane + `}`, "", []string{janesHash}, []string{`"ct"`}},
	{"C067: MD5", `"user_data":{"em":"9e26471d35a78862c17e467d87cddedf","ph":"+16505550142"}`, "", []string{phonesHash}, []string{`"em"`}},
	{"C068: empty texts", `"user_data":{"em":"","ph":"   ","fn":null,"external_id":"u-1"}`, "", []string{`"external_id"`}, []string{`"em"`, `"ph"`, `"fn"`}},
	{"C069: the hash of nothing", `"user_data":{"em":"` + hashesOfNothing[0] + `","external_id":"u-1"}`, "", []string{`"external_id"`}, []string{`"em"`}},
	{"C071: a number as external_id", `"user_data":{"external_id":123}`, "", []string{"a665a45920422f9d417e4867efdc4fb8a04a1f3fff1fa07e998e86f7f7a27ae3"}, nil},
	{"C077: null in a list", `"user_data":{"em":["jane@example.com"],"ph":[null]}`, "", []string{janesHash}, []string{`"ph"`}},
	{"C082: an id beyond 2^53", `"user_data":{"lead_id":12345678901234567,` + jane + `}`, "", []string{"12345678901234567"}, []string{"e+"}},
	{"C084: an id with a prefix", `"user_data":{"lead_id":"l:1234567890123456",` + jane + `}`, "", []string{"1234567890123456"}, []string{"l:"}},
	{"C117: personal data in the address", `"action_source":"website","event_source_url":"https://example.com/thanks?first_name=Jane&email=jane%40example.com&fbclid=AbC&utm_source=x","user_data":{"client_user_agent":"UA",` + jane + `}`, "", []string{"fbclid=AbC"}, []string{"Jane", "jane%40"}},
	{"C128: no time", `"event_time":0,"user_data":{` + jane + `}`, "", []string{`"event_time"`}, []string{`"event_time":0`}},
	{"C128: null for a time", `"event_time":null,"user_data":{` + jane + `}`, "", []string{`"event_time"`}, []string{"null"}},
	{"C128: an empty time", `"event_time":"","user_data":{` + jane + `}`, "", []string{`"event_time"`}, nil},
	{"C131: NaN as a text", `"user_data":{` + jane + `},"custom_data":{"value":"NaN","currency":"EUR"}`, "", nil, []string{"NaN", `"value"`}},
	{"C131: hexadecimal", `"user_data":{` + jane + `},"custom_data":{"value":"0x1p4","currency":"EUR"}`, "", nil, []string{`"value"`}},
	{"C131: Purchase of infinity", `"event_name":"Purchase","user_data":{` + jane + `},"custom_data":{"value":"Infinity","currency":"EUR"}`, "custom_data.value", nil, nil},
	{"C134: small currency", `"user_data":{` + jane + `},"custom_data":{"value":1,"currency":" eur "}`, "", []string{`"EUR"`}, nil},
	{"C135: a currency Meta does not know", `"event_name":"QualifiedLead","user_data":{` + jane + `},"custom_data":{"value":10,"currency":"XBT"}`, "", nil, []string{"XBT", "USD"}},
	{"C135: Purchase in it", `"event_name":"Purchase","user_data":{` + jane + `},"custom_data":{"value":10,"currency":"XBT"}`, "custom_data.currency", nil, nil},
	{"C137: JSON in a text", `"user_data":{` + jane + `},"custom_data":{"value":"19.90","content_ids":"[\"sku_1\"]","currency":"EUR"}`, "", []string{`"content_ids":["sku_1"]`, `"value":19.9`}, nil},
	{"C139: zero is a value", `"user_data":{` + jane + `},"custom_data":{"value":0,"currency":"EUR"}`, "", []string{`"value":0`}, nil},
	{"C143: a list of categories", `"user_data":{` + jane + `},"custom_data":{"content_category":["Shoes","Men"]}`, "", []string{`"Shoes,Men"`}, nil},
	{"C183: Purchase without value", `"event_name":"Purchase","action_source":"website","event_source_url":"https://example.com/","user_data":{"client_user_agent":"UA",` + jane + `}`, "custom_data.value", nil, nil},
	{"C198: nobody", `"user_data":{}`, "user_data", nil, nil},
	{"C198: nobody after normalising", `"user_data":{"em":"not-an-email","ph":"0"}`, "user_data", nil, nil},
	{"C198: an agent alone", `"user_data":{"client_user_agent":"Mozilla/5.0"}`, "user_data", nil, nil},
	{"C199: digits are a text", `"event_id":"000001","user_data":{` + jane + `}`, "", []string{`"event_id":"000001"`}, nil},
	{"C205: small letters", `"event_name":"purchase ","user_data":{` + jane + `},"custom_data":{"value":1,"currency":"EUR"}`, "", []string{`"Purchase"`}, nil},
	{"C220: zeros of LDU", `"user_data":{` + jane + `},"data_processing_options":["LDU"],"data_processing_options_country":0,"data_processing_options_state":0`, "", []string{`"data_processing_options_country":0`, `"data_processing_options_state":0`}, nil},
}

// What the world sends, case by case: taken with what is right in it, or refused with
// the field named. Nothing of it breaks the batch it stands in.
func TestBadEvents(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	for i, c := range badEvents {
		t.Run(c.name, func(t *testing.T) {
			id := fmt.Sprint("case-", i)
			members := c.event
			for name, value := range map[string]string{
				"event_name": `"Lead"`, "event_id": `"` + id + `"`, "action_source": `"chat"`, "event_time": strconv.FormatInt(r.clock.Now().Unix(), 10),
			} {
				if !strings.Contains(members, `"`+name+`":`) {
					members += `,"` + name + `":` + value
				}
			}
			good, err := json.Marshal(r.lead(datasetA, "good-beside-"+id))
			require.NoError(t, err)
			status, b := r.request(t, http.MethodPost, "/v1/events", fmt.Appendf(nil, `{"data":[{%s},%s]}`, members, good))
			require.Equal(t, http.StatusAccepted, status, "the good one beside it is taken: %s", b)
			var a answer
			require.NoError(t, json.Unmarshal(b, &a))
			if c.field != "" {
				require.Len(t, a.Rejected, 1, "%s", b)
				require.Contains(t, a.Rejected[0].Field, c.field)
				require.NotEmpty(t, a.Rejected[0].Reason)
				require.NotEmpty(t, a.Rejected[0].Fix)
				return
			}
			require.Equal(t, 2, a.Accepted, "%s", b)
			var e struct {
				Deliveries []struct{ Payload json.RawMessage }
			}
			r.get(t, a.Events[0].URL, &e)
			payload := string(e.Deliveries[0].Payload)
			for _, s := range c.has {
				require.Contains(t, payload, s)
			}
			for _, s := range append(c.lacks, hashesOfNothing...) {
				require.NotContains(t, payload, s)
			}
		})
	}
	r.drained(t, 20*time.Second)
	b := r.book(t, "")
	require.Zero(t, b.Failed, "what was taken is right for Meta: %+v", b)
	require.Len(t, r.graph.Kept(datasetA), int(b.Sent))
}

// Bytes that are no events, no JSON or no HTTP: the server says what is wrong or hangs
// up; it never answers 5xx and never stops.
func TestGarbage(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	good := bodyOf(t, r.lead(datasetA, "good"))
	routes := []string{"/v1/events", "/v26.0/" + datasetA + "/events", "/capi/" + datasetA + "/events", "/v1/leads", "/v1/events/x", "/", "/%00", "/v1/ledger?from=\xff"}
	kinds := []string{"application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain", "\xff", ""}
	for range 400 {
		body := bytes.Clone(good)
		for range 1 + random.IntN(6) { // a few bytes go wrong on the way
			switch at := random.IntN(len(body)); random.IntN(4) {
			case 0:
				body[at] = byte(random.IntN(256))
			case 1:
				body = body[:max(at, 1)]
			case 2:
				body = append(body[:at:at], append([]byte{`{}[]",:\0`[random.IntN(9)]}, body[at:]...)...)
			default:
				body = append(body, body[at:]...)
			}
		}
		q, err := http.NewRequest(http.MethodPost, r.url(), bytes.NewReader(body))
		require.NoError(t, err)
		q.URL.Opaque = strings.ToValidUTF8(routes[random.IntN(len(routes))], "%ff")
		q.Header["Content-Type"] = []string{strings.ToValidUTF8(kinds[random.IntN(len(kinds))], "?")}
		q.Header.Set("Authorization", "Bearer "+apiKey)
		res, err := patient.Do(q)
		require.NoError(t, err, "%q", body)
		require.Less(t, res.StatusCode, 500, "%s %q", q.URL.Opaque, body)
		require.NoError(t, res.Body.Close())
	}
	for _, text := range []string{
		"", "\x16\x03\x01\x02\x00\x01\x00", "GET\r\n\r\n", "POST /v1/events HTTP/1.1\r\n\r\n",
		"POST /v1/events HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
		"POST /v1/events HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nAuthorization: Bearer " + apiKey + "\r\n\r\nZZZ\r\n",
		"POST /v1/events HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\nAuthorization: Bearer " + apiKey + "\r\n\r\n{\"event_name\":", // hung up in the middle
		"GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("y", 1<<20) + "\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", r.server.Load().addr)
		require.NoError(t, err)
		_, _ = conn.Write([]byte(text)) // it may hang up while we talk
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(300*time.Millisecond)))
		line, _ := bufio.NewReader(conn).ReadString('\n')
		require.NotContains(t, line, " 5", "%.60q", text)
		_ = conn.Close()
	}
	r.book(t, "")
	r.send(t, r.lead(datasetA, "still-alive"))
	r.eventually(t, 10*time.Second, "it still sends", func() bool { return r.graph.Times(datasetA, "Lead", "still-alive") == 1 })
}
