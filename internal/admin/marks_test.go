package admin_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/admin"
	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/platform"
	"github.com/capiloop/capiloop/internal/platform/meta"
	"github.com/capiloop/capiloop/internal/record"
	"github.com/capiloop/capiloop/internal/secret"
	"github.com/capiloop/capiloop/internal/store"
)

// plumber is a firm without a CRM: leads come by mail and by a chat, and are marked by
// links. Its clock stands wherever the test puts it.
type plumber struct {
	t        *testing.T
	file     string
	store    *store.Store
	settings *config.Live
	ws       *config.Workspace
	other    *config.Workspace
	dataset  int64
	start    time.Time
	now      time.Time
	ids      *ledger.IDs
	n        int
	sent     []map[string]any // what Meta got
}

var markRules = []ledger.Rule{
	{Stage: ledger.StageReceived, Event: "Lead"}, {Stage: "Good", Event: "QualifiedLead"}, {Stage: "Sold", Event: "Purchase", Value: ledger.ValueDeal},
}

func newPlumber(t *testing.T, rules ...ledger.Rule) *plumber {
	t.Helper()
	p := &plumber{t: t, file: filepath.Join(t.TempDir(), "capiloop.db"), start: time.Date(2026, 10, 2, 12, 5, 0, 0, time.UTC)}
	p.open()
	applied, err := p.store.ApplyFile(t.Context(), []store.FileWorkspace{
		{Name: "rohrfix", Destinations: []store.FileDestination{{Kind: "meta", Name: "1", Live: true}}, CRMs: []store.FileCRM{{Kind: "email", Name: "mail"}, {Kind: "telegram", Name: "chat"}}},
		{Name: "other", CRMs: []store.FileCRM{{Kind: "email", Name: "mail"}}},
	})
	require.NoError(t, err)
	master, err := secret.LoadMaster(filepath.Join(t.TempDir(), "master.key"), os.LookupEnv)
	require.NoError(t, err)
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	p.ws = &config.Workspace{ID: applied.Workspaces["rohrfix"], Name: "rohrfix", Country: "DE", Currency: "EUR", Timezone: berlin, Rules: rules, Guard: ledger.DefaultGuard()}
	p.ws.Ring, _ = master.NewRing(p.ws.ID)
	p.dataset = applied.Destinations["meta/1"].ID
	p.ws.Datasets = []*config.Dataset{{Destination: applied.Destinations["meta/1"]}}
	for _, kind := range []string{"email", "telegram"} {
		name := map[string]string{"email": "mail", "telegram": "chat"}[kind]
		p.ws.CRMs = append(p.ws.CRMs, &config.CRM{Destination: ledger.Destination{ID: applied.CRMs["rohrfix/"+name].ID, Workspace: p.ws.ID, Kind: kind, Name: name, CreatedAt: p.start.Add(-time.Hour)}})
	}
	p.other = &config.Workspace{ID: applied.Workspaces["other"], Name: "other", CRMs: []*config.CRM{{Destination: ledger.Destination{ID: applied.CRMs["other/mail"].ID, Kind: "email", Name: "mail"}}}}
	p.other.Ring, _ = master.NewRing(p.other.ID)
	snapshot, err := config.NewSnapshot(p.ws, p.other)
	require.NoError(t, err)
	p.settings = config.NewLive(snapshot)
	return p
}

// open opens the database, as a start does.
func (p *plumber) open() {
	p.t.Helper()
	s, err := store.Open(p.t.Context(), store.Config{Database: p.file})
	require.NoError(p.t, err)
	p.t.Cleanup(func() { _ = s.Close() })
	s.UseOpener(func(_ int64, lead, delivery ledger.ID, wrapped, sealed []byte) ([]byte, error) {
		return p.ws.Ring.ReadCopy(int64(lead), int64(delivery), wrapped, sealed)
	})
	p.store = s
	p.ids = ledger.NewIDs(s.Node(), func() time.Time { return p.now })
}

func (p *plumber) restart() {
	p.t.Helper()
	require.NoError(p.t, p.store.Close())
	p.open()
}

// at returns the server as it is some time after the start.
func (p *plumber) at(after time.Duration) (*admin.Admin, *record.Recorder) {
	clock := ledger.TestClock(time.Until(p.start.Add(after)), 1e-9)
	p.now = p.start.Add(after)
	r := record.New(record.Config{Store: p.store, Platforms: map[string]platform.Platform{"meta": meta.New(meta.Config{})}, IDs: p.ids, Clock: clock, Fingerprint: []byte("k")})
	return admin.New(admin.Config{Store: p.store, Settings: p.settings, Clock: clock, Recorder: r}), r
}

// lead takes a lead in and returns a link to it, issued then.
func (p *plumber) lead(after time.Duration) (ledger.ID, string) {
	p.t.Helper()
	p.n++
	_, r := p.at(after)
	done, err := r.Lead(p.t.Context(), p.ws, &ledger.Lead{
		Source: "forms", Kind: "meta_leads", Platform: "meta", LeadID: strconv.Itoa(525645896321000 + p.n), CreatedAt: p.start.Add(after), Origin: ledger.Origin{FormName: "Bath"},
		Contact: ledger.Contact{FullName: "Jane Doe", Email: fmt.Sprintf("jane%d@example.com", p.n)},
	})
	require.NoError(p.t, err)
	return done.ID, p.token(done.ID, after)
}

func (p *plumber) token(lead ledger.ID, issued time.Duration) string {
	return admin.MarkToken(p.ws.Ring, p.ws.ID, p.ws.CRMs[0].ID, lead, p.start.Add(issued))
}

func (p *plumber) mark(after time.Duration, token string, choice ledger.Choice, amount string) *admin.Marked {
	p.t.Helper()
	a, _ := p.at(after)
	done, err := a.Mark(p.t.Context(), token, choice, amount)
	require.NoError(p.t, err)
	return done
}

// meta sends what is due to Meta, and returns the names of it.
func (p *plumber) meta(after time.Duration) []string {
	p.t.Helper()
	var names []string
	for {
		now := p.start.Add(after)
		p.at(after)
		b, lane, err := p.store.Claim(p.t.Context(), store.ClaimRequest{Destination: p.dataset, Node: "n", Batch: p.ids.Next(), Now: now, Lease: time.Minute, MaxRows: 100, MaxBytes: 1 << 20})
		require.NoError(p.t, err)
		if b == nil {
			return names
		}
		st := &ledger.Settlement{Batch: b, Outcome: "sent", Lane: lane}
		for _, r := range b.Rows {
			var e map[string]any
			require.NoError(p.t, json.Unmarshal(r.Payload, &e))
			p.sent, names = append(p.sent, e), append(names, r.Name)
			st.Changes = append(st.Changes, ledger.Change{Row: r, State: ledger.Sent})
		}
		require.NoError(p.t, p.store.Settle(p.t.Context(), st))
	}
}

func (p *plumber) balanced() *ledger.Book {
	p.t.Helper()
	book, err := p.store.Recount(p.t.Context(), p.ws.ID)
	require.NoError(p.t, err)
	return book
}

func TestAMonthOfAPlumber(t *testing.T) {
	t.Parallel()
	p := newPlumber(t, markRules...)
	var links []string
	for i := range 30 {
		_, token := p.lead(time.Duration(i) * time.Minute)
		links = append(links, token)
	}
	amounts := []string{"1.240,50", "2,000", "999.50", "2000", ""}
	const later = 3 * time.Hour
	for i, token := range links[:22] {
		choice := ledger.ChoiceGood
		if i >= 13 {
			choice = ledger.ChoiceBad
		}
		require.Equal(t, admin.MarkDone, p.mark(later, token, choice, "").Outcome)
	}
	for i, amount := range amounts { // the sold ones were good before
		require.Equal(t, admin.MarkDone, p.mark(later+time.Minute, links[i], ledger.ChoiceSold, amount).Outcome)
	}
	require.Len(t, p.meta(later+2*time.Minute), 30, "the leads only: the marks may still be taken back")
	require.Empty(t, p.meta(later+9*time.Minute+59*time.Second))
	p.meta(later + 12*time.Minute)
	count, sum := map[string]int{}, 0.0
	for _, e := range p.sent {
		count[e["event_name"].(string)]++
		custom, _ := e["custom_data"].(map[string]any)
		if value, ok := custom["value"].(float64); ok {
			sum += value
			require.Equal(t, "EUR", custom["currency"])
			require.Equal(t, "Purchase", e["event_name"])
		}
	}
	require.Equal(t, map[string]int{"Lead": 30, "QualifiedLead": 13, "Purchase": 5}, count)
	require.InDelta(t, 6240, sum, 0.001)
	p.balanced()
}

func TestALinkIsOfOneLeadForFourteenDays(t *testing.T) {
	t.Parallel()
	p := newPlumber(t, markRules...)
	lead, token := p.lead(0)
	a, _ := p.at(time.Hour)
	v, err := a.MarkView(t.Context(), token)
	require.NoError(t, err)
	require.Equal(t, "Bath", v.Form)
	require.Equal(t, "14:05", v.ReceivedAt.Format("15:04"), "in the workspace's time zone")
	require.NotContains(t, fmt.Sprintf("%+v", v), "ane", "a link may be forwarded: nobody is named")

	raw, err := base64.RawURLEncoding.DecodeString(token)
	require.NoError(t, err)
	for i := range raw {
		for _, bit := range []byte{1, 128} {
			forged := append([]byte(nil), raw...)
			forged[i] ^= bit
			_, err := a.MarkView(t.Context(), base64.RawURLEncoding.EncodeToString(forged))
			failed(t, err, admin.NotFound)
		}
	}
	crm := p.ws.CRMs[0].ID
	for name, wrong := range map[string]string{
		"nothing": "", "no base64": "ä", "cut": token[:len(token)-1], "longer": token + "A",
		"signed by another workspace": admin.MarkToken(p.other.Ring, p.ws.ID, crm, lead, p.start),
		"a lead of ours by another":   admin.MarkToken(p.other.Ring, p.other.ID, p.other.CRMs[0].ID, lead, p.start),
		"a CRM of another":            admin.MarkToken(p.ws.Ring, p.ws.ID, p.other.CRMs[0].ID, lead, p.start),
		"no such lead":                admin.MarkToken(p.ws.Ring, p.ws.ID, crm, lead+64, p.start),
		"a delivery":                  admin.MarkToken(p.ws.Ring, p.ws.ID, crm, lead+1, p.start),
	} {
		for _, choice := range ledger.Choices() {
			_, err := a.Mark(t.Context(), wrong, choice, "")
			require.Error(t, err, name)
			failed(t, err, admin.NotFound)
		}
	}
	_, err = a.Mark(t.Context(), token, "splendid", "")
	failed(t, err, admin.Invalid)
	a, _ = p.at(14*24*time.Hour - time.Second)
	_, err = a.MarkView(t.Context(), token)
	require.NoError(t, err)
	a, _ = p.at(14 * 24 * time.Hour)
	_, err = a.Mark(t.Context(), token, ledger.ChoiceGood, "")
	failed(t, err, admin.Gone)
	_, err = a.UndoMark(t.Context(), token, lead.String())
	failed(t, err, admin.Gone)
	_, err = a.MarkView(t.Context(), p.token(lead, 13*24*time.Hour))
	require.NoError(t, err, "a reminder's link is fresh")
}

func TestAMarkCountsOnce(t *testing.T) {
	t.Parallel()
	p := newPlumber(t, markRules...)
	lead, token := p.lead(0)
	byChat := admin.MarkToken(p.ws.Ring, p.ws.ID, p.ws.CRMs[1].ID, lead, p.start)
	require.Equal(t, admin.MarkDone, p.mark(time.Hour, token, ledger.ChoiceBad, "").Outcome)
	require.Equal(t, admin.MarkAlready, p.mark(time.Hour, token, ledger.ChoiceBad, "").Outcome)
	require.Equal(t, admin.MarkAlready, p.mark(time.Hour, byChat, ledger.ChoiceBad, "").Outcome, "by whichever message")
	require.Equal(t, admin.MarkDone, p.mark(2*time.Hour, byChat, ledger.ChoiceGood, "").Outcome, "minds change")
	p.mark(3*time.Hour, token, ledger.ChoiceSold, "€ 100")
	p.mark(3*time.Hour, token, ledger.ChoiceSold, "200")
	require.Equal(t, []string{"Lead"}, p.meta(time.Hour))
	require.ElementsMatch(t, []string{"QualifiedLead", "Purchase"}, p.meta(4*time.Hour), "Bad has no rule")
	moves, err := p.store.Moves(t.Context(), lead)
	require.NoError(t, err)
	require.Len(t, moves, 3)
	require.Equal(t, ledger.EffectNoRule, moves[0].Effect)
	p.balanced()
}

func TestWhoBuysWasGood(t *testing.T) {
	t.Parallel()
	p := newPlumber(t, append(markRules, ledger.Rule{Stage: "Bad", Event: "Bad"})...)
	_, sold := p.lead(0)
	_, bad := p.lead(0)
	p.mark(time.Hour, bad, ledger.ChoiceBad, "")
	p.mark(time.Hour, bad, ledger.ChoiceSold, "")
	done := p.mark(time.Hour, sold, ledger.ChoiceSold, "50")
	require.Len(t, done.Marks, 2)
	p.meta(0)
	require.ElementsMatch(t, []string{"QualifiedLead", "Purchase", "Purchase", "Bad"}, p.meta(2*time.Hour))

	// Both go back together.
	_, third := p.lead(3 * time.Hour)
	p.meta(3 * time.Hour)
	done = p.mark(3*time.Hour, third, ledger.ChoiceSold, "50")
	a, _ := p.at(3*time.Hour + time.Minute)
	back, err := a.UndoMark(t.Context(), third, done.Mark.ID)
	require.NoError(t, err)
	require.Empty(t, back.Marks)
	require.Empty(t, p.meta(9*time.Hour))
	p.balanced()
}

func TestSoldWaitsForGoodWhereTheRuleSaysSo(t *testing.T) {
	t.Parallel()
	rules := append([]ledger.Rule(nil), markRules...)
	rules[2].After = "QualifiedLead"
	p := newPlumber(t, rules...)
	_, token := p.lead(0)
	p.mark(time.Hour, token, ledger.ChoiceGood, "")
	require.Equal(t, []string{"Lead", "QualifiedLead"}, p.meta(2*time.Hour))
	p.mark(2*time.Hour, token, ledger.ChoiceSold, "10")
	require.Empty(t, p.meta(2*time.Hour+9*time.Minute), "its predecessor is sent, its ten minutes are not over")
	require.Equal(t, []string{"Purchase"}, p.meta(2*time.Hour+11*time.Minute))
	p.balanced()
}

func TestAMarkCanBeUndoneForTenMinutes(t *testing.T) {
	t.Parallel()
	p := newPlumber(t, markRules...)
	lead, token := p.lead(0)
	p.meta(0)
	first := p.mark(time.Hour, token, ledger.ChoiceGood, "")
	require.Equal(t, p.start.Add(time.Hour+10*time.Minute).Unix(), first.Mark.UndoUntil.Unix())
	p.restart()
	a, _ := p.at(time.Hour + 9*time.Minute)
	_, stranger := p.lead(time.Hour)
	p.meta(time.Hour)
	wrong, err := a.UndoMark(t.Context(), stranger, first.Mark.ID)
	require.NoError(t, err)
	require.Empty(t, wrong.Mark.ID, "a link is of one lead")
	for range 2 {
		back, err := a.UndoMark(t.Context(), token, first.Mark.ID)
		require.NoError(t, err)
		require.Equal(t, admin.MarkUndone, back.Outcome)
		require.Empty(t, back.Marks)
	}
	require.Empty(t, p.meta(3*time.Hour))
	events, err := p.store.LeadEvents(t.Context(), lead)
	require.NoError(t, err)
	require.Len(t, events, 1, "Lead only")

	// The same mark again goes out under the same event_id, and then it is too late.
	again := p.mark(4*time.Hour, token, ledger.ChoiceGood, "")
	require.Equal(t, admin.MarkDone, again.Outcome)
	require.Equal(t, []string{"QualifiedLead"}, p.meta(5*time.Hour))
	a, _ = p.at(5 * time.Hour)
	v, err := a.MarkView(t.Context(), token)
	require.NoError(t, err)
	require.Zero(t, v.Marks[0].UndoUntil)
	late, err := a.UndoMark(t.Context(), token, again.Mark.ID)
	require.NoError(t, err)
	require.Equal(t, admin.MarkTooLate, late.Outcome)
	require.Len(t, late.Marks, 1)
	_, err = a.UndoMark(t.Context(), token, "x")
	failed(t, err, admin.NotFound)
	book := p.balanced()
	require.NotNil(t, book)
	moves, err := p.store.Moves(t.Context(), lead)
	require.NoError(t, err)
	require.Equal(t, ledger.EffectUndone, moves[0].Effect, "what was said stays in the history")
}

func TestWhatIsUnderWayCannotBeUndone(t *testing.T) {
	t.Parallel()
	p := newPlumber(t, markRules...)
	_, token := p.lead(0)
	p.meta(0)
	done := p.mark(time.Hour, token, ledger.ChoiceGood, "")
	// Another node's clock is ahead: it has claimed the row, and its request is on its way.
	b, _, err := p.store.Claim(t.Context(), store.ClaimRequest{Destination: p.dataset, Node: "n", Batch: p.ids.Next(), Now: p.start.Add(2 * time.Hour), Lease: time.Minute, MaxRows: 100, MaxBytes: 1 << 20})
	require.NoError(t, err)
	require.Len(t, b.Rows, 1)
	a, _ := p.at(time.Hour)
	back, err := a.UndoMark(t.Context(), token, done.Mark.ID)
	require.NoError(t, err)
	require.Equal(t, admin.MarkTooLate, back.Outcome)
}

func TestAmountsAsPeopleTypeThem(t *testing.T) {
	t.Parallel()
	p := newPlumber(t, markRules...)
	for typed, want := range map[string]string{
		"": "", "  ": "", "1240": "1240", "1240,50": "1240.5", "1240.50": "1240.5", "1.240,50": "1240.5", "1,240.50": "1240.5", "1.240": "1240", "1,240": "1240",
		"1 240 000": "1240000", "1'240.00": "1240", "€ 99,9": "99.9", "99 EUR": "99", "0,50": "0.5", ".5": "0.5", "1.234.567,89": "1234567.89", "007": "7",
	} {
		_, token := p.lead(0)
		done := p.mark(time.Hour, token, ledger.ChoiceSold, typed)
		require.Equal(t, admin.MarkDone, done.Outcome, typed)
		require.Equal(t, want, done.Mark.Amount, typed)
	}
	_, token := p.lead(0)
	for _, typed := range []string{"0", "-5", "abc", "1,2,3", "1.23.45", "12,3456", "1e5", "5-10", "1.240.50", "9999999999999", "٣"} {
		done := p.mark(time.Hour, token, ledger.ChoiceSold, typed)
		require.Equal(t, admin.MarkBadMoney, done.Outcome, typed)
		require.Empty(t, done.Marks)
	}
	p.ws.Currency = "KWD"
	require.Equal(t, admin.MarkBadMoney, p.mark(time.Hour, token, ledger.ChoiceSold, "1.240").Outcome, "thousands, or three decimals")
	p.ws.Currency = ""
	done := p.mark(time.Hour, token, ledger.ChoiceSold, "500")
	require.Empty(t, done.Mark.Amount, "without a currency an amount says nothing")
}
