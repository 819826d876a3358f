package intake

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/record"
)

// Recorder writes what came in; *record.Recorder is the one.
type Recorder interface {
	Record(ctx context.Context, q record.Request) (*record.Outcome, error)
}

// Config is what a Handler works with.
type Config struct {
	Recorder Recorder
	Leads    LeadRecorder
	Stages   StageRecorder
	Inbox    Inbox
	IDs      *ledger.IDs
	Forms    map[string]leadform.Kind // kinds of lead sources
	CRMs     map[string]crm.CRM       // kinds of CRMs
	// Account puts together what a CRM's hooks are verified with; needed where there
	// are CRMs that tell of stages.
	Account  func(ctx context.Context, ws *config.Workspace, c *config.CRM) crm.Account
	Settings *config.Live
	Clock    ledger.Clock
	Log      *slog.Logger          // nil: nothing is logged
	Metrics  prometheus.Registerer // nil: nothing is counted
	// TrustedProxies are those whose X-Forwarded-For is believed, for the limit on
	// wrong keys and the log.
	TrustedProxies []netip.Prefix
	// PublicURL is put before the links in answers, without a slash at its end; "":
	// the links are paths.
	PublicURL string
	// OtherRoutes are those beneath /v1 that others serve; an unknown route is
	// answered with the nearest of all.
	OtherRoutes []string
}

// Handler serves the routes of this package. It is safe for concurrent use.
type Handler struct {
	c       Config
	peers   peers
	guesses *guesses
	floods  *floods // of forms
	tagged  *floods // of the tag
	metrics *metrics
}

// New returns a Handler. It registers its metrics once; a registry takes only one.
func New(c Config) *Handler {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Handler{c: c, peers: newPeers(c.TrustedProxies), guesses: newGuesses(), floods: newFloods(formsPerSecond, formsAtOnce), tagged: newFloods(tagPerSecond, tagAtOnce), metrics: newMetrics(c.Metrics)}
}

// call is one request on its way through the handler, with what may be said of it.
type call struct {
	*http.Request
	w         http.ResponseWriter // for limiting the body only; the answer is a reply
	route     route
	dataset   string // of the path
	peer      netip.Addr
	workspace *config.Workspace
	key       *config.APIKey
	source    string // what the book calls where it came from
	tally     tally
}

// tally counts what became of the events of a call.
type tally struct{ accepted, duplicates, rejected int }

// reply is a whole answer. Handlers return it instead of writing, so that a fault
// halfway cannot leave half an answer.
type reply struct {
	status       int
	body         []byte
	allow        string // of 405
	authenticate string // of 401
	retryAfter   int    // seconds; 0: not said
	replayed     bool
	contentType  string      // "": JSON
	location     string      // of a redirect
	headers      http.Header // further ones
}

// ServeHTTP answers one request. A path that is none of ours gets NotFound's answer.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	c := &call{Request: r, w: w}
	c.route, c.dataset = routeOf(r.URL.Path)
	c.peer = h.peers.of(r)
	a := h.answer(r.Context(), c)
	writeReply(w, r.Method, &a)
	took := time.Since(start)
	h.metrics.observe(c, a.status, took)
	if h.c.Log.Enabled(r.Context(), slog.LevelDebug) {
		h.log(r.Context(), c, a.status, took)
	}
}

// answer runs the route's handler and turns a panic into an answer of its own.
func (h *Handler) answer(ctx context.Context, c *call) (a reply) {
	defer func() {
		fault := recover()
		if fault == nil {
			return
		}
		if fault == http.ErrAbortHandler { //nolint:errorlint // net/http compares it so, too
			panic(fault)
		}
		// What a panic carries may hold a payload; only the runtime's own texts cannot.
		what := "a fault in the program"
		if e, ok := fault.(runtime.Error); ok {
			what = e.Error()
		}
		h.c.Log.ErrorContext(ctx, "intake panicked", "route", c.route.String(), "error", what, "stack", string(debug.Stack()))
		a = h.failure(c, wrong{
			http.StatusInternalServerError, "internal", "something broke while the request was read; it is in the server's log",
			"send it again; if it breaks again, report it with the log's lines", "",
		})
	}()
	switch c.route {
	case routeEvents:
		return h.events(ctx, c)
	case routeGraph, routeGateway:
		return h.dropIn(ctx, c)
	case routeLeads:
		return h.leads(ctx, c)
	case routeStages:
		return h.stages(ctx, c)
	case routeConsent:
		return h.consent(ctx, c)
	case routeWebhook:
		return h.webhook(ctx, c)
	case routeTag:
		return h.tag(ctx, c)
	case routeScript, routeTCF:
		return h.script(c)
	case routeGraphOther:
		return unknownPath()
	default:
		return h.notFound(c)
	}
}

// NotFound answers an unknown route in JSON and names the nearest one that there is.
func (h *Handler) NotFound(w http.ResponseWriter, r *http.Request) {
	a := h.notFound(&call{Request: r, w: w})
	writeReply(w, r.Method, &a)
}

func (h *Handler) notFound(c *call) reply {
	near := nearest(c.URL.Path, h.c.OtherRoutes)
	return wrong{http.StatusNotFound, "no_such_route", "there is no such route here", "the nearest one is " + near, ""}.reply()
}

// failure answers in the shape that callers of the route understand.
func (h *Handler) failure(c *call, e wrong) reply {
	if c.route == routeGraph || c.route == routeGateway {
		return graphOf(e).reply()
	}
	return e.reply()
}

// log writes one line about a request, without its query, for that may hold a token.
func (h *Handler) log(ctx context.Context, c *call, status int, took time.Duration) {
	args := []any{"method", c.Method, "route", c.route.String(), "status", status, "took", took, "caller", c.peer.String()}
	if c.workspace != nil {
		args = append(args, "workspace", c.workspace.Name, "source", c.source,
			"accepted", c.tally.accepted, "duplicates", c.tally.duplicates, "rejected", c.tally.rejected)
	}
	h.c.Log.DebugContext(ctx, "request", args...)
}

func writeReply(w http.ResponseWriter, method string, a *reply) {
	header := w.Header()
	header.Set("Content-Type", "application/json; charset=utf-8")
	maps.Copy(header, a.headers)
	if a.contentType != "" {
		header.Set("Content-Type", a.contentType)
	}
	if a.location != "" {
		header.Set("Location", a.location)
	}
	header.Set("X-Content-Type-Options", "nosniff")
	if header.Get("Cache-Control") == "" {
		header.Set("Cache-Control", "no-store")
	}
	header.Set("Content-Length", strconv.Itoa(len(a.body)))
	if a.allow != "" {
		header.Set("Allow", a.allow)
	}
	if a.authenticate != "" {
		header.Set("WWW-Authenticate", a.authenticate)
	}
	if a.retryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(a.retryAfter))
	}
	if a.replayed {
		header.Set("Idempotent-Replayed", "true")
	}
	w.WriteHeader(a.status)
	if method != http.MethodHead {
		_, _ = w.Write(a.body) // a caller that is gone needs no answer
	}
}
