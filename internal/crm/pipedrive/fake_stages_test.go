package pipedrive_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/crm/crmtest"
)

func (c *company) stageRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /api/v2/deals/{id}", c.one("Deal", func() []m { return c.records["deals"] }))
	mux.HandleFunc("GET /api/v2/persons/{id}", c.one("Person", func() []m { return c.persons }))
	mux.HandleFunc("GET /api/v2/pipelines", func(w http.ResponseWriter, r *http.Request) {
		c.paged(w, r, []m{
			{"id": 2, "name": "Partners", "order_nr": 2, "is_deleted": false},
			{"id": 1, "name": "Sales", "order_nr": 1, "is_deleted": false},
			{"id": 3, "name": "Old", "order_nr": 0, "is_deleted": true},
		})
	})
	mux.HandleFunc("GET /api/v2/stages", func(w http.ResponseWriter, r *http.Request) {
		c.paged(w, r, []m{
			{"id": 3, "name": "Qualified", "pipeline_id": 1, "order_nr": 5, "is_deleted": false},
			{"id": 1, "name": "New", "pipeline_id": 1, "order_nr": 1, "is_deleted": false},
			{"id": 7, "name": "Call", "pipeline_id": 2, "order_nr": 0, "is_deleted": false},
			{"id": 4, "name": "Gone", "pipeline_id": 1, "order_nr": 2, "is_deleted": true},
		})
	})
}

func (c *company) one(what string, list func() []m) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, one := range list() {
			if fmt.Sprint(one["id"]) == r.PathValue("id") {
				good(w, 200, one)
				return
			}
		}
		bad(w, 404, what+" not found")
	}
}

// paged answers with one page of a list of version 2.
func (c *company) paged(w http.ResponseWriter, r *http.Request, list []m) {
	from := 0
	if cursor := r.URL.Query().Get("cursor"); cursor != "" {
		n, err := strconv.Atoi(cursor)
		if err != nil || n > len(list) {
			bad(w, 400, "Validation failed: cursor")
			return
		}
		from = n
	}
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	to := min(len(list), from+min(cmp.Or(limit, 100), c.page))
	var next any
	if to < len(list) {
		next = strconv.Itoa(to)
	}
	crmtest.Answer(w, 200, m{"success": true, "data": list[from:to], "additional_data": m{"next_cursor": next}})
}

// listChanged lists deals by their last change.
func (c *company) listChanged(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	since := time.Time{}
	if text := q.Get("updated_since"); text != "" {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil || at.Nanosecond() != 0 {
			bad(w, 400, "Validation failed: updated_since")
			return
		}
		since = at
	}
	list := []m{}
	for _, d := range c.records["deals"] {
		if at, err := time.Parse(time.RFC3339, fmt.Sprint(d["update_time"])); err == nil && !at.Before(since) {
			list = append(list, d)
		}
	}
	slices.SortStableFunc(list, func(x, y m) int { return cmp.Compare(fmt.Sprint(x["update_time"]), fmt.Sprint(y["update_time"])) })
	c.paged(w, r, list)
}

// sample reads one of the samples.
func sample(tb testing.TB, name string) []byte {
	tb.Helper()
	body, err := os.ReadFile("testdata/hooks/" + name + ".json")
	require.NoError(tb, err)
	return body
}

// sampleData is the record in a sample of an answer.
func sampleData(t *testing.T, name string) m {
	t.Helper()
	var answer struct{ Data m }
	require.NoError(t, json.Unmarshal(sample(t, name), &answer))
	return answer.Data
}
