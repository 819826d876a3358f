package intake

import (
	"strings"

	"github.com/capiloop/capiloop/internal/config"
)

// route says which of our routes a path belongs to.
type route int

const (
	routeNone       route = iota
	routeEvents           // POST /v1/events
	routeGraph            // POST /{version}/{dataset}/events, and without version
	routeGateway          // POST /capi/{dataset}/events
	routeLeads            // POST /v1/leads
	routeStages           // POST /v1/stages
	routeConsent          // POST /v1/consent
	routeWebhook          // GET and POST /webhooks/{key}
	routeTag              // POST /t
	routeScript           // GET /t.js
	routeTCF              // GET /t-tcf.js
	routeGraphOther       // what Meta's SDKs may call besides, and what else lies under a version of Graph
)

const (
	eventsPath = "/v1/events"
	tagPath    = "/t"
	scriptPath = "/t.js"
	tcfPath    = "/t-tcf.js"
)

// Routes lists what this package serves, as the OpenAPI file names it.
func Routes() []string {
	return []string{eventsPath, "/{version}/{dataset}/events", "/{dataset}/events", "/capi/{dataset}/events", leadsPath, stagesPath, consentPath, webhookPrefix + "{key}", tagPath, scriptPath, tcfPath}
}

// String names the route as the metrics and the log do.
func (r route) String() string {
	switch r {
	case routeEvents:
		return eventsPath
	case routeGraph:
		return "/{version}/{dataset}/events"
	case routeGateway:
		return "/capi/{dataset}/events"
	case routeLeads:
		return leadsPath
	case routeStages:
		return stagesPath
	case routeConsent:
		return consentPath
	case routeWebhook:
		return webhookPrefix + "{key}"
	case routeTag:
		return tagPath
	case routeScript:
		return scriptPath
	case routeTCF:
		return tcfPath
	case routeGraphOther:
		return "graph"
	default:
		return "none"
	}
}

// Owns tells whether a path is served by this package, whatever the method. It is
// for whoever puts the handlers together: a pattern such as
// /{version}/{dataset}/events clashes in a http.ServeMux with every /v1/…/{id}.
func Owns(path string) bool {
	r, _ := routeOf(path)
	return r != routeNone
}

// routeOf takes a path apart. Graph's versions always have a minor number, which
// keeps them apart from our /v1.
func routeOf(path string) (r route, dataset string) {
	switch path {
	case eventsPath:
		return routeEvents, ""
	case leadsPath:
		return routeLeads, ""
	case stagesPath:
		return routeStages, ""
	case consentPath:
		return routeConsent, ""
	case tagPath:
		return routeTag, ""
	case scriptPath:
		return routeScript, ""
	case tcfPath:
		return routeTCF, ""
	}
	if strings.HasPrefix(path, webhookPrefix) && len(path) > len(webhookPrefix) {
		return routeWebhook, ""
	}
	first, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	second, third, three := strings.Cut(rest, "/")
	switch {
	case isVersion(first):
		if three && third == "events" && second != "" {
			return routeGraph, second
		}
		return routeGraphOther, ""
	case first == "capi" && three && third == "events" && second != "":
		return routeGateway, second
	case three:
		return routeNone, ""
	case isDataset(first) && second == "events":
		return routeGraph, first
	case first == "debug_token" && second == "", isDataset(first) && second == "instruments":
		return routeGraphOther, ""
	}
	return routeNone, ""
}

// isVersion tells whether s is v24.0 and the like.
func isVersion(s string) bool {
	major, minor, ok := strings.Cut(strings.TrimPrefix(s, "v"), ".")
	return ok && s[0] == 'v' && isDigits(major) && isDigits(minor)
}

func isDataset(s string) bool { return s == config.Sandbox || isDigits(s) }

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// nearest returns the route that a mistyped path most likely meant.
func nearest(path string, others []string) string {
	if len(path) > 64 { // no route of ours is that long
		path = path[:64]
	}
	best, least := eventsPath, distance(path, eventsPath)
	for _, r := range append(Routes(), others...) {
		if d := distance(path, filled(r, path)) + 2*strings.Count(r, "{"); d < least { // a name fits anything
			best, least = r, d
		}
	}
	return best
}

// filled puts a path's own segments where the route has names for them.
func filled(route, path string) string {
	segments := strings.Split(path, "/")
	parts := strings.Split(route, "/")
	for i, p := range parts {
		if strings.HasPrefix(p, "{") && i < len(segments) {
			parts[i] = segments[i]
		}
	}
	return strings.Join(parts, "/")
}

// distance counts the letters to change, add or take away to get from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := corner
			if a[i] != b[j] {
				change++
			}
			corner = row[j+1]
			row[j+1] = min(change, row[j]+1, corner+1)
		}
	}
	return row[len(b)]
}
