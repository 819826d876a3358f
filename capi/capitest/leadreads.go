package capitest

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// node spells a lead out. created_time is ISO here, Unix in the webhook. Page
// "Retrieving leads".
func (l *Lead) node() map[string]any {
	m := map[string]any{
		"id": l.ID, "created_time": iso(l.Created), "form_id": l.FormID, "field_data": l.Fields,
		"is_organic": l.AdID == "", "platform": orElse(l.Platform, "fb"), "custom_disclaimer_responses": nil,
		"partner_name": nil, "home_listing": nil, "retailer_item_id": nil, "vehicle": nil, "post": nil,
	}
	if l.Fields == nil {
		m["field_data"] = []Field{}
	}
	if len(l.Disclaimers) > 0 {
		m["custom_disclaimer_responses"] = l.Disclaimers
	}
	for k, v := range map[string]string{
		"ad_id": l.AdID, "ad_name": l.AdName, "adset_id": l.AdSetID, "adset_name": l.AdSetName,
		"campaign_id": l.CampaignID, "campaign_name": l.CampaignName,
	} {
		m[k] = nil
		if v != "" {
			m[k] = v
		}
	}
	return m
}

var usualLeadFields = []string{"created_time", "field_data"}

// mayReadLeads is the Leads Access Manager: code 200 for an app or user that it
// does not list. Page "Retrieving leads".
func (g *Graph) mayReadLeads(pageID string, t Token) *graphError {
	p, err := g.page(pageID, t, "get")
	switch {
	case err != nil:
		return err
	case p.AppLacksAccess || p.UserLacksAccess:
		e := errorFor(200, 0)
		e.Message = "(#200) The app or user has no leads access permission for this page"
		return e
	case t.Scopes != nil && !slices.Contains(t.Scopes, "leads_retrieval"):
		e := errorFor(200, 0)
		e.Message = "(#200) Requires leads_retrieval permission to manage the object"
		return e
	}
	return nil
}

func (g *Graph) getLead(q *request, t Token, l Lead) *graphError {
	if err := g.mayReadLeads(l.PageID, t); err != nil {
		return err
	}
	return answerFields(q, "UserLeadGenInfo", l.node(), usualLeadFields...)
}

func (g *Graph) deleteLead(q *request, t Token) *graphError {
	n, _ := digits([]byte(q.path[0]))
	l, ok := g.leads.find(n)
	if !ok {
		return unknownObject(q.path[0], "delete")
	}
	if err := g.mayReadLeads(l.PageID, t); err != nil {
		return err
	}
	g.DeleteLead(l.ID)
	writeJSON(q.w, 200, map[string]bool{"success": true})
	return nil
}

// filter is one condition of the parameter filtering.
type filter struct {
	Field    string      `json:"field"`
	Operator string      `json:"operator"`
	Value    json.Number `json:"value"`
}

func (f filter) passes(created int64) bool {
	v, _ := strconv.ParseInt(f.Value.String(), 10, 64)
	switch f.Operator {
	case "GREATER_THAN":
		return created > v
	case "GREATER_THAN_OR_EQUAL":
		return created >= v
	}
	return created < v // LESS_THAN; others were refused
}

func readFilters(s string) ([]filter, *graphError) {
	if s == "" {
		return nil, nil
	}
	var filters []filter
	if json.Unmarshal([]byte(s), &filters) != nil {
		return nil, parameter("param filtering must be an array.")
	}
	for _, f := range filters {
		if _, err := strconv.ParseInt(f.Value.String(), 10, 64); err != nil || f.Field != "time_created" {
			return nil, parameter("param filtering: only time_created with a Unix time can be filtered by")
		}
		if !slices.Contains([]string{"GREATER_THAN", "GREATER_THAN_OR_EQUAL", "LESS_THAN"}, f.Operator) {
			return nil, parameter("param filtering: operator must be GREATER_THAN, GREATER_THAN_OR_EQUAL or LESS_THAN")
		}
	}
	return filters, nil
}

// getLeads is GET /{form or ad}/leads and /test_leads, newest first, by cursor.
func (g *Graph) getLeads(q *request, t Token, test bool) *graphError {
	id := q.path[0]
	filters, err := readFilters(q.get("filtering"))
	if err != nil {
		return err
	}
	page, known := "", g.leads.hasForm(id)
	leads, at := g.leads.selected(func(_ int, l *Lead) bool {
		if l.FormID != id && l.AdID != id {
			return false
		}
		known, page = true, l.PageID
		return (!test || l.Test) && !slices.ContainsFunc(filters, func(f filter) bool { return !f.passes(l.Created.Unix()) })
	})
	if !known {
		return unknownObject(id, "get")
	}
	g.leads.mu.RLock()
	if f := g.leads.form(id); f != nil {
		page = f.PageID
	}
	g.leads.mu.RUnlock()
	if err := g.mayReadLeads(page, t); err != nil {
		return err
	}
	nodes := make([]map[string]any, len(leads))
	for i := range leads {
		nodes[i] = leads[i].node()
	}
	return answerPage(q, "UserLeadGenInfo", nodes, func(i int) string { return cursor(at[i]) }, usualLeadFields)
}

// cursor hides a position, for cursors are opaque.
func cursor(position int) string {
	return base64.RawURLEncoding.EncodeToString([]byte("c" + strconv.Itoa(position)))
}

const maxLimit = 500

// answerPage answers with a part of the nodes: as many as limit says, beginning
// behind the cursor after, or ending ahead of the cursor before. Page "Paginated results".
func answerPage(q *request, kind string, nodes []map[string]any, cursorOf func(int) string, usual []string) *graphError {
	limit := 25
	if s := q.get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return parameter("param limit must be a positive integer")
		}
		limit = min(n, maxLimit)
	}
	find := func(c string) int {
		for i := range nodes {
			if cursorOf(i) == c {
				return i
			}
		}
		return -1
	}
	start := 0
	if after := q.get("after"); after != "" {
		if start = find(after) + 1; start == 0 {
			return parameter("Invalid cursor in after")
		}
	} else if before := q.get("before"); before != "" {
		end := find(before)
		if end < 0 {
			return parameter("Invalid cursor in before")
		}
		start = max(0, end-limit)
		limit = end - start
	}
	end := min(start+limit, len(nodes))
	asked := splitFields(q.get("fields"))
	if len(asked) == 0 {
		asked = usual
	}
	data := []map[string]any{}
	for _, n := range nodes[start:end] {
		item := map[string]any{"id": n["id"]}
		for _, f := range asked {
			v, ok := n[f]
			if !ok {
				return parameter("Tried accessing nonexisting field (" + f + ") on node type (" + kind + ")")
			}
			if v != nil {
				item[f] = v
			}
		}
		data = append(data, item)
	}
	out := map[string]any{"data": data}
	if start < end {
		paging := map[string]any{"cursors": map[string]string{"before": cursorOf(start), "after": cursorOf(end - 1)}}
		if end < len(nodes) {
			paging["next"] = q.link("after", cursorOf(end-1))
		}
		if start > 0 {
			paging["previous"] = q.link("before", cursorOf(start))
		}
		out["paging"] = paging
	}
	writeJSON(q.w, 200, out)
	return nil
}

// link is the address of another page. It carries the token, as Graph's own do: a
// client that logs or stores such links leaks it, and a test should see that.
func (q *request) link(name, cursor string) string {
	v := url.Values{}
	for k := range q.query {
		if k != "after" && k != "before" {
			v.Set(k, q.query.Get(k))
		}
	}
	v.Set("access_token", q.token)
	v.Set(name, cursor)
	scheme := "http"
	if q.r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + q.r.Host + q.r.URL.Path + "?" + v.Encode()
}

func (g *Graph) formNode(f Form) map[string]any {
	count := func(organic bool) int {
		leads, _ := g.leads.selected(func(_ int, l *Lead) bool { return l.FormID == f.ID && (!organic || l.AdID == "") })
		return len(leads)
	}
	questions := make([]any, 0, len(f.Questions))
	for _, key := range f.Questions {
		questions = append(questions, map[string]any{"key": key, "label": key, "type": "CUSTOM"})
	}
	return map[string]any{
		"id": f.ID, "name": orElse(f.Name, "Form "+f.ID), "status": orElse(f.Status, "ACTIVE"), "locale": orElse(f.Locale, "en_US"),
		"questions": questions, "leads_count": count(false), "organic_leads_count": count(true), "expired_leads_count": 0,
		"created_time": iso(g.now()), "page_id": f.PageID,
	}
}

func (g *Graph) getForm(q *request, t Token) *graphError {
	g.leads.mu.RLock()
	f := *g.leads.form(q.path[0])
	g.leads.mu.RUnlock()
	if err := g.mayReadLeads(f.PageID, t); err != nil {
		return err
	}
	return answerFields(q, "LeadGenData", g.formNode(f), "name", "status", "locale")
}

func (g *Graph) getForms(q *request, t Token) *graphError {
	if err := g.mayReadLeads(q.path[0], t); err != nil {
		return err
	}
	g.leads.mu.RLock()
	forms := slices.Clone(g.leads.forms)
	g.leads.mu.RUnlock()
	nodes := []map[string]any{}
	for _, f := range forms {
		if f.PageID == q.path[0] {
			nodes = append(nodes, g.formNode(f))
		}
	}
	return answerPage(q, "LeadGenData", nodes, cursor, []string{"name", "status", "locale"})
}

// postTestLead makes a form's test lead; there can be one at a time. Test leads
// are organic. Page "Testing and troubleshooting".
func (g *Graph) postTestLead(q *request, t Token) *graphError {
	id := q.path[0]
	if !g.leads.hasForm(id) {
		return unknownObject(id, "post")
	}
	g.leads.mu.RLock()
	f := *g.leads.form(id)
	g.leads.mu.RUnlock()
	if err := g.mayReadLeads(f.PageID, t); err != nil {
		return err
	}
	if old, _ := g.leads.selected(func(_ int, l *Lead) bool { return l.FormID == id && l.Test }); len(old) > 0 {
		e := parameter("A test lead already exists for this form; delete it first")
		return e
	}
	l := Lead{FormID: id, Test: true}
	if raw, ok := q.body.value("field_data"); !ok || len(raw) > 0 {
		if json.Unmarshal(raw, &l.Fields) != nil {
			return parameter("param field_data must be an array.")
		}
	} else {
		for _, key := range f.Questions {
			l.Fields = append(l.Fields, Field{key, []string{"<test lead: dummy data for " + strings.ToLower(key) + ">"}})
		}
	}
	writeJSON(q.w, 200, map[string]string{"id": g.AddLead(l)})
	return nil
}
