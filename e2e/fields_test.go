package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	fieldHook  = "hookOfTheCRMWithFields2Pq7Ls"
	leadIDKey  = "0123456789abcdef0123456789abcdef01234567"
	choiceKey  = "aaaaaaaaaabbbbbbbbbbccccccccccdddddddddd"
	fieldRules = `    stages:
      - {field: %s, is: Hot, event: QualifiedLead}
    guard: {off: true}
`
)

// fieldRig is a rig with a CRM whose fields are watched.
type fieldRig struct {
	*rig
	crm *apiCRM
}

// apiCRM answers what is read of a CRM; what is not there is empty.
type apiCRM struct {
	url string

	mu      sync.Mutex
	answers map[string]any // by path
	asked   []string
}

func (c *apiCRM) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, r.URL.Path)
	answer, ok := c.answers[r.URL.Path]
	if !ok {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

func (c *apiCRM) set(path string, answer any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers[path] = answer
}

func (c *apiCRM) wasAsked(path string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.asked, path)
}

func newFieldRig(t *testing.T, settings, field string, answers map[string]any) *fieldRig {
	t.Helper()
	crm := &apiCRM{answers: answers}
	s := httptest.NewServer(crm)
	t.Cleanup(s.Close)
	crm.url = s.URL
	return &fieldRig{crm: crm, rig: newRig(t, setup{lines: fmt.Sprintf("    crms:\n      - {name: sales, url: %q, token: \"${SHOP_TOKEN}\", allow_private: true, webhook: %s, %s}\n"+fieldRules, crm.url, fieldHook, settings, field)})}
}

func (r *fieldRig) told(t *testing.T, contentType string, body []byte) {
	t.Helper()
	status, answer := r.request(t, http.MethodPost, "/webhooks/"+fieldHook, body, "Content-Type", contentType)
	require.Equal(t, http.StatusOK, status, "%s", answer)
}

// reported lists the leads of which Meta has heard, each as often as it has.
func (r *fieldRig) reported() []string {
	var ids []string
	for _, e := range r.graph.Kept(datasetA) {
		ids = append(ids, e.EventName+" of "+e.LeadID)
	}
	slices.Sort(ids)
	return ids
}

// isHistory waits until a lead is known whose field had its value before the connection.
func (r *fieldRig) isHistory(t *testing.T, lead string) {
	t.Helper()
	r.eventually(t, 20*time.Second, "history of "+lead, func() bool {
		_, answer := r.request(t, http.MethodGet, "/v1/leads/"+lead, nil)
		return strings.Contains(string(answer), "became Hot, told by sales. Nothing was sent: it happened before the CRM was connected.")
	})
}

// A salesman sets a field of a deal in Pipedrive, and Meta hears of it, once; of what stood
// there before nobody tells.
func TestAFieldOfPipedriveReachesMeta(t *testing.T) {
	t.Parallel()
	person := func(id int) event {
		return event{"success": true, "data": event{"id": id, "name": "A", "emails": []event{{"value": fmt.Sprint("person-", id, rawDomain), "primary": true}}}}
	}
	r := newFieldRig(t, "kind: pipedrive, webhook_user: capiloop, webhook_password: made-up-password, lead_id_field: "+leadIDKey+", watch: ["+choiceKey+"]", choiceKey, map[string]any{
		"/api/v1/dealFields": event{"success": true, "data": []event{{"key": choiceKey, "name": "Temperature", "options": []event{{"id": 28, "label": "Cold"}, {"id": 29, "label": "Hot"}}}}},
		"/api/v2/pipelines":  event{"success": true, "data": []event{{"id": 1, "name": "Sales"}}},
		"/api/v2/stages":     event{"success": true, "data": []event{{"id": 1, "name": "New", "pipeline_id": 1}}},
		"/api/v2/deals":      event{"success": true, "data": []event{}},
		"/api/v2/persons/11": person(11),
		"/api/v2/persons/12": person(12),
	})
	option := func(id int) event { return event{choiceKey: event{"type": "enum", "id": id}} }
	hook := func(id string, deal int, lead string, at time.Time, now int, previous event) {
		own := option(now)
		own[leadIDKey] = event{"type": "varchar", "value": lead}
		req, err := http.NewRequest(http.MethodPost, "http://127.0.0.1", nil)
		require.NoError(t, err)
		req.SetBasicAuth("capiloop", "made-up-password")
		body := encode(t, event{
			"meta":     event{"action": "change", "entity": "deal", "id": id, "entity_id": strconv.Itoa(deal), "version": "2.0", "timestamp": at.UTC().Format("2006-01-02T15:04:05.000Z")},
			"data":     event{"id": deal, "person_id": 10 + deal, "pipeline_id": 1, "stage_id": 1, "status": "open", "value": 5, "currency": "KZT", "add_time": "2026-01-01T00:00:00Z", "custom_fields": own},
			"previous": previous,
		})
		status, answer := r.request(t, http.MethodPost, "/webhooks/"+fieldHook, body, "Authorization", req.Header.Get("Authorization"))
		require.Equal(t, http.StatusOK, status, "%s", answer)
	}
	now := r.clock.Now()
	const before, later = "1700000000000001", "1700000000000002"
	hook("e1", 1, before, now, 29, event{"value": 4})                                     // it stood there
	hook("e2", 1, before, now.Add(-24*time.Hour), 29, event{"custom_fields": option(28)}) // it comes late
	hook("e3", 2, later, now, 28, event{"custom_fields": event{choiceKey: nil}})          // no rule is for it
	for _, id := range []string{"e4", "e4", "e5"} {                                       // told again, and set again
		hook(id, 2, later, now, 29, event{"custom_fields": option(28)})
	}
	r.isHistory(t, before)
	r.eventually(t, 20*time.Second, "Meta hears", func() bool { return len(r.reported()) > 0 })
	time.Sleep(time.Second) // whatever should not come would come now
	require.Equal(t, []string{"QualifiedLead of " + later}, r.reported())
}

// Kommo's hook of an edit does not tell what was edited: the history of the account does.
func TestAFieldOfKommoReachesMeta(t *testing.T) {
	t.Parallel()
	lead := func(id int, metaID, value string, updated time.Time) event {
		field := func(id int, name, value string) event {
			return event{"field_id": id, "field_name": name, "values": []event{{"value": value, "enum_id": nil}}}
		}
		return event{"id": id, "price": 5, "status_id": 11, "pipeline_id": 3, "created_at": updated.Add(-time.Hour).Unix(), "updated_at": updated.Unix(), "custom_fields_values": []event{
			field(900001, "Meta Lead ID", metaID), field(900004, "Temperature", value),
		}}
	}
	ago := time.Now().Add(-48 * time.Hour)
	const before, later = "1700000000000003", "1700000000000004"
	r := newFieldRig(t, "kind: kommo, watch: [Temperature]", "Temperature", map[string]any{
		"/api/v4/account":             event{"currency": "KZT"},
		"/api/v4/leads/pipelines":     event{"_embedded": event{"pipelines": []event{{"id": 3, "name": "Sales", "_embedded": event{"statuses": []event{{"id": 11, "name": "New"}}}}}}},
		"/api/v4/leads/custom_fields": event{"_embedded": event{"custom_fields": []event{{"id": 900004, "name": "Temperature", "type": "select"}}}},
		"/api/v4/leads":               event{"_embedded": event{"leads": []event{lead(71, before, "Hot", ago), lead(72, later, "Cold", ago)}}},
		"/api/v4/leads/71":            lead(71, before, "Hot", ago),
	})
	r.isHistory(t, before) // the first look
	hook := func(id int, metaID, value string) {
		at := "leads[update][0]"
		form := url.Values{
			at + "[id]": {strconv.Itoa(id)}, at + "[status_id]": {"11"}, at + "[pipeline_id]": {"3"}, at + "[last_modified]": {strconv.FormatInt(r.clock.Now().Unix(), 10)},
			at + "[custom_fields][0][id]": {"900001"}, at + "[custom_fields][0][name]": {"Meta Lead ID"}, at + "[custom_fields][0][values][0][value]": {metaID},
			at + "[custom_fields][1][id]": {"900004"}, at + "[custom_fields][1][name]": {"Temperature"}, at + "[custom_fields][1][values][0][value]": {value},
		}
		r.told(t, "application/x-www-form-urlencoded", []byte(form.Encode()))
	}
	hook(71, before, "Hot") // somebody has written a note
	now := r.clock.Now().Add(time.Second)
	r.crm.set("/api/v4/leads/72", lead(72, later, "Hot", now))
	value := func(text string) []event {
		return []event{{"custom_field_value": event{"field_id": 900004, "text": text}}}
	}
	r.crm.set("/api/v4/events", event{"_embedded": event{"events": []event{
		{"type": "custom_field_900004_value_changed", "entity_id": 72, "created_at": now.Unix(), "value_before": value("Cold"), "value_after": value("Hot")},
	}}})
	hook(72, later, "Hot")
	hook(72, later, "Hot")
	r.eventually(t, 20*time.Second, "Meta hears", func() bool { return len(r.reported()) > 0 })
	require.True(t, r.crm.wasAsked("/api/v4/events"))
	time.Sleep(time.Second) // whatever should not come would come now
	require.Equal(t, []string{"QualifiedLead of " + later}, r.reported())
}
