// Package api is the face of admin for machines: what became of an event, the book,
// the findings and the destinations, as JSON, for whoever holds an API key of the
// workspace. It only reads; events come in through intake.
//
// Takes GET requests with a Bearer key, gives back the JSON of package admin, or
// {"error":{"code","message","fix"}} that says what would be right.
package api

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/capiloop/capiloop/internal/admin"
)

// Config is what the API works with.
type Config struct {
	Actions admin.Actions
	// Authenticate returns the workspace that an API key opens.
	Authenticate func(key string) (workspace string, ok bool)
	Log          *slog.Logger // nil: nothing is logged
}

// api holds the handlers.
type api struct{ c Config }

// face is one route's work, after the key was checked.
type face func(r *http.Request, by admin.Actor, ws string) (any, error)

// Register puts the routes on a mux, each for GET (and HEAD) alone, so that other
// methods of the same paths can be somebody else's.
func Register(mux *http.ServeMux, c Config) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	a := &api{c}
	mux.HandleFunc("GET /v1/events/{id}", a.serve(nil, func(r *http.Request, by admin.Actor, ws string) (any, error) {
		return c.Actions.EventByText(r.Context(), by, ws, r.PathValue("id"))
	}))
	mux.HandleFunc("GET /v1/leads/{id}", a.serve(nil, func(r *http.Request, by admin.Actor, ws string) (any, error) {
		return c.Actions.Lead(r.Context(), by, ws, r.PathValue("id"))
	}))
	mux.HandleFunc("GET /v1/ledger", a.serve([]string{"from", "to", "source", "destination", "event"}, func(r *http.Request, by admin.Actor, ws string) (any, error) {
		q := r.URL.Query()
		return c.Actions.Ledger(r.Context(), by, ws, admin.LedgerQuery{
			From: q.Get("from"), To: q.Get("to"), Source: q.Get("source"), Destination: q.Get("destination"), Event: q.Get("event"),
		})
	}))
	mux.HandleFunc("GET /v1/funnel", a.serve([]string{"from", "to", "by"}, func(r *http.Request, by admin.Actor, ws string) (any, error) {
		q := r.URL.Query()
		return c.Actions.Funnel(r.Context(), by, ws, admin.FunnelQuery{From: q.Get("from"), To: q.Get("to"), By: q.Get("by")})
	}))
	mux.HandleFunc("GET /v1/dedup", a.serve([]string{"days", "dataset", "event"}, func(r *http.Request, by admin.Actor, ws string) (any, error) {
		q := r.URL.Query()
		return c.Actions.Dedup(r.Context(), by, ws, admin.DedupQuery{Days: q.Get("days"), Dataset: q.Get("dataset"), Event: q.Get("event")})
	}))
	mux.HandleFunc("GET /v1/stages", a.serve(nil, func(r *http.Request, by admin.Actor, ws string) (any, error) {
		return c.Actions.Stages(r.Context(), by, ws)
	}))
	mux.HandleFunc("GET /v1/deadlines", a.serve([]string{"within"}, func(r *http.Request, by admin.Actor, ws string) (any, error) {
		return c.Actions.Deadlines(r.Context(), by, ws, r.URL.Query().Get("within"))
	}))
	mux.HandleFunc("GET /v1/findings", a.serve(nil, func(r *http.Request, by admin.Actor, ws string) (any, error) {
		return c.Actions.Findings(r.Context(), by, ws)
	}))
	mux.HandleFunc("GET /v1/destinations", a.serve(nil, func(r *http.Request, by admin.Actor, ws string) (any, error) {
		return c.Actions.Destinations(r.Context(), by, ws)
	}))
}

// serve checks the key and the query, then answers.
func (a *api) serve(params []string, f face) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		key, found := bearer(r)
		ws, ok := "", false
		if found {
			ws, ok = a.c.Authenticate(key)
		}
		if !ok {
			unauthorized(w, found)
			return
		}
		if err := checkQuery(r.URL, params); err != nil {
			admin.WriteError(w, err)
			return
		}
		answer, err := f(r, admin.Actor{Name: "api key", Right: admin.Read}, ws)
		if err == nil {
			admin.WriteJSON(w, http.StatusOK, answer)
			return
		}
		var e *admin.Error
		if !errors.As(err, &e) {
			if r.Context().Err() == nil {
				a.c.Log.Error("a request failed", "path", r.Pattern, "error", err)
			}
			w.Header().Set("Retry-After", "1")
			e = &admin.Error{Code: admin.Unavailable, Message: "The server cannot answer at the moment.", Fix: "Ask again in a second; its log says what is wrong."}
		}
		admin.WriteError(w, e)
	}
}

// bearer returns the key of an Authorization header.
func bearer(r *http.Request) (string, bool) {
	scheme, key, found := strings.Cut(r.Header.Get("Authorization"), " ")
	key = strings.TrimSpace(key)
	return key, found && strings.EqualFold(scheme, "Bearer") && key != ""
}

func unauthorized(w http.ResponseWriter, given bool) {
	e := &admin.Error{Code: admin.NoKey, Message: "The request has no API key.", Fix: "Send the header Authorization: Bearer with the key of a workspace."}
	if given {
		e.Message = "The API key is not known."
		e.Fix = "Check that the key is whole and belongs to this installation; it may have been revoked."
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="capiloop"`)
	admin.WriteError(w, e)
}

// checkQuery refuses a parameter that is not known: a misspelt filter would show the
// whole book as if it were a part.
func checkQuery(u *url.URL, known []string) *admin.Error {
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return &admin.Error{Code: admin.Invalid, Message: "The query cannot be read.", Fix: "Percent-encode what stands after the question mark."}
	}
	for name, values := range q {
		switch {
		case slices.Contains(known, name) && len(values) == 1:
		case slices.Contains(known, name):
			return &admin.Error{Code: admin.Invalid, Message: "The parameter " + name + " stands more than once.", Fix: "Give it once."}
		case len(known) == 0:
			return &admin.Error{Code: admin.Invalid, Message: "There is no parameter " + strconv.Quote(name) + " here.", Fix: "Leave it out; this address takes none."}
		default:
			return &admin.Error{Code: admin.Invalid, Message: "There is no parameter " + strconv.Quote(name) + ".", Fix: "Use some of: " + strings.Join(known, ", ") + "."}
		}
	}
	return nil
}
