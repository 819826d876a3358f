package pipedrive_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/capiloop/capiloop/internal/crm/crmtest"
)

type m = map[string]any

const key = "0123456789abcdef0123456789abcdef01234567"

// company is Pipedrive as strict as the samples: v1 pages by start and limit, v2 by
// cursor; unknown custom fields are refused; what was just written is not in the index yet.
type company struct {
	*crmtest.Server
	auth    string // the header that is wanted, and its value
	value   string
	fields  map[string]string // deal fields: key, name
	options map[string][]m    // of those with a choice
	persons []m
	records map[string][]m // "leads", "deals"
	indexed bool           // the index has caught up
	next    int
	page    int // how many of a list come at once
}

func newCompany(t *testing.T) *company {
	t.Helper()
	c := &company{auth: "x-api-token", value: crmtest.Token, next: 11, page: 500, fields: map[string]string{"title": "Title", key: "Lead id (Capiloop)"}, records: map[string][]m{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v2/persons/search", c.searchPersons)
	mux.HandleFunc("GET /api/v2/persons", c.listPersons)
	mux.HandleFunc("POST /api/v2/persons", c.createPerson)
	mux.HandleFunc("PATCH /api/v2/persons/{id}", c.patchPerson)
	mux.HandleFunc("GET /api/v1/leads", c.list("leads"))
	mux.HandleFunc("GET /api/v2/deals", c.list("deals"))
	mux.HandleFunc("GET /api/v2/leads/search", c.search("leads"))
	mux.HandleFunc("GET /api/v2/deals/search", c.search("deals"))
	mux.HandleFunc("POST /api/v1/leads", c.createLead)
	mux.HandleFunc("POST /api/v2/deals", c.createDeal)
	mux.HandleFunc("GET /api/v1/dealFields", c.listFields)
	mux.HandleFunc("POST /api/v1/dealFields", c.createField)
	c.stageRoutes(mux)
	mux.HandleFunc("GET /api/v2/stages/1", func(w http.ResponseWriter, _ *http.Request) {
		good(w, 200, m{"id": 1, "name": "New", "pipeline_id": 1})
	})
	mux.HandleFunc("POST /oauth/token", c.token)
	c.Server = crmtest.New(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		v1 := strings.HasPrefix(r.URL.Path, "/api/v1/")
		switch {
		case r.URL.Path != "/oauth/token" && r.Header.Get(c.auth) != c.value:
			bad(w, 401, "unauthorized access")
		case v1 && q.Has("cursor") || !v1 && q.Has("start"):
			bad(w, 400, "Validation failed: unknown paging")
		default:
			mux.ServeHTTP(w, r)
		}
	}))
	c.Busy = func(w http.ResponseWriter) { // pipedrive-error-429.json
		w.Header().Set("x-ratelimit-limit", "20")
		w.Header().Set("x-ratelimit-remaining", "0")
		w.Header().Set("x-ratelimit-reset", "2")
		w.Header().Set("x-daily-requests-left", "4000")
		crmtest.Answer(w, 429, m{"success": false, "error": "Request over limit", "error_info": "Please check developers.pipedrive.com for more information", "errorCode": 429})
	}
	return c
}

func good(w http.ResponseWriter, status int, data any) {
	crmtest.Answer(w, status, m{"success": true, "data": data, "additional_data": m{"next_cursor": nil}})
}

func bad(w http.ResponseWriter, status int, message string) {
	crmtest.Answer(w, status, m{"success": false, "error": message, "error_info": "Please check developers.pipedrive.com for more information", "data": nil})
}

func (c *company) token(w http.ResponseWriter, r *http.Request) {
	user, pass, _ := r.BasicAuth()
	if user != "1" || pass != "made-up-secret" || r.FormValue("refresh_token") != "made-up-refresh" {
		crmtest.Answer(w, 400, m{"success": false, "error": "invalid_grant"})
		return
	}
	c.next++
	c.auth, c.value = "Authorization", "Bearer made-up-"+strconv.Itoa(c.next)
	crmtest.Answer(w, 200, m{"access_token": strings.TrimPrefix(c.value, "Bearer "), "refresh_token": "made-up-refresh", "expires_in": 3599, "api_domain": c.URL})
}

func values(list any) (texts []string) {
	entries, _ := list.([]any)
	for _, e := range entries {
		texts = append(texts, fmt.Sprint(e.(map[string]any)["value"]))
	}
	return texts
}

func (c *company) searchPersons(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if len(q.Get("term")) < 2 || q.Get("exact_match") != "true" || !slices.Contains([]string{"email", "phone"}, q.Get("fields")) {
		bad(w, 400, "Validation failed: term: String must contain at least 2 character(s)")
		return
	}
	items := []m{}
	for _, p := range c.persons {
		emails, phones := values(p["emails"]), values(p["phones"])
		in := emails
		if q.Get("fields") == "phone" {
			in = phones
		}
		if c.indexed && slices.Contains(in, q.Get("term")) {
			items = append(items, m{"result_score": 1.0, "item": m{"id": p["id"], "type": "person", "name": p["name"], "emails": emails, "phones": phones}})
		}
	}
	good(w, 200, m{"items": items})
}

func (c *company) listPersons(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Query().Get("updated_since"), "Z") {
		bad(w, 400, "Validation failed: updated_since")
		return
	}
	good(w, 200, c.persons)
}

func (c *company) read(w http.ResponseWriter, r *http.Request, must ...string) m {
	var body m
	if json.NewDecoder(r.Body).Decode(&body) != nil {
		bad(w, 400, "Bad request: no JSON")
		return nil
	}
	for _, name := range must {
		if body[name] == nil || body[name] == "" {
			bad(w, 400, "Validation failed: "+name+": Required")
			return nil
		}
	}
	custom, _ := body["custom_fields"].(map[string]any)
	for name := range body {
		if len(name) == 40 {
			custom = m{name: 1}
		}
	}
	for name := range custom {
		if c.fields[name] == "" {
			bad(w, 400, "Validation failed: custom_fields: Unrecognized key(s) in object: '"+name+"'")
			return nil
		}
	}
	return body
}

func (c *company) createPerson(w http.ResponseWriter, r *http.Request) {
	if body := c.read(w, r, "name"); body != nil {
		body["id"] = c.next
		c.next++
		c.persons = append(c.persons, body)
		c.Wrote("person", fmt.Sprint(body["id"]), fmt.Sprint(body["name"]))
		good(w, 201, body)
	}
}

func (c *company) patchPerson(w http.ResponseWriter, r *http.Request) {
	body := c.read(w, r)
	for _, p := range c.persons {
		if fmt.Sprint(p["id"]) == r.PathValue("id") && body != nil {
			maps.Copy(p, body)
			c.Wrote("patch", r.PathValue("id"), "")
			good(w, 200, p)
			return
		}
	}
	bad(w, 404, "Person not found")
}

func (c *company) owner(w http.ResponseWriter, body m) bool {
	for _, p := range c.persons {
		if fmt.Sprint(p["id"]) == fmt.Sprint(body["person_id"]) {
			return true
		}
	}
	bad(w, 404, "Person not found")
	return false
}

func (c *company) createLead(w http.ResponseWriter, r *http.Request) {
	body := c.read(w, r, "title", "person_id")
	if body == nil || !c.owner(w, body) {
		return
	}
	c.next++
	body["id"] = fmt.Sprintf("00000000-0000-11ed-8000-%012d", c.next)
	c.records["leads"] = append(c.records["leads"], body)
	c.Wrote("lead", body["id"].(string), fmt.Sprint(body[key]))
	good(w, 201, body)
}

func (c *company) createDeal(w http.ResponseWriter, r *http.Request) {
	body := c.read(w, r, "title", "person_id", "custom_fields")
	if body == nil || !c.owner(w, body) {
		return
	}
	body["id"] = c.next
	c.next++
	c.records["deals"] = append(c.records["deals"], body)
	c.Wrote("deal", fmt.Sprint(body["id"]), fmt.Sprint(body["custom_fields"].(map[string]any)[key]))
	good(w, 201, body)
}

func (c *company) list(kind string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("sort_by") == "update_time" {
			c.listChanged(w, r)
			return
		}
		list := []m{}
		for _, record := range c.records[kind] {
			if fmt.Sprint(record["person_id"]) == r.URL.Query().Get("person_id") {
				list = append(list, record)
			}
		}
		good(w, 200, list)
	}
}

func (c *company) search(kind string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		items := []m{}
		for _, record := range c.records[kind] {
			value := record[key]
			if custom, ok := record["custom_fields"].(map[string]any); ok {
				value = custom[key]
			}
			if c.indexed && value == r.URL.Query().Get("term") {
				items = append(items, m{"item": m{"id": record["id"], "custom_fields": []any{value}}})
			}
		}
		good(w, 200, m{"items": items})
	}
}

func (c *company) listFields(w http.ResponseWriter, _ *http.Request) {
	list := []m{}
	for k, name := range c.fields {
		f := m{"id": 1, "key": k, "name": name, "field_type": "varchar"}
		if options := c.options[k]; options != nil {
			f["field_type"], f["options"] = "enum", options
		}
		list = append(list, f)
	}
	crmtest.Answer(w, 200, m{"success": true, "data": list, "additional_data": m{"pagination": m{"start": 0, "limit": 500, "more_items_in_collection": false}}})
}

func (c *company) createField(w http.ResponseWriter, r *http.Request) {
	if body := c.read(w, r, "name", "field_type"); body != nil {
		made := strings.Repeat("ab", 20)
		c.fields[made] = body["name"].(string)
		good(w, 201, m{"id": 2, "key": made, "name": body["name"]})
	}
}
