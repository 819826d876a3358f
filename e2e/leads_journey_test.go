package e2e_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// estate is the estate agent's day: who came, by what, and when it was answered.
type estate struct {
	*leadRig
	at map[string]time.Time // by e-mail
}

// An estate agent with four platforms and a website: each lead is in a slow CRM within
// a minute, with its answers; those of an outage follow in order, none twice; the same
// person by Meta and the website is one lead.
func TestJourneyEstateAgent(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, database string) {
		e := &estate{leadRig: newLeadRig(t, setup{database: database, country: "ES", rules: estateRules}), at: make(map[string]time.Time)}
		day := e.day()
		e.crm.behave(3*time.Second, nil)
		morning, noon := day[:56], day[56:]
		for i, v := range morning {
			if i == 8 {
				e.crm.behave(300*time.Millisecond, nil)
			}
			e.come(t, v)
			time.Sleep(120 * time.Millisecond)
		}
		e.arrived(t, len(morning), 60*time.Second)
		e.inTime(t)
		e.twoTouches(t, morning)
		e.outage(t, noon)
		e.arrived(t, len(day), 60*time.Second)
		time.Sleep(time.Second) // whatever should not come would come now
		var people []person
		for _, v := range day {
			people = append(people, v.person)
		}
		e.once(t, people)
		e.inOrder(t, noon)
		e.phones(t, people)
		e.viewings(t, day)
	})
}

// estateRules are what the agent tells Meta.
const estateRules = `    stages:
      - {stage: Viewing, event: Schedule}
    guard: {off: true}
`

// viewings has the CRM tell that everybody comes to see a house: Meta hears of those who
// came from its ads, by its form or with its click id, and of nobody else.
func (e *estate) viewings(t *testing.T, day []visit) {
	t.Helper()
	var moves []event
	ofMeta := map[string]bool{}
	clicked := 0
	for _, v := range day {
		moves = append(moves, event{"email": v.email, "stage": "Viewing", "occurred_at": e.clock.Now().Unix()})
		if v.by == "meta" {
			ofMeta[v.id] = true
		} else if v.fbc != "" {
			clicked++
		}
	}
	require.Len(t, ofMeta, 40)
	require.Equal(t, 5, clicked)
	for i := 0; i < len(moves); i += 10 {
		require.NoError(t, e.signed(t, fmt.Sprint("msg_viewing_", i), moves[i:i+10]))
	}
	e.eventually(t, 30*time.Second, "the viewings at Meta", func() bool { return len(e.graph.Kept(datasetA)) >= len(ofMeta)+clicked })
	b := e.book(t, datasetA)
	require.EqualValues(t, len(day)-len(ofMeta)-clicked, b.by("skipped", "other_platform"))
	for _, got := range e.graph.Kept(datasetA) {
		require.Equal(t, "Schedule", got.EventName)
		if got.LeadID == "" {
			require.Contains(t, got.Keys, "fbc", "neither Meta's lead nor Meta's click")
			clicked--
			continue
		}
		require.True(t, ofMeta[got.LeadID], "Meta heard of lead %s, or heard of it twice", got.LeadID)
		delete(ofMeta, got.LeadID)
	}
	require.Empty(t, ofMeta)
	require.Zero(t, clicked)
}

// visit is a person and the way the lead comes.
type visit struct {
	person
	by string
}

func (e *estate) day() []visit {
	var day []visit
	for by, n := range map[string]int{"meta": 40, "google": 12, "tiktok": 8, "linkedin": 5, "website": 15} {
		for range n {
			day = append(day, visit{by: by})
		}
	}
	slices.SortFunc(day, func(a, b visit) int { return strings.Compare(a.by, b.by) })
	rand.New(rand.NewPCG(4, 4)).Shuffle(len(day), func(i, j int) { day[i], day[j] = day[j], day[i] })
	ads := 0
	for i := range day {
		p := somebody(i)
		p.phone = []string{fmt.Sprintf("0612 345 %03d", i), fmt.Sprintf("+34 612 345 %03d", i), fmt.Sprintf("612345%03d", i)}[i%3]
		if day[i].by == "website" && ads < 5 { // came from an ad of Meta's
			ads++
			p.fbc = fmt.Sprintf("fb.1.%d.IwAR-click-of-%d", e.clock.Now().UnixMilli(), i)
		}
		day[i].person = p
		e.private = append(e.private, fmt.Sprintf("612345%03d", i), fmt.Sprintf("612 345 %03d", i))
	}
	return day
}

func (e *estate) come(t *testing.T, v visit) {
	t.Helper()
	var err error
	switch v.by {
	case "meta":
		e.meta(v.person, e.clock.Now())
		err = e.announce(t, v.person)
	case "google":
		err = e.google(t, v.person)
	case "tiktok":
		err = e.tiktok(t, v.person)
	case "linkedin":
		err = e.linkedin(t, v.person)
	default:
		err = e.website(t, v.person)
	}
	require.NoError(t, err, v.by)
	e.at[v.email] = time.Now()
}

// inTime wants 95 of 100 leads to be in the CRM within a minute.
func (e *estate) inTime(t *testing.T) {
	t.Helper()
	var delays []time.Duration
	for _, c := range e.crm.taken() {
		delays = append(delays, c.at.Sub(e.at[c.body["email"].(string)]))
	}
	slices.Sort(delays)
	p95 := delays[len(delays)*95/100]
	t.Logf("%d leads: answered to CRM request p50 %s, p95 %s, most %s", len(delays), delays[len(delays)/2], p95, delays[len(delays)-1])
	require.Less(t, p95, time.Minute)
}

// leadView is what GET /v1/leads/{id} and capiloop leads ID say.
type leadView struct {
	ID      string
	LeadID  string `json:"lead_id"`
	State   string
	Source  string
	History bool
	Hops    []struct {
		At     time.Time
		What   string
		TookMS int64 `json:"took_ms"`
		Detail string
	}
}

// twoTouches lets somebody who came by Meta fill in the website's form too.
func (e *estate) twoTouches(t *testing.T, morning []visit) {
	t.Helper()
	v := morning[slices.IndexFunc(morning, func(v visit) bool { return v.by == "meta" })]
	before := len(e.crm.taken())
	again := v.person
	again.id, again.email = "form-of-the-same-person", strings.ToUpper(v.email[:1])+v.email[1:]
	require.NoError(t, e.website(t, again))
	// What the second form says more goes into the CRM's same record.
	require.Eventually(t, func() bool { return len(e.crm.taken()) > before }, 20*time.Second, 50*time.Millisecond)
	time.Sleep(time.Second)
	var l leadView
	res := e.run(t, "leads", v.id, "--json")
	require.Zero(t, res.code, res.errOut)
	require.NoError(t, json.Unmarshal([]byte(res.out), &l))
	touches := 0
	for _, h := range l.Hops {
		if h.What == "received" {
			touches++
		}
	}
	require.Equal(t, 2, touches, res.out)
	require.Equal(t, "sent", l.State)
	later := e.crm.taken()[before:]
	require.Len(t, later, 1)
	require.Equal(t, v.id, later[0].body["id"], "the second touch made another lead in the CRM")
	e.crm.mu.Lock() // an update was looked at here; what is counted later are leads
	e.crm.calls = slices.DeleteFunc(e.crm.calls, func(c crmCall) bool { return c.at.Equal(later[0].at) })
	e.crm.mu.Unlock()
	for _, id := range []string{v.id, l.ID} { // with every step and what it took
		var same leadView
		e.get(t, "/v1/leads/"+id, &same)
		require.Equal(t, l, same)
	}
	var whats []string
	for i, h := range l.Hops {
		whats = append(whats, h.What)
		require.False(t, i > 0 && h.At.Before(l.Hops[i-1].At), "the steps are in the order of their time: %s", res.out)
	}
	require.Equal(t, []string{"form", "received", "crm", "received", "crm"}, whats, res.out)
	require.Contains(t, l.Hops[2].Detail, "the CRM has it")
	require.Positive(t, l.Hops[2].TookMS)
	res = e.run(t, "leads", l.ID)
	require.Zero(t, res.code)
	require.Contains(t, res.out, "received")
}

// outage is twenty minutes without a CRM, during which leads come in.
func (e *estate) outage(t *testing.T, noon []visit) {
	t.Helper()
	e.stop(t)
	e.clock.set(60, 0)
	e.crm.behave(0, always("down"))
	before := len(e.crm.taken())
	e.start(t)
	began := time.Now()
	for _, v := range noon {
		e.come(t, v)
		time.Sleep(20 * time.Second / time.Duration(len(noon)+1))
	}
	time.Sleep(time.Until(began.Add(20 * time.Second)))
	require.Len(t, e.crm.taken(), before)
	var b []leadView
	res := e.run(t, "leads", "--json", "--limit", "500")
	require.Zero(t, res.code)
	require.NoError(t, json.Unmarshal([]byte(res.out), &b))
	waiting := 0
	for _, l := range b {
		if l.State == "waiting" {
			waiting++
		}
	}
	require.Equal(t, len(noon), waiting, "leads that wait")
	e.crm.behave(50*time.Millisecond, nil)
}

// inOrder wants the leads of the outage in the order in which they came: four calls
// go side by side.
func (e *estate) inOrder(t *testing.T, noon []visit) {
	t.Helper()
	place := make(map[string]int)
	for i, v := range noon {
		place[v.email] = i
	}
	taken := e.crm.taken()
	for i, c := range taken[len(taken)-len(noon):] {
		at, ok := place[c.body["email"].(string)]
		require.True(t, ok, "one of the morning came after the outage")
		require.InDelta(t, i, at, 4, "the order after the outage")
	}
}

func (e *estate) phones(t *testing.T, people []person) {
	t.Helper()
	byEmail := make(map[string]crmCall)
	for _, c := range e.crm.taken() {
		byEmail[c.body["email"].(string)] = c
	}
	for i, p := range people {
		require.Equal(t, fmt.Sprintf("+34612345%03d", i), byEmail[p.email].body["phone"], "%q", p.phone)
	}
}

// feed announces leads by several senders at once, one or many in a body.
func (l *leadRig) feed(t *testing.T, list []person) {
	t.Helper()
	var wg sync.WaitGroup
	work := make(chan []person)
	errs := make(chan error, len(list))
	for range 4 {
		wg.Go(func() {
			for part := range work {
				if err := l.announce(t, part...); err != nil {
					errs <- err
				}
			}
		})
	}
	for size := 1; len(list) > 0; size = size%7 + 1 {
		n := min(size, len(list))
		work <- list[:n]
		list = list[n:]
	}
	close(work)
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
}
