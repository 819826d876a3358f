package e2e_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi/capitest"
)

// schoolRules are those of the driving school: New and Contacted are mapped to nothing.
const schoolRules = `    keys: [em, ph, external_id]
    stages:
      - {stage: received, event: Lead}
      - {stage: Qualified, event: QualifiedLead}
      - {stage: Contract, event: Purchase, value: deal}
`

// The driving school's week.
const (
	weekLeads     = 863
	weekQualified = 335
	weekContract  = 36
	weekValued    = 32 // contracts with an amount
	weekDragged   = 21 // leads that are moved back and forth
	weekTwice     = 9  // leads whose webhook comes twice
	weekSilent    = 5  // leads whose webhook never comes
	weekHistory   = 2410
	weekLong      = 157 * time.Hour // a little less than Meta's seven days
)

// school is the driving school "Avto-Start", whose manager moves cards in the CRM.
type school struct {
	*leadRig
	began time.Time // of the week: the connection lies just before
	hooks atomic.Int64
}

// A driving school's week: what the manager does with each lead reaches Meta, once, in
// Meta's own form, with the amount where there is one; what lay in the CRM before never
// does.
func TestJourneyDrivingSchoolWeek(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, database string) {
		s := &school{leadRig: newLeadRig(t, setup{
			database: database, rules: schoolRules, graph: capitest.Options{Rules: capitest.Rules{PurchaseValue: capitest.Warn}},
		})}
		s.began = s.clock.Now()
		s.history(t)
		s.stop(t)
		s.clock.set(1, weekLong)
		s.start(t)
		people := s.enquire(t)
		s.work(t, people)
		const events = weekLeads + weekQualified + weekContract
		s.eventually(t, 120*time.Second, "all events are with Meta", func() bool { return len(s.graph.Kept(datasetA)) >= events })
		time.Sleep(2 * time.Second) // whatever should not come would come now
		s.judge(t)
		s.funnel(t)
	})
}

// history imports what the CRM held before: leads, and where each of them stood.
func (s *school) history(t *testing.T) {
	t.Helper()
	var b strings.Builder
	b.WriteString("id,created_time,full_name,email,phone_number\n")
	for n := range weekHistory {
		p := s.old(n)
		fmt.Fprintf(&b, "l:%s,%s,%s,%s,p:%s\n", p.id, s.began.Add(-time.Duration(30+n%300)*24*time.Hour).UTC().Format(time.RFC3339), p.name, p.email, p.phone)
	}
	file := filepath.Join(s.home, "old.csv")
	require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o600))
	res := s.run(t, "import", file)
	require.Zero(t, res.code, res.errOut)
	var moves []event
	for n := range weekHistory / 3 {
		moves = append(moves, s.move(s.old(n), "Qualified", s.began.Add(-time.Duration(20*24+n%200)*time.Hour)))
	}
	s.tell(t, moves)
}

func (s *school) old(n int) person {
	p := somebody(900_000 + n)
	return p
}

// enquire lets the week's leads come in, at their times.
func (s *school) enquire(t *testing.T) []person {
	t.Helper()
	var people []person
	for n := range weekLeads {
		people = append(people, somebody(n))
	}
	told := people[:weekLeads-weekSilent]
	for n, p := range told {
		s.meta(p, s.enquired(n))
	}
	s.feed(t, told)
	for _, p := range told[:weekTwice] {
		require.NoError(t, s.announce(t, p))
	}
	s.arrived(t, len(told), 200*time.Second)
	for n := weekLeads - weekSilent; n < weekLeads; n++ {
		s.meta(people[n], s.enquired(n))
	}
	s.stop(t) // at the start the forms are swept
	s.start(t)
	s.arrived(t, weekLeads, 60*time.Second)
	s.server.Load().said(t, s.server.Load().errOut, `(swept=5)`)
	s.once(t, people)
	require.Len(t, s.crm.calls, weekLeads, "none was called twice")
	return people
}

// enquired is when a lead was made: all over the week, and those that nobody announces
// just before the next look at the forms.
func (s *school) enquired(n int) time.Time {
	if n >= weekLeads-weekSilent {
		return s.began.Add(weekLong - 5*time.Minute).Truncate(time.Second)
	}
	return s.began.Add(time.Hour + time.Duration(n)*150*time.Hour/weekLeads).Truncate(time.Second)
}

// work moves the cards, as the manager does within some hours of each enquiry.
func (s *school) work(t *testing.T, people []person) {
	t.Helper()
	var moves []event
	for n, p := range people {
		at := s.enquired(n)
		next := func(stage string) event { at = at.Add(7 * time.Minute); return s.move(p, stage, at) }
		moves = append(moves, next("New"))
		if n >= weekQualified {
			moves = append(moves, next("Lost"))
			continue
		}
		moves = append(moves, next("Contacted"), next("Qualified"))
		if n < weekDragged {
			for range 1 + n%4 {
				moves = append(moves, next("Contacted"), next("Qualified"))
			}
		}
		if n < weekContract {
			sold := next("Contract")
			if n < weekValued {
				sold["value"] = 185_000 + n
			}
			moves = append(moves, sold)
		}
	}
	s.tell(t, moves)
}

func (s *school) move(p person, stage string, at time.Time) event {
	return event{"lead_id": p.id, "platform": "meta", "stage": stage, "occurred_at": at.UTC().Format(time.RFC3339)}
}

// tell sends the CRM's hooks, some with several moves and some of them twice, by several
// senders at once.
func (s *school) tell(t *testing.T, moves []event) {
	t.Helper()
	work := make(chan []event)
	errs := make(chan error, len(moves))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for part := range work {
				if err := s.crmHook(t, part); err != nil {
					errs <- err
				}
			}
		})
	}
	for size := 1; len(moves) > 0; size = size%9 + 1 {
		n := min(size, len(moves))
		work <- moves[:n]
		if size == 5 {
			work <- moves[:n]
		}
		moves = moves[n:]
	}
	close(work)
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
}

// crmHook signs a hook by Standard Webhooks.
func (l *leadRig) signed(t *testing.T, id string, moves []event) error {
	body := encode(t, event{"data": moves})
	at := strconv.FormatInt(l.clock.Now().Unix(), 10)
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(crmSecret, "whsec_"))
	require.NoError(t, err)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + at + "."))
	mac.Write(body)
	return l.hook(crmHook, body, "webhook-id", id, "webhook-timestamp", at, "webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

func (s *school) crmHook(t *testing.T, moves []event) error {
	return s.signed(t, fmt.Sprint("msg_", s.hooks.Add(1)), moves)
}

// judge looks at what Meta has.
func (s *school) judge(t *testing.T) {
	t.Helper()
	kept := s.graph.Kept(datasetA)
	count, leads := map[string]int{}, map[string]bool{}
	valued := 0
	for _, e := range kept {
		count[e.EventName]++
		require.False(t, leads[e.EventName+e.LeadID], "%s of lead %s went twice", e.EventName, e.LeadID)
		leads[e.EventName+e.LeadID] = true
		require.Equal(t, "system_generated", e.ActionSource)
		require.Equal(t, capitest.ConversionLead, e.ConversionLead, "%s", e.Payload)
		require.NotContains(t, e.Keys, "fn")
		require.NotContains(t, e.Keys, "ln")
		require.Subset(t, []string{"em", "ph", "lead_id"}, e.Keys)
		n, err := strconv.Atoi(e.LeadID)
		require.NoError(t, err)
		n -= 1_700_000_000_000_000
		require.Less(t, n, weekLeads, "a lead of before the connection was reported")
		if e.EventName != "Purchase" {
			continue
		}
		if e.Value != "" {
			require.Equal(t, json.Number(strconv.Itoa(185_000+n)), e.Value)
			require.Equal(t, "KZT", e.Currency)
			valued++
		} else {
			require.Empty(t, e.Currency)
		}
	}
	require.Equal(t, map[string]int{"Lead": weekLeads, "QualifiedLead": weekQualified, "Purchase": weekContract}, count)
	require.Equal(t, weekValued, valued)
	require.Empty(t, s.graph.Twice())
	book := s.book(t, "")
	require.EqualValues(t, weekLeads+weekQualified+weekContract, book.Sent)
	require.Zero(t, book.Unexplained)
	require.Equal(t, book.Received, book.Sent)
	require.EqualValues(t, weekHistory/3, book.Beside.History)
	require.Positive(t, book.Beside.AlreadySent)
}

// funnel is what the school's owner sees of the week.
func (s *school) funnel(t *testing.T) {
	t.Helper()
	var f struct {
		Steps []struct {
			Event      string
			Count      int
			OfPrevious float64 `json:"of_previous"`
			OfFirst    float64 `json:"of_first"`
		}
	}
	day := func(t time.Time) string { return t.UTC().Format(time.DateOnly) }
	s.get(t, "/v1/funnel?from="+day(s.began.Add(-24*time.Hour))+"&to="+day(s.began.Add(9*24*time.Hour)), &f)
	require.Len(t, f.Steps, 3)
	for i, want := range []struct {
		event           string
		n               int
		previous, first float64
	}{{"Lead", 863, 1, 1}, {"QualifiedLead", 335, 0.388, 0.388}, {"Purchase", 36, 0.107, 0.042}} {
		require.Equal(t, want.event, f.Steps[i].Event)
		require.Equal(t, want.n, f.Steps[i].Count)
		if i == 0 {
			continue
		}
		require.InDelta(t, want.previous, f.Steps[i].OfPrevious, 0.0006)
		require.InDelta(t, want.first, f.Steps[i].OfFirst, 0.0006)
	}
	// And of one who signed: every step, and what Meta was told.
	var lead struct {
		Hops   []struct{ What, Detail string }
		Events []struct {
			EventName string `json:"event_name"`
			State     string
		}
	}
	s.get(t, "/v1/leads/"+somebody(0).id, &lead)
	var names, stages []string
	for _, e := range lead.Events {
		require.Equal(t, "sent", e.State)
		names = append(names, e.EventName)
	}
	require.ElementsMatch(t, []string{"Lead", "QualifiedLead", "Purchase"}, names)
	for _, h := range lead.Hops {
		if h.What == "stage" {
			stages = append(stages, h.Detail)
		}
	}
	require.Len(t, stages, 6, "New, Contacted, Qualified, back and forth, Contract: %v", lead.Hops)
	require.Contains(t, stages[0], "New")
	require.Contains(t, stages[5], "Contract")
}
