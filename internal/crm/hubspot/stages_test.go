package hubspot_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/crm/crmtest"
	"github.com/capiloop/capiloop/internal/crm/hubspot"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
)

// asking is an account with the option read.
func asking(address string, names ...string) crm.Account {
	a := crmtest.Account("hubspot", address)
	a.Options = secret.NewOptions(map[string]string{"url": address, "token": crmtest.Token, "allow_private": "true"}, map[string][]string{"read": names}, nil)
	return a
}

// enquiry is a deal that was won, of a contact.
func enquiry(h *portal) *record {
	h.objects["contacts"] = []*record{{id: "51", p: map[string]string{
		"email": "ana.lead@example.com", "phone": "+12025550143", "mobilephone": "+12025550199", "hs_additional_emails": "second@example.com;third@example.com",
		"firstname": "Ana", "lastname": "Example", "meta_lead_id": "987650000099999", "createdate": "2026-11-01T00:00:00.000Z", "tour": "yes", "source": "contact",
	}}}
	h.props["contacts"]["tour"] = false
	h.next = 9001
	d := h.deal(hookTime, "appointmentscheduled", "51")
	h.move(d, "dealstage", "qualifiedtobuy", hookTime.Add(time.Hour))
	h.move(d, "dealstage", "contractsent", hookTime.Add(2*time.Hour))
	d.p["amount"], d.p["meta_lead_id"], d.p["source"] = "1500.50", "987650000012345", "deal"
	return d
}

func TestCompleteDeal(t *testing.T) {
	t.Parallel()
	h := newPortal(t)
	d := enquiry(h)
	c := ledger.StageChange{Key: "k", Thin: true, Records: []string{"deal:9001"}, DealID: "9001", Stage: "qualifiedtobuy", At: hookTime.Add(time.Hour)}
	require.NoError(t, hubspot.New().Complete(t.Context(), asking(h.URL, "tour", "source", "nothing"), &c))
	want := ledger.StageChange{
		Key: "k", Records: []string{"deal:9001", "contact:51"}, DealID: "9001", Stage: "qualifiedtobuy", From: "appointmentscheduled", At: hookTime.Add(time.Hour), Pipeline: "default",
		LeadID: "987650000012345", Amount: "1500.50", Currency: "EUR", CreatedAt: hookTime, Fields: map[string]string{"tour": "yes", "source": "deal"},
		Contact: ledger.Contact{FirstName: "Ana", LastName: "Example", Email: "ana.lead@example.com", Phone: "+12025550143", WorkPhone: "+12025550199", WorkEmail: "second@example.com"},
	}
	require.Equal(t, want, c)

	// A stage belongs to the pipeline in which the deal was then.
	h.move(d, "pipeline", "other", hookTime.Add(3*time.Hour))
	d.p["deal_currency_code"], d.p["amount"] = "usd", "15e2"
	c = ledger.StageChange{Records: []string{"deal:9001"}, Stage: "qualifiedtobuy", At: hookTime.Add(time.Hour), Thin: true}
	require.NoError(t, hubspot.New().Complete(t.Context(), asking(h.URL), &c))
	require.Equal(t, "default", c.Pipeline)
	require.Equal(t, "1500 USD", c.Amount+" "+c.Currency)

	// What was just created is read back in its first stage, whatever it is in by now.
	c = ledger.StageChange{Records: []string{"deal:9001"}, At: hookTime, Thin: true}
	require.NoError(t, hubspot.New().Complete(t.Context(), asking(h.URL), &c))
	require.Equal(t, "appointmentscheduled", c.Stage)

	for _, change := range []func(){
		func() { h.objects["contacts"] = nil }, // deleted
		func() { d.linked = "" },
	} {
		change()
		c = ledger.StageChange{Records: []string{"deal:9001"}, Stage: "x", At: hookTime, Thin: true}
		require.NoError(t, hubspot.New().Complete(t.Context(), asking(h.URL), &c))
		require.Equal(t, "987650000012345", c.LeadID)
		require.Empty(t, c.Contact)
		require.Equal(t, []string{"deal:9001"}, c.Records)
	}
}

func TestCompleteContact(t *testing.T) {
	t.Parallel()
	h := newPortal(t)
	enquiry(h)
	delete(h.objects["contacts"][0].p, "phone")
	c := ledger.StageChange{Thin: true, Records: []string{"contact:51"}, Field: "lifecyclestage", Stage: "customer", At: hookTime}
	require.NoError(t, hubspot.New().Complete(t.Context(), asking(h.URL, "tour"), &c))
	require.Equal(t, "987650000099999", c.LeadID)
	require.Equal(t, "+12025550199", c.Contact.Phone)
	require.Empty(t, c.Contact.WorkPhone)
	require.Equal(t, map[string]string{"tour": "yes"}, c.Fields)
	require.Equal(t, "2026-11-01", c.CreatedAt.Format(time.DateOnly))
	require.Equal(t, []string{"contact:51"}, c.Records)
}

// TestReadErrors: what a failed reading means, with nothing private in its text.
func TestReadErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(h *portal) crm.Account
		want    ledger.Outcome
	}{
		"gone": {func(h *portal) crm.Account { h.objects["deals"] = nil; return asking(h.URL) }, ledger.Refusal{}},
		"no stage": {func(h *portal) crm.Account {
			d := h.objects["deals"][0]
			d.p["dealstage"], d.history = "", nil
			return asking(h.URL)
		}, ledger.Refusal{}},
		"token":  {func(h *portal) crm.Account { h.token = "made-up-ended"; return asking(h.URL) }, ledger.Hold{Reason: ledger.TokenInvalid}},
		"busy":   {func(h *portal) crm.Account { h.Next(1, crmtest.TooMany, "GET"); return asking(h.URL) }, ledger.RetryAt{Reason: ledger.Throttled, Wait: 10 * time.Second}},
		"cut":    {func(h *portal) crm.Account { h.Next(1, crmtest.Cut, "GET"); return asking(h.URL) }, ledger.RetryAt{Reason: ledger.Backlog}},
		"broken": {func(h *portal) crm.Account { h.Next(1, crmtest.Broken, "GET"); return asking(h.URL) }, ledger.RetryAt{Reason: ledger.Backlog}},
		"html":   {func(h *portal) crm.Account { h.Next(1, crmtest.HTML, "GET"); return asking(h.URL) }, ledger.RetryAt{Reason: ledger.Backlog}},
		"contact": {func(h *portal) crm.Account {
			h.Next(1, crmtest.HTML, "GET /crm/v3/objects/contacts")
			return asking(h.URL)
		}, ledger.RetryAt{Reason: ledger.Backlog}},
		"no answer": {func(*portal) crm.Account { return asking("http://127.0.0.1:1") }, ledger.RetryAt{Reason: ledger.Backlog}},
		"no record": {func(*portal) crm.Account { return asking(fixed(t, 200, `{"id":{}}`)) }, ledger.RetryAt{Reason: ledger.Backlog}},
		"no scope": {func(*portal) crm.Account {
			return asking(fixed(t, 403, `{"message":"for ana.lead@example.com","category":"MISSING_SCOPES"}`))
		}, ledger.Hold{Reason: ledger.PermissionMissing}},
		"bad request": {func(*portal) crm.Account { return asking(fixed(t, 400, `{"message":"bad"}`)) }, ledger.Refusal{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newPortal(t)
			enquiry(h)
			a := c.prepare(h)
			change := ledger.StageChange{Thin: true, Records: []string{"deal:9001"}, At: hookTime}
			err := hubspot.New().Complete(t.Context(), a, &change)
			readError(t, err, c.want)
		})
	}
	readError(t, hubspot.New().Complete(t.Context(), asking(""), &ledger.StageChange{}), ledger.Refusal{})
}

func readError(t *testing.T, err error, want ledger.Outcome) {
	t.Helper()
	var e *crm.ReadError
	require.ErrorAs(t, err, &e)
	crmtest.QuietText(t, err.Error())
	require.Equal(t, want, ledger.WithAnswer(e.Outcome, ledger.Answer{}))
}

// fixed is an address where every call gets the same answer.
func fixed(t *testing.T, status int, body string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestStages(t *testing.T) {
	t.Parallel()
	h := newPortal(t)
	got, err := hubspot.New().Stages(t.Context(), crmtest.Account("hubspot", h.URL))
	require.NoError(t, err)
	deal := func(id, label string, position int, meaning ledger.Meaning) ledger.Stage {
		return ledger.Stage{Pipeline: "default", PipelineLabel: "Sales Pipeline", ID: id, Label: label, Position: position, Meaning: meaning}
	}
	life := func(id, label string, position int) ledger.Stage {
		return ledger.Stage{Field: "lifecyclestage", PipelineLabel: "Lifecycle Stage", ID: id, Label: label, Position: position}
	}
	require.Equal(t, []ledger.Stage{
		deal("appointmentscheduled", "New lead", 0, ledger.MeaningOpen), deal("qualifiedtobuy", "Qualified", 1, ledger.MeaningOpen), deal("contractsent", "Won", 2, ledger.MeaningWon),
		deal("closedwon", "Lost", 3, ledger.MeaningLost), deal("128370012", "Custom stage", 4, ledger.MeaningOpen),
		life("lead", "Lead", 0), life("128370099", "Tour booked", 1), life("customer", "Customer", 2),
	}, got)

	_, err = hubspot.New().Stages(t.Context(), crmtest.Account("hubspot", h.URL, "token", "made-up-wrong-one"))
	readError(t, err, ledger.Hold{Reason: ledger.TokenInvalid})
	h.Next(1, crmtest.Broken, "GET /crm/v3/properties/contacts/lifecyclestage")
	_, err = hubspot.New().Stages(t.Context(), crmtest.Account("hubspot", h.URL))
	readError(t, err, ledger.RetryAt{Reason: ledger.Backlog})
}

func moves(t *testing.T, a crm.Account, since time.Time) (list []ledger.StageChange) {
	t.Helper()
	for c, err := range hubspot.WithoutPause().Moves(t.Context(), a, since) {
		require.NoError(t, err)
		list = append(list, c)
	}
	return list
}

func TestMovesTellTheWholeWay(t *testing.T) {
	t.Parallel()
	h := newPortal(t)
	enquiry(h)
	got := moves(t, asking(h.URL), time.Time{})
	require.Len(t, got, 3)
	for i, stage := range []string{"appointmentscheduled", "qualifiedtobuy", "contractsent"} {
		require.Equal(t, stage, got[i].Stage)
		require.Equal(t, hookTime.Add(time.Duration(i)*time.Hour), got[i].At)
		require.Equal(t, "987650000012345", got[i].LeadID)
		require.Equal(t, "ana.lead@example.com", got[i].Contact.Email)
		require.Equal(t, "9999", got[i].By)
		require.Equal(t, "default", got[i].Pipeline)
		require.False(t, got[i].Thin)
	}
	require.Equal(t, "qualifiedtobuy", got[2].From)
	// The hook of the same move has the same key.
	hook := sender.Requests(hookTime, sender.DealStage(9001, "contractsent", got[2].At))[0]
	require.Equal(t, hubspot.New().Receive(hook.Incoming(), hooked(), hookTime).Changes[0].Key, got[2].Key)

	// Since a time come the moves since then, and in any case where a deal stands that was changed.
	require.Len(t, moves(t, asking(h.URL), hookTime.Add(time.Hour)), 2)
	d := h.objects["deals"][0]
	h.move(d, "amount", "7", hookTime.Add(9*time.Hour))
	got = moves(t, asking(h.URL), hookTime.Add(8*time.Hour))
	require.Len(t, got, 1)
	require.Equal(t, "contractsent", got[0].Stage)
	require.Equal(t, hookTime.Add(2*time.Hour), got[0].At)
	require.Empty(t, moves(t, asking(h.URL), hookTime.Add(10*time.Hour)))

	// The index is late: the next search looks back a minute.
	require.Len(t, moves(t, asking(h.URL), hookTime.Add(9*time.Hour+30*time.Second)), 1)
	d.late = true
	require.Empty(t, moves(t, asking(h.URL), time.Time{}))
	d.late, d.history = false, nil
	require.Len(t, moves(t, asking(h.URL), time.Time{}), 1)
}

func TestMovesPageByTime(t *testing.T) {
	t.Parallel()
	h := newPortal(t)
	h.searchEnd = 600
	want := map[string]bool{}
	for i := range 950 { // 500 of them changed in one millisecond
		at := hookTime.Add(time.Duration(i) * time.Second)
		if i >= 300 && i < 800 {
			at = hookTime.Add(300 * time.Second)
		}
		want["deal:"+h.deal(at, strconv.Itoa(i), "").id] = true
	}
	got := moves(t, asking(h.URL), time.Time{})
	require.Len(t, got, len(want))
	for _, c := range got {
		require.True(t, want[c.Records[0]])
		delete(want, c.Records[0])
	}
}

// A deal that is changed while its page is read goes to the end of the list; none is
// left out for it.
func TestMovesWhileDealsChange(t *testing.T) {
	t.Parallel()
	h := newPortal(t)
	for i := range 450 {
		h.deal(hookTime.Add(time.Duration(i)*time.Second), "a", "")
	}
	seen := map[string]bool{}
	for c, err := range hubspot.WithoutPause().Moves(t.Context(), asking(h.URL), time.Time{}) {
		require.NoError(t, err)
		if len(seen) == 0 {
			for _, d := range h.objects["deals"][:50] {
				h.move(d, "amount", "1", hookTime.Add(time.Hour))
			}
		}
		seen[c.Records[0]] = true
	}
	require.Len(t, seen, 450)
}

func TestMovesEndWithAnError(t *testing.T) {
	t.Parallel()
	h := newPortal(t)
	enquiry(h)
	last := func(a crm.Account) (err error) {
		for _, err = range hubspot.WithoutPause().Moves(t.Context(), a, time.Time{}) {
			if err != nil {
				return err
			}
		}
		return nil
	}
	h.Next(1, crmtest.TooMany, "POST /crm/v3/objects/deals/search")
	readError(t, last(asking(h.URL)), ledger.RetryAt{Reason: ledger.Throttled, Wait: 10 * time.Second})
	h.Next(1, crmtest.Broken, "GET /crm/v3/objects/deals")
	readError(t, last(asking(h.URL)), ledger.RetryAt{Reason: ledger.Backlog})
	h.Next(1, crmtest.Broken, "GET /account-info") // only the number and the currency are missing
	require.NoError(t, last(asking(h.URL)))
	h.searchEnd = 100
	readError(t, last(asking(h.URL)), ledger.Refusal{})
	readError(t, last(crmtest.Account("hubspot", h.URL, "token", "made-up-wrong-one")), ledger.Hold{Reason: ledger.TokenInvalid})

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range hubspot.New().Moves(ctx, asking(h.URL), time.Time{}) {
		require.ErrorIs(t, err, context.Canceled)
	}
}

// With its pauses the search stays below 5 calls a second.
func TestMovesKeepTheSearchLimit(t *testing.T) {
	t.Parallel()
	h := newPortal(t)
	h.paced = true
	for range 6 {
		for _, err := range hubspot.New().Moves(t.Context(), asking(h.URL), time.Time{}) {
			require.NoError(t, err)
		}
	}
	require.Len(t, h.Calls("POST /crm/v3/objects/deals/search"), 6)
}

// The samples of HubSpot's own answers are read.
func TestCompleteFromSamples(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := map[string]string{"/crm/v3/objects/deals/9001": "hubspot-deal-response", "/crm/v3/objects/contacts/51": "hubspot-contact-response", "/crm/v3/objects/deals/search": "hubspot-search-response"}[r.URL.Path]
		if name == "" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write(sample(t, name))
	}))
	t.Cleanup(s.Close)
	c := ledger.StageChange{Thin: true, Records: []string{"deal:9001"}, Stage: "contractsent", At: hookTime}
	require.NoError(t, hubspot.New().Complete(t.Context(), asking(s.URL), &c))
	require.Equal(t, ledger.StageChange{
		Records: []string{"deal:9001", "contact:51"}, DealID: "9001", Stage: "contractsent", At: hookTime, Pipeline: "default", Amount: "1500.50", Currency: "USD",
		LeadID: "987650000012345", CreatedAt: time.Date(2026, 11, 18, 11, 6, 42, 0, time.UTC),
		Contact: ledger.Contact{FirstName: "Ana", LastName: "Example", Email: "ana.lead@example.com", Phone: "+12025550143"},
	}, c)
	// The sample tells of a next page for ever, which is the same one.
	deals := 0
	var last error
	for _, err := range hubspot.WithoutPause().Moves(t.Context(), asking(s.URL), time.Time{}) {
		if last = err; err == nil {
			deals++
		}
	}
	require.Equal(t, 1, deals)
	readError(t, last, ledger.RetryAt{Reason: ledger.Backlog})
}
