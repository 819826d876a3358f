package capitest

import (
	"maps"
	"slices"
	"strings"
	"time"
	"unique"
)

// graphTime is how Graph writes times: no colon in the offset.
const graphTime = "2006-01-02T15:04:05-0700"

func iso(t time.Time) string { return t.UTC().Format(graphTime) }

// unix is a time in seconds, 0 for none, as the token and dataset reads write it.
func unix(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// allScopes are the permissions that the calls of this package need.
var allScopes = []string{
	"ads_management", "ads_read", "business_management", "leads_retrieval", "pages_manage_ads",
	"pages_manage_metadata", "pages_read_engagement", "pages_show_list",
}

// getDebugToken tells about input_token. Page "Debug token".
func (g *Graph) getDebugToken(q *request) *graphError {
	input := q.get("input_token")
	if input == "" {
		return parameter("The parameter input_token is required")
	}
	t, err := g.lookUp(input)
	scopes := t.Scopes
	if scopes == nil {
		scopes = allScopes
	}
	appID := orElse(t.AppID, "1000")
	if id, _, isApp := strings.Cut(input, "|"); isApp {
		appID, t.Type = id, "APP"
	}
	data := map[string]any{
		"app_id": appID, "application": "Sandbox", "type": orElse(t.Type, "SYSTEM_USER"), "is_valid": err == nil,
		"expires_at": unix(t.Expires), "data_access_expires_at": unix(t.DataAccessExpires),
		"issued_at": g.now().Add(-24 * time.Hour).Unix(), "scopes": scopes, "user_id": orElse(t.UserID, "122100000000000"),
	}
	if len(t.Pages) > 0 {
		data["granular_scopes"] = []any{map[string]any{"scope": "leads_retrieval", "target_ids": t.Pages}}
	}
	if err != nil {
		data["error"] = map[string]any{"code": err.Code, "message": err.Message, "subcode": err.Subcode}
		data["scopes"] = []string{}
	}
	writeJSON(q.w, 200, map[string]any{"data": data})
	return nil
}

// answerFields answers with the fields that the call asked for, id always, and
// refuses one that the node does not have, as Graph does.
func answerFields(q *request, node string, all map[string]any, usual ...string) *graphError {
	asked := splitFields(q.get("fields"))
	if len(asked) == 0 {
		asked = usual
	}
	out := map[string]any{"id": all["id"]}
	for _, name := range asked {
		v, ok := all[name]
		if !ok {
			e := parameter("Tried accessing nonexisting field (" + name + ") on node type (" + node + ")")
			return e
		}
		if v != nil { // Graph leaves out what is empty
			out[name] = v
		}
	}
	writeJSON(q.w, 200, out)
	return nil
}

// splitFields splits a field list at the commas outside brackets and cuts off
// modifiers and sub-fields: "a,b.limit(2){c,d}" is a and b.
func splitFields(s string) []string {
	var names []string
	depth, start := 0, 0
	for i := 0; i <= len(s); i++ {
		if i < len(s) && (s[i] != ',' || depth > 0) {
			switch s[i] {
			case '{', '(':
				depth++
			case '}', ')':
				depth--
			}
			continue
		}
		name := strings.TrimSpace(s[start:i])
		if cut := strings.IndexAny(name, ".{("); cut >= 0 {
			name = name[:cut]
		}
		if name != "" {
			names = append(names, name)
		}
		start = i + 1
	}
	return names
}

// leadFields are fields that only a lead has: with them, an unknown id is a lead
// that was deleted rather than a dataset.
var leadFields = []string{"field_data", "form_id", "ad_id", "campaign_id", "created_time", "is_organic"}

// pageFields are fields that only a page has.
var pageFields = []string{"has_lead_access", "category", "access_token"}

// getNode is GET /{id}: a lead, a form, a page or a dataset.
func (g *Graph) getNode(q *request, t Token) *graphError {
	id := q.path[0]
	asks := func(names []string) bool {
		return slices.ContainsFunc(splitFields(q.get("fields")), func(f string) bool { return slices.Contains(names, f) })
	}
	g.access.RLock()
	_, isPage := g.pages[id]
	_, isDataset := g.datasets[id]
	g.access.RUnlock()
	n, numeric := digits([]byte(id))
	switch lead, isLead := g.leads.find(n); {
	case isLead:
		return g.getLead(q, t, lead)
	case g.leads.hasForm(id):
		return g.getForm(q, t)
	case isPage, asks(pageFields):
		return g.getPage(q, t)
	case isDataset, id == "sandbox": // the gateway's built-in dataset has no number
	case !numeric, asks(leadFields):
		return unknownObject(id, "get")
	}
	return g.getDataset(q, t)
}

// getDataset tells about a dataset; the fields are those of Meta's SDK (ads-pixel,
// ads-dataset). user_access_expire_time is the only one that shows a share that ends.
func (g *Graph) getDataset(q *request, t Token) *graphError {
	id := q.path[0]
	d, err := g.dataset(id, t, "get")
	if err != nil {
		return err
	}
	all := map[string]any{
		"id": id, "name": d.Name, "is_unavailable": d.Unavailable, "is_crm": d.IsCRM, "is_consolidated_container": !d.NotConsolidated,
		"creation_time": iso(d.Created), "owner_business": map[string]any{"id": orElse(d.OwnerBusiness, "2000"), "name": "Owner"},
		"data_use_setting": "ADVERTISING_AND_ANALYTICS", "first_party_cookie_status": "FIRST_PARTY_COOKIE_ENABLED",
		"enable_automatic_matching": true, "match_rate_approx": d.MatchRate, "user_access_expire_time": nil,
		"last_fired_time": nil, "server_last_fired_time": nil, "collection_rate": 1.0, "is_restricted_use": false,
		"permissions":                                map[string]any{"can_read": true, "can_upload": true},
		"is_eligible_for_sharing_to_ad_account":      true,
		"is_eligible_for_sharing_to_business":        true,
		"is_eligible_for_value_optimization":         true,
		"automatic_matching_fields":                  []string{"em", "ph", "external_id"},
		"can_proxy":                                  false,
		"event_stats":                                nil,
		"valid_entries":                              nil,
		"has_1p_pixel_event":                         false,
		"duplicate_entries":                          nil,
		"is_created_by_business":                     true,
		"is_mta_use":                                 false,
		"is_eligible_for_sharing_to_shared_business": true,
	}
	if !d.AccessExpires.IsZero() {
		all["user_access_expire_time"] = iso(d.AccessExpires)
	}
	if browser, server := g.lastFired(id); browser+server > 0 {
		all["last_fired_time"] = iso(time.Unix(0, max(browser, server)))
		if server > 0 {
			all["server_last_fired_time"] = iso(time.Unix(0, server))
		}
	}
	return answerFields(q, "AdsPixel", all, "name")
}

// lastFired returns when the last events of a dataset came in.
func (g *Graph) lastFired(id string) (browser, server int64) {
	ds := unique.Make(id)
	g.mu.Lock()
	defer g.mu.Unlock()
	for seq := g.log.next; seq > g.log.first && (browser == 0 || server == 0) && g.log.next-seq < 100_000; {
		seq--
		r := g.log.at(seq)
		switch {
		case r.dataset != ds:
		case r.browser:
			browser = max(browser, r.at)
		default:
			server = max(server, r.at)
		}
	}
	return browser, server
}

// longNames are the identifiers of the Dataset Quality API; the others keep their key.
var longNames = map[string]string{
	"em": "email", "ph": "phone", "client_ip_address": "ip_address", "client_user_agent": "user_agent", "fbc": "click_id", "fbp": "browser_id",
}

// getQuality is the Dataset Quality API. Without Dataset.Quality it answers with
// the coverage of what came in over the web and a made-up score.
func (g *Graph) getQuality(q *request, t Token) *graphError {
	id := q.get("dataset_id")
	if id == "" {
		return parameter("The parameter dataset_id is required")
	}
	d, err := g.dataset(id, t, "get")
	if err != nil {
		return err
	}
	if !slices.Contains(splitFields(q.get("fields")), "web") {
		return parameter("The field web is required")
	}
	quality := d.Quality
	if quality == nil {
		quality = g.measured(id)
	}
	web := []any{}
	for _, line := range quality {
		feedback := []any{}
		for _, k := range slices.Sorted(maps.Keys(line.Keys)) {
			feedback = append(feedback, map[string]any{"identifier": k, "coverage": map[string]any{"percentage": line.Keys[k]}})
		}
		web = append(web, map[string]any{
			"event_name":          line.EventName,
			"event_match_quality": map[string]any{"composite_score": line.Score, "match_key_feedback": feedback, "diagnostics": []any{}},
			"event_coverage":      map[string]any{"percentage": line.Coverage, "goal_percentage": 75},
			"dedupe_key_feedback": []any{map[string]any{"dedupe_key": "event_id"}},
			"data_freshness":      map[string]any{"upload_frequency": "real_time"},
		})
	}
	writeJSON(q.w, 200, map[string]any{"web": web})
	return nil
}

// measured counts how many website events of each name carried each key.
func (g *Graph) measured(dataset string) []Quality {
	ds, website := unique.Make(dataset), unique.Make("website")
	type count struct {
		n    int
		keys [64]int
	}
	names := map[string]*count{}
	g.mu.Lock()
	for seq := g.log.first; seq < g.log.next; seq++ {
		r := g.log.at(seq)
		if r.dataset != ds || r.source != website || r.browser {
			continue
		}
		c := names[r.name.Value()]
		if c == nil {
			c = &count{}
			names[r.name.Value()] = c
		}
		c.n++
		for i := range matchKeys {
			if r.keys&(1<<i) != 0 {
				c.keys[i]++
			}
		}
	}
	g.mu.Unlock()
	lines := make([]Quality, 0, len(names))
	for _, name := range slices.Sorted(maps.Keys(names)) {
		c := names[name]
		line := Quality{EventName: name, Keys: map[string]float64{}, Coverage: 100, Score: 3}
		for i, k := range matchKeys {
			if c.keys[i] > 0 {
				share := float64(c.keys[i]) / float64(c.n)
				line.Keys[orElse(longNames[k], k)] = 100 * share
				line.Score = min(10, line.Score+share)
			}
		}
		lines = append(lines, line)
	}
	return lines
}
