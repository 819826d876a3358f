// Package web is the face of admin for people: pages that work without JavaScript
// and keep themselves fresh with it.
//
// There is no login yet. The handler must only be mounted by the demo, on a loopback
// address: whoever reaches it sees the workspace. It refuses hosts it was not told
// of, so that no web page can read it through DNS.
package web

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/capiloop/capiloop/internal/admin"
)

//go:embed page/*.html
var pageFiles embed.FS

// shownEvents is how many of the latest events the book shows.
const shownEvents = 50

// Links are addresses outside of these pages; an empty one is not shown.
type Links struct {
	Sandbox string // the stand-in's page
	API     string // base address of the API, "http://127.0.0.1:8080"
}

// Config is what the pages work with.
type Config struct {
	Actions   admin.Actions
	Workspace string
	// Hosts are the values of the Host header that are served, "127.0.0.1:8080";
	// one without a port is served on every port.
	Hosts []string
	Links Links
	Live  bool         // pages keep themselves fresh
	Log   *slog.Logger // nil: nothing is logged
}

// Handler serves the pages. Close it before the server that mounts it shuts down.
type Handler struct {
	c      Config
	words  words
	pages  *template.Template
	static map[string]asset
	mux    *http.ServeMux
	by     admin.Actor
	live   live
	once   sync.Once
}

// New returns the pages' handler. It fails only if the program was put together
// wrongly.
func New(c Config) (*Handler, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	h := &Handler{c: c, mux: http.NewServeMux(), by: admin.Actor{Name: "demo", Right: admin.Read}, live: newLive()}
	var err error
	if h.words, err = loadWords("en"); err != nil {
		return nil, err
	}
	if h.pages, err = template.New("page.html").Funcs(h.words.funcs()).ParseFS(pageFiles, "page/*.html"); err != nil {
		return nil, fmt.Errorf("read the pages: %w", err)
	}
	if h.static, err = loadStatic(); err != nil {
		return nil, err
	}
	h.mux.HandleFunc("GET /{$}", h.showBook)
	h.mux.HandleFunc("GET /events/{id}", h.showEvent)
	h.mux.HandleFunc("GET /leads/{id}", h.showLead)
	h.mux.HandleFunc("GET /static/{file}", h.showStatic)
	if c.Live {
		h.mux.HandleFunc("GET /live", h.streamBook)
		h.mux.HandleFunc("GET /live/{id}", h.streamEvent)
		h.mux.HandleFunc("GET /live/leads/{id}", h.streamLead)
	}
	h.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { h.problem(w, r, http.StatusNotFound) })
	return h, nil
}

// Close ends the live updates, so that a server that shuts down need not wait for
// them. It may be called twice.
func (h *Handler) Close() { h.once.Do(func() { close(h.live.done) }) }

// policy allows what the pages need and nothing else: no inline script or style, no
// other site, no frame.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// ServeHTTP serves a page.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Security-Policy", policy)
	head.Set("X-Frame-Options", "DENY")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cache-Control", "no-store")
	if !h.knows(r.Host) {
		http.Error(w, "This server does not answer to that name. Use the address that it printed when it started.", http.StatusMisdirectedRequest)
		return
	}
	h.mux.ServeHTTP(w, r)
}

// knows tells whether the Host header is one of ours. A page elsewhere whose name is
// pointed at this machine carries its own name there.
func (h *Handler) knows(host string) bool {
	host = strings.ToLower(host)
	if slices.Contains(h.c.Hosts, host) {
		return true
	}
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		return false
	}
	if strings.Contains(name, ":") { // an IPv6 address lost its brackets
		name = "[" + name + "]"
	}
	return slices.Contains(h.c.Hosts, name)
}

func (h *Handler) showBook(w http.ResponseWriter, r *http.Request) {
	v, err := h.book(r.Context())
	if err != nil {
		h.failed(w, r, err)
		return
	}
	f := h.frame(h.words.say("title.book"))
	f.Book = v
	if h.c.Live {
		f.LiveURL = "/live"
	}
	h.show(w, r, http.StatusOK, f)
}

// book asks for all that the first page shows.
func (h *Handler) book(ctx context.Context) (*bookView, error) {
	a, ws := h.c.Actions, h.c.Workspace
	b, err := a.Ledger(ctx, h.by, ws, admin.LedgerQuery{})
	if err != nil {
		return nil, err
	}
	d, err := a.Destinations(ctx, h.by, ws)
	if err != nil {
		return nil, err
	}
	f, err := a.Findings(ctx, h.by, ws)
	if err != nil {
		return nil, err
	}
	e, err := a.Latest(ctx, h.by, ws, shownEvents)
	if err != nil {
		return nil, err
	}
	l, err := h.leads(ctx)
	if err != nil {
		return nil, err
	}
	v := h.words.bookView(b, d, f, e)
	v.Leads = l
	v.API = h.c.Links.API
	return v, nil
}

func (h *Handler) showEvent(w http.ResponseWriter, r *http.Request) {
	e, err := h.c.Actions.EventByText(r.Context(), h.by, h.c.Workspace, r.PathValue("id"))
	if err != nil {
		h.failed(w, r, err)
		return
	}
	f := h.frame(h.words.say("title.event") + " " + e.Name)
	f.Event = h.words.eventView(e)
	if h.c.Live {
		f.LiveURL = "/live/" + e.ID
	}
	h.show(w, r, http.StatusOK, f)
}

func (h *Handler) frame(title string) frame {
	f := frame{Title: title + " · " + h.words.say("app"), Workspace: h.c.Workspace, Links: h.c.Links, Static: make(map[string]string)}
	for name, a := range h.static {
		f.Static[name] = a.url
	}
	return f
}

// show writes a page, or if it cannot be made the page that says so: never half of
// one.
func (h *Handler) show(w http.ResponseWriter, r *http.Request, status int, f frame) {
	var b bytes.Buffer
	if err := h.pages.ExecuteTemplate(&b, "page.html", f); err != nil {
		h.c.Log.Error("a page could not be made", "path", r.Pattern, "error", err)
		http.Error(w, h.words.say("problem.503.head"), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the reader went away
}

func (h *Handler) failed(w http.ResponseWriter, r *http.Request, err error) {
	var e *admin.Error
	if errors.As(err, &e) && e.Code == admin.NotFound {
		h.problem(w, r, http.StatusNotFound)
		return
	}
	if r.Context().Err() == nil {
		h.c.Log.Error("a page failed", "path", r.Pattern, "error", err)
	}
	w.Header().Set("Retry-After", "1")
	h.problem(w, r, http.StatusServiceUnavailable)
}

func (h *Handler) problem(w http.ResponseWriter, r *http.Request, status int) {
	f := h.frame(h.words.say(fmt.Sprintf("problem.%d.head", status)))
	f.Problem = strconv.Itoa(status)
	h.show(w, r, status, f)
}
