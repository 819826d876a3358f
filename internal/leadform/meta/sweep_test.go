package meta_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/capi/capitest"
	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/leadform/meta"
	"github.com/capiloop/capiloop/internal/ledger"
)

const formB = "200000000000003"

func sweep(t *testing.T, g *graph, since time.Time) ([]ledger.Lead, error) {
	t.Helper()
	var list []ledger.Lead
	for l, err := range meta.New(meta.Config{}).Sweep(t.Context(), g.source(nil), since) {
		if err != nil {
			return list, err
		}
		list = append(list, l)
	}
	return list, nil
}

// Case C163: a lead with half its fields does not keep the others from being read.
func TestSweep(t *testing.T) {
	t.Parallel()
	g := newGraph(t)
	start := time.Date(2026, 11, 18, 11, 0, 0, 0, time.UTC)
	for i := range 250 { // three pages
		l := capitest.Lead{FormID: formA, PageID: page, Created: start.Add(time.Duration(i) * time.Second), Fields: []capitest.Field{{Name: "email", Values: []string{fmt.Sprintf("p%d@example.com", i)}}}}
		if i == 100 {
			l.Fields = []capitest.Field{{Name: "email"}}
		}
		g.AddLead(l)
	}
	g.AddLead(capitest.Lead{FormID: formB, PageID: page, Created: start.Add(time.Second), Platform: "ig"})
	g.AddLead(capitest.Lead{FormID: "7", PageID: "8", Created: start.Add(time.Second)})
	g.AddForm(capitest.Form{ID: "200000000000009", PageID: page, Status: "DRAFT"})

	list, err := sweep(t, g, start)
	require.NoError(t, err)
	require.Len(t, list, 251, "those of this Page")
	for i, l := range list[:250] {
		require.Equal(t, start.Add(time.Duration(i)*time.Second), l.CreatedAt.UTC(), "oldest first")
		require.Equal(t, formA, l.Origin.FormID)
		require.Equal(t, "leads", l.Source)
		if i != 100 {
			require.Equal(t, fmt.Sprintf("p%d@example.com", i), l.Contact.Email)
		}
	}
	require.Equal(t, "ig", list[250].Origin.Channel)

	list, err = sweep(t, g, start.Add(240*time.Second))
	require.NoError(t, err)
	require.Len(t, list, 10, "since is included")

	for _, err := range meta.New(meta.Config{}).Sweep(t.Context(), g.source(nil), start) {
		require.NoError(t, err)
		break // wants no more
	}
}

// A form with more leads than are held at once is read in rounds: each lead once,
// oldest first, also where many share a second.
func TestSweepInRounds(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 18, 11, 0, 0, 0, time.UTC)
	for _, c := range []struct{ leads, aSecond, part int }{{250, 1, 20}, {250, 7, 20}, {130, 130, 20}, {41, 1, 20}, {40, 1, 20}, {39, 1, 20}, {0, 1, 20}} {
		g := newGraph(t)
		g.AddForm(capitest.Form{ID: formA, PageID: page})
		for i := range c.leads {
			g.AddLead(capitest.Lead{FormID: formA, PageID: page, Created: start.Add(time.Duration(i/c.aSecond) * time.Second)})
		}
		r, err := capi.NewReader(capi.Config{BaseURL: g.url, Token: token, AppSecret: appSecret})
		require.NoError(t, err)
		seen := map[string]bool{}
		var last time.Time
		require.NoError(t, meta.SweepForm(t.Context(), r, formA, start, c.part, func(l capi.Lead) bool {
			require.False(t, seen[l.ID], "twice")
			require.False(t, l.Created.Before(last), "not oldest first")
			seen[l.ID], last = true, l.Created
			return true
		}))
		require.Len(t, seen, c.leads, c)
	}
}

func TestSweepErrors(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 18, 11, 0, 0, 0, time.UTC)
	missing := `{"error":{"code":100,"error_subcode":33,"type":"GraphMethodException","message":"synthetic"}}`
	cases := []struct {
		name  string
		set   func(g *graph)
		leads int
		want  ledger.Outcome
	}{
		{"one form out of reach", func(g *graph) { g.samples[formA+"/leads"] = missing }, 1, ledger.Hold{Reason: ledger.PermissionMissing}},
		{"a deleted form", func(g *graph) {
			g.AddForm(capitest.Form{ID: formA, PageID: page, Status: "DELETED"})
			g.samples[formA+"/leads"] = missing
		}, 1, nil},
		{"no access", func(g *graph) { g.SetPage(page, capitest.Page{UserLacksAccess: true}) }, 0, ledger.Hold{Reason: ledger.PermissionMissing}},
		{"token", func(g *graph) { g.SetToken(token, capitest.Token{Subcode: 460}) }, 0, ledger.Hold{Reason: ledger.TokenInvalid}},
		{"limit", func(g *graph) { g.Fault(capitest.Fault{Code: 4}) }, 0, ledger.RetryAt{Reason: ledger.Throttled}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := newGraph(t)
			g.AddLead(capitest.Lead{FormID: formA, PageID: page, Created: start})
			g.AddLead(capitest.Lead{FormID: formB, PageID: page, Created: start})
			c.set(g)
			list, err := sweep(t, g, start)
			require.Len(t, list, c.leads)
			if c.want == nil {
				require.NoError(t, err)
				return
			}
			got := bare(outcome(t, err))
			if r, ok := got.(ledger.RetryAt); ok {
				got = ledger.RetryAt{Reason: r.Reason}
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		change map[string]string
		set    func(g *graph)
		bad    string // the line that is not OK, "" none
		says   string
	}{
		{"all well", nil, func(*graph) {}, "", ""},
		{"no token", map[string]string{"page_token": ""}, func(*graph) {}, "settings", "page_token is missing"},
		{"token ended", nil, func(g *graph) { g.SetToken(token, capitest.Token{AppID: "1", UserID: "2", Subcode: 460}) }, "token", ""},
		{"scope", nil, func(g *graph) {
			g.SetToken(token, capitest.Token{AppID: "1", UserID: "2", Scopes: []string{"pages_show_list"}})
		}, "token", "lacks leads_retrieval"},
		{"ends soon", nil, func(g *graph) {
			g.SetToken(token, capitest.Token{AppID: "1", UserID: "2", Expires: time.Now().Add(time.Hour)})
		}, "token", "ends on"},
		{"not subscribed", nil, func(g *graph) { g.SetPage(page, capitest.Page{}) }, "subscription", "tells no app"},
		{"Leads Access", nil, func(g *graph) {
			g.SetPage(page, capitest.Page{Subscribed: true, AppLacksAccess: true, AccessCustomised: true})
		}, "lead access", "not listed"},
		{"no form", nil, func(g *graph) { g.AddForm(capitest.Form{ID: formA, PageID: page, Status: "ARCHIVED"}) }, "forms", "1 forms, none"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := newGraph(t)
			g.SetToken(token, capitest.Token{AppID: "1", UserID: "2"})
			g.SetPage(page, capitest.Page{Subscribed: true})
			g.AddForm(capitest.Form{ID: formA, PageID: page})
			c.set(g)
			byName := map[string]leadform.Check{}
			source := g.source(c.change)
			source.Address = callback(t, func(r leadform.Request) leadform.Answer {
				return meta.New(meta.Config{}).Receive(r, source, time.Now()).Answer
			})
			for _, line := range meta.New(meta.Config{}).Check(t.Context(), source) {
				byName[line.Name] = line
				require.NotContains(t, line.Sentence+line.NextStep, token)
				if c.bad == "" {
					require.True(t, line.OK, line)
				} else if !line.OK {
					require.NotEmpty(t, line.NextStep)
				}
			}
			if c.bad != "" {
				require.False(t, byName[c.bad].OK, byName)
				require.Contains(t, byName[c.bad].Sentence, c.says)
			}
		})
	}
}
