package admin

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/platform"
	"github.com/capiloop/capiloop/internal/store"
)

// Config is what an Admin works with.
type Config struct {
	Store     *store.Store
	Settings  *config.Live
	Platforms map[string]platform.Platform // by kind
	Clock     ledger.Clock
	Log       *slog.Logger // nil: nothing is logged

	Sources map[string]leadform.Kind // kinds of lead sources
	CRMs    map[string]crm.CRM       // kinds of CRMs
	// Account puts together what a CRM is reached with; needed where there are CRMs.
	Account func(context.Context, *config.Workspace, *config.CRM) crm.Account

	Prints ledger.Fingerprints // those that sightings are written with

	Recorder   Recorder   // writes imported leads and stage changes down
	Backfiller Backfiller // nil: there is no running server

	// Reload puts the settings in force anew after something was changed that they
	// are made of, such as an API key. nil: the caller does so by itself.
	Reload func(context.Context) error

	RotateMaster func(context.Context) (*Rotation, error) // nil: it cannot be done here
	URL          func() string                            // by which others reach the server; nil: nobody does
}

// Recorder writes down what was read from files, and looks at what it would write.
type Recorder interface {
	LeadRecorder
	StageRecorder
	PastRecorder
}

// Admin does the actions on a store. It is safe for concurrent use.
type Admin struct{ c Config }

var _ Actions = (*Admin)(nil)

// New returns an Admin.
func New(c Config) *Admin {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Admin{c}
}

// workspace finds a workspace by its name or number; "" is the only one there is.
func (a *Admin) workspace(ws string) (*config.Workspace, error) {
	s := a.c.Settings.Get()
	if ws == "" {
		if len(s.Workspaces) == 1 {
			return s.Workspaces[0], nil
		}
		return nil, &Error{Code: Invalid, Message: "It is not said which workspace is meant.", Fix: "Name one of: " + names(s) + "."}
	}
	w := s.Workspace(ws)
	if id, err := strconv.ParseInt(ws, 10, 64); w == nil && err == nil {
		w = s.WorkspaceByID(id)
	}
	if w == nil {
		return nil, &Error{Code: NotFound, Message: "There is no workspace " + strconv.Quote(ws) + ".", Fix: "Name one of: " + names(s) + "."}
	}
	return w, nil
}

func names(s *config.Snapshot) string {
	list := make([]string, 0, len(s.Workspaces))
	for _, w := range s.Workspaces {
		list = append(list, w.Name)
	}
	return strings.Join(list, ", ")
}

// enter checks the right and finds the workspace: how every action begins.
func (a *Admin) enter(by Actor, need Right, what, ws string) (*config.Workspace, error) {
	if err := allow(by, need, what); err != nil {
		return nil, err
	}
	return a.workspace(ws)
}

// destination finds a destination of a workspace by its dataset id, also a removed
// one; "" is all, as number 0.
func (a *Admin) destination(ctx context.Context, w *config.Workspace, name string) (store.DestinationView, error) {
	if name == "" {
		return store.DestinationView{}, nil
	}
	list, err := a.c.Store.Destinations(ctx, w.ID)
	if err != nil {
		return store.DestinationView{}, err
	}
	known := make([]string, 0, len(list))
	for _, d := range list {
		if d.Name == name {
			return d, nil
		}
		known = append(known, d.Name)
	}
	fix := "The workspace has no dataset yet."
	if len(known) > 0 {
		fix = "Name one of: " + strings.Join(known, ", ") + "."
	}
	return store.DestinationView{}, &Error{Code: NotFound, Message: "Workspace " + w.Name + " has no dataset " + strconv.Quote(name) + ".", Fix: fix}
}

// filter turns a Filter into the store's question.
func (a *Admin) filter(ctx context.Context, w *config.Workspace, f Filter) (store.RetryQuery, error) {
	q := store.RetryQuery{Workspace: w.ID, Reason: ledger.Reason(f.Reason), Now: a.c.Clock.Now()}
	if f.Event != "" {
		id, err := ledger.ParseID(f.Event)
		if err == nil {
			_, err = a.c.Store.Event(ctx, w.ID, id)
		}
		if errors.Is(err, ledger.ErrBadID) || errors.Is(err, store.ErrNotFound) {
			return q, noEvent(f.Event)
		}
		if err != nil {
			return q, err
		}
		q.Event = id.Event()
	}
	if _, known := ledger.Reasons()[q.Reason]; !known {
		return q, &Error{Code: Invalid, Message: "There is no reason " + strconv.Quote(f.Reason) + ".", Fix: "Use a code as the ledger shows it under by_reason, such as refused."}
	}
	d, err := a.destination(ctx, w, f.Destination)
	q.Destination = d.ID
	return q, err
}

// Retry queues failed deliveries again, under the event_id they had.
func (a *Admin) Retry(ctx context.Context, by Actor, ws string, f Filter) (int, error) {
	w, err := a.enter(by, Operate, "retry events", ws)
	if err != nil {
		return 0, err
	}
	q, err := a.filter(ctx, w, f)
	if err != nil {
		return 0, err
	}
	n, err := a.c.Store.RetryFailed(ctx, q)
	a.did(by, "retry", w, n)
	return n, err
}

// Release sends what is held and waits for a person.
func (a *Admin) Release(ctx context.Context, by Actor, ws string, f Filter) (int, error) {
	return a.decide(ctx, by, ws, f, true)
}

// Drop skips what is held and waits for a person.
func (a *Admin) Drop(ctx context.Context, by Actor, ws string, f Filter) (int, error) {
	return a.decide(ctx, by, ws, f, false)
}

func (a *Admin) decide(ctx context.Context, by Actor, ws string, f Filter, release bool) (int, error) {
	what := "drop"
	if release {
		what = "release"
	}
	w, err := a.enter(by, Operate, what+" events", ws)
	if err != nil {
		return 0, err
	}
	q, err := a.filter(ctx, w, f)
	if err != nil {
		return 0, err
	}
	n, err := a.c.Store.Decide(ctx, q, release)
	a.did(by, what, w, n)
	return n, err
}

// SkipRemoved skips what waits for a destination that is gone from the settings.
func (a *Admin) SkipRemoved(ctx context.Context, by Actor, ws, destination string) (int, error) {
	w, d, err := a.one(ctx, by, "skip the events of a removed dataset", ws, destination)
	if err != nil {
		return 0, err
	}
	if !d.Removed {
		return 0, &Error{
			Code: Conflict, Message: "Dataset " + d.Name + " is not removed, so its events are not skipped.",
			Fix: "Take it out of the configuration first, or drop single events.",
		}
	}
	n, err := a.c.Store.SkipRemoved(ctx, d.ID)
	a.did(by, "skip_removed", w, n)
	return n, err
}

// TryNow lets a destination that pauses or is held try again at once.
func (a *Admin) TryNow(ctx context.Context, by Actor, ws, destination string) error {
	w, d, err := a.one(ctx, by, "let a dataset try again", ws, destination)
	if err != nil {
		return err
	}
	if d.Removed {
		return &Error{Code: Conflict, Message: "Dataset " + d.Name + " is removed; nothing is sent to it.", Fix: "Put it into the configuration again, or skip what waits for it."}
	}
	err = a.c.Store.TryNow(ctx, d.ID)
	a.did(by, "try_now", w, 1)
	return err
}

// one is enter for an action that is about one destination.
func (a *Admin) one(ctx context.Context, by Actor, what, ws, destination string) (*config.Workspace, store.DestinationView, error) {
	w, err := a.enter(by, Operate, what, ws)
	if err != nil {
		return nil, store.DestinationView{}, err
	}
	if destination == "" {
		return nil, store.DestinationView{}, &Error{Code: Invalid, Message: "It is not said which dataset is meant.", Fix: "Give the dataset's id."}
	}
	d, err := a.destination(ctx, w, destination)
	return w, d, err
}

// Backup writes a consistent copy of the database into a new file.
func (a *Admin) Backup(ctx context.Context, by Actor, file string) error {
	if err := allow(by, Own, "make a backup"); err != nil {
		return err
	}
	if !filepath.IsAbs(file) {
		return &Error{Code: Invalid, Message: "The backup's path " + strconv.Quote(file) + " is not absolute.", Fix: "Give the whole path, beginning with /."}
	}
	err := a.c.Store.Backup(ctx, file)
	switch {
	case errors.Is(err, store.ErrNotSQLite):
		return &Error{Code: Conflict, Message: "The database is PostgreSQL, which has its own tool for backups.", Fix: "Use pg_dump."}
	case errors.Is(err, errExists):
		return &Error{Code: Conflict, Message: "The file " + file + " is there already.", Fix: "Give the name of a new file; nothing is ever overwritten."}
	case errors.Is(err, errNoFolder):
		return &Error{Code: Invalid, Message: "There is no folder " + filepath.Dir(file) + ".", Fix: "Make it first, or give another path."}
	case errors.Is(err, errDenied):
		return &Error{Code: Invalid, Message: "The server may not write to " + filepath.Dir(file) + ".", Fix: "Give a path that the server's user can write to."}
	}
	if err == nil {
		a.c.Log.Info("backup written", "by", by.Name)
	}
	return err
}

const (
	keyPrefix = "cl_" // lets people and scanners of leaked secrets know a key of ours
	keyBytes  = 32
	maxName   = 60
)

// CreateAPIKey makes a key for a workspace. Only its hash is kept.
func (a *Admin) CreateAPIKey(ctx context.Context, by Actor, ws, name string) (*NewKey, error) {
	w, err := a.enter(by, Own, "make API keys", ws)
	if err != nil {
		return nil, err
	}
	name = strings.TrimSpace(name)
	if !utf8.ValidString(name) || utf8.RuneCountInString(name) > maxName || strings.ContainsFunc(name, isControl) {
		return nil, &Error{Code: Invalid, Message: "The key's name is longer than 60 characters or holds what cannot be printed.", Fix: "Give a short name, such as shop; the book calls the key's events by it."}
	}
	for _, k := range w.APIKeys {
		if name != "" && k.Name == name {
			return nil, &Error{Code: Conflict, Message: "Workspace " + w.Name + " has a key " + strconv.Quote(name) + " already.", Fix: "Give another name, so that the book can tell them apart."}
		}
	}
	var random [keyBytes]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, err
	}
	key := keyPrefix + base64.RawURLEncoding.EncodeToString(random[:])
	entry := config.NewAPIKey(name, key)
	if err := a.c.Store.AddAPIKey(ctx, w.ID, entry.Name, sha256.Sum256([]byte(key)), entry.Hint); err != nil {
		return nil, err
	}
	a.c.Log.Info("api key made", "by", by.Name, "workspace", w.Name, "key_name", entry.Name)
	if a.c.Reload != nil {
		if err := a.c.Reload(ctx); err != nil {
			return nil, err
		}
	}
	return &NewKey{Workspace: w.Name, Name: entry.Name, Key: key}, nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

func (a *Admin) did(by Actor, what string, w *config.Workspace, n int) {
	a.c.Log.Info("action done", "action", what, "by", by.Name, "workspace", w.Name, "count", n)
}
