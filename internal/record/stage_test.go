package record_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/record"
	"github.com/capiloop/capiloop/internal/secret"
	"github.com/capiloop/capiloop/internal/store"
)

// newCRMDesk is a desk whose workspace has keys, one dataset, a CRM, and rules.
func newCRMDesk(t *testing.T, database func() string, rules ...ledger.Rule) *crmDesk {
	t.Helper()
	d := &crmDesk{desk: newDeskOn(t, database())}
	master, err := secret.LoadMaster(filepath.Join(t.TempDir(), "master.key"), os.LookupEnv)
	require.NoError(t, err)
	d.ws.Ring, _ = master.NewRing(d.ws.ID)
	d.ws.Datasets = d.ws.Datasets[:1]
	d.ws.Currency, d.ws.Rules, d.ws.Guard = "KZT", rules, ledger.DefaultGuard()
	applied, err := d.store.ApplyFile(t.Context(), []store.FileWorkspace{{
		Name: "shop", Destinations: []store.FileDestination{{Kind: "meta", Name: "1", Live: true}}, CRMs: []store.FileCRM{{Kind: "pipedrive", Name: "crm"}},
	}})
	require.NoError(t, err)
	d.crm = applied.CRMs["shop/crm"].ID
	d.store.UseOpener(func(_ int64, lead, delivery ledger.ID, wrapped, sealed []byte) ([]byte, error) {
		return d.ws.Ring.ReadCopy(int64(lead), int64(delivery), wrapped, sealed)
	})
	return d
}

type crmDesk struct {
	*desk
	crm int64
	n   int
}

var (
	onReceipt   = ledger.Rule{Stage: ledger.StageReceived, Event: "Lead"}
	onQualified = ledger.Rule{Stage: "Qualified", Event: "QualifiedLead"}
	onWon       = ledger.Rule{Stage: "Won", Event: "Purchase", Value: ledger.ValueDeal}
)

// lead takes a lead of Meta's in, an hour ago.
func (d *crmDesk) lead(t *testing.T, change func(l *ledger.Lead)) record.LeadResult {
	t.Helper()
	d.n++
	l := &ledger.Lead{
		Source: "forms", Kind: "meta_leads", Platform: "meta", LeadID: strconv.Itoa(1234567890123400 + d.n), CreatedAt: time.Now().Add(-time.Hour),
		Contact: ledger.Contact{FullName: "Jane Doe", Email: fmt.Sprintf("jane%d@example.com", d.n)},
	}
	if change != nil {
		change(l)
	}
	done, err := d.Lead(t.Context(), d.ws, l)
	require.NoError(t, err)
	return done
}

func (d *crmDesk) move(t *testing.T, c ledger.StageChange) record.StageResult {
	t.Helper()
	results, err := d.Stages(t.Context(), d.ws, "crm", "pipedrive", d.crm, []ledger.StageChange{c})
	require.NoError(t, err)
	return results[0]
}

func ago(d time.Duration) time.Time { return time.Now().Add(-d) }

// only returns the one delivery of the one event of a result.
func (d *crmDesk) only(t *testing.T, r record.StageResult) (*store.EventView, store.DeliveryView) {
	t.Helper()
	require.Equal(t, ledger.EffectEvent, r.Effect)
	require.Len(t, r.Events, 1)
	v, err := d.store.Event(t.Context(), d.ws.ID, r.Events[0])
	require.NoError(t, err)
	require.Len(t, v.Deliveries, 1)
	return v, v.Deliveries[0]
}

func TestAStageMakesMetasConversionLeadsEvent(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		d := newCRMDesk(t, database, onReceipt, onQualified, onWon)
		got := d.lead(t, func(l *ledger.Lead) { l.LeadID = "525645896321548" })
		at := ago(30 * time.Minute)
		v, delivery := d.only(t, d.move(t, ledger.StageChange{LeadID: "525645896321548", Stage: "7", StageLabel: "Won", Pipeline: "1", At: at, Amount: "185000", DealID: "9"}))
		require.Equal(t, ledger.Waiting, delivery.State)
		payload := string(delivery.Payload)
		for _, part := range []string{
			`"event_name":"Purchase"`, `"action_source":"system_generated"`, `"event_source":"crm"`, `"lead_event_source":"Pipedrive"`,
			`"lead_id":525645896321548`, `"value":185000`, `"currency":"KZT"`, fmt.Sprintf(`"event_time":%d`, at.Unix()), capi.HashText("jane1@example.com"),
		} {
			require.Contains(t, payload, part)
		}
		require.NotContains(t, payload, `"fn"`, "names never leave by themselves")
		require.NotContains(t, strings.ToLower(payload), "jane")
		require.Equal(t, "crm", v.Source)

		moves, err := d.store.Moves(t.Context(), got.ID)
		require.NoError(t, err)
		require.Len(t, moves, 1)
		events, err := d.store.LeadEvents(t.Context(), got.ID)
		require.NoError(t, err)
		require.Len(t, events, 2, "Lead at its receipt, and Purchase")
	})
}

// Case C208 of the public reports.
func TestEachEventGoesOncePerLead(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		d := newCRMDesk(t, database, onReceipt, onQualified)
		d.lead(t, nil)
		id := "1234567890123401"
		// Back and forth: the first entry counts, with its time.
		first := d.move(t, ledger.StageChange{LeadID: id, Stage: "Qualified", At: ago(20 * time.Minute)})
		require.Equal(t, ledger.EffectEvent, first.Effect)
		require.Equal(t, ledger.EffectNoRule, d.move(t, ledger.StageChange{LeadID: id, Stage: "New", At: ago(15 * time.Minute)}).Effect)
		at := ago(10 * time.Minute).Truncate(time.Second)
		again := d.move(t, ledger.StageChange{LeadID: id, Stage: "Qualified", At: at})
		require.Equal(t, ledger.EffectAlreadySent, again.Effect)
		require.Empty(t, again.Events)
		// The same hook again is no second move, nor is the same move by the look at the CRM.
		require.True(t, d.move(t, ledger.StageChange{LeadID: id, Stage: "Qualified", At: at}).Duplicate)
		require.True(t, d.move(t, ledger.StageChange{Key: "poll", LeadID: id, Stage: "Qualified", At: at.Add(999 * time.Millisecond)}).Duplicate)
		twice := ledger.StageChange{Key: "hook-1", LeadID: id, Stage: "Other", At: ago(time.Minute)}
		one, two := d.move(t, twice), d.move(t, twice)
		require.False(t, one.Duplicate)
		require.True(t, two.Duplicate)
		require.Equal(t, one.ID, two.ID)
		book, err := d.store.Book(t.Context(), store.BookQuery{Workspace: d.ws.ID})
		require.NoError(t, err)
		require.EqualValues(t, 2, book.Received, "Lead and QualifiedLead")
		require.EqualValues(t, 1, book.Beside[ledger.AlreadySent])
		require.Zero(t, book.Unexplained())
	})
}

// Case C212 of the public reports.
func TestLifecycleAndDealStageTogetherMakeOneEvent(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		d := newCRMDesk(t, database, onQualified, ledger.Rule{Field: "lifecyclestage", Is: "salesqualifiedlead", Event: "QualifiedLead"})
		d.lead(t, nil)
		id := "1234567890123401"
		require.Equal(t, ledger.EffectEvent, d.move(t, ledger.StageChange{LeadID: id, Field: "lifecyclestage", Stage: "salesqualifiedlead"}).Effect)
		require.Equal(t, ledger.EffectAlreadySent, d.move(t, ledger.StageChange{LeadID: id, Stage: "Qualified"}).Effect)
	})
}

// Case C213 of the public reports.
func TestStagesOutOfOrderAreAllSentWithTheirOwnTimes(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		d := newCRMDesk(t, database, onQualified, ledger.Rule{Stage: "Opportunity", Event: "Opportunity"})
		d.lead(t, nil)
		id := "1234567890123401"
		late, early := ago(10*time.Minute), ago(20*time.Minute)
		v, delivery := d.only(t, d.move(t, ledger.StageChange{LeadID: id, Stage: "Opportunity", At: late}))
		require.Equal(t, late.Unix(), v.Time.Unix())
		require.Equal(t, ledger.Waiting, delivery.State)
		v, delivery = d.only(t, d.move(t, ledger.StageChange{LeadID: id, Stage: "Qualified", At: early}))
		require.Equal(t, early.Unix(), v.Time.Unix())
		require.Equal(t, ledger.Waiting, delivery.State)
		// The history stands in the CRM's own order.
		lead, err := d.store.FindLead(t.Context(), d.ws.ID, d.ws.Ring.Index("lead/meta", id))
		require.NoError(t, err)
		moves, err := d.store.Moves(t.Context(), lead)
		require.NoError(t, err)
		require.Equal(t, "Qualified", moves[0].Stage)
	})
}

// Case C210 of the public reports.
func TestARenamedStageKeepsItsRule(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		d := newCRMDesk(t, database, onQualified)
		d.lead(t, nil)
		d.lead(t, nil)
		now := time.Now()
		mapped := func(st ledger.Stage) bool { return st.ID == "42" }
		require.NoError(t, d.store.SaveStages(t.Context(), d.ws.ID, "crm", []ledger.Stage{{Pipeline: "1", ID: "42", Label: "Qualified"}, {Pipeline: "1", ID: "43", Label: "Won"}}, now, mapped))
		require.Equal(t, ledger.EffectEvent, d.move(t, ledger.StageChange{LeadID: "1234567890123401", Pipeline: "1", Stage: "42"}).Effect)

		require.NoError(t, d.store.SaveStages(t.Context(), d.ws.ID, "crm", []ledger.Stage{{Pipeline: "1", ID: "42", Label: "SQL"}}, now.Add(time.Hour), mapped))
		require.Equal(t, ledger.EffectEvent, d.move(t, ledger.StageChange{LeadID: "1234567890123402", Pipeline: "1", Stage: "42"}).Effect)
		require.Equal(t, ledger.EffectAlreadySent, d.move(t, ledger.StageChange{LeadID: "1234567890123401", Pipeline: "1", Stage: "42", At: ago(time.Minute)}).Effect, "a new name sends nothing again")

		findings, err := d.store.Findings(t.Context(), d.ws.ID)
		require.NoError(t, err)
		require.Len(t, findings, 1)
		require.Equal(t, ledger.FindingMapping, findings[0].Kind)
		require.Contains(t, findings[0].Explain().Cause, "Qualified is called SQL")
		stages, err := d.store.Stages(t.Context(), d.ws.ID)
		require.NoError(t, err)
		require.Equal(t, []string{"Qualified"}, stages[0].Labels)
		require.False(t, stages[1].GoneAt.IsZero(), "Won was deleted")

		require.NoError(t, d.store.SaveStages(t.Context(), d.ws.ID, "crm", nil, now.Add(2*time.Hour), mapped))
		findings, err = d.store.Findings(t.Context(), d.ws.ID)
		require.NoError(t, err)
		require.Contains(t, findings[0].Explain().Title, "was deleted")
	})
}

// Case C215 of the public reports.
func TestALeadWithoutAnIDGoesByItsEmail(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		d := newCRMDesk(t, database, onQualified)
		got := d.move(t, ledger.StageChange{Stage: "Qualified", Contact: ledger.Contact{Email: "jane@example.com"}})
		require.True(t, got.NewLead)
		_, delivery := d.only(t, got)
		require.Equal(t, ledger.Waiting, delivery.State)
		require.Contains(t, string(delivery.Payload), "8c87b489ce35cf2e2f39f80e282cb2e804932a56a213983eeeb428407d43b52d")
		require.NotContains(t, string(delivery.Payload), "lead_event_source", "the CRM's fields belong to Meta's leads only")

		_, delivery = d.only(t, d.move(t, ledger.StageChange{Stage: "Qualified", Records: []string{"deal:5"}}))
		require.Equal(t, ledger.NoMatchKey, delivery.Reason)
		require.Equal(t, ledger.Failed, delivery.State)

		// The next stage finds the same lead, by the e-mail in any spelling or by the record.
		same := d.move(t, ledger.StageChange{Stage: "Won", Contact: ledger.Contact{Email: " Jane@Example.com"}, Records: []string{"deal:6"}})
		require.Equal(t, got.Lead, same.Lead)
		require.Equal(t, got.Lead, d.move(t, ledger.StageChange{Stage: "Lost", Records: []string{"deal:6"}}).Lead)
	})
}

// Case C217 of the public reports.
func TestMergedContactsFireOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		d := newCRMDesk(t, database, onQualified, onWon)
		d.lead(t, nil)
		d.lead(t, func(l *ledger.Lead) { l.Consent = ledger.ConsentGranted })
		one, two := "1234567890123401", "1234567890123402"
		first := d.move(t, ledger.StageChange{LeadID: one, Stage: "New", Records: []string{"contact:1"}})
		second := d.move(t, ledger.StageChange{LeadID: two, Stage: "New", Records: []string{"deal:9", "contact:2"}})
		require.NoError(t, d.Merge(t.Context(), d.ws, d.crm, ledger.Merge{Kept: "contact:1", Merged: []string{"contact:2"}}))

		won := d.move(t, ledger.StageChange{Stage: "Won", Records: []string{"deal:9", "contact:1"}, DealID: "9"})
		require.Equal(t, second.Lead, won.Lead)
		_, delivery := d.only(t, won)
		require.Contains(t, string(delivery.Payload), `"lead_id":`+two, "the lead id tied to the deal")
		require.Equal(t, ledger.EffectAlreadySent, d.move(t, ledger.StageChange{LeadID: one, Stage: "Won"}).Effect)
		require.Equal(t, ledger.EffectAlreadySent, d.move(t, ledger.StageChange{LeadID: two, Stage: "Won", Key: "again"}).Effect)
		require.NotEqual(t, first.Lead, second.Lead)
	})
}

func TestWithdrawnConsentWinsInAMerge(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		d := newCRMDesk(t, database, onQualified)
		d.lead(t, func(l *ledger.Lead) { l.Consent = ledger.ConsentGranted })
		d.lead(t, func(l *ledger.Lead) { l.Consent = ledger.ConsentDenied })
		d.move(t, ledger.StageChange{LeadID: "1234567890123401", Stage: "New", Records: []string{"contact:1"}})
		d.move(t, ledger.StageChange{LeadID: "1234567890123402", Stage: "New", Records: []string{"contact:2"}})
		require.NoError(t, d.Merge(t.Context(), d.ws, d.crm, ledger.Merge{Kept: "contact:1", Merged: []string{"contact:2"}}))
		_, delivery := d.only(t, d.move(t, ledger.StageChange{LeadID: "1234567890123401", Stage: "Qualified"}))
		require.Equal(t, ledger.NoConsent, delivery.Reason)
	})
}

// Case C218 of the public reports.
func TestEventIDsAreTheSameInEachRun(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		ids := map[string]bool{}
		for range 2 {
			d := newCRMDesk(t, database, onQualified)
			d.lead(t, nil)
			v, _ := d.only(t, d.move(t, ledger.StageChange{LeadID: "1234567890123401", Stage: "Qualified"}))
			ids[v.EventID] = true
		}
		require.Len(t, ids, 1)
	})
}

// Case C219 of the public reports.
func TestAStageBeforeItsLead(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		created := ago(time.Hour).Truncate(time.Second)
		for _, c := range []struct {
			name string
			at   time.Time
			want time.Time
			why  ledger.Reason
		}{
			{"nine minutes before: two clocks", created.Add(-9 * time.Minute), created.Add(time.Second), ledger.None},
			{"an hour before: a wrong zone", created.Add(-time.Hour), created.Add(-time.Hour), ledger.InvalidTime},
			{"at the same second", created, created, ledger.None},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				d := newCRMDesk(t, database, onQualified)
				d.lead(t, func(l *ledger.Lead) { l.CreatedAt = created })
				v, delivery := d.only(t, d.move(t, ledger.StageChange{LeadID: "1234567890123401", Stage: "Qualified", At: c.at}))
				require.Equal(t, c.want.Unix(), v.Time.Unix())
				if c.why != ledger.None {
					require.Equal(t, ledger.Failed, delivery.State)
					require.Equal(t, c.why, delivery.Reason)
					return
				}
				require.Equal(t, ledger.Waiting, delivery.State)
			})
		}
	})
}

func TestStagesTooLateAheadOrOutsideOfTheWindow(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		for _, c := range []struct {
			name    string
			created time.Duration
			at      time.Duration
			state   ledger.State
			why     ledger.Reason
			note    string
		}{
			{"told of eight days after", 20 * 24 * time.Hour, 8 * 24 * time.Hour, ledger.Failed, ledger.Expired, ""},
			{"a minute ahead of us at most", time.Hour, -30 * time.Second, ledger.Waiting, ledger.Queued, record.ProblemTimeClamped},
			{"eleven minutes ahead of us", time.Hour, -11 * time.Minute, ledger.Held, ledger.ClockAhead, record.ProblemTimeAhead},
			{"30 days after the lead", 30 * 24 * time.Hour, time.Hour, ledger.Waiting, ledger.Queued, record.ProblemOutsideWindow},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				d := newCRMDesk(t, database, onQualified)
				d.lead(t, func(l *ledger.Lead) { l.CreatedAt = ago(c.created) })
				_, delivery := d.only(t, d.move(t, ledger.StageChange{LeadID: "1234567890123401", Stage: "Qualified", At: ago(c.at)}))
				require.Equal(t, c.state, delivery.State)
				require.Equal(t, c.why, delivery.Reason)
				if c.note != "" {
					require.Contains(t, codes(delivery.Notes), c.note)
				}
			})
		}
	})
}

func TestHistoryMarksMomentsNotPeople(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		d := newCRMDesk(t, database, onReceipt, onQualified, ledger.Rule{Stage: "Won", Event: "Purchase", Value: ledger.ValueDeal, Skipped: true})
		d.lead(t, func(l *ledger.Lead) { l.History, l.CreatedAt = true, ago(60*24*time.Hour) })
		id := "1234567890123401"
		require.Equal(t, ledger.EffectHistory, d.move(t, ledger.StageChange{LeadID: id, Stage: "Contacted", At: ago(50 * 24 * time.Hour)}).Effect)
		require.Equal(t, ledger.EffectHistory, d.move(t, ledger.StageChange{LeadID: id, Stage: "Qualified", At: ago(time.Hour), History: true}).Effect)
		require.Equal(t, ledger.EffectAlreadySent, d.move(t, ledger.StageChange{LeadID: id, Stage: "Qualified", At: time.Now().Add(time.Second)}).Effect)
		v, _ := d.only(t, d.move(t, ledger.StageChange{LeadID: id, Stage: "Won", At: time.Now().Add(time.Second)}))
		require.Equal(t, "Purchase", v.Name)
		book, err := d.store.Book(t.Context(), store.BookQuery{Workspace: d.ws.ID})
		require.NoError(t, err)
		require.EqualValues(t, 1, book.Received)
		require.EqualValues(t, 2, book.Beside[ledger.History])
	})
}

func TestWhatALeadHasJumpedOver(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		d := newCRMDesk(t, database,
			ledger.Rule{Stage: "Contacted", Event: "Contact"}, onQualified, ledger.Rule{Stage: "Lost", Event: "BadLead"},
			ledger.Rule{Stage: "Won", Event: "Purchase", Value: ledger.ValueDeal, Skipped: true},
		)
		d.lead(t, nil)
		require.NoError(t, d.store.SaveStages(t.Context(), d.ws.ID, "crm", []ledger.Stage{
			{Pipeline: "1", ID: "1", Label: "New"},
			{Pipeline: "1", ID: "2", Label: "Contacted"},
			{Pipeline: "1", ID: "3", Label: "Qualified"},
			{Pipeline: "1", ID: "4", Label: "Lost", Meaning: ledger.MeaningLost},
			{Pipeline: "1", ID: "5", Label: "Won", Meaning: ledger.MeaningWon},
		}, time.Now(), func(ledger.Stage) bool { return false }))
		got := d.move(t, ledger.StageChange{LeadID: "1234567890123401", Pipeline: "1", Stage: "5", Amount: "10"})
		var names []string
		for _, id := range got.Events {
			v, err := d.store.Event(t.Context(), d.ws.ID, id)
			require.NoError(t, err)
			names = append(names, v.Name)
		}
		require.Equal(t, []string{"Contact", "QualifiedLead", "Purchase"}, names)
	})
}

func TestARuleThatCountsAgainPerDeal(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		d := newCRMDesk(t, database, ledger.Rule{Stage: "Won", Event: "Purchase", Value: ledger.ValueDeal, Again: true})
		d.lead(t, nil)
		id := "1234567890123401"
		first, _ := d.only(t, d.move(t, ledger.StageChange{LeadID: id, Stage: "Won", DealID: "1", Amount: "10"}))
		require.Equal(t, ledger.EffectAlreadySent, d.move(t, ledger.StageChange{LeadID: id, Stage: "Won", DealID: "1", Amount: "10", At: ago(time.Minute)}).Effect)
		second, _ := d.only(t, d.move(t, ledger.StageChange{LeadID: id, Stage: "Won", DealID: "2", Amount: "10"}))
		require.NotEqual(t, first.EventID, second.EventID)
	})
}

func TestWhomMetaHearsOf(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		for _, c := range []struct {
			name  string
			lead  ledger.Lead
			route bool
			goes  bool
		}{
			{"a lead of Meta's", ledger.Lead{Kind: "meta_leads", Platform: "meta", LeadID: "1234567890123456"}, false, true},
			{"one of Google's", ledger.Lead{Kind: "google_leads", Platform: "google", LeadID: "g1"}, false, false},
			{"one of Google's, on request", ledger.Lead{Kind: "google_leads", Platform: "google", LeadID: "g1"}, true, true},
			{"by the website with fbc", ledger.Lead{Kind: "website", Clicks: ledger.Clicks{FBC: "fb.1.1795000000000.IwAR2"}}, false, true},
			{"by the website without", ledger.Lead{Kind: "website"}, false, false},
			{"by a caller", ledger.Lead{Kind: "api"}, false, true},
			{"by a caller with a gclid", ledger.Lead{Kind: "api", Clicks: ledger.Clicks{GClid: "x"}}, false, false},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				d := newCRMDesk(t, database, ledger.Rule{Stage: "Qualified", Event: "QualifiedLead", RouteAll: c.route})
				l := c.lead
				l.Source, l.CreatedAt, l.Contact = "s", ago(time.Hour), ledger.Contact{Email: "jane@example.com"}
				_, err := d.Lead(t.Context(), d.ws, &l)
				require.NoError(t, err)
				_, delivery := d.only(t, d.move(t, ledger.StageChange{Contact: ledger.Contact{Email: "jane@example.com"}, Stage: "Qualified"}))
				if c.goes {
					require.Equal(t, ledger.Waiting, delivery.State)
				} else {
					require.Equal(t, ledger.OtherPlatform, delivery.Reason)
				}
			})
		}
	})
}

func TestASecondTouchByMetaLetsTheLeadGo(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		d := newCRMDesk(t, database, onReceipt, onQualified)
		d.ws.MergeWindow = time.Hour
		d.lead(t, func(l *ledger.Lead) {
			l.Source, l.Kind, l.Platform, l.LeadID, l.Contact.Email = "site", "website", "", "", "ana@example.com"
		})
		merged := d.lead(t, func(l *ledger.Lead) { l.LeadID, l.Contact.Email = "1234567890123456", "ana@example.com" })
		require.True(t, merged.Merged)
		events, err := d.store.LeadEvents(t.Context(), merged.ID)
		require.NoError(t, err)
		require.Len(t, events, 1)
		v, err := d.store.Event(t.Context(), d.ws.ID, events[0])
		require.NoError(t, err)
		require.Equal(t, ledger.Waiting, v.Deliveries[0].State)
		require.Contains(t, string(v.Deliveries[0].Payload), `"lead_id":1234567890123456`)
		d.only(t, d.move(t, ledger.StageChange{LeadID: "1234567890123456", Stage: "Qualified"}))
	})
}

func TestConditionsAndFields(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		d := newCRMDesk(t, database, ledger.Rule{Stage: "Won", Event: "Purchase", IfField: "product", IfIs: "B"})
		require.Equal(t, ledger.EffectCondition, d.move(t, ledger.StageChange{Stage: "Won", Fields: map[string]string{"product": "A"}, Contact: ledger.Contact{Email: "a@example.com"}}).Effect)
		require.Equal(t, ledger.EffectEvent, d.move(t, ledger.StageChange{Stage: "won", Fields: map[string]string{"Product": "b"}, Contact: ledger.Contact{Email: "a@example.com"}}).Effect)
	})
}

// Case C176: the same person fills the form in twice.
func TestTwoIDsOfOnePlatformAreTwoLeads(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		d := newCRMDesk(t, database, onReceipt)
		d.ws.MergeWindow = time.Hour
		same := func(l *ledger.Lead) { l.Contact.Email = "jane@example.com" }
		one, two := d.lead(t, same), d.lead(t, same)
		require.NotEqual(t, one.ID, two.ID)
		require.False(t, two.Merged)
		book, err := d.store.Book(t.Context(), store.BookQuery{Workspace: d.ws.ID})
		require.NoError(t, err)
		require.EqualValues(t, 2, book.Received, "two Lead events")
	})
}

// Case C160: the second workspace that hears of a lead loses nothing.
func TestTwoWorkspacesEachKeepALeadOfTheSameID(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		d := newCRMDesk(t, database, onReceipt)
		first := d.lead(t, nil)
		applied, err := d.store.ApplyFile(t.Context(), []store.FileWorkspace{
			{Name: "shop", Destinations: []store.FileDestination{{Kind: "meta", Name: "1", Live: true}}},
			{Name: "other"},
		})
		require.NoError(t, err)
		master, err := secret.LoadMaster(filepath.Join(t.TempDir(), "master.key"), os.LookupEnv)
		require.NoError(t, err)
		d.ws.ID = applied.Workspaces["other"]
		d.ws.Ring, _ = master.NewRing(d.ws.ID)
		d.n = 0
		second := d.lead(t, nil)
		require.False(t, second.Duplicate)
		require.NotEqual(t, first.ID, second.ID)
	})
}

func TestATestLeadIsNeverAnEvent(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		d := newCRMDesk(t, database, onReceipt, onQualified)
		d.lead(t, func(l *ledger.Lead) { l.Test = true })
		require.Equal(t, ledger.EffectTest, d.move(t, ledger.StageChange{LeadID: "1234567890123401", Stage: "Qualified"}).Effect)
		book, err := d.store.Book(t.Context(), store.BookQuery{Workspace: d.ws.ID})
		require.NoError(t, err)
		require.Zero(t, book.Received)
	})
}

func TestAnErasedLeadIsNeverReportedAgain(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		d := newCRMDesk(t, database, onReceipt, onQualified)
		got := d.lead(t, nil)
		require.NoError(t, d.store.EraseLead(t.Context(), d.ws.ID, got.ID, time.Now()))
		events, err := d.store.LeadEvents(t.Context(), got.ID)
		require.NoError(t, err)
		v, err := d.store.Event(t.Context(), d.ws.ID, events[0])
		require.NoError(t, err)
		require.Equal(t, ledger.Cleared, v.Deliveries[0].Reason)
		require.Empty(t, v.Deliveries[0].Payload)
		_, delivery := d.only(t, d.move(t, ledger.StageChange{LeadID: "1234567890123401", Stage: "Qualified"}))
		require.Equal(t, ledger.NoConsent, delivery.Reason)
	})
}

func TestAPurchaseOfTheCRMWithoutAnAmountGoesWithoutValue(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		d := newCRMDesk(t, database, onWon)
		d.lead(t, nil)
		_, delivery := d.only(t, d.move(t, ledger.StageChange{LeadID: "1234567890123401", Stage: "Won"}))
		require.Equal(t, ledger.Waiting, delivery.State)
		require.NotContains(t, string(delivery.Payload), `"value"`)
		require.NotContains(t, string(delivery.Payload), `"currency"`)
	})
}
