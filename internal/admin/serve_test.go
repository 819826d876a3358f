package admin_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/admin"
	"github.com/capiloop/capiloop/internal/admin/admintest"
	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
)

// serve serves a world on a socket and returns a client for it.
func serve(t *testing.T, a admin.Actions) (*admin.Client, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "capiloop") //nolint:usetesting // t.TempDir can be too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	path := filepath.Join(dir, admin.SocketName)
	l, err := admin.Listen(t.Context(), path)
	require.NoError(t, err)
	server := &http.Server{Handler: admin.Handler(a, nil), ReadHeaderTimeout: time.Second}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	c := admin.NewClient(path)
	t.Cleanup(func() {
		c.Close()
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-done, http.ErrServerClosed)
		require.NoFileExists(t, path)
	})
	return c, path
}

func TestTheClientDoesWhatTheAdminDoes(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	all := w.Fill()
	w.Platforms[config.Meta] = fake{}
	c, _ := serve(t, w.Admin)
	ctx, shop := t.Context(), admintest.Shop

	for name, ask := range map[string]func(a admin.Actions) (any, error){
		"event":        func(a admin.Actions) (any, error) { return a.Event(ctx, reader, shop, all["sent"].ID) },
		"failed event": func(a admin.Actions) (any, error) { return a.EventByText(ctx, reader, shop, all["failed"].ID.String()) },
		"skipped":      func(a admin.Actions) (any, error) { return a.Event(ctx, reader, shop, all["skipped"].ID) },
		"latest":       func(a admin.Actions) (any, error) { return a.Latest(ctx, reader, shop, 50) },
		"ledger": func(a admin.Actions) (any, error) {
			return a.Ledger(ctx, reader, shop, admin.LedgerQuery{From: "2026-11-30", Event: "Lead"})
		},
		"findings":     func(a admin.Actions) (any, error) { return a.Findings(ctx, reader, shop) },
		"sources":      func(a admin.Actions) (any, error) { return a.Sources(ctx, owner, "") },
		"destinations": func(a admin.Actions) (any, error) { return a.Destinations(ctx, reader, shop) },
		"doctor":       func(a admin.Actions) (any, error) { return a.Doctor(ctx, reader, "", admin.DoctorOptions{}) },
	} {
		here, err := ask(w.Admin)
		require.NoError(t, err, name)
		there, err := ask(c)
		require.NoError(t, err, name)
		require.Equal(t, here, there, name)
	}
	for name, act := range map[string]func() (int, error){
		"retry": func() (int, error) { return c.Retry(ctx, operator, shop, admin.Filter{Reason: "refused"}) },
		"release": func() (int, error) {
			return c.Release(ctx, operator, shop, admin.Filter{Event: all["doubtful"].ID.String()})
		},
	} {
		n, err := act()
		require.NoError(t, err, name)
		require.Equal(t, 1, n, name)
	}
	n, err := c.Drop(ctx, operator, shop, admin.Filter{Destination: admintest.First})
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, c.TryNow(ctx, operator, shop, admintest.Second))
	file := filepath.Join(t.TempDir(), "copy.db")
	require.NoError(t, c.Backup(ctx, owner, file))
	require.FileExists(t, file)
	k, err := c.CreateAPIKey(ctx, owner, shop, "till")
	require.NoError(t, err)
	require.Equal(t, shop, k.Workspace)
}

func TestErrorsComeThroughTheSocket(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	w.Fill()
	c, _ := serve(t, w.Admin)
	failed(t, second(c.Retry(t.Context(), reader, admintest.Shop, admin.Filter{})), admin.Refused)
	failed(t, second(c.CreateAPIKey(t.Context(), operator, admintest.Shop, "")), admin.Refused)
	failed(t, second(c.Findings(t.Context(), nobody, admintest.Shop)), admin.Refused)
	failed(t, second(c.Findings(t.Context(), reader, "nobody's")), admin.NotFound)
	failed(t, second(c.SkipRemoved(t.Context(), operator, admintest.Shop, admintest.First)), admin.Conflict)
	failed(t, second(c.RotateMasterKey(t.Context(), operator)), admin.Refused)
	failed(t, second(c.RotateMasterKey(t.Context(), owner)), admin.Unavailable)
	failed(t, second(c.Sources(t.Context(), nobody, "")), admin.Refused)
	failed(t, c.Backup(t.Context(), owner, "relative"), admin.Invalid)
	failed(t, second(c.Latest(t.Context(), nobody, admintest.Shop, 1)), admin.Refused)

	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, second(c.Findings(stopped, reader, admintest.Shop)), context.Canceled)
	failed(t, second(admin.NewClient(filepath.Join(t.TempDir(), "none.sock")).Findings(t.Context(), reader, "")), admin.Unavailable)
}

func TestTheSocketIsPrivate(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	_, path := serve(t, w.Admin)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, left, 1, "nothing but the socket is left behind")
}

func TestAKilledServersSocketIsReplaced(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "capiloop") //nolint:usetesting // t.TempDir can be too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	path := filepath.Join(dir, admin.SocketName)
	dead, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	require.NoError(t, err)
	dead.(*net.UnixListener).SetUnlinkOnClose(false)
	require.NoError(t, dead.Close())
	failed(t, second(admin.NewClient(path).Findings(t.Context(), reader, "")), admin.Unavailable)

	l, err := admin.Listen(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.Error(t, l.Close())
	require.NoFileExists(t, path)

	_, err = admin.Listen(t.Context(), filepath.Join(dir, strings.Repeat("long", 40)))
	require.ErrorContains(t, err, "shorter --data folder")
}

// broken fails as a database does.
type broken struct{ admin.Actions }

func (broken) Findings(context.Context, admin.Actor, string) ([]admin.Finding, error) {
	return nil, errors.New("disk I/O error")
}

func TestAFaultOfTheServerIsTold(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, broken{})
	require.Contains(t, failed(t, second(c.Findings(t.Context(), reader, "")), admin.Unavailable), "disk I/O error")
}

func TestPayloadsStayAsTheyAre(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	for name, payload := range map[string]string{
		"html":    `{"event_source_url":"https://example.com/?a=1&b=<2>","x":"` + "\u2028" + `"}`,
		"order":   `{"b":1,"a":1.50,"n":9007199254740993}`,
		"no json": "not <json>",
	} {
		e := w.Make(admintest.Shop, admintest.First, "Lead", name, func(e *ledger.Event) { e.Deliveries[0].Payload = []byte(payload) })
		w.Record(e)
		c, _ := serve(t, w.Admin)
		there, err := c.Event(t.Context(), reader, admintest.Shop, e.ID)
		require.NoError(t, err)
		require.Equal(t, payload, string(there.Deliveries[0].Payload), name)
	}
}
