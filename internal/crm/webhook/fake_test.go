package webhook_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capiloop/capiloop/internal/crm/crmtest"
)

const whsec = "whsec_AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="

// receiver is a strict receiver of Standard Webhooks: it wants a signature over the raw
// bytes, within five minutes, and keeps one record for each webhook-id.
type receiver struct {
	*crmtest.Server
	mu    sync.Mutex
	leads map[string]map[string]any
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{leads: map[string]map[string]any{}}
	r.Server = crmtest.New(t, http.HandlerFunc(r.take))
	return r
}

func (f *receiver) take(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	id, stamp := r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp")
	key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(whsec, "whsec_"))
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + stamp + "." + string(body)))
	want, signed := "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)), false
	for one := range strings.FieldsSeq(r.Header.Get("webhook-signature")) {
		signed = signed || hmac.Equal([]byte(one), []byte(want))
	}
	seconds, err := strconv.ParseFloat(stamp, 64)
	var lead map[string]any
	switch {
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case !signed || err != nil || math.Abs(float64(time.Now().Unix())-seconds) > 300:
		crmtest.Answer(w, http.StatusUnauthorized, map[string]string{"message": "no valid signature"})
	case r.Header.Get("Content-Type") != "application/json" || json.Unmarshal(body, &lead) != nil:
		crmtest.Answer(w, http.StatusUnsupportedMediaType, map[string]string{"message": "no JSON"})
	default:
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.leads[id] == nil {
			f.Wrote("lead", id, id)
		}
		f.leads[id] = lead
		crmtest.Answer(w, http.StatusOK, map[string]string{"status": "success"})
	}
}
