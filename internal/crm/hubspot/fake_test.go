package hubspot_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/capiloop/capiloop/internal/crm/crmtest"
)

type m = map[string]any

// portal is HubSpot as strict as the samples: it knows its properties, keeps the unique
// ones unique, and finds contacts by e-mail address or unique property.
type portal struct {
	*crmtest.Server
	token   string
	props   map[string]map[string]bool // by object type: name, unique
	objects map[string][]*record
	next    int

	searches  []time.Time
	paced     bool // more than 5 searches a second are refused
	searchEnd int
}

type record struct {
	id     string
	p      map[string]string
	linked string // contact of a deal
	way
}

func newPortal(t *testing.T) *portal {
	t.Helper()
	h := &portal{token: crmtest.Token, next: 51, searchEnd: 10_000, objects: map[string][]*record{}, props: map[string]map[string]bool{
		"contacts": {"email": true, "meta_lead_id": true},
		"deals":    {"dealname": false, "pipeline": false, "dealstage": false, "amount": false, "meta_lead_id": true},
	}}
	for name := range strings.FieldsSeq("firstname lastname phone company jobtitle address city state zip country lifecyclestage hs_lead_status lead_fbclid lead_gclid") {
		h.props["contacts"][name] = false
	}
	mux := http.NewServeMux()
	for _, prefix := range []string{"/crm/v3/objects", "/crm/objects/2026-03"} {
		mux.HandleFunc("PATCH "+prefix+"/{kind}/{id}", h.patch)
		mux.HandleFunc("GET "+prefix+"/{kind}/{id}", h.get)
		mux.HandleFunc("POST "+prefix+"/{kind}", h.create)
		mux.HandleFunc("POST "+prefix+"/{kind}/batch/upsert", h.upsert)
	}
	mux.HandleFunc("GET /crm/v3/properties/{kind}", h.listProperties)
	mux.HandleFunc("POST /crm/v3/properties/{kind}", h.createProperty)
	pipelines := json.RawMessage(sample(t, "hubspot-pipelines-response"))
	mux.HandleFunc("GET /crm/v3/pipelines/deals", func(w http.ResponseWriter, _ *http.Request) { crmtest.Answer(w, 200, pipelines) })
	h.stageRoutes(mux)
	mux.HandleFunc("POST /oauth/v1/token", h.oauth)
	h.Server = crmtest.New(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/oauth/v1/token" && r.Header.Get("Authorization") != "Bearer "+h.token {
			fault(w, 401, "INVALID_AUTHENTICATION", "Authentication credentials not found. This API supports OAuth 2.0 authentication")
			return
		}
		mux.ServeHTTP(w, r)
	}))
	h.Busy = func(w http.ResponseWriter) { // hubspot-error-429.json
		crmtest.Answer(w, 429, m{
			"status": "error", "message": "You have reached your ten_secondly_rolling limit.", "errorType": "RATE_LIMIT",
			"correlationId": "00000000-0000-4000-8000-00000000c002", "policyName": "TEN_SECONDLY_ROLLING", "groupName": "publicapi:private-apps:4000001",
		})
	}
	return h
}

func fault(w http.ResponseWriter, status int, category, message string, errors ...m) {
	crmtest.Answer(w, status, m{"status": "error", "message": message, "correlationId": "00000000-0000-4000-8000-00000000c001", "category": category, "errors": errors})
}

func (h *portal) oauth(w http.ResponseWriter, r *http.Request) {
	if r.FormValue("grant_type") != "refresh_token" || r.FormValue("refresh_token") != "made-up-refresh" || r.FormValue("client_secret") == "" {
		crmtest.Answer(w, 400, m{"status": "BAD_REFRESH_TOKEN", "message": "missing or invalid refresh token"})
		return
	}
	h.next++
	h.token = "made-up-access-" + strconv.Itoa(h.next)
	crmtest.Answer(w, 200, m{"access_token": h.token, "refresh_token": "made-up-refresh", "expires_in": 1800})
}

// bad answers for properties that are not there, of no e-mail address, or taken.
func (h *portal) bad(kind, self string, p map[string]string) (int, m) {
	for name, value := range p {
		unique, there := h.props[kind][name]
		if !there {
			return 400, m{"message": "Property \"" + name + "\" does not exist", "code": "PROPERTY_DOESNT_EXIST", "in": name}
		}
		if name == "email" && (!strings.Contains(value, "@") || strings.HasSuffix(value, "@invalid")) {
			return 400, m{"message": "Email address " + value + " is invalid", "code": "INVALID_EMAIL", "in": "email"}
		}
		other := h.find(kind, name, value)
		if unique && other != nil && other.id != self {
			if name == "email" {
				return 409, m{"message": "Contact already exists. Existing ID: " + other.id}
			}
			return 400, m{"message": other.id + " already has that value.", "code": "CONFLICTING_UNIQUE_VALUE"}
		}
	}
	return 0, nil
}

func refuse(w http.ResponseWriter, status int, why m) {
	if status == 409 { // hubspot-contact-conflict-409.json
		fault(w, 409, "CONFLICT", why["message"].(string))
		return
	}
	fault(w, status, "VALIDATION_ERROR", "Property values were not valid", why)
}

func (h *portal) find(kind, property, value string) *record {
	for _, r := range h.objects[kind] {
		if property == "" && r.id == value || property != "" && r.p[property] == value && value != "" {
			return r
		}
	}
	return nil
}

func (h *portal) answer(w http.ResponseWriter, status int, r *record) {
	crmtest.Answer(w, status, m{"id": r.id, "properties": r.p, "createdAt": "2026-11-18T11:06:41.001Z", "archived": false})
}

func (h *portal) get(w http.ResponseWriter, r *http.Request) {
	kind, by := r.PathValue("kind"), r.URL.Query().Get("idProperty")
	if by != "" && !h.props[kind][by] {
		fault(w, 400, "VALIDATION_ERROR", "Property "+by+" is not unique", m{"code": "PROPERTY_DOESNT_EXIST"})
		return
	}
	if found := h.find(kind, by, r.PathValue("id")); found != nil {
		answer := h.shown(kind, found, r.URL.Query().Get("properties"))
		if found.linked != "" && r.URL.Query().Get("associations") == "contacts" {
			answer["associations"] = m{"contacts": m{"results": []m{{"id": found.linked, "type": "deal_to_contact"}}}}
		}
		if names := r.URL.Query().Get("propertiesWithHistory"); names != "" {
			history := m{}
			for name := range strings.SplitSeq(names, ",") {
				history[name] = found.history[name]
			}
			answer["propertiesWithHistory"] = history
		}
		crmtest.Answer(w, 200, answer)
		return
	}
	w.WriteHeader(http.StatusNotFound) // without a body, as HubSpot does for an id property
}

func (h *portal) patch(w http.ResponseWriter, r *http.Request) {
	kind := r.PathValue("kind")
	found := h.find(kind, r.URL.Query().Get("idProperty"), r.PathValue("id"))
	if found == nil {
		fault(w, 404, "OBJECT_NOT_FOUND", "resource not found")
		return
	}
	var body struct{ Properties map[string]string }
	if json.NewDecoder(r.Body).Decode(&body) != nil || len(body.Properties) == 0 {
		fault(w, 400, "VALIDATION_ERROR", "Invalid input JSON")
		return
	}
	if status, why := h.bad(kind, found.id, body.Properties); why != nil {
		refuse(w, status, why)
		return
	}
	maps.Copy(found.p, body.Properties)
	h.answer(w, 200, found)
}

func (h *portal) create(w http.ResponseWriter, r *http.Request) {
	kind := r.PathValue("kind")
	var body struct {
		Properties   map[string]string
		Associations []struct {
			To    struct{ ID string }
			Types []struct {
				AssociationCategory string
				AssociationTypeID   int
			}
		}
	}
	if json.NewDecoder(r.Body).Decode(&body) != nil {
		fault(w, 400, "VALIDATION_ERROR", "Invalid input JSON")
		return
	}
	if status, why := h.bad(kind, "", body.Properties); why != nil {
		refuse(w, status, why)
		return
	}
	made := h.make(kind, body.Properties)
	for _, a := range body.Associations {
		if h.find("contacts", "", a.To.ID) != nil && len(a.Types) == 1 && a.Types[0].AssociationTypeID == 3 {
			made.linked = a.To.ID
		}
	}
	h.answer(w, 201, made)
}

func (h *portal) make(kind string, p map[string]string) *record {
	r := &record{id: strconv.Itoa(h.next), p: p}
	h.next++
	h.objects[kind] = append(h.objects[kind], r)
	h.Wrote(kind, r.id, p["meta_lead_id"])
	return r
}

func (h *portal) upsert(w http.ResponseWriter, r *http.Request) {
	kind := r.PathValue("kind")
	var body struct {
		Inputs []struct {
			ID, IDProperty, ObjectWriteTraceID string
			Properties                         map[string]string
		}
	}
	if json.NewDecoder(r.Body).Decode(&body) != nil || len(body.Inputs) == 0 || len(body.Inputs) > 100 {
		fault(w, 400, "VALIDATION_ERROR", "Invalid input JSON")
		return
	}
	seen := map[string]bool{}
	results, errors := []m{}, []m{}
	for _, in := range body.Inputs {
		if seen[in.ID] || !h.props[kind][in.IDProperty] {
			fault(w, 400, "VALIDATION_ERROR", "Duplicate IDs found in batch input", m{"code": "PROPERTY_DOESNT_EXIST"})
			return
		}
		seen[in.ID] = true
		found := h.find(kind, in.IDProperty, in.ID)
		self := ""
		if found != nil {
			self = found.id
		}
		if _, why := h.bad(kind, self, in.Properties); why != nil {
			errors = append(errors, m{
				"status": "error", "category": "VALIDATION_ERROR", "message": "Property values were not valid",
				"context": m{"objectWriteTraceId": []string{in.ObjectWriteTraceID}}, "errors": []m{why},
			})
			continue
		}
		if found == nil {
			found = h.make(kind, map[string]string{in.IDProperty: in.ID})
		}
		maps.Copy(found.p, in.Properties)
		results = append(results, m{"id": found.id, "new": self == "", "properties": found.p})
	}
	status := 200
	if len(errors) > 0 {
		status = 207
	}
	crmtest.Answer(w, status, m{"status": "COMPLETE", "results": results, "numErrors": len(errors), "errors": errors})
}

func (h *portal) listProperties(w http.ResponseWriter, r *http.Request) {
	list := []m{}
	for name, unique := range h.props[r.PathValue("kind")] {
		list = append(list, m{"name": name, "hasUniqueValue": unique})
	}
	crmtest.Answer(w, 200, m{"results": list})
}

func (h *portal) createProperty(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Name, Label, Type, FieldType, GroupName string
		HasUniqueValue                          bool
	}
	if json.NewDecoder(r.Body).Decode(&body) != nil || body.Label == "" || body.Type != "string" || body.FieldType != "text" || body.GroupName == "" {
		fault(w, 400, "VALIDATION_ERROR", "Invalid input JSON")
		return
	}
	h.props[r.PathValue("kind")][body.Name] = body.HasUniqueValue
	crmtest.Answer(w, 201, body)
}
