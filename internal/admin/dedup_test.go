package admin_test

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/admin"
	"github.com/capiloop/capiloop/internal/admin/admintest"
	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
)

const visitorAgent = "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/140.0"

// saw lets the tag see what the Pixel reported of a visitor.
func saw(w *admintest.World, visitor int, name, id string, change ...func(*ledger.Sighting)) {
	w.T.Helper()
	g := ledger.Sighting{
		ID: w.IDs.Next(), Workspace: w.Workspaces[admintest.Shop], Source: "site", Dataset: admintest.First, Name: name, EventID: id, At: admintest.Now.Add(-time.Minute), Page: "/contact",
		Visitor: admintest.Prints.Visitor("2001:db8::"+strconv.Itoa(visitor), visitorAgent),
	}
	for _, f := range change {
		f(&g)
	}
	copy(g.UID[:], g.ID.String())
	_, err := w.Store.AddSightings(w.T.Context(), []ledger.Sighting{g})
	require.NoError(w.T, err)
}

// of makes an event be of a visitor.
func of(visitor int) func(*ledger.Event) {
	return func(e *ledger.Event) {
		payload, _ := json.Marshal(map[string]any{
			"event_source_url": "https://www.shop.example/contact?a=1",
			"user_data":        map[string]any{"client_ip_address": "2001:db8::" + strconv.Itoa(visitor), "client_user_agent": visitorAgent, "external_id": []string{"ab"}},
		})
		e.Deliveries[0].Payload = payload
	}
}

// site gives the shop a website whose pages may load the tag.
func site(w *admintest.World) {
	ws := w.Settings.Get().Workspace(admintest.Shop)
	options := secret.NewOptions(map[string]string{config.SiteKey: "shop-1"}, map[string][]string{"origins": {"https://www.shop.example"}}, nil)
	ws.Sources = append(ws.Sources, &config.Source{ID: 9, Workspace: ws.ID, Kind: "website", Name: "site", Options: options})
}

func TestDedupOfAWorkspace(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	c, _ := serve(t, w.Admin)
	d, err := c.Dedup(t.Context(), reader, admintest.Shop, admin.DedupQuery{})
	require.NoError(t, err)
	require.Empty(t, d.Rows)
	require.Contains(t, d.NextStep, "capiloop sources")

	w.Record(w.Make(admintest.Shop, admintest.First, "Lead", "a"))
	saw(w, 1, "Lead", "a")
	for n := range 6 {
		saw(w, 10+n, "Lead", strconv.FormatInt(1764511100000+int64(n), 10))
		w.Record(w.Make(admintest.Shop, admintest.First, "Lead", strconv.Itoa(4711+n), of(10+n)))
	}
	for _, a := range []admin.Actions{w.Admin, c} {
		d, err = a.Dedup(t.Context(), reader, admintest.Shop, admin.DedupQuery{Days: "3", Dataset: admintest.First, Event: "Lead"})
		require.NoError(t, err)
		require.Len(t, d.Rows, 1)
		r := d.Rows[0]
		require.Equal(t, []int{7, 7, 1, 6, 13, 7}, []int{r.Browser, r.Server, r.Paired, r.Unpaired, r.Now, r.AfterRepair})
		require.True(t, r.Yours)
		require.Contains(t, r.NextStep, `data-capiloop-event="Lead" on the form`)
	}
	d, err = w.Dedup(t.Context(), reader, admintest.Shop, admin.DedupQuery{Event: "Purchase"})
	require.NoError(t, err)
	require.Empty(t, d.Rows)
	require.NotEmpty(t, d.NextStep)
	for _, days := range []string{"0", "13", "week"} {
		failed(t, second(w.Dedup(t.Context(), reader, admintest.Shop, admin.DedupQuery{Days: days})), admin.Invalid)
	}
	failed(t, second(w.Dedup(t.Context(), nobody, admintest.Shop, admin.DedupQuery{})), admin.Refused)
}

func TestAFormIsTriedOnce(t *testing.T) {
	t.Parallel()
	const page = "https://www.shop.example/contact?utm_source=a"
	for name, c := range map[string]struct {
		do     func(w *admintest.World)
		event  string
		paired bool
		want   string // of the sentence and the next step
	}{
		"nothing": {func(*admintest.World) {}, "", false, "Neither"},
		"they pair": {func(w *admintest.World) {
			saw(w, 1, "PageView", "x")
			saw(w, 1, "Lead", "a")
			w.Record(w.Make(admintest.Shop, admintest.First, "Lead", "a"))
		}, "", true, "They pair"},
		"the browser alone": {func(w *admintest.World) { saw(w, 1, "Lead", "a") }, "", false, "Only the browser's event has come"},
		"a look at a page":  {func(w *admintest.World) { saw(w, 1, "PageView", "a") }, "", false, "Neither"},
		"the server alone":  {func(w *admintest.World) { w.Record(w.Make(admintest.Shop, admintest.First, "Lead", "a")) }, "Lead", false, "Only the server's event has come"},
		"another scheme": {func(w *admintest.World) {
			saw(w, 1, "Lead", "1764511100000")
			w.Record(w.Make(admintest.Shop, admintest.First, "Lead", "4711", of(1)))
		}, "Lead", false, "different id scheme, 13-digit time vs integer"},
		"another name": {func(w *admintest.World) {
			saw(w, 1, "Lead", "a")
			w.Record(w.Make(admintest.Shop, admintest.First, "SubmitForm", "b", of(1)))
		}, "Lead", false, `"Lead", the server "SubmitForm"`},
		"somebody else meanwhile": {func(w *admintest.World) {
			saw(w, 1, "PageView", "")
			saw(w, 2, "Lead", "b", func(g *ledger.Sighting) { g.Page = "/other" })
			w.Record(w.Make(admintest.Shop, admintest.First, "Lead", "b"))
			saw(w, 1, "Lead", "a")
		}, "Lead", false, "Only the browser's event has come"},
		"another event meanwhile": {func(w *admintest.World) {
			saw(w, 1, "AddToCart", "b")
			w.Record(w.Make(admintest.Shop, admintest.First, "AddToCart", "b"))
		}, "Lead", false, "Neither"},
		"another name in the browser": {func(w *admintest.World) {
			saw(w, 1, "SubmitForm", "a")
			w.Record(w.Make(admintest.Shop, admintest.First, "Lead", "a", of(1)))
		}, "Lead", false, `"SubmitForm", the server "Lead"`},
		"another Pixel": {func(w *admintest.World) {
			saw(w, 1, "Lead", "a", func(g *ledger.Sighting) { g.Dataset = "999" })
			w.Record(w.Make(admintest.Shop, admintest.First, "Lead", "a", of(1)))
		}, "", false, "the Pixel on the page is 999, the server sends to 1001"},
		"a blocker": {func(w *admintest.World) {
			saw(w, 1, "Lead", "a", func(g *ledger.Sighting) { g.Blocked = true })
			w.Record(w.Make(admintest.Shop, admintest.First, "Lead", "a"))
		}, "", false, "The browser blocked the Pixel"},
		"not sent": {func(w *admintest.World) {
			saw(w, 1, "Lead", "a")
			w.Record(w.Make(admintest.Shop, admintest.First, "Lead", "a", admintest.In(ledger.Skipped, ledger.NoConsent)))
		}, "", false, ledger.NoConsent.Sentence()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := admintest.New(t)
			site(w)
			client, _ := serve(t, w.Admin)
			q := admin.DedupTestQuery{URL: page, Event: c.event}
			first, err := client.DedupTest(t.Context(), reader, "", q)
			require.NoError(t, err)
			require.Equal(t, []string{admintest.Shop, "site"}, []string{first.Workspace, first.Source})
			c.do(w)
			q.Since = first.Since
			r, err := client.DedupTest(t.Context(), reader, "", q)
			require.NoError(t, err)
			require.Equal(t, c.paired, r.Paired)
			require.Contains(t, r.Sentence+" "+r.NextStep, c.want)
			if c.paired {
				require.Equal(t, "a", r.Browser.EventID)
				require.Equal(t, "web", r.Server.From)
			}
		})
	}
}

func TestThePageOfATrialMustBeOurs(t *testing.T) {
	t.Parallel()
	w := admintest.New(t)
	site(w)
	for _, address := range []string{"", "shop", "ftp://www.shop.example/", "https://other.example/", "https://www.shop.example:444/"} {
		failed(t, second(w.DedupTest(t.Context(), reader, "", admin.DedupTestQuery{URL: address})), admin.Invalid)
	}
	failed(t, second(w.DedupTest(t.Context(), reader, admintest.Neighbour, admin.DedupTestQuery{URL: "https://www.shop.example/"})), admin.Invalid)
	failed(t, second(w.DedupTest(t.Context(), nobody, "", admin.DedupTestQuery{URL: "https://www.shop.example/"})), admin.Refused)
}
