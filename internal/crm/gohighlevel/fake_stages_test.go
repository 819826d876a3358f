package gohighlevel_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/crm/crmtest"
)

// ownKey is the public key of the fake's signatures.
const ownKey = "MCowBQYDK2VwAyEAA6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg="

func sample(tb testing.TB, name string) []byte {
	tb.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "gohighlevel-"+name+".json"))
	require.NoError(tb, err)
	return raw
}

// changed is a sample with some members set anew.
func changed(tb testing.TB, name string, with map[string]any) []byte {
	tb.Helper()
	var all map[string]any
	require.NoError(tb, json.Unmarshal(sample(tb, name), &all))
	maps.Copy(all, with)
	raw, err := json.Marshal(all)
	require.NoError(tb, err)
	return raw
}

// sign makes the request of an app's webhook.
func sign(tb testing.TB, body []byte) crm.Incoming {
	tb.Helper()
	seed, err := hex.DecodeString("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f")
	require.NoError(tb, err)
	r := plain(body)
	r.Header.Set("X-GHL-Signature", base64.StdEncoding.EncodeToString(ed25519.Sign(ed25519.NewKeyFromSeed(seed), body)))
	return r
}

// plain is the request of a workflow.
func plain(body []byte) crm.Incoming {
	return crm.Incoming{Method: http.MethodPost, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}
}

// send gives an answer what the vendor makes of it: it sends again after a 429 only, up to
// six times.
func send(receive func() int) (tries, status int) {
	for tries = 1; tries <= 7; tries++ {
		if status = receive(); status != http.StatusTooManyRequests {
			break
		}
	}
	return tries, status
}

// get gives a contact.
func (f *fake) get(w http.ResponseWriter, r *http.Request) {
	c := f.byID(r.PathValue("id"))
	if c == nil {
		says(w, 400, "Contact with id "+r.PathValue("id")+" not found: contact not found")
		return
	}
	all := maps.Clone(c.Fields)
	maps.Copy(all, f.show(c))
	all["tags"], all["dateAdded"] = c.Tags, "2026-11-18T11:06:41.000Z"
	crmtest.Answer(w, 200, map[string]any{"contact": all, "traceId": "trace-4"})
}

// everybody lists the contacts, which wants locationId, unlike the search of opportunities.
func (f *fake) everybody(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	limit, err := strconv.Atoi(q.Get("limit"))
	switch {
	case q.Has("location_id") || q.Get("locationId") != location:
		says(w, 422, []string{"locationId should not be empty"})
		return
	case err != nil || limit < 1 || limit > 100:
		says(w, 422, []string{"limit must not be greater than 100"})
		return
	}
	from := 0
	if id := q.Get("startAfterId"); id != "" {
		from = 1 + slices.IndexFunc(f.contacts, func(c *record) bool { return c.ID == id })
	}
	meta := map[string]any{"total": len(f.contacts), "startAfter": nil, "startAfterId": nil}
	rows := []map[string]any{}
	for _, c := range f.contacts[from:min(from+limit, len(f.contacts))] {
		row := maps.Clone(c.Fields)
		maps.Copy(row, f.show(c))
		row["tags"], row["dateAdded"] = c.Tags, "2026-11-18T11:06:41.000Z"
		rows = append(rows, row)
	}
	if from+limit < len(f.contacts) {
		meta["startAfter"], meta["startAfterId"] = 1795000000000+from, rows[len(rows)-1]["id"]
	}
	crmtest.Answer(w, 200, map[string]any{"contacts": rows, "meta": meta})
}

func (f *fake) opportunity(w http.ResponseWriter, r *http.Request) {
	for _, o := range f.standing {
		if o["id"] == r.PathValue("id") {
			crmtest.Answer(w, 200, map[string]any{"opportunity": o})
			return
		}
	}
	says(w, 404, "Opportunity not found")
}

// list is the search, which wants location_id, unlike all other calls.
func (f *fake) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	limit, err := strconv.Atoi(q.Get("limit"))
	switch {
	case q.Has("locationId") || q.Get("location_id") != location:
		says(w, 422, []string{"location_id should not be empty"})
		return
	case err != nil || limit < 1 || limit > 100:
		says(w, 422, []string{"limit must not be greater than 100"})
		return
	case q.Has("startAfter") != q.Has("startAfterId"):
		says(w, 422, []string{"startAfter and startAfterId go together"})
		return
	}
	from := 0
	if id := q.Get("startAfterId"); id != "" {
		from = 1 + slices.IndexFunc(f.standing, func(o map[string]any) bool { return o["id"] == id })
	}
	rows := f.standing[from:min(from+limit, len(f.standing))]
	meta := map[string]any{"total": len(f.standing), "startAfter": nil, "startAfterId": nil, "nextPageUrl": nil}
	if from+limit < len(f.standing) {
		meta["startAfter"], meta["startAfterId"] = 1795000000000+from, rows[len(rows)-1]["id"]
	}
	crmtest.Answer(w, 200, map[string]any{"opportunities": rows, "meta": meta, "traceId": "trace-5"})
}

// stands is an opportunity of the search.
func stands(id, stage, status, contact string, at time.Time) map[string]any {
	moment := at.UTC().Format("2006-01-02T15:04:05.000Z")
	return map[string]any{
		"id": id, "name": "Ana Example", "monetaryValue": 1500.5, "pipelineId": "pl1", "pipelineStageId": stage, "status": status, "contactId": contact,
		"createdAt": "2026-11-18T11:06:42.000Z", "updatedAt": moment, "lastStageChangeAt": moment, "lastStatusChangeAt": moment,
		"contact": map[string]any{"id": contact, "name": "Ana Example", "email": "ana.lead@example.com"},
	}
}
