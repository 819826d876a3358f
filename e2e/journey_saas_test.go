package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi/capitest"
)

// A week of "Ledgerly", a business with a free trial.
const (
	signUps      = 110
	signUpsBlock = 10 // visitors with a blocker: the server alone knows of them
	signUpsOld   = 20 // by an old form that never calls the server
	saasMQL      = 34
	saasSQL      = 11
	saasDays     = 7 // of a week; what comes of a sign-up comes within nine days
	saasOrigin   = "https://ledgerly.example.com"
	saasRules    = `    stages:
      - {stage: MQL, event: QualifiedLead}
      - {stage: SQL, event: SalesQualified}
      - {stage: Won, event: Purchase, value: deal}
trusted_proxies: [127.0.0.1]
`
)

// saasLines has the site and the CRM, which tells of moves by a signed webhook and knows
// people by their address alone, as HubSpot's do.
func saasLines(crm *fakeCRM) string {
	return `    sources:
      - {kind: website, name: app, site: ledgerly, origins: [` + saasOrigin + `]}
    crms:
      - {kind: webhook, name: hubspot, url: "` + crm.url + `/leads", secret: "` + crmSecret + `", allow_private: true, webhook: ` + crmHook + `}
` + saasRules
}

// won are the three deals of a week, in USD: one of them begins with a free year.
var won = []int{4800, 12000, 0}

// saas is Ledgerly: its form calls the Pixel, its server calls Capiloop, its CRM tells of
// stages.
type saas struct {
	*leadRig
	oneID bool       // the form's id is given to both sides
	moves []saasMove // that the CRM has not told yet
	told  []string   // those that it has: stage and time
	hooks int
}

type saasMove struct {
	at    time.Time
	mail  string
	stage string
	value *int
}

// signUp is one who signs up.
type signUp struct {
	n            int
	week         int
	at           time.Time
	blocks, olds bool
}

func (v signUp) mail() string    { return fmt.Sprintf("signup%d-%d%s", v.week, v.n, rawDomain) }
func (v signUp) address() string { return fmt.Sprintf("2a00:%x:%x::1", v.week+1, v.n+1) }

// The classic dedup bug: the Pixel calls a sign-up by the time, the server by its row.
// Capiloop finds it by itself on the first day, says what it costs, and sees the repair;
// and what becomes of the sign-ups reaches Meta with the time at which it happened.
func TestJourneySaaSDedup(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, database string) {
		crm := newFakeCRM(t)
		s := &saas{leadRig: &leadRig{rig: newRig(t, setup{database: database, country: "US", lines: saasLines(crm), private: []string{crmSecret}, graph: capitest.Options{StrictSource: true}}), crm: crm}}
		s.week(t, 1)
		require.Equal(t, 190, s.metaHas("CompleteRegistration"), "100 of the browser and 90 of the server, none of which pairs")
		s.before(t)

		s.oneID = true
		s.jump(t, 48*time.Hour)
		s.week(t, 2)
		require.Equal(t, 190+110, s.metaHas("CompleteRegistration"))
		s.after(t)
		s.stages(t)
	})
}

// jump lets time pass, and the CRM tell of what happened meanwhile, on its day.
func (s *saas) jump(t *testing.T, by time.Duration) {
	t.Helper()
	s.drained(t, 30*time.Second)
	s.stop(t)
	s.clock.set(1, by)
	s.start(t)
	var rest []saasMove
	var due []event
	for _, m := range s.moves {
		if m.at.After(s.clock.Now()) {
			rest = append(rest, m)
			continue
		}
		s.told = append(s.told, fmt.Sprint(m.stage, " ", m.at.Unix()))
		e := event{"email": m.mail, "stage": m.stage, "occurred_at": m.at.UTC().Format(time.RFC3339)}
		if m.value != nil {
			e["value"], e["currency"] = *m.value, "USD"
		}
		due = append(due, e)
	}
	s.moves = rest
	if len(due) > 0 {
		s.tells(t, due...)
	}
}

// tells is the CRM's webhook.
func (s *saas) tells(t *testing.T, moves ...event) {
	t.Helper()
	s.hooks++
	require.NoError(t, s.signed(t, fmt.Sprint("msg_", s.hooks), moves))
}

// week lets a week's visitors sign up, a day's at its end.
func (s *saas) week(t *testing.T, week int) {
	t.Helper()
	for day := range saasDays {
		for n := day; n < signUps; n += saasDays {
			at := s.clock.Now().Add(-time.Duration(n+1) * 10 * time.Minute).Truncate(time.Minute)
			v := signUp{n: n, week: week, at: at, blocks: n < signUpsBlock, olds: n >= signUps-signUpsOld}
			s.signsUp(t, v)
			s.sells(v)
		}
		if day < saasDays-1 {
			s.jump(t, 24*time.Hour)
		}
	}
	s.drained(t, 30*time.Second)
}

// signsUp is one visitor's: the Pixel at Meta, the tag that sees it, and the server.
func (s *saas) signsUp(t *testing.T, v signUp) {
	t.Helper()
	stamp := strconv.FormatInt(v.at.UnixMilli()-1, 10)
	id, page := strconv.Itoa(4000+1000*v.week+v.n), saasOrigin+"/signup"
	if s.oneID {
		id = stamp
	}
	if v.olds {
		page += "-old"
	}
	if !v.blocks {
		s.graph.Pixel(capitest.PixelEvent{Dataset: datasetA, EventName: "CompleteRegistration", EventID: stamp, URL: page})
	}
	now := s.clock.Now().UnixMilli()
	body, err := json.Marshal(event{"v": 1, "site": "ledgerly", "sent": now, "consent": event{"ads": "granted", "by": "site"}, "events": []event{}, "sightings": []event{{
		"n": fmt.Sprintf("n-%d-%d", v.week, v.n), "pixel": datasetA, "event_name": "CompleteRegistration", "event_id": stamp,
		"at": v.at.UnixMilli(), "url": page + "?mail=" + v.mail(), "own": false, "blocked": v.blocks,
	}}})
	require.NoError(t, err)
	status, answer := s.request(t, http.MethodPost, "/t", body, "Content-Type", "text/plain;charset=UTF-8", "Origin", saasOrigin, "User-Agent", shopAgent, "X-Forwarded-For", v.address())
	require.Equal(t, http.StatusNoContent, status, "%s", answer)
	if v.olds {
		return
	}
	s.send(t, event{
		"event_name": "CompleteRegistration", "event_id": id, "event_time": v.at.Unix() + 2, "action_source": "website", "event_source_url": page,
		"user_data": event{"em": v.mail(), "client_ip_address": v.address(), "client_user_agent": shopAgent},
	})
}

// sells says what becomes of a sign-up, two to nine days later.
func (s *saas) sells(v signUp) {
	n := v.n - signUpsBlock
	if v.week != 1 || n < 0 {
		return
	}
	later := func(stage string, by time.Duration, value *int) {
		s.moves = append(s.moves, saasMove{v.at.Add(by), v.mail(), stage, value})
	}
	const day = 24 * time.Hour
	if n < saasMQL {
		later("MQL", 2*day+time.Duration(n)*time.Hour, nil)
	}
	if n < saasSQL {
		later("SQL", 4*day+time.Duration(n)*time.Hour, nil)
	}
	if n < len(won) {
		later("Won", time.Duration(7+n)*day, &won[n])
	}
}

// metaHas is how many events of a name Meta counts.
func (s *saas) metaHas(name string) (n int) {
	for _, e := range s.graph.Kept(datasetA) {
		if e.EventName == name {
			n++
		}
	}
	return n
}

// dedupRow is what GET /v1/dedup says of the sign-ups.
type dedupRow struct {
	Event                                      string
	Browser, Server, Blocked, Paired, Unpaired int
	Now                                        int
	BrowserOnly                                int `json:"browser_only"`
	ServerOnly                                 int `json:"server_only"`
	AfterRepair                                int `json:"after_repair"`
	Causes                                     []struct{ Cause, Browser, Server string }
	Sentences                                  []string
}

func (s *saas) dedup(t *testing.T) dedupRow {
	t.Helper()
	var d struct{ Rows []dedupRow }
	s.get(t, "/v1/dedup?event=CompleteRegistration", &d)
	require.Len(t, d.Rows, 1)
	return d.Rows[0]
}

const oldForm = "20 browser sign-ups had no server event: form /signup-old"

// looked starts the server anew, for at the start it looks for findings, and waits until
// these are open.
func (s *saas) looked(t *testing.T, want func(ids, missing []finding) bool) {
	t.Helper()
	s.stop(t)
	s.start(t)
	s.eventually(t, 10*time.Second, "the findings are right", func() bool {
		return want(s.findings(t, "dedup_ids", "open"), s.findings(t, "dedup_missing", "open"))
	})
}

func (s *saas) before(t *testing.T) {
	t.Helper()
	r := s.dedup(t)
	require.Equal(t, []int{100, 90, 10, 0, 80, 20, 10, 190, 110}, []int{r.Browser, r.Server, r.Blocked, r.Paired, r.Unpaired, r.BrowserOnly, r.ServerOnly, r.Now, r.AfterRepair})
	require.Equal(t, "id_scheme", r.Causes[0].Cause)
	require.Equal(t, []string{"13-digit time", "integer"}, []string{r.Causes[0].Browser, r.Causes[0].Server})
	out := s.run(t, "dedup")
	require.Zero(t, out.code, out.errOut)
	for _, text := range []string{
		"0 of the 80 that both sides know pair.", "80 by different id scheme: 13-digit time vs integer (", "Meta will show 190 instead of 110.",
		oldForm, "10 server sign-ups had no browser event; 10 times the browser blocked the Pixel.", "data-capiloop-event",
	} {
		require.Contains(t, out.out, text)
	}
	s.looked(t, func(ids, missing []finding) bool {
		return len(ids) == 1 && strings.Contains(ids[0].Cause, "Meta will show 190 instead of 110.") && len(missing) == 1 && missing[0].Title == oldForm
	})
}

func (s *saas) after(t *testing.T) {
	t.Helper()
	r := s.dedup(t)
	require.Equal(t, []int{100, 90, 10, 80, 0, 20, 10, 110, 110}, []int{r.Browser, r.Server, r.Blocked, r.Paired, r.Unpaired, r.BrowserOnly, r.ServerOnly, r.Now, r.AfterRepair})
	require.Contains(t, r.Sentences, "80 of the 80 that both sides know pair.")
	s.looked(t, func(ids, missing []finding) bool {
		return len(ids) == 0 && len(missing) == 1 && missing[0].Title == oldForm
	})
}

// stages looks at what Meta has of the stages of the first week's sign-ups, and tells of
// one more, too late.
func (s *saas) stages(t *testing.T) {
	t.Helper()
	require.Empty(t, s.moves)
	s.tells(t, event{"email": "late" + rawDomain, "stage": "MQL", "occurred_at": s.clock.Now().Add(-7*24*time.Hour - time.Hour).UTC().Format(time.RFC3339)})
	s.drained(t, 30*time.Second)
	var values, has []string
	stages := map[string]string{"QualifiedLead": "MQL", "SalesQualified": "SQL", "Purchase": "Won"}
	for _, e := range s.graph.Kept(datasetA) {
		if e.EventName == "CompleteRegistration" {
			continue
		}
		has = append(has, fmt.Sprint(stages[e.EventName], " ", e.EventTime))
		if e.EventName == "Purchase" {
			require.Equal(t, "USD", e.Currency)
			values = append(values, e.Value.String())
		}
	}
	require.ElementsMatch(t, s.told, has, "each with the time at which it happened")
	require.Equal(t, []int{saasMQL, saasSQL, len(won)}, []int{s.metaHas("QualifiedLead"), s.metaHas("SalesQualified"), s.metaHas("Purchase")})
	require.ElementsMatch(t, strings.Fields("4800 12000 0"), values)
	b := s.book(t, datasetA)
	require.EqualValues(t, 1, b.by("failed", "expired"))
	require.EqualValues(t, 1, b.Failed)
	require.Zero(t, b.Skipped+b.Held+b.Waiting)
}
