package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/capiloop/capiloop/internal/admin"
	"github.com/capiloop/capiloop/internal/api"
	"github.com/capiloop/capiloop/internal/intake"
	"github.com/capiloop/capiloop/internal/web"
)

// webServer is the HTTP server with what must be closed before it.
type webServer struct {
	http  *http.Server
	addr  string
	pages *web.Handler
}

// shutdownGrace is how long requests under way get to finish.
const shutdownGrace = 3 * time.Second

func (a *App) listen(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", a.o.File.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w. Another program may have the port: choose one with --listen", a.o.File.Listen, err)
	}
	w := &webServer{addr: listener.Addr().String()}
	handler, err := a.routes(w)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	w.http = &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: 2 * time.Minute,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}
	a.web = w
	a.running.Go(func() {
		if err := w.http.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
			a.log.Error("the HTTP server ended", "error", err)
		}
	})
	return nil
}

func (a *App) routes(w *webServer) (http.Handler, error) {
	a.metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	in := intake.New(intake.Config{
		Recorder: a.recorder, Leads: a.recorder, Stages: a.recorder, Inbox: a.store, IDs: a.ids, Forms: a.kinds.Sources, CRMs: a.kinds.CRMs, Account: a.crmAccount,
		Settings: a.settings, Clock: a.o.Clock, Log: a.log, Metrics: a.metrics,
		TrustedProxies: a.o.File.TrustedProxies, PublicURL: a.o.File.PublicURL,
		OtherRoutes: []string{"/v1/events/{id}", "/v1/leads/{id}", "/v1/ledger", "/v1/funnel", "/v1/deadlines", "/v1/findings", "/v1/destinations"},
	})
	mux.HandleFunc("/v1/", in.NotFound)
	api.Register(mux, api.Config{Actions: a.admin, Log: a.log, Authenticate: func(key string) (string, bool) {
		ws, _, ok := a.settings.Get().Authenticate(key)
		if !ok {
			return "", false
		}
		return ws.Name, true
	}})
	mux.HandleFunc("GET /healthz", healthz)
	mux.Handle("GET /readyz", &readyz{store: a.store, clock: a.o.Clock})
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.metrics, promhttp.HandlerOpts{}))
	marks, err := web.NewMarks(web.MarksConfig{Actions: a.admin, Address: intake.Caller(a.o.File.TrustedProxies), Log: a.log})
	if err != nil {
		return nil, err
	}
	mux.Handle("/m/", marks)
	if !a.o.Pages {
		mux.HandleFunc("GET /{$}", a.welcome)
		return machinesFirst(in, mux), nil
	}
	pages, err := web.New(web.Config{
		Actions: a.admin, Workspace: a.o.File.Workspaces[0].Name, Hosts: []string{"127.0.0.1", "localhost", "[::1]", w.addr},
		Links: web.Links{Sandbox: a.o.SandboxURL, API: "http://" + w.addr}, Live: true, Log: a.log,
	})
	if err != nil {
		return nil, err
	}
	w.pages = pages
	mux.Handle("/", pages)
	return machinesFirst(in, mux), nil
}

// machinesFirst gives intake its paths. Those of Graph, such as
// /{version}/{dataset}/events, cannot stand in one mux beside /v1/events/{id}. Who asks for
// the stages is no machine that tells of them.
func machinesFirst(in *intake.Handler, rest http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		look := r.URL.Path == "/v1/stages" && (r.Method == http.MethodGet || r.Method == http.MethodHead)
		if intake.Owns(r.URL.Path) && !look {
			in.ServeHTTP(w, r)
			return
		}
		rest.ServeHTTP(w, r)
	})
}

// welcome tells who opens the address in a browser what is there; it says nothing
// about what the server holds.
func (a *App) welcome(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintf(w, "Capiloop %s is running.\n\nSend events to POST /v1/events with your API key as bearer token.\n"+
		"See what became of them: GET /v1/ledger, GET /v1/events/{id}.\nHealth: /healthz, /readyz. Figures: /metrics.\n", a.o.Version)
}

func (w *webServer) shutdown(ctx context.Context) error {
	if w.pages != nil {
		w.pages.Close()
	}
	ctx, cancel := context.WithTimeout(ctx, shutdownGrace)
	defer cancel()
	if err := w.http.Shutdown(ctx); err != nil {
		return w.http.Close() // who is still sending a body will see the connection break
	}
	return nil
}

// listenForCommands lets commands beside the running server do the same actions.
func (a *App) listenForCommands(ctx context.Context) error {
	// SQLite made the folder already; with PostgreSQL it may not be there yet.
	err := os.MkdirAll(a.o.File.DataDir, 0o700)
	var listener net.Listener
	if err == nil {
		listener, err = admin.Listen(ctx, SocketPath(a.o.File.DataDir))
	}
	if err != nil {
		// On PostgreSQL several nodes may share a folder, and commands work without.
		if !a.store.IsSQLite() {
			a.log.Warn("no socket for commands", "error", err)
			return nil
		}
		return err
	}
	a.socket = &http.Server{Handler: admin.Handler(a.admin, a.log), ReadHeaderTimeout: 10 * time.Second}
	a.running.Go(func() {
		if err := a.socket.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
			a.log.Error("the socket for commands ended", "error", err)
		}
	})
	return nil
}

func healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok\n"))
}

// readyz answers whether the database can be written. It asks at most once a
// second, however often it is asked.
type readyz struct {
	store interface {
		Ping(ctx context.Context) error
	}
	clock interface{ Now() time.Time }

	mu   sync.Mutex
	last time.Time
	err  error
}

// ServeHTTP answers 200 or 503.
func (h *readyz) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	if time.Since(h.last) > time.Second {
		ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
		h.err = h.store.Ping(ctx)
		cancel()
		h.last = time.Now()
	}
	err := h.err
	h.mu.Unlock()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte("not ready: the database cannot be written. Check the disk's space and the database's log.\n"))
		return
	}
	_, _ = w.Write([]byte("ready\n"))
}
