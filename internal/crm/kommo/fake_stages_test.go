package kommo_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/crm/crmtest"
)

func sample(tb testing.TB, name string) []byte {
	tb.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(tb, err)
	return raw
}

// object is a sample of JSON with some members set anew.
func object(tb testing.TB, name string, with map[string]any) map[string]any {
	tb.Helper()
	var all map[string]any
	require.NoError(tb, json.Unmarshal(sample(tb, name), &all))
	maps.Copy(all, with)
	return all
}

// hook is a request as the account's hook sender makes it.
func hook(body []byte) crm.Incoming {
	return crm.Incoming{Method: http.MethodPost, Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, Body: body}
}

// form writes entries of an event with PHP's brackets.
func form(event string, entries ...map[string]string) []byte {
	q := url.Values{"account[id]": {"30000001"}, "account[subdomain]": {"example"}}
	for i, e := range entries {
		for name, value := range e {
			q.Set(fmt.Sprintf("leads[%s][%d][%s]", event, i, name), value)
		}
	}
	return []byte(q.Encode())
}

// page cuts a list; an empty one is a 204, and more than 250 rows, or the endpoint's own
// limit, are a 400.
func page[T any](w http.ResponseWriter, r *http.Request, name string, most int, rows []T) {
	q := r.URL.Query()
	limit, err := strconv.Atoi(q.Get("limit"))
	n, _ := strconv.Atoi(q.Get("page"))
	if err != nil || limit > most {
		problem(w, 400, "Bad Request", "TooHigh", "limit")
		return
	}
	limit, n = min(limit, 2), max(n, 1) // small pages, to see that all are read
	from := (n - 1) * limit
	if name == "contacts" {
		from, limit = 0, len(rows)
	}
	if from >= len(rows) {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	links := map[string]any{"self": map[string]any{"href": "…"}}
	if from+limit < len(rows) {
		links["next"] = map[string]any{"href": "…"}
	}
	crmtest.Answer(w, 200, map[string]any{"_page": n, "_links": links, "_embedded": map[string]any{name: rows[from:min(from+limit, len(rows))]}})
}

func (f *fake) leadList(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	since, _ := strconv.Atoi(q.Get("filter[updated_at][from]"))
	rows := slices.Clone(f.standing)
	rows = slices.DeleteFunc(rows, func(l map[string]any) bool { return number(l["updated_at"]) < since })
	if q.Get("order[updated_at]") == "asc" {
		slices.SortStableFunc(rows, func(x, y map[string]any) int { return number(x["updated_at"]) - number(y["updated_at"]) })
	}
	if q.Get("with") != "contacts" {
		problem(w, 400, "Bad Request", "", "")
		return
	}
	page(w, r, "leads", 250, rows)
}

// number reads what a test or JSON has put.
func number(v any) int {
	n, _ := strconv.ParseFloat(fmt.Sprint(v), 64)
	return int(n)
}

func (f *fake) leadByID(w http.ResponseWriter, r *http.Request) {
	for _, l := range f.standing {
		if strconv.Itoa(number(l["id"])) == r.PathValue("id") {
			crmtest.Answer(w, 200, l)
			return
		}
	}
	w.WriteHeader(http.StatusNoContent)
}

func (f *fake) contactByID(w http.ResponseWriter, r *http.Request) {
	if p := f.people[r.PathValue("id")]; p != nil {
		crmtest.Answer(w, 200, p)
		return
	}
	problem(w, 404, "Not Found", "", "")
}

func (f *fake) contactList(w http.ResponseWriter, r *http.Request) {
	var rows []map[string]any
	for _, id := range r.URL.Query()["filter[id][]"] {
		if p := f.people[id]; p != nil {
			rows = append(rows, p)
		}
	}
	page(w, r, "contacts", 250, rows)
}

func (f *fake) eventList(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if f.poor {
		problem(w, 402, "Payment Required", "", "")
		return
	}
	types := q["filter[type][]"]
	for _, kind := range types {
		if kind != "lead_status_changed" && !eventType.MatchString(kind) {
			problem(w, 400, "Bad Request", "NotSupportedChoice", "filter.type")
			return
		}
	}
	ids := q["filter[entity_id][]"]
	if len(types) == 0 || len(ids) > 0 && !slices.Equal(q["filter[entity][]"], []string{"lead"}) {
		problem(w, 400, "Bad Request", "", "filter")
		return
	}
	since, _ := strconv.Atoi(q.Get("filter[created_at][from]"))
	rows := slices.DeleteFunc(slices.Clone(f.history), func(e map[string]any) bool {
		return number(e["created_at"]) < since || !slices.Contains(types, fmt.Sprint(e["type"])) || len(ids) > 0 && !slices.Contains(ids, fmt.Sprint(e["entity_id"]))
	})
	page(w, r, "events", 100, rows)
}

var eventType = regexp.MustCompile(`^custom_field_[0-9]+_value_changed$`)

// set is an event of the history that a field was changed; values are texts, or options by
// their number.
func set(lead, field, at int, before, after []any) map[string]any {
	values := func(list []any) []any {
		rows := []any{}
		for _, v := range list {
			value := map[string]any{"field_id": field, "field_type": 1, "enum_id": nil, "text": v}
			if n, ok := v.(int); ok {
				value["enum_id"], value["text"] = n, nil
			}
			rows = append(rows, map[string]any{"custom_field_value": value})
		}
		return rows
	}
	return map[string]any{
		"id": fmt.Sprint("ev", at), "type": fmt.Sprintf("custom_field_%d_value_changed", field), "entity_id": lead, "entity_type": "lead", "created_by": 600001,
		"created_at": at, "value_before": values(before), "value_after": values(after), "account_id": 30000001,
	}
}

// moved is an event of the history.
func moved(lead, from, to, at int) map[string]any {
	value := func(status int) []any {
		return []any{map[string]any{"lead_status": map[string]any{"id": status, "pipeline_id": 3000001}}}
	}
	return map[string]any{
		"id": fmt.Sprint("ev", at), "type": "lead_status_changed", "entity_id": lead, "entity_type": "lead", "created_by": 600001, "created_at": at,
		"value_before": value(from), "value_after": value(to), "account_id": 30000001,
	}
}

func (f *fake) pipelines(w http.ResponseWriter, _ *http.Request) {
	status := func(id, sort int, name string) any {
		return map[string]any{"id": id, "name": name, "sort": sort, "type": 0}
	}
	pipeline := func(id, sort int, name string, archived bool, statuses ...any) any {
		return map[string]any{"id": id, "name": name, "sort": sort, "is_archive": archived, "_embedded": map[string]any{"statuses": statuses}}
	}
	crmtest.Answer(w, 200, map[string]any{"_embedded": map[string]any{"pipelines": []any{
		pipeline(3000002, 20, "Roofs", false, status(30000021, 10, "New"), status(142, 10000, "Sold")),
		pipeline(3000001, 10, "Sales", false, status(142, 10000, "Won"), status(143, 11000, "Lost"), status(30000011, 20, "New"), status(30000012, 30, "Called")),
		pipeline(3000003, 30, "Old", true, status(142, 10000, "Won")),
	}}})
}
