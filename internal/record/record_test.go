package record_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/platform"
	"github.com/capiloop/capiloop/internal/platform/meta"
	"github.com/capiloop/capiloop/internal/record"
	"github.com/capiloop/capiloop/internal/store"
)

// desk is a recorder with its store and a workspace of two datasets, the second off.
type desk struct {
	*record.Recorder
	store *store.Store
	ws    *config.Workspace
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	return newDeskOn(t, filepath.Join(t.TempDir(), "capiloop.db"))
}

func newDeskOn(tb testing.TB, database string) *desk {
	tb.Helper()
	s, err := store.Open(tb.Context(), store.Config{Database: database})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, s.Close()) })
	applied, err := s.ApplyFile(tb.Context(), []store.FileWorkspace{{Name: "shop", Destinations: []store.FileDestination{
		{Kind: "meta", Name: "1", Live: true}, {Kind: "meta", Name: "2"},
	}}})
	require.NoError(tb, err)
	ws := &config.Workspace{ID: applied.Workspaces["shop"], Name: "shop", Country: "KZ"}
	for _, id := range []string{"1", "2"} {
		ws.Datasets = append(ws.Datasets, &config.Dataset{Destination: applied.Destinations["meta/"+id]})
	}
	return &desk{
		Recorder: record.New(record.Config{
			Store: s, Platforms: map[string]platform.Platform{"meta": meta.New(meta.Config{})},
			IDs: ledger.NewIDs(0, time.Now), Fingerprint: []byte("k"),
		}),
		store: s, ws: ws,
	}
}

func lead(change func(e *capi.Event)) *capi.Event {
	e := &capi.Event{
		EventName: "Lead", EventTime: time.Now().Unix() - 5, EventID: "l1", ActionSource: capi.ActionSourceSystemGenerated,
		UserData: capi.UserData{Email: []string{" Jane@Example.com"}, Phone: []string{"8 701 234 56 78"}, FirstName: []string{"Jane"}},
	}
	change(e)
	return e
}

func (d *desk) one(t *testing.T, item record.Item) record.Result {
	t.Helper()
	out, err := d.Record(t.Context(), record.Request{Workspace: d.ws, Source: "api", Items: []record.Item{item}})
	require.NoError(t, err)
	return out.Results[0]
}

func codes(ps capi.Problems) string {
	list := make([]string, len(ps))
	for i, p := range ps {
		list[i] = p.Code
	}
	return strings.Join(list, " ")
}

func TestWhatLeavesIsHashedAndFrozen(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	res := d.one(t, record.Item{Event: lead(func(*capi.Event) {}), Dataset: "1"})
	require.Equal(t, ledger.Waiting, res.State)
	v, err := d.store.Event(t.Context(), d.ws.ID, res.ID)
	require.NoError(t, err)
	payload := string(v.Deliveries[0].Payload)
	require.Contains(t, payload, capi.HashText("jane@example.com"))
	require.Contains(t, payload, capi.HashText("77012345678"), "the workspace's country is the phone's")
	require.NotContains(t, strings.ToLower(payload), "jane")
	require.Equal(t, "em,ph,fn", v.Came.String())
}

func TestOnlyThePermittedKeysLeave(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.ws.Keys = capi.KeySet(0).Add(capi.KeyEmail)
	res := d.one(t, record.Item{Event: lead(func(*capi.Event) {}), Dataset: "1"})
	v, err := d.store.Event(t.Context(), d.ws.ID, res.ID)
	require.NoError(t, err)
	require.Equal(t, "em,ph,fn", v.Came.String())
	require.Equal(t, "em", v.Deliveries[0].Kept.String())
	require.NotContains(t, string(v.Deliveries[0].Payload), `"ph"`)
}

func TestWhereAnEventGoes(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	res := d.one(t, record.Item{Event: lead(func(*capi.Event) {})})
	v, err := d.store.Event(t.Context(), d.ws.ID, res.ID)
	require.NoError(t, err)
	require.Len(t, v.Deliveries, 2)
	require.Equal(t, ledger.Waiting, v.Deliveries[0].State)
	require.Equal(t, ledger.NotLive, v.Deliveries[1].Reason)
	require.Nil(t, v.Deliveries[1].Payload, "what does not leave is not kept")

	res = d.one(t, record.Item{Event: lead(func(*capi.Event) {}), Dataset: "99"})
	require.Equal(t, record.ProblemUnknownDataset, codes(res.Rejected))

	d.ws.Datasets = nil
	res = d.one(t, record.Item{Event: lead(func(e *capi.Event) { e.EventID = "nowhere" })})
	require.Equal(t, ledger.NoDestination, res.Reason)
	book, err := d.store.Book(t.Context(), store.BookQuery{Workspace: d.ws.ID})
	require.NoError(t, err)
	require.EqualValues(t, 3, book.Received)
	require.Zero(t, book.Unexplained())
}

func TestConsentComesFirst(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, c := range []struct {
		given    ledger.Consent
		required bool
		want     ledger.Reason
	}{
		{ledger.ConsentDenied, false, ledger.NoConsent},
		{ledger.ConsentAbsent, true, ledger.NoConsent},
		{ledger.ConsentAbsent, false, ledger.None},
		{ledger.ConsentGranted, true, ledger.None},
	} {
		d.ws.ConsentRequired = c.required
		res := d.one(t, record.Item{Event: lead(func(e *capi.Event) { e.EventID = fmt.Sprint(c) }), Dataset: "1", Consent: ledger.Decision{Consent: c.given}})
		require.Equal(t, c.want, res.Reason, "%+v", c)
	}
}

func TestTheTimeOfAnEvent(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const none = -1 << 62
	for _, c := range []struct {
		name, code string
		ahead      int64 // seconds
		state      ledger.State
	}{
		{"none given", record.ProblemTimeDefaulted, none, ledger.Waiting},
		{"a little ahead", record.ProblemTimeClamped, 50, ledger.Waiting},
		{"eleven minutes ahead", record.ProblemTimeAhead, 660, ledger.Held},
		{"six days old", "", -6 * 86400, ledger.Waiting},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			at := int64(0)
			if c.ahead != none {
				at = time.Now().Unix() + c.ahead
			}
			res := d.one(t, record.Item{Event: lead(func(e *capi.Event) { e.EventTime, e.EventID = at, c.name }), Dataset: "1"})
			require.Empty(t, res.Rejected)
			require.Equal(t, c.state, res.State)
			require.Contains(t, codes(res.Warnings), c.code)
			v, err := d.store.Event(t.Context(), d.ws.ID, res.ID)
			require.NoError(t, err)
			if c.state == ledger.Held {
				require.Equal(t, at, v.Time.Unix(), "its own time is kept")
			} else {
				require.LessOrEqual(t, v.Time.Unix(), time.Now().Unix())
			}
		})
	}
	res := d.one(t, record.Item{Event: lead(func(e *capi.Event) { e.EventTime = time.Now().Unix() - 8*86400 }), Dataset: "1"})
	require.Contains(t, codes(res.Rejected), capi.ProblemTooOld)
}

func TestAnEventWithoutAnID(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	order := func(id string) *capi.Event {
		return lead(func(e *capi.Event) {
			e.EventName, e.EventID, e.CustomData = "Purchase", "", &capi.CustomData{OrderID: id, Value: "5", Currency: "KZT"}
		})
	}
	first := d.one(t, record.Item{Event: order("1001"), Dataset: "1"})
	require.NotContains(t, codes(first.Warnings), record.ProblemEventIDMade)
	require.Equal(t, "1001", first.EventID, "as the shop's page can tell the Pixel")
	require.True(t, d.one(t, record.Item{Event: order("1001"), Dataset: "1"}).Duplicate, "the same order is the same event")
	require.False(t, d.one(t, record.Item{Event: order("1002"), Dataset: "1"}).Duplicate)

	made := d.one(t, record.Item{Event: lead(func(e *capi.Event) { e.EventID = "  " }), Dataset: "1"})
	require.Contains(t, codes(made.Warnings), record.ProblemEventIDMade)
	require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, made.EventID)
}

func TestAllOrNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	out, err := d.Record(t.Context(), record.Request{Workspace: d.ws, Source: "sdk", AllOrNothing: true, Items: []record.Item{
		{Event: lead(func(*capi.Event) {}), Dataset: "1"},
		{Event: lead(func(e *capi.Event) { e.UserData = capi.UserData{} }), Dataset: "1"},
	}})
	require.NoError(t, err)
	require.Empty(t, out.Results[0].Rejected)
	require.NotEmpty(t, out.Results[1].Rejected)
	book, err := d.store.Book(t.Context(), store.BookQuery{Workspace: d.ws.ID})
	require.NoError(t, err)
	require.Zero(t, book.Received)
	require.EqualValues(t, 1, book.Beside[ledger.Rejected])
}

func TestTheNameOfTheLeadsBookIsNoEvent(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	got := d.one(t, record.Item{Event: lead(func(e *capi.Event) { e.EventName = ledger.LeadName })})
	require.Equal(t, record.ProblemReservedName, codes(got.Rejected))
	book, err := d.store.Book(t.Context(), store.BookQuery{Workspace: d.ws.ID, Leads: true})
	require.NoError(t, err)
	require.Zero(t, book.Received)
}
