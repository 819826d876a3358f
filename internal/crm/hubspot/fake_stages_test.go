package hubspot_test

import (
	"cmp"
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/crm/crmtest"
)

// way is what the portal knows of a record beside its properties.
type way struct {
	history  map[string][]m // the newest value first, as HubSpot gives it
	modified time.Time
	late     bool // the index of the search does not have it yet
}

func (h *portal) stageRoutes(mux *http.ServeMux) {
	mux.HandleFunc("POST /crm/v3/objects/deals/search", h.search)
	mux.HandleFunc("GET /crm/v3/properties/contacts/{name}", h.property)
	mux.HandleFunc("GET /account-info/v3/details", func(w http.ResponseWriter, _ *http.Request) {
		crmtest.Answer(w, 200, m{"portalId": 4000001, "companyCurrency": "EUR", "timeZone": "US/Eastern"})
	})
}

// move sets a property at a time, as a person does in HubSpot.
func (h *portal) move(r *record, name, value string, at time.Time) {
	r.p[name] = value
	r.modified = at
	if r.history == nil {
		r.history = map[string][]m{}
	}
	entry := m{"value": value, "timestamp": at.UTC().Format("2006-01-02T15:04:05.000Z"), "sourceType": "CRM_UI", "sourceId": "userId:9999", "updatedByUserId": 9999}
	r.history[name] = append([]m{entry}, r.history[name]...)
}

// deal adds a deal in its first stage.
func (h *portal) deal(at time.Time, stage, contact string) *record {
	r := h.make("deals", map[string]string{"createdate": at.UTC().Format("2006-01-02T15:04:05.000Z")})
	r.linked = contact
	h.move(r, "pipeline", "default", at)
	h.move(r, "dealstage", stage, at)
	return r
}

// shown is a record with the properties that were asked for; unknown ones are dropped
// without a word.
func (h *portal) shown(kind string, r *record, names string) m {
	p := m{"hs_object_id": r.id}
	for _, name := range append([]string{"createdate"}, strings.Split(names, ",")...) {
		switch value, set := r.p[name]; {
		case name == "hs_lastmodifieddate":
			p[name] = r.modified.UTC().Format("2006-01-02T15:04:05.000Z")
		case set:
			p[name] = value
		case has(h.props[kind], name):
			p[name] = nil
		}
	}
	return m{"id": r.id, "properties": p, "createdAt": cmp.Or(r.p["createdate"], "2026-11-18T11:06:41.001Z"), "archived": false}
}

func has(list map[string]bool, name string) bool {
	_, ok := list[name]
	return ok
}

func (h *portal) search(w http.ResponseWriter, r *http.Request) {
	var body struct {
		FilterGroups []struct {
			Filters []struct{ PropertyName, Operator, Value string }
		}
		Sorts      []struct{ PropertyName, Direction string }
		Properties []string
		Limit      int
		After      string
	}
	if json.NewDecoder(r.Body).Decode(&body) != nil || len(body.FilterGroups) != 1 || len(body.FilterGroups[0].Filters) != 1 || len(body.Sorts) != 1 {
		fault(w, 400, "VALIDATION_ERROR", "Invalid input JSON")
		return
	}
	now := time.Now()
	h.searches = slices.DeleteFunc(h.searches, func(at time.Time) bool { return now.Sub(at) >= time.Second })
	if h.searches = append(h.searches, now); h.paced && len(h.searches) > 5 {
		crmtest.Answer(w, 429, m{"status": "error", "message": "You have reached your secondly limit.", "errorType": "RATE_LIMIT", "policyName": "SECONDLY"})
		return
	}
	f, after := body.FilterGroups[0].Filters[0], 0
	since, err := strconv.ParseInt(f.Value, 10, 64)
	if body.After != "" {
		after, _ = strconv.Atoi(body.After)
	}
	if err != nil || f.PropertyName != "hs_lastmodifieddate" || f.Operator != "GTE" || body.Sorts[0].Direction != "ASCENDING" || body.Limit > 200 || after+body.Limit > h.searchEnd {
		fault(w, 400, "VALIDATION_ERROR", "The search goes no further")
		return
	}
	var found []*record
	for _, d := range h.objects["deals"] {
		if !d.late && d.modified.UnixMilli() >= since {
			found = append(found, d)
		}
	}
	slices.SortStableFunc(found, func(x, y *record) int { return x.modified.Compare(y.modified) })
	answer := m{"total": len(found), "results": []m{}}
	for _, d := range found[min(after, len(found)):min(after+body.Limit, len(found))] {
		answer["results"] = append(answer["results"].([]m), h.shown("deals", d, strings.Join(body.Properties, ",")))
	}
	if after+body.Limit < len(found) {
		next := strconv.Itoa(after + body.Limit)
		answer["paging"] = m{"next": m{"after": next, "link": "?after=" + next}}
	}
	crmtest.Answer(w, 200, answer)
}

func (h *portal) property(w http.ResponseWriter, r *http.Request) {
	switch r.PathValue("name") {
	case "lifecyclestage":
		crmtest.Answer(w, 200, m{"name": "lifecyclestage", "label": "Lifecycle Stage", "options": []m{
			{"label": "Customer", "value": "customer", "displayOrder": 5, "hidden": false},
			{"label": "Lead", "value": "lead", "displayOrder": 1, "hidden": false},
			{"label": "Old", "value": "old", "displayOrder": 2, "hidden": true},
			{"label": "Tour booked", "value": "128370099", "displayOrder": 3, "hidden": false},
		}})
	default:
		fault(w, 404, "OBJECT_NOT_FOUND", "Property does not exist")
	}
}

// sample reads one of the samples.
func sample(tb testing.TB, name string) []byte {
	tb.Helper()
	body, err := os.ReadFile("testdata/hooks/" + name + ".json")
	require.NoError(tb, err)
	return body
}
