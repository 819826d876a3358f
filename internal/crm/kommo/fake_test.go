package kommo_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/capiloop/capiloop/internal/crm/crmtest"
)

// lead is a lead that the fake holds.
type lead struct {
	ID      int
	Contact int
	Body    map[string]any
	Custom  map[int]any
	At      time.Time
	Gone    bool
}

type field struct {
	ID         int
	Name, Code string
	Type       string
}

// fake is an account as strict as the samples and spec/crm.md §3.12. Its handler runs one
// call at a time.
type fake struct {
	*crmtest.Server
	fields  []field
	leads   []*lead
	lag     time.Duration // of the search
	merge   bool          // the account's duplicate control
	noForms bool          // refuses what is said about the form
	recent  []time.Time
	limit   int // calls a second
	over    int // how often there were more
	access  string
	refresh string
	rounds  int

	standing []map[string]any          // leads as the API gives them
	people   map[string]map[string]any // contacts, by id
	history  []map[string]any          // events, the newest first
	poor     bool                      // the plan has no history
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{
		fields: []field{{900001, "Meta Lead ID", "", "text"}, {900002, "fbclid", "FBCLID", "tracking_data"}, {900003, "Budget", "", "numeric"}},
		limit:  100, access: crmtest.Token, refresh: "made-up-refresh-0",
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v4/account", func(w http.ResponseWriter, _ *http.Request) {
		crmtest.Answer(w, 200, map[string]any{"id": 30000001, "currency": "USD"})
	})
	mux.HandleFunc("GET /api/v4/leads/pipelines", f.pipelines)
	mux.HandleFunc("GET /api/v4/leads/{id}", f.leadByID)
	mux.HandleFunc("GET /api/v4/contacts/{id}", f.contactByID)
	mux.HandleFunc("GET /api/v4/contacts", f.contactList)
	mux.HandleFunc("GET /api/v4/events", f.eventList)
	mux.HandleFunc("GET /api/v4/leads/pipelines/{id}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("id") != "3000001" {
			problem(w, 404, "Not Found", "NotFound", "id")
			return
		}
		crmtest.Answer(w, 200, map[string]any{"id": 3000001, "name": "Sales", "_embedded": map[string]any{"statuses": []any{map[string]any{"id": 30000011, "name": "New"}}}})
	})
	mux.HandleFunc("GET /api/v4/leads/custom_fields", f.list)
	mux.HandleFunc("POST /api/v4/leads/custom_fields", f.add)
	mux.HandleFunc("GET /api/v4/leads", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("query") {
			f.search(w, r)
			return
		}
		f.leadList(w, r)
	})
	mux.HandleFunc("PATCH /api/v4/leads/{id}", f.patch)
	mux.HandleFunc("POST /api/v4/leads/complex", f.complex)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { problem(w, 404, "Not Found", "", "") })
	f.Server = crmtest.New(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/oauth2/access_token":
			f.token(w, r)
		case !f.allow():
			f.over++
			if f.over > 3 {
				http.Error(w, "<html>Your IP is blocked</html>", http.StatusForbidden)
				return
			}
			problem(w, 429, "Too Many Requests", "", "")
		case r.Header.Get("Authorization") != "Bearer "+f.access:
			problem(w, 401, "Unauthorized", "", "")
		default:
			mux.ServeHTTP(w, r)
		}
	}))
	f.Busy = func(w http.ResponseWriter) { problem(w, 429, "Too Many Requests", "", "") }
	return f
}

func problem(w http.ResponseWriter, status int, title, code, path string) {
	p := map[string]any{"title": title, "type": "https://httpstatus.es/" + strconv.Itoa(status), "status": status, "detail": title}
	if code != "" {
		p["detail"] = "Request validation failed"
		p["validation-errors"] = []any{map[string]any{"request_id": "0", "errors": []any{map[string]any{"code": code, "path": path, "detail": "This value is not valid."}}}}
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(p)
}

// allow keeps to the calls a second.
func (f *fake) allow() bool {
	now := time.Now()
	f.recent = slices.DeleteFunc(f.recent, func(at time.Time) bool { return now.Sub(at) > time.Second })
	f.recent = append(f.recent, now)
	return len(f.recent) <= f.limit
}

func (f *fake) token(w http.ResponseWriter, r *http.Request) {
	var body map[string]string
	if r.Header.Get("Content-Type") != "application/json" || json.NewDecoder(r.Body).Decode(&body) != nil ||
		body["refresh_token"] != f.refresh || body["redirect_uri"] != "https://example.com/back" || body["grant_type"] != "refresh_token" {
		crmtest.Answer(w, 400, map[string]any{"hint": "Token has been revoked", "title": "Invalid request", "status": 400, "detail": "The refresh token is invalid: " + body["refresh_token"]})
		return
	}
	f.rounds++
	f.access, f.refresh = "made-up-access-"+strconv.Itoa(f.rounds), "made-up-refresh-"+strconv.Itoa(f.rounds)
	crmtest.Answer(w, 200, map[string]any{"token_type": "Bearer", "expires_in": 86400, "access_token": f.access, "refresh_token": f.refresh})
}

func (f *fake) list(w http.ResponseWriter, r *http.Request) {
	const page = 2 // small pages, to see that all are read
	n, _ := strconv.Atoi(r.URL.Query().Get("page"))
	if size, _ := strconv.Atoi(r.URL.Query().Get("limit")); size > 250 || n < 1 {
		problem(w, 400, "Bad Request", "TooHigh", "limit")
		return
	}
	from := (n - 1) * page
	if from >= len(f.fields) {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	rows := []any{}
	for _, x := range f.fields[from:min(from+page, len(f.fields))] {
		rows = append(rows, map[string]any{"id": x.ID, "name": x.Name, "code": x.Code, "type": x.Type})
	}
	links := map[string]any{}
	if from+page < len(f.fields) {
		links["next"] = map[string]any{"href": "…"}
	}
	crmtest.Answer(w, 200, map[string]any{"_page": n, "_links": links, "_embedded": map[string]any{"custom_fields": rows}})
}

func (f *fake) add(w http.ResponseWriter, r *http.Request) {
	var rows []struct{ Name, Type, Code string }
	if json.NewDecoder(r.Body).Decode(&rows) != nil || len(rows) > 250 {
		problem(w, 400, "Bad Request", "", "")
		return
	}
	for _, x := range rows {
		f.fields = append(f.fields, field{910000 + len(f.fields), x.Name, x.Code, x.Type})
		f.Wrote("field", x.Name, x.Type)
	}
	crmtest.Answer(w, 200, map[string]any{})
}

func (f *fake) search(w http.ResponseWriter, r *http.Request) {
	rows := []any{}
	for _, l := range f.leads {
		if l.Gone || time.Since(l.At) < f.lag || !strings.Contains(string(must(l.Body)), r.URL.Query().Get("query")) {
			continue
		}
		set := []any{}
		for id, v := range l.Custom {
			set = append(set, map[string]any{"field_id": id, "values": []any{map[string]any{"value": v}}})
		}
		rows = append(rows, map[string]any{"id": l.ID, "custom_fields_values": set, "_embedded": map[string]any{"contacts": []any{map[string]any{"id": l.Contact, "is_main": true}}}})
	}
	if len(rows) == 0 {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	crmtest.Answer(w, 200, map[string]any{"_embedded": map[string]any{"leads": rows}})
}

func must(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

// set writes custom fields; a fault is answered.
func (f *fake) set(w http.ResponseWriter, l *lead, body map[string]any) bool {
	list, _ := body["custom_fields_values"].([]any)
	for i, x := range list {
		x := x.(map[string]any)
		id, _ := x["field_id"].(float64)
		at := slices.IndexFunc(f.fields, func(y field) bool { return y.ID == int(id) })
		path := "custom_fields_values." + strconv.Itoa(i)
		if at < 0 {
			problem(w, 400, "Bad Request", "NotSupportedChoice", path+".field_id")
			return false
		}
		value := x["values"].([]any)[0].(map[string]any)["value"]
		if _, ok := value.(float64); f.fields[at].Type == "numeric" && !ok {
			problem(w, 400, "Bad Request", "InvalidType", path+".values.0.value")
			return false
		}
		l.Custom[int(id)] = value
	}
	return true
}

func (f *fake) patch(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	_ = json.NewDecoder(r.Body).Decode(&body)
	for _, l := range f.leads {
		if strconv.Itoa(l.ID) == r.PathValue("id") && !l.Gone {
			if f.set(w, l, body) {
				crmtest.Answer(w, 200, map[string]any{"id": l.ID, "updated_at": 1795000000})
			}
			return
		}
	}
	problem(w, 404, "Not Found", "", "")
}

func (f *fake) complex(w http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	var rows []map[string]any
	if json.Unmarshal(text, &rows) != nil || len(rows) == 0 || len(rows) > 50 {
		problem(w, 400, "Bad Request", "", "")
		return
	}
	_, after, _ := strings.Cut(string(text), `"price":`)
	if price, _, _ := strings.Cut(after, ","); strings.ContainsAny(price, `.e"`) {
		problem(w, 400, "Bad Request", "InvalidType", "price")
		return
	}
	answer := []any{}
	for _, row := range rows {
		if status, ok := row["status_id"].(float64); ok && status != 30000011 {
			problem(w, 400, "Bad Request", "NotSupportedChoice", "status_id")
			return
		}
		embedded, _ := row["_embedded"].(map[string]any)
		if embedded["metadata"] != nil && f.noForms {
			problem(w, 400, "Bad Request", "FieldMissing", "_embedded.metadata.ip")
			return
		}
		l := &lead{ID: 7000101 + len(f.leads), Contact: 8000101 + len(f.leads), Body: row, Custom: map[int]any{}, At: time.Now()}
		if !f.set(w, l, row) {
			return
		}
		merged := f.merge && len(f.leads) > 0
		if merged {
			l = f.leads[0]
		} else {
			f.leads = append(f.leads, l)
			f.Wrote("lead", strconv.Itoa(l.ID), row["request_id"].(string))
		}
		answer = append(answer, map[string]any{"id": l.ID, "contact_id": l.Contact, "company_id": nil, "request_id": []any{row["request_id"]}, "merged": merged})
	}
	crmtest.Answer(w, 200, answer)
}
