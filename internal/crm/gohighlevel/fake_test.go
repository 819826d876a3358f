package gohighlevel_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/capiloop/capiloop/internal/crm/crmtest"
)

const location = "locExample0000000001"

// record is a contact.
type record struct {
	ID     string
	Fields map[string]any    // its own
	Custom map[string]string // by the custom field's key
	Tags   []string
}

// fake is a location as strict as the samples and spec/crm.md §3.12. Its handler runs one
// call at a time.
type fake struct {
	*crmtest.Server
	duplicates bool              // the location's setting Allow Duplicate Contact
	custom     map[string]string // custom fields: key → id
	contacts   []*record
	deals      map[string]map[string]any // by contact and pipeline
	access     string
	refresh    string
	rounds     int
	standing   []map[string]any // opportunities as the search gives them
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{custom: map[string]string{"meta_lead_id": "cf1", "fbclid": "cf2"}, deals: map[string]map[string]any{}, access: crmtest.Token, refresh: "made-up-refresh-0"}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /contacts/upsert", f.upsert)
	mux.HandleFunc("PUT /contacts/{id}", f.put)
	mux.HandleFunc("POST /contacts/{id}/tags", f.tag)
	mux.HandleFunc("GET /contacts/search/duplicate", f.search)
	mux.HandleFunc("POST /opportunities/upsert", f.deal)
	mux.HandleFunc("GET /contacts/{id}", f.get)
	mux.HandleFunc("GET /contacts/{$}", f.everybody)
	mux.HandleFunc("GET /opportunities/{id}", f.opportunity)
	mux.HandleFunc("GET /opportunities/search", f.list)
	mux.HandleFunc("GET /opportunities/pipelines", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("locationId") != location {
			says(w, 422, []string{"locationId can't be undefined"})
			return
		}
		crmtest.Answer(w, 200, map[string]any{"pipelines": []any{map[string]any{"id": "pl1", "name": "Sales", "stages": []any{map[string]any{"id": "st1", "name": "New"}}}}})
	})
	mux.HandleFunc("GET /locations/{id}/customFields", func(w http.ResponseWriter, _ *http.Request) {
		list := []map[string]string{}
		for key, id := range f.custom {
			list = append(list, map[string]string{"id": id, "fieldKey": "contact." + key, "dataType": "TEXT"})
		}
		crmtest.Answer(w, 200, map[string]any{"customFields": list})
	})
	mux.HandleFunc("POST /locations/{id}/customFields", f.create)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { says(w, 404, "Not Found") })
	f.Server = crmtest.New(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/oauth/token":
			f.token(w, r)
		case r.Header.Get("Authorization") != "Bearer "+f.access:
			says(w, 401, "Invalid JWT")
		case r.Header.Get("Version") != "2021-07-28":
			says(w, 400, "version header is invalid")
		case strings.HasPrefix(r.URL.Path, "/locations/") && !strings.HasPrefix(r.URL.Path, "/locations/"+location+"/"):
			says(w, 403, "The token does not have access to this location.")
		default:
			mux.ServeHTTP(w, r)
		}
	}))
	f.Busy = func(w http.ResponseWriter) {
		w.Header().Set("X-RateLimit-Interval-Milliseconds", "10000")
		w.Header().Set("X-RateLimit-Remaining", "0")
		w.Header().Set("X-RateLimit-Daily-Remaining", "190000")
		says(w, 429, "Too Many Requests")
	}
	return f
}

func says(w http.ResponseWriter, status int, message any) {
	crmtest.Answer(w, status, map[string]any{"statusCode": status, "message": message, "error": http.StatusText(status), "traceId": "trace-1"})
}

func (f *fake) token(w http.ResponseWriter, r *http.Request) {
	if r.ParseForm() != nil || r.PostForm.Get("refresh_token") != f.refresh || r.PostForm.Get("user_type") != "Location" || r.PostForm.Get("client_id") != "client-1" {
		crmtest.Answer(w, 400, map[string]any{"error": "invalid_grant", "error_description": "Invalid refresh token " + r.PostForm.Get("refresh_token")})
		return
	}
	f.rounds++
	f.access, f.refresh = "made-up-access-"+strconv.Itoa(f.rounds), "made-up-refresh-"+strconv.Itoa(f.rounds)
	crmtest.Answer(w, 200, map[string]any{"access_token": f.access, "refresh_token": f.refresh, "expires_in": 86399})
}

var allowed = []string{
	"firstName", "lastName", "name", "email", "phone", "address1", "city", "state", "postalCode", "country", "companyName", "website", "source",
	"dateOfBirth", "gender", "timezone", "customFields", "tags",
}

// read checks a contact's body; nil was answered already.
func (f *fake) read(w http.ResponseWriter, r *http.Request, upsert bool) map[string]any {
	var body map[string]any
	if json.NewDecoder(r.Body).Decode(&body) != nil {
		says(w, 400, "Unexpected token in JSON")
		return nil
	}
	var faults []string
	if upsert && body["locationId"] == nil {
		faults = append(faults, "locationId can't be undefined")
	}
	for name := range body {
		if !slices.Contains(allowed, name) && (!upsert || name != "locationId") {
			faults = append(faults, "property "+name+" should not exist")
		}
	}
	if email, ok := body["email"].(string); ok && !strings.Contains(email, "@") {
		faults = append(faults, "email must be an email, not "+email)
	}
	if phone, ok := body["phone"].(string); ok && !strings.HasPrefix(phone, "+") {
		faults = append(faults, "phone must be a valid phone number")
	}
	if country, ok := body["country"].(string); ok && len(country) != 2 {
		faults = append(faults, "country must be a valid enum value")
	}
	if len(faults) > 0 {
		says(w, 422, faults)
		return nil
	}
	if upsert && body["locationId"] != location {
		says(w, 403, "The token does not have access to this location.")
		return nil
	}
	return body
}

func (f *fake) upsert(w http.ResponseWriter, r *http.Request) {
	body := f.read(w, r, true)
	if body == nil {
		return
	}
	c := f.match(body["email"], body["phone"])
	status := 200
	if c == nil || f.duplicates {
		status = 201
		c = &record{ID: "ct" + strconv.Itoa(len(f.contacts)+1), Fields: map[string]any{}, Custom: map[string]string{}}
		f.contacts = append(f.contacts, c)
	}
	f.fill(c, body)
	f.Wrote("contact", c.ID, c.Custom["meta_lead_id"])
	crmtest.Answer(w, status, map[string]any{"new": status == 201, "contact": f.show(c), "traceId": "trace-2"})
}

func (f *fake) match(email, phone any) *record {
	for _, c := range f.contacts {
		if email != nil && c.Fields["email"] == email || phone != nil && c.Fields["phone"] == phone {
			return c
		}
	}
	return nil
}

func (f *fake) fill(c *record, body map[string]any) {
	if tags, ok := body["tags"].([]any); ok { // they replace what was there
		c.Tags = nil
		for _, tag := range tags {
			c.Tags = append(c.Tags, tag.(string))
		}
	}
	fields, _ := body["customFields"].([]any)
	for _, x := range fields {
		x := x.(map[string]any)
		for key, id := range f.custom { // what is not known is dropped without a word
			if x["key"] == key || x["id"] == id {
				c.Custom[key] = x["field_value"].(string)
			}
		}
	}
	delete(body, "customFields")
	delete(body, "tags")
	maps.Copy(c.Fields, body)
}

func (f *fake) show(c *record) map[string]any {
	list := []any{}
	for key, value := range c.Custom {
		list = append(list, map[string]any{"id": f.custom[key], "value": value})
	}
	return map[string]any{"id": c.ID, "locationId": location, "email": c.Fields["email"], "customFields": list}
}

func (f *fake) byID(id string) *record {
	for _, c := range f.contacts {
		if c.ID == id {
			return c
		}
	}
	return nil
}

func (f *fake) put(w http.ResponseWriter, r *http.Request) {
	c := f.byID(r.PathValue("id"))
	if c == nil {
		says(w, 400, "Contact not found")
		return
	}
	body := f.read(w, r, false)
	if body == nil {
		return
	}
	f.fill(c, body)
	crmtest.Answer(w, 200, map[string]any{"contact": f.show(c)})
}

func (f *fake) tag(w http.ResponseWriter, r *http.Request) {
	c := f.byID(r.PathValue("id"))
	var body struct{ Tags []string }
	if c == nil || json.NewDecoder(r.Body).Decode(&body) != nil || len(body.Tags) == 0 {
		says(w, 422, []string{"tags must be an array"})
		return
	}
	for _, tag := range body.Tags {
		if !slices.Contains(c.Tags, tag) {
			c.Tags = append(c.Tags, tag)
		}
	}
	crmtest.Answer(w, 201, map[string]any{"tags": c.Tags})
}

func (f *fake) search(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("locationId") != location {
		says(w, 422, []string{"locationId can't be undefined"})
		return
	}
	arg := func(name string) any {
		if q.Get(name) == "" {
			return nil
		}
		return q.Get(name)
	}
	answer := map[string]any{"contact": nil, "traceId": "trace-3"}
	if c := f.match(arg("email"), arg("number")); c != nil {
		answer["contact"] = f.show(c)
	}
	crmtest.Answer(w, 200, answer)
}

func (f *fake) deal(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	_ = json.NewDecoder(r.Body).Decode(&body)
	var faults []string
	for _, name := range []string{"locationId", "pipelineId", "contactId", "name", "status"} {
		if body[name] == nil {
			faults = append(faults, name+" can't be undefined")
		}
	}
	if amount, ok := body["monetaryValue"]; ok {
		if _, ok := amount.(float64); !ok {
			faults = append(faults, "monetaryValue must be a number")
		}
	}
	switch {
	case len(faults) > 0:
		says(w, 422, faults)
		return
	case body["pipelineId"] != "pl1" || body["pipelineStageId"] != "st1":
		says(w, 400, "The pipeline id is invalid.")
		return
	case f.byID(body["contactId"].(string)) == nil:
		says(w, 400, "The contact id is invalid.")
		return
	}
	key := body["contactId"].(string)
	if f.deals[key] == nil {
		f.Wrote("opportunity", "op-"+key, key)
	}
	f.deals[key] = body
	crmtest.Answer(w, 200, map[string]any{"new": true, "opportunity": map[string]any{"id": "op-" + key}})
}

func (f *fake) create(w http.ResponseWriter, r *http.Request) {
	var body struct{ Name, DataType, Model string }
	_ = json.NewDecoder(r.Body).Decode(&body)
	key := strings.ReplaceAll(strings.ToLower(body.Name), " ", "_")
	if body.Model != "contact" || body.DataType == "" || f.custom[key] != "" {
		says(w, 400, "field already exists")
		return
	}
	f.custom[key] = "cf-" + key
	f.Wrote("field", key, body.DataType)
	crmtest.Answer(w, 201, map[string]any{"customField": map[string]any{"id": f.custom[key], "fieldKey": "contact." + key}})
}
