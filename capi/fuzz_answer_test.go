package capi

import (
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzAnswer: whatever comes back, it is read without panic, has a class that the
// deliverer knows, and shows no secret.
func FuzzAnswer(f *testing.F) {
	for _, c := range answerCases(f) {
		f.Add(c.Status, c.Type, `{"1":[{"call_count":100}]}`, []byte(c.Body))
	}
	f.Add(200, "application/json", "", []byte(`{"events_received":"1","messages":"x","error":false}`))
	f.Add(400, "application/json", "", []byte(`{"error":{"code":190,"message":"SYNTHETICTOKEN/with|parts"}}`))
	k := newKeys(testToken, testSecret)
	f.Fuzz(func(t *testing.T, status int, contentType, usage string, body []byte) {
		r := reply{status: status, header: http.Header{}, body: body}
		r.header.Set("Content-Type", contentType)
		r.header.Set("X-Business-Use-Case-Usage", usage)
		e := decodeFault(r)
		if e == nil {
			decodeSent(r)
			if status < 200 || status > 299 {
				t.Fatalf("status %d was taken for success", status)
			}
			return
		}
		k.clean(e)
		switch e.Class {
		case ClassRetry, ClassThrottled, ClassAccess, ClassPayload, ClassUnclear, ClassAmbiguous:
		default:
			t.Fatalf("class %q", e.Class)
		}
		text := e.Error() + e.Body + strings.Join(e.BlameFields, "")
		if strings.Contains(text, testToken) || strings.Contains(text, testSecret) {
			t.Fatal("a secret shows")
		}
		if len(e.Body) > 512 || !utf8.ValidString(e.Body) {
			t.Fatal("the excerpt is too long or broken")
		}
	})
}
