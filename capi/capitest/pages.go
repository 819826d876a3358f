package capitest

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// getPage tells about a page; has_lead_access is how a CRM checks its rights.
// Page "Has lead access".
func (g *Graph) getPage(q *request, t Token) *graphError {
	p, err := g.page(q.path[0], t, "get")
	if err != nil {
		return err
	}
	reason, resolution := "", ""
	switch {
	case p.AppLacksAccess:
		reason, resolution = "App does not have leads access", "Assign the app in the Leads Access Manager of the page's business"
	case p.UserLacksAccess:
		reason, resolution = "User does not have leads access", "Assign the user in the Leads Access Manager of the page's business"
	}
	access := map[string]any{
		"app_has_leads_permission": !p.AppLacksAccess, "user_has_leads_permission": !p.UserLacksAccess,
		"can_access_lead": reason == "", "enabled_lead_access_manager": p.AccessCustomised || reason != "", "is_page_admin": true,
		"page_id": q.path[0],
	}
	if reason != "" {
		access["failure_reason"], access["failure_resolution"] = reason, resolution
	}
	all := map[string]any{"id": q.path[0], "name": p.Name, "has_lead_access": access, "category": "Local business", "access_token": pageToken(q.path[0], p)}
	return answerFields(q, "Page", all, "name")
}

// getAccounts is GET /me/accounts: the pages of the token's user with their tokens.
func (g *Graph) getAccounts(q *request, t Token) *graphError {
	g.access.RLock()
	pages := maps.Clone(g.pages)
	g.access.RUnlock()
	nodes := []map[string]any{}
	for _, id := range slices.Sorted(maps.Keys(pages)) {
		if t.Pages != nil && !slices.Contains(t.Pages, id) {
			continue
		}
		p := pages[id]
		nodes = append(nodes, map[string]any{
			"id": id, "name": orElse(p.Name, "Page "+id), "access_token": pageToken(id, p),
			"category": "Local business", "tasks": []string{"ADVERTISE", "ANALYZE", "MANAGE"},
		})
	}
	return answerPage(q, "Page", nodes, cursor, []string{"name", "access_token", "category", "tasks"})
}

// subscribedApps subscribes the app to a page's webhooks or tells whether it is.
// Page "Lead ads: webhooks".
func (g *Graph) subscribedApps(q *request, t Token) *graphError {
	id := q.path[0]
	p, err := g.page(id, t, strings.ToLower(q.r.Method))
	if err != nil {
		return err
	}
	if t.Scopes != nil && !slices.Contains(t.Scopes, "pages_manage_metadata") {
		e := errorFor(200, 0)
		e.Message = "(#200) Requires pages_manage_metadata permission to manage the object"
		return e
	}
	if q.r.Method == http.MethodGet {
		apps := []any{}
		if p.Subscribed || g.leads.subscribed(id) {
			apps = append(apps, map[string]any{"id": orElse(t.AppID, "1000"), "name": "Sandbox", "link": "https://example.com/", "subscribed_fields": []string{"leadgen"}})
		}
		writeJSON(q.w, 200, map[string]any{"data": apps})
		return nil
	}
	if !slices.Contains(strings.Split(q.get("subscribed_fields"), ","), "leadgen") {
		return parameter("param subscribed_fields must hold leadgen here")
	}
	g.leads.subscribe(id)
	writeJSON(q.w, 200, map[string]bool{"success": true})
	return nil
}

func (s *leadStore) subscribe(page string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscriptions[page] = true
}

func (s *leadStore) subscribed(page string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.subscriptions[page]
}
