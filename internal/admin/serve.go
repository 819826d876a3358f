package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

// Who asks travels in headers: whoever can open the socket can read the database
// beside it too, so there is nothing to prove.
const (
	headerActor = "Capiloop-Actor"
	headerRight = "Capiloop-Right"
)

const maxSocketBody = 1 << 16

// request is the body of every action that changes something, and what the Client
// sends.
type request struct {
	Filter
	Name    string        `json:"name,omitempty"` // of a key
	File    string        `json:"file,omitempty"` // of a backup
	Options DoctorOptions `json:"options,omitzero"`
	Leads   []ledger.Lead `json:"leads,omitempty"`   // of an import
	Changes []wireChange  `json:"changes,omitempty"` // of an import of stages
	DryRun  DryRunQuery   `json:"dry_run,omitzero"`
	Since   time.Time     `json:"since,omitzero"` // of a backfill
}

// counted is the answer of an action that changes rows.
type counted struct {
	Count int `json:"count"`
}

// Handler serves the actions as JSON over HTTP, one route per action. It believes
// what the headers say of the actor and must therefore be served on a socket that
// only the owner of the data folder can open; see Listen.
func Handler(a Actions, log *slog.Logger) http.Handler {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	mux := http.NewServeMux()
	get := func(path string, f func(ctx context.Context, by Actor, ws string, q url.Values) (any, error)) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			q := r.URL.Query()
			answer, err := f(r.Context(), actorOf(r), q.Get("workspace"), q)
			respond(w, log, answer, err)
		})
	}
	post := func(path string, f func(ctx context.Context, by Actor, ws string, q request) (any, error)) {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			var q request
			d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxSocketBody))
			d.DisallowUnknownFields()
			if err := d.Decode(&q); err != nil {
				respond(w, log, nil, &Error{Code: Invalid, Message: "The body cannot be read: " + err.Error() + ".", Fix: "Use a command of the same version as the server."})
				return
			}
			answer, err := f(r.Context(), actorOf(r), r.URL.Query().Get("workspace"), q)
			respond(w, log, answer, err)
		})
	}
	lookRoutes(a, get)
	dedupRoutes(a, get)
	actRoutes(a, post)
	leadRoutes(a, get, post)
	stageRoutes(a, get, post)
	return mux
}

func lookRoutes(a Actions, get func(string, func(context.Context, Actor, string, url.Values) (any, error))) {
	get("/events", func(ctx context.Context, by Actor, ws string, q url.Values) (any, error) {
		limit, err := strconv.Atoi(q.Get("limit"))
		if err != nil {
			return nil, &Error{Code: Invalid, Message: "limit is not a number.", Fix: "Give one from 1 to 500."}
		}
		return a.Latest(ctx, by, ws, limit)
	})
	get("/event", func(ctx context.Context, by Actor, ws string, q url.Values) (any, error) {
		return a.EventByText(ctx, by, ws, q.Get("id"))
	})
	get("/ledger", func(ctx context.Context, by Actor, ws string, q url.Values) (any, error) {
		return a.Ledger(ctx, by, ws, LedgerQuery{
			From: q.Get("from"), To: q.Get("to"), Source: q.Get("source"), Destination: q.Get("destination"), Event: q.Get("event"),
		})
	})
	get("/funnel", func(ctx context.Context, by Actor, ws string, q url.Values) (any, error) {
		return a.Funnel(ctx, by, ws, FunnelQuery{From: q.Get("from"), To: q.Get("to"), By: q.Get("by")})
	})
	get("/deadlines", func(ctx context.Context, by Actor, ws string, q url.Values) (any, error) {
		return a.Deadlines(ctx, by, ws, q.Get("within"))
	})
	get("/findings", func(ctx context.Context, by Actor, ws string, _ url.Values) (any, error) {
		return a.Findings(ctx, by, ws)
	})
	get("/destinations", func(ctx context.Context, by Actor, ws string, _ url.Values) (any, error) {
		return a.Destinations(ctx, by, ws)
	})
	get("/sources", func(ctx context.Context, by Actor, ws string, _ url.Values) (any, error) {
		return a.Sources(ctx, by, ws)
	})
}

func actRoutes(a Actions, post func(string, func(context.Context, Actor, string, request) (any, error))) {
	for path, action := range map[string]func(context.Context, Actor, string, Filter) (int, error){
		"/retry": a.Retry, "/release": a.Release, "/drop": a.Drop,
		"/skip-removed": func(ctx context.Context, by Actor, ws string, f Filter) (int, error) {
			return a.SkipRemoved(ctx, by, ws, f.Destination)
		},
		"/try-now": func(ctx context.Context, by Actor, ws string, f Filter) (int, error) {
			return 0, a.TryNow(ctx, by, ws, f.Destination)
		},
	} {
		post(path, func(ctx context.Context, by Actor, ws string, q request) (any, error) {
			n, err := action(ctx, by, ws, q.Filter)
			return counted{n}, err
		})
	}
	post("/backup", func(ctx context.Context, by Actor, _ string, q request) (any, error) {
		return counted{}, a.Backup(ctx, by, q.File)
	})
	post("/doctor", func(ctx context.Context, by Actor, ws string, q request) (any, error) {
		return a.Doctor(ctx, by, ws, q.Options)
	})
	post("/rotate-master-key", func(ctx context.Context, by Actor, _ string, _ request) (any, error) {
		return a.RotateMasterKey(ctx, by)
	})
	post("/keys", func(ctx context.Context, by Actor, ws string, q request) (any, error) {
		return a.CreateAPIKey(ctx, by, ws, q.Name)
	})
}

func actorOf(r *http.Request) Actor {
	return Actor{Name: r.Header.Get(headerActor), Right: parseRight(r.Header.Get(headerRight))}
}

// respond logs what a person cannot mend and tells it too: who can reach the socket
// runs the server.
func respond(w http.ResponseWriter, log *slog.Logger, answer any, err error) {
	if err == nil {
		WriteJSON(w, http.StatusOK, answer)
		return
	}
	var e *Error
	if !errors.As(err, &e) {
		log.Error("an action failed", "error", err)
		e = &Error{Code: Unavailable, Message: "The server could not do it: " + err.Error() + ".", Fix: "Look into the server's log."}
	}
	WriteError(w, e)
}

// WriteJSON writes an answer. It leaves every byte of a payload as it is.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // the caller went away
}

// WriteError writes {"error":{"code","message","fix"}} with the error's status.
func WriteError(w http.ResponseWriter, e *Error) {
	WriteJSON(w, e.Status(), struct {
		Error *Error `json:"error"`
	}{e})
}

// SocketName is the file in the data folder through which commands reach the server.
const SocketName = "capiloop.sock"

// maxSocketPath is what the shortest of our systems takes in a socket's address.
const maxSocketPath = 100

// Listen makes the socket, which its owner alone can open. One that a killed server
// left behind is replaced: the caller holds the lock of the data folder, so nobody
// can be listening there. Closing the listener removes the file.
func Listen(ctx context.Context, path string) (net.Listener, error) {
	// The socket is made in a folder of its own that nobody else can enter, and is
	// moved into place once its permissions are set: at no moment is it open to others.
	dir, err := os.MkdirTemp(filepath.Dir(path), ".s")
	if err != nil {
		return nil, fmt.Errorf("make the socket: %w", err)
	}
	defer os.RemoveAll(dir)
	made := filepath.Join(dir, "s")
	if len(made) > maxSocketPath || len(path) > maxSocketPath {
		return nil, fmt.Errorf("make the socket: its path is too long for this system: %s; use a shorter --data folder", path)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", made)
	if err != nil {
		return nil, fmt.Errorf("make the socket: %w", err)
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false)
	}
	if err := os.Chmod(made, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("keep the socket private: %w", err), l.Close())
	}
	if err := os.Rename(made, path); err != nil {
		return nil, errors.Join(fmt.Errorf("put the socket into place: %w", err), l.Close())
	}
	return &socket{Listener: l, path: path}, nil
}

// socket is a listener that removes its file.
type socket struct {
	net.Listener

	path string
	once sync.Once
}

// Close stops listening and removes the file, once.
func (s *socket) Close() error {
	err := s.Listener.Close()
	s.once.Do(func() {
		if e := os.Remove(s.path); e != nil && !errors.Is(e, os.ErrNotExist) {
			err = errors.Join(err, e)
		}
	})
	return err
}
