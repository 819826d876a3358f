package e2e_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi/capitest"
)

// The names by which the browser reaches the test's servers: all of them are this machine.
const (
	pageHost  = "www.shop.test"
	gateHost  = "gate.other.test"   // a gateway on a domain of its own
	firstHost = "signals.shop.test" // the same one on the site's domain
	pixelID   = datasetA
	visitorIP = "2a00:1450:4001:81b::200e"
)

// chrome is the browser of all tests, started by the first that needs it.
var chrome struct {
	once   sync.Once
	ctx    context.Context
	cancel context.CancelFunc
	err    error
}

func startChrome() {
	path := os.Getenv("CHROME_PATH")
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome", "/Applications/Chromium.app/Contents/MacOS/Chromium"} {
		if found, err := exec.LookPath(name); path == "" && err == nil {
			path = found
		}
	}
	if path == "" {
		chrome.err = errors.New("these tests drive a real Chromium: install it (apt-get install chromium, brew install --cask chromium) or set CHROME_PATH")
		return
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.Flag("host-resolver-rules", "MAP * 127.0.0.1"), chromedp.Flag("disable-features", "HttpsUpgrades,HttpsFirstBalancedModeAutoEnable"),
		// A headless browser calls itself one, and is filtered as the robot that it is.
		chromedp.UserAgent("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"),
	)
	alloc, stop := chromedp.NewExecAllocator(context.Background(), options...)
	browser, cancel := chromedp.NewContext(alloc)
	chrome.cancel = func() { cancel(); stop() }
	chrome.ctx = browser //nolint:fatcontext // the browser's life is that of all tests
	chrome.err = chromedp.Do(browser)
}

// closeChrome ends the browser when all tests have run.
func closeChrome() {
	if chrome.cancel != nil {
		chrome.cancel()
	}
}

// website is a shop whose pages have the tag, with the gateway and Meta behind it.
type website struct {
	*rig
	mu    sync.Mutex
	pages map[string]string // path to HTML
	posts []url.Values      // forms that came in
	page  *httptest.Server
	proxy *httptest.Server // before the gateway: it tells who the visitor is
	slow  chan struct{}    // the Pixel's library comes once it is closed; nil: at once

	reports []string    // bodies of what the tag has posted
	answer  int         // the proxy's own, to each of them; 0: the gateway's
	headers http.Header // of all pages
	blocked bool        // the Pixel's library cannot be loaded
	address string      // the visitor's; "": visitorIP
}

// newWebsite makes one. more are further settings of its source, as "consent: {wait: send}".
func newWebsite(t *testing.T, more ...string) *website {
	t.Helper()
	s := &website{pages: map[string]string{}}
	s.page = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.page.Close)
	lines := fmt.Sprintf("    sources:\n      - {kind: website, name: web, site: shop, origins: [%q], %s}\ntrusted_proxies: [127.0.0.1]\n",
		s.at(""), strings.Join(append(more, "honeypot: nothing"), ", "))
	s.rig = newRig(t, setup{lines: lines, graph: capitest.Options{StrictSource: true}})
	s.proxy = httptest.NewServer(s.before(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		to, _ := url.Parse(s.url())
		r.SetURL(to)
		r.Out.Host = r.In.Host
		r.Out.Header.Set("X-Forwarded-For", s.visitorIP())
	}}))
	t.Cleanup(s.proxy.Close)
	return s
}

// at is the address of a path of the site.
func (s *website) at(path string) string {
	u, _ := url.Parse(s.page.URL)
	return "http://" + pageHost + ":" + u.Port() + path
}

// gate is the address of the gateway under a name.
func (s *website) gate(host string) string {
	u, _ := url.Parse(s.proxy.URL)
	return "http://" + host + ":" + u.Port()
}

// put publishes a page: with the Pixel's snippet where pixel says so, then the tag.
func (s *website) put(path, head, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages[path] = "<!doctype html><html><head><title>" + path + "</title>" + head + "</head><body>" + body + "</body></html>"
}

// tagFrom is the snippet of the tag, from the gateway under that name.
func (s *website) tagFrom(host string) string {
	return `<script async src="` + s.gate(host) + `/t.js?site=shop"></script>`
}

// pixel is what Meta gives to put into a page, less its own address: a stub that queues,
// and the library that comes later.
const pixel = "<script>" + pixelSnippet + "</script>"

const pixelSnippet = `!function(w,d,src){if(w.fbq)return;var n=w.fbq=function(){n.callMethod?n.callMethod.apply(n,arguments):n.queue.push(arguments)};
if(!w._fbq)w._fbq=n;n.push=n;n.loaded=!0;n.version='2.0';n.queue=[];
var s=d.createElement('script');s.async=!0;s.src=src;d.head.appendChild(s)}(window,document,'/fbevents.js');
fbq('init','` + pixelID + `');`

// fbevents stands in for Meta's library: it drains the queue, remembers each call and
// tells Meta's stand-in of each event, as the Pixel does.
const fbevents = `(function(){var q=window.fbq.queue,id='';window.pixelCalls=window.pixelCalls||[];
if(!/_fbp=/.test(document.cookie))document.cookie='_fbp=fb.1.'+Date.now()+'.'+Math.floor(Math.random()*1e9)+'; path=/';
window.fbq.callMethod=function(){var a=[].slice.call(arguments);window.pixelCalls.push(a);
if(a[0]=='init')id=a[1];
if(/^track/.test(a[0])){var single=/Single/.test(a[0]),name=a[single?2:1],o=a[single?4:3]||{};
var m=/_fbp=([^;]*)/.exec(document.cookie);
new Image().src='GRAPH/tr?id='+(single?a[1]:id)+'&ev='+encodeURIComponent(name)+'&eid='+encodeURIComponent(o.eventID||'')+'&fbp='+(m?m[1]:'')}};
while(q.length)window.fbq.callMethod.apply(window.fbq,q.shift())})();`

func (s *website) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/fbevents.js" && s.slow != nil {
		<-s.slow
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(w.Header(), s.headers)
	switch {
	case strings.HasSuffix(r.URL.Path, ".js") && s.pages[r.URL.Path] != "":
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = io.WriteString(w, s.pages[r.URL.Path])
	case r.URL.Path == "/fbevents.js" && s.blocked:
		http.NotFound(w, r)
	case r.URL.Path == "/fbevents.js":
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = io.WriteString(w, strings.ReplaceAll(fbevents, "GRAPH", s.graphURL))
	case r.Method == http.MethodPost:
		_ = r.ParseMultipartForm(1 << 20)
		s.posts = append(s.posts, r.Form)
		status := http.StatusOK
		if r.Form.Get("status") != "" {
			_, _ = fmt.Sscan(r.Form.Get("status"), &status)
		}
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, s.pages["/thanks"])
	case s.pages[r.URL.Path] == "":
		http.NotFound(w, r)
	default:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, s.pages[r.URL.Path])
	}
}

// posted are the values of a field in the forms that the site got.
func (s *website) posted(field string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for _, f := range s.posts {
		list = append(list, f.Get(field))
	}
	return list
}

// visitor is a person with a browser: cookies and storage of their own.
type visitor struct {
	t   *testing.T
	s   *website
	ctx context.Context
}

// visit lets a new person come; nothing is opened yet.
func (s *website) visit(t *testing.T) *visitor {
	t.Helper()
	chrome.once.Do(startChrome)
	require.NoError(t, chrome.err)
	return s.tab(chrome.ctx, t, chromedp.WithNewBrowserContext())
}

// tab opens another tab of the same person.
func (v *visitor) tab(t *testing.T) *visitor {
	t.Helper()
	return v.s.tab(v.ctx, t)
}

func (s *website) tab(in context.Context, t *testing.T, options ...chromedp.ContextOption) *visitor {
	t.Helper()
	ctx, cancel := chromedp.NewContext(in, options...)
	ctx, stop := context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(func() { stop(); cancel() })
	v := &visitor{t: t, s: s, ctx: ctx}
	require.NoError(t, chromedp.Listen(ctx, func(e any) {
		if e, ok := e.(*runtime.EventExceptionThrown); ok && t.Context().Err() == nil {
			what := e.ExceptionDetails.Text
			if x := e.ExceptionDetails.Exception; x != nil {
				what += " " + x.Description
			}
			t.Errorf("the page threw: %s", what)
		}
	}))
	return v
}

func (v *visitor) run(steps ...chromedp.Action[chromedp.Void]) {
	v.t.Helper()
	require.NoError(v.t, chromedp.Do(v.ctx, steps...))
}

// open goes to a page of the site and waits until the tag is at work.
func (v *visitor) open(path string) {
	v.t.Helper()
	v.run(chromedp.Navigate(v.s.at(path)))
	v.until("window.capiloop && capiloop.loaded === true")
}

// do runs JavaScript for what it does.
func (v *visitor) do(js string) {
	v.t.Helper()
	v.run(chromedp.Evaluate[chromedp.Void]("(function(){" + js + "})()"))
}

// number reads one.
func (v *visitor) number(js string) float64 {
	v.t.Helper()
	n, err := chromedp.Run(v.ctx, chromedp.Evaluate[float64](js, chromedp.EvalAwaitPromise))
	require.NoError(v.t, err, js)
	return n
}

// texts reads a list of texts.
func (v *visitor) texts(js string) []string {
	v.t.Helper()
	list, err := chromedp.Run(v.ctx, chromedp.Evaluate[[]string](js))
	require.NoError(v.t, err, js)
	return list
}

// until waits until something is true in the page.
func (v *visitor) until(js string) {
	v.t.Helper()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if is, err := chromedp.Run(v.ctx, chromedp.Evaluate[bool]("!!("+js+")")); err == nil && is {
			return
		}
		if time.Since(began) > 20*time.Second {
			v.t.Fatalf("in the page not true after 20 s: %s", js)
		}
	}
}

// pixelIDs are the ids under which the Pixel was told of events of a name.
func (v *visitor) pixelIDs(name string) []string {
	v.t.Helper()
	return v.texts(fmt.Sprintf("(window.pixelCalls||[]).filter(function(c){return /^track/.test(c[0])&&c[1]==%q}).map(function(c){return (c[3]||{}).eventID||''})", name))
}

// cookies are those that the page's server would get, by name.
func (v *visitor) cookies() map[string]*network.Cookie {
	v.t.Helper()
	got, err := chromedp.Call(v.ctx, network.GetCookies, network.GetCookiesParams{})
	require.NoError(v.t, err)
	found := map[string]*network.Cookie{}
	for _, c := range got.Cookies {
		found[c.Name] = c
	}
	return found
}

// device is what the tag keeps in the browser's storage.
func (v *visitor) device() []string {
	v.t.Helper()
	return v.texts("Object.keys(localStorage).concat(Object.keys(sessionStorage)).filter(function(k){return /capiloop/.test(k)})")
}

// server are the events that Meta got from the gateway, by name.
func (s *website) server(name string) []capitest.Received {
	var list []capitest.Received
	for _, e := range s.graph.Received() {
		if !e.Browser && e.EventName == name {
			list = append(list, e)
		}
	}
	return list
}

// told waits until Meta has n events of a name from the gateway, and no more.
func (s *website) told(t *testing.T, name string, n int) []capitest.Received {
	t.Helper()
	s.eventually(t, 10*time.Second, fmt.Sprintf("%d %s at Meta", n, name), func() bool { return len(s.server(name)) >= n })
	list := s.server(name)
	require.Len(t, list, n, "%s", name)
	return list
}

// quiet waits as long as an event would need to arrive.
func (v *visitor) quiet() {
	v.t.Helper()
	v.run(chromedp.Sleep(700 * time.Millisecond))
}

// sighting is what the tag saw the Pixel do, as it lies in the database.
type sighting struct {
	name, id, dataset, page string
	own, blocked            bool
}

// sightings are all of them.
func (s *website) sightings(t *testing.T) []sighting {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.data, "capiloop.db")+"?mode=ro&_pragma=busy_timeout(5000)")
	require.NoError(t, err)
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), "SELECT name, event_id, dataset, page, own, blocked FROM sightings ORDER BY id")
	require.NoError(t, err)
	defer rows.Close()
	var list []sighting
	for rows.Next() {
		var g sighting
		require.NoError(t, rows.Scan(&g.name, &g.id, &g.dataset, &g.page, &g.own, &g.blocked))
		list = append(list, g)
	}
	require.NoError(t, rows.Err())
	return list
}
