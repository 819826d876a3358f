package capitest

import (
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Graph is the stand-in. Make it with New; it may be used by many goroutines.
type Graph struct {
	options      Options
	rules        Rules
	now          func() time.Time
	future       time.Duration
	maxBody      int64
	keepRecords  int
	keepPayloads int
	client       *http.Client
	buffers      sync.Pool
	leads        leadStore
	faults       faultList

	access   sync.RWMutex // guards the three maps
	tokens   map[string]Token
	datasets map[string]Dataset
	pages    map[string]Page

	mu          sync.Mutex // guards everything below
	log         recordLog
	dedup       dedup
	tallies     map[tallyKey]*tally
	requests    Requests
	changes     []uint64 // seqs of events whose outcome changed after the fact
	changesLost int      // how many were cut off the front of changes
	epoch       int      // grows with each Reset, so that open streams begin anew
}

// New makes a stand-in. It starts nothing and needs no closing.
func New(o Options) *Graph {
	g := &Graph{
		options: o, rules: o.withDefaults(), now: o.Now, future: o.FutureTolerance, maxBody: o.MaxBody,
		keepRecords: o.KeepRecords, keepPayloads: o.KeepPayloads, client: o.Client,
		tokens: clone(o.Tokens), datasets: clone(o.Datasets), pages: clone(o.Pages),
	}
	if g.now == nil {
		g.now = time.Now
	}
	if g.future == 0 {
		g.future = time.Minute
	}
	if g.maxBody == 0 {
		g.maxBody = 8 << 20
	}
	if g.keepRecords == 0 {
		g.keepRecords = 1_000_000
	}
	switch {
	case g.keepPayloads == 0:
		g.keepPayloads = 10_000
	case g.keepPayloads < 0:
		g.keepPayloads = 0
	}
	if g.client == nil {
		g.client = &http.Client{Timeout: 10 * time.Second}
	}
	g.buffers.New = func() any { return new([]byte) }
	g.leads.init()
	g.faults.init()
	g.forget()
	return g
}

// clone copies a map and leaves nil nil, which means "any".
func clone[V any](m map[string]V) map[string]V {
	if m == nil {
		return nil
	}
	c := make(map[string]V, len(m))
	maps.Copy(c, m)
	return c
}

// SetToken adds or replaces an access token. The first one makes all others unknown.
func (g *Graph) SetToken(token string, t Token) { set(g, &g.tokens, token, t) }

// SetDataset adds or replaces a dataset. The first one makes all others unknown.
func (g *Graph) SetDataset(id string, d Dataset) { set(g, &g.datasets, id, d) }

// SetPage adds or replaces a page. The first one makes all others unknown.
func (g *Graph) SetPage(id string, p Page) { set(g, &g.pages, id, p) }

// RemoveDataset makes a dataset unknown, as when its share lapses: 100/33.
func (g *Graph) RemoveDataset(id string) {
	g.access.Lock()
	defer g.access.Unlock()
	delete(g.datasets, id)
}

func set[V any](g *Graph, m *map[string]V, k string, v V) {
	g.access.Lock()
	defer g.access.Unlock()
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[k] = v
}

// ServeHTTP answers Graph's paths, the sandbox's own below /_sandbox/ and the page at /.
func (g *Graph) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.options.Now != nil {
		w.Header().Set("Date", g.now().UTC().Format(http.TimeFormat))
	}
	switch {
	case r.URL.Path == "/" && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		servePage(w, pageHTML, "text/html; charset=utf-8")
	case strings.HasPrefix(r.URL.Path, "/_sandbox/"):
		g.serveSandbox(w, r)
	case r.URL.Path == "/tr" || r.URL.Path == "/tr/":
		g.servePixel(w, r)
	default:
		g.serveGraph(w, r)
	}
}

var versionPath = regexp.MustCompile(`^v\d{1,3}\.\d{1,2}$`)

// request is one call of the Graph API, taken apart.
type request struct {
	w       http.ResponseWriter
	r       *http.Request
	version string
	path    []string // without the version
	query   url.Values
	body    body
	token   string
	fault   *Fault   // nil: none
	poisons []*armed // faults that look at the events
}

// get returns a parameter from the query or the body; Graph does not mind which.
func (q *request) get(name string) string {
	if v := q.query.Get(name); v != "" {
		return v
	}
	return string(q.body.field(name))
}

func (q *request) is(method string, path ...string) bool {
	if q.r.Method != method || len(q.path) != len(path) {
		return false
	}
	for i, p := range path {
		if p != "*" && p != q.path[i] {
			return false
		}
	}
	return true
}

func (g *Graph) serveGraph(w http.ResponseWriter, r *http.Request) {
	q := &request{w: w, r: r, query: r.URL.Query(), path: strings.Split(strings.Trim(r.URL.Path, "/"), "/")}
	if versionPath.MatchString(q.path[0]) {
		q.version, q.path = q.path[0], q.path[1:]
	}
	h := w.Header()
	h.Set("Facebook-Api-Version", orElse(q.version, "v26.0"))
	buf := g.buffers.Get().(*[]byte)
	defer g.buffers.Put(buf)
	events := q.is(http.MethodPost, "*", "events")
	refuse := func(err *graphError) {
		if events {
			g.noteRefusal(err)
		}
		err.write(w)
	}
	raw, err := g.readBody(w, r, buf)
	if events {
		g.noteBytes(len(raw))
	}
	if err != nil {
		refuse(err)
		return
	}
	if q.fault, q.poisons, err = g.faults.take(r, q.faultTarget(), events); err != nil {
		refuse(err)
		return
	}
	if q.fault != nil && !g.faultBefore(q, events) {
		return
	}
	if events && g.options.CountOnly {
		g.countOnly(w, raw)
		return
	}
	if q.body, err = readFields(r.Header.Get("Content-Type"), raw); err == nil {
		q.token = bearer(r)
		if q.token == "" {
			q.token = q.get("access_token")
		}
		err = g.route(q)
	}
	if err != nil {
		refuse(err)
	}
}

// faultTarget is what a fault's dataset is compared with: the node that is called.
func (q *request) faultTarget() string {
	if len(q.path) > 0 && q.path[0] == "dataset_quality" {
		return q.query.Get("dataset_id")
	}
	if len(q.path) > 0 {
		return q.path[0]
	}
	return ""
}

func bearer(r *http.Request) string {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") && !strings.EqualFold(scheme, "OAuth") {
		return ""
	}
	return strings.TrimSpace(token)
}

// route checks the token, then hands the call to its method. Nil means that it was
// answered.
func (g *Graph) route(q *request) *graphError {
	t, err := g.authorise(q)
	if err != nil {
		return err
	}
	if q.is(http.MethodPost, "*", "events") {
		return g.postEvents(q, t)
	}
	if t.SendOnly {
		return errorFor(10, 0)
	}
	switch {
	case q.is(http.MethodGet, "debug_token"):
		return g.getDebugToken(q)
	case q.is(http.MethodGet, "dataset_quality"):
		return g.getQuality(q, t)
	case q.is(http.MethodGet, "me", "accounts"):
		return g.getAccounts(q, t)
	case q.is(http.MethodGet, "*", "subscribed_apps"), q.is(http.MethodPost, "*", "subscribed_apps"):
		return g.subscribedApps(q, t)
	case q.is(http.MethodGet, "*", "leadgen_forms"):
		return g.getForms(q, t)
	case q.is(http.MethodGet, "*", "leads"):
		return g.getLeads(q, t, false)
	case q.is(http.MethodGet, "*", "test_leads"):
		return g.getLeads(q, t, true)
	case q.is(http.MethodPost, "*", "test_leads"):
		return g.postTestLead(q, t)
	case q.is(http.MethodDelete, "*"):
		return g.deleteLead(q, t)
	case q.is(http.MethodGet, "*"):
		return g.getNode(q, t)
	}
	return unknownPath(q)
}

func unknownPath(q *request) *graphError {
	e := errorFor(2500, 0)
	e.Status, e.Message = http.StatusNotFound, "Unknown path components: /"+strings.Join(q.path, "/")
	return e
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
