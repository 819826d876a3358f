package intake_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The keys that the captured requests carry.
var captiveKeys = strings.NewReplacer("TESTTOKEN", keyOne, `"ACCESSKEY"`, `"`+keyOne+`"`)

func TestRequestsOfMetasSDKsAreAccepted(t *testing.T) {
	t.Parallel()
	for _, c := range readCaptured(t) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			d := open(t)
			q := url.Values{}
			for k, v := range c.Query {
				q.Set(k, captiveKeys.Replace(v))
			}
			send := func() answer {
				return d.do(t, c.Method, c.Path+"?"+q.Encode(), strings.NewReader(captiveKeys.Replace(c.Body)),
					"Content-Type", c.ContentType, "User-Agent", c.UserAgent)
			}
			a := send()
			want := http.StatusOK
			if strings.HasPrefix(c.Path, "/capi/") {
				want = http.StatusAccepted
			}
			require.Equal(t, want, a.Code, a.Body.String())
			require.EqualValues(t, c.Events, a.at("events_received"))
			require.Equal(t, []any{}, a.at("messages"))
			require.NotEmpty(t, a.at("fbtrace_id"))
			require.EqualValues(t, c.Events, d.book(t).Received)

			for _, v := range d.views(t) {
				require.Len(t, v.Deliveries, 1)
				require.NotEmpty(t, v.Deliveries[0].Payload)
				require.NotContains(t, string(v.Deliveries[0].Payload), c.UserAgent, "the SDK's agent is not the visitor's")
				require.NotContains(t, string(v.Deliveries[0].Payload), "192.0.2.1", "the caller's address is not the visitor's")
			}

			if strings.Contains(c.Body, "event_id") {
				require.EqualValues(t, c.Events, send().at("events_received"), "duplicates count as received")
				require.EqualValues(t, c.Events, d.book(t).Received, "and are stored once")
			}
		})
	}
}
