package meta_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi/capitest"
	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/leadform/meta"
	"github.com/capiloop/capiloop/internal/ledger"
)

const (
	leadsPath = "987650000012345"
	formsPath = page + "/leadgen_forms"
)

func notice(id string, created time.Time) leadform.Notice {
	body := fmt.Sprintf(`{"leadgen_id":%q,"page_id":%q,"form_id":%q,"created_time":%q}`, id, page, formA, strconv.FormatInt(created.Unix(), 10))
	return leadform.Notice{Key: id, Owner: page, Body: []byte(body)}
}

func TestFetchSample(t *testing.T) {
	t.Parallel()
	g := newGraph(t)
	g.samples["987650000012345"], g.samples[formsPath] = "meta-lead-fetch.json", "meta-form-questions.json"
	k := meta.New(meta.Config{})
	n := deliver(t, k, g.source(nil), sample(t, "meta-leadgen-webhook.json"))
	l, err := k.Fetch(t.Context(), g.source(map[string]string{"consent_box": "marketing_optin"}), n[0])
	require.NoError(t, err)
	require.Equal(t, ledger.Lead{
		Workspace: 7, Source: "leads", Kind: "meta_leads", Platform: "meta", LeadID: "987650000012345",
		Origin: ledger.Origin{
			FormID: formA, FormName: "Form A", AdID: "300000000000003", AdName: "Ad A", AdSetID: "300000000000002", AdSetName: "Set A",
			CampaignID: "300000000000001", CampaignName: "Campaign A", Channel: "ig",
		},
		Consent:   ledger.ConsentGranted,
		CreatedAt: time.Date(2026, 11, 18, 11, 6, 37, 0, time.UTC),
		Contact: ledger.Contact{
			FullName: "Ana Example", FirstName: "Ana", LastName: "Example", Email: "ana.lead@example.com", Phone: "+12025550143", Postcode: "20500",
		},
		Answers: []ledger.FormAnswer{
			{Question: "full_name", Values: []string{"Ana Example"}},
			{Question: "email", Values: []string{"ana.lead@example.com"}},
			{Question: "phone_number", Values: []string{"+12025550143"}},
			{Question: "zip_code", Values: []string{"20500"}},
			{Question: "what_are_you_looking_for?", Values: []string{"roof_repair"}},
			{Question: "marketing_optin", Values: []string{"true"}, Consent: true},
			{Question: "sms_optin", Values: []string{"false"}, Consent: true},
		},
	}, utc(l))
	l, err = k.Fetch(t.Context(), g.source(map[string]string{"consent_box": "sms_optin"}), n[0])
	require.NoError(t, err)
	require.Equal(t, ledger.ConsentDenied, l.Consent)
	l, err = k.Fetch(t.Context(), g.source(nil), n[0])
	require.NoError(t, err)
	require.Equal(t, ledger.ConsentAbsent, l.Consent)
}

func utc(l ledger.Lead) ledger.Lead {
	l.CreatedAt = l.CreatedAt.UTC()
	return l
}

// The types of the form's questions decide, not the words of its keys.
func TestFetchLocalised(t *testing.T) {
	t.Parallel()
	g := newGraph(t)
	g.samples["987650000012346"], g.samples[formsPath] = "meta-lead-fetch-localized.json", "meta-form-questions.json"
	l, err := meta.New(meta.Config{}).Fetch(t.Context(), g.source(nil), leadform.Notice{Key: "987650000012346"})
	require.NoError(t, err)
	require.Equal(t, ledger.Contact{
		FullName: "José Pérez Ejemplo", FirstName: "José Pérez", LastName: "Ejemplo", Email: "jose@example.com", Phone: "+34 600 000 000",
	}, l.Contact)
	require.Equal(t, ledger.FormAnswer{
		Question: "¿qué_servicio_necesitas?", Label: "¿Qué servicio necesitas?", Values: []string{"instalación", "mantenimiento"},
	}, l.Answers[3])
	require.True(t, l.Origin.Organic)
	require.Equal(t, "fb", l.Origin.Channel)
	require.Empty(t, l.Origin.AdID)
}

// A form that cannot be read for the moment delays a lead that has answers which only
// the form explains, for a while; one that may not be read delays nothing.
func TestFetchWithoutTheForm(t *testing.T) {
	t.Parallel()
	const localised = `{"name":"correo","values":["jose@example.com"]}`
	const usual, own = `{"name":"email","values":["jose@example.com"]}`, `,{"name":"color","values":["azul"]}`
	for _, c := range []struct {
		name, fields string
		age          time.Duration
		code         int
		wait         bool
	}{
		{"for a moment, localised", localised, 0, 2, true},
		{"for a moment, localised, longer", localised, 10 * time.Minute, 2, true},
		{"for too long, localised", localised, 2 * time.Hour, 2, false},
		{"for a moment, usual names", usual, 0, 2, false},
		{"for a moment, usual names and another", usual + own, 0, 2, true},
		{"for too long, usual names and another", usual + own, 10 * time.Minute, 2, false},
		{"not allowed, localised", localised, 0, 200, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := newGraph(t)
			g.samples[leadsPath] = fmt.Sprintf(`{"id":%q,"created_time":%q,"field_data":[%s]}`, leadsPath, time.Now().Add(-c.age).Format("2006-01-02T15:04:05-0700"), c.fields)
			g.Fault(capitest.Fault{Code: c.code})
			l, err := meta.New(meta.Config{}).Fetch(t.Context(), g.source(nil), leadform.Notice{Key: leadsPath})
			if c.wait {
				require.IsType(t, ledger.RetryAt{}, outcome(t, err))
				return
			}
			require.NoError(t, err)
			require.NotEmpty(t, l.Answers)
		})
	}
}

func outcome(t *testing.T, err error) ledger.Outcome {
	t.Helper()
	var f *leadform.FetchError
	require.ErrorAs(t, err, &f)
	for _, text := range []string{err.Error(), fmt.Sprintf("%+v", f), ledger.AnswerOf(f.Outcome).Message} {
		require.NotContains(t, text, token)
		require.NotContains(t, text, appSecret)
		require.NotContains(t, text, "example.com")
	}
	return f.Outcome
}

// Cases C158, C162 and C175.
func TestFetchOdd(t *testing.T) {
	t.Parallel()
	g := newGraph(t)
	g.samples["1234567890123456"] = `{"id":"1234567890123456","created_time":"2025-12-31T23:59:59+0000","ad_id":"0","field_data":[{"name":"email"},
		{"name":"phone_number","values":[]},{"name":"city","values":null},{"name":"full_name","values":["Jane Doe"]},{"name":"gclid","values":["AbC"]}],
		"partner_name":"Partner","post":"1_2"}`
	k := meta.New(meta.Config{})
	l, err := k.Fetch(t.Context(), g.source(nil), leadform.Notice{Key: "1234567890123456", Body: []byte(`{"leadgen_id":1234567890123456,"form_id":2,"ad_id":"9"}`)})
	require.NoError(t, err)
	require.Equal(t, ledger.Contact{FullName: "Jane Doe", FirstName: "Jane", LastName: "Doe"}, l.Contact)
	require.Equal(t, []ledger.FormAnswer{
		{Question: "full_name", Values: []string{"Jane Doe"}},
		{Question: "gclid", Values: []string{"AbC"}},
		{Question: "partner_name", Values: []string{"Partner"}},
		{Question: "post", Values: []string{"1_2"}},
	}, l.Answers)
	require.Equal(t, "AbC", l.Clicks.GClid)
	require.Equal(t, "2", l.Origin.FormID)
	require.True(t, l.History, "it was there before the source")
	require.False(t, l.Test)

	g.samples["1234567890123457"] = `{"id":"1234567890123457","created_time":"2026-02-01T00:00:00+0000","field_data":[{"name":"email","values":["test@example.com"]},
		{"name":"full_name","values":["<test lead: dummy data for full_name>"]}]}`
	l, err = k.Fetch(t.Context(), g.source(nil), leadform.Notice{Key: "1234567890123457"})
	require.NoError(t, err)
	require.True(t, l.Test)
	require.False(t, l.History)
	require.Equal(t, "test@example.com", l.Contact.Email)
}

// The classes of errors; among them cases C168, C169, C170 and C173.
func TestFetchErrors(t *testing.T) {
	t.Parallel()
	lead := capitest.Lead{ID: "1234567890123456", FormID: formA, PageID: page}
	cases := []struct {
		name  string
		fault capitest.Fault
		want  ledger.Outcome
	}{
		{"down", capitest.Fault{Code: 503}, ledger.RetryAt{Reason: ledger.Backlog}},
		{"C173", capitest.Fault{Code: 1, Status: 500, Message: "synthetic: reduce the amount of data"}, ledger.RetryAt{Reason: ledger.Backlog}},
		{"HTML", capitest.Fault{Mode: capitest.ModeHTML}, ledger.RetryAt{Reason: ledger.Backlog}},
		{"cut", capitest.Fault{Mode: capitest.ModeCut}, ledger.RetryAt{Reason: ledger.Backlog}},
		{"unreadable", capitest.Fault{Mode: capitest.ModeBody, Status: 200, Body: `{"id":"1","field_data":[{"name":"email","values":["jane@example.com"`}, ledger.RetryAt{Reason: ledger.Backlog}},
		{"limit", capitest.Fault{Code: 80004, Regain: 3}, ledger.RetryAt{Reason: ledger.Throttled, Wait: 3 * time.Minute}},
		{"C170", capitest.Fault{Code: 190, Subcode: 463}, ledger.Hold{Reason: ledger.TokenInvalid}},
		{"proof", capitest.Fault{Code: 104}, ledger.Hold{Reason: ledger.TokenInvalid}},
		{"C168", capitest.Fault{Code: 200, Message: "(#200) synthetic: lead access revoked"}, ledger.Hold{Reason: ledger.PermissionMissing}},
		{"10", capitest.Fault{Code: 10}, ledger.Hold{Reason: ledger.PermissionMissing}},
		{"C169", capitest.Fault{Code: 100, Message: "(#100) synthetic: requires the pages_read_engagement permission"}, ledger.Hold{Reason: ledger.PermissionMissing}},
		{"blocked", capitest.Fault{Code: 368}, ledger.Hold{Reason: ledger.Blocked}},
		{"unknown", capitest.Fault{Code: 4711}, ledger.Hold{Reason: ledger.UnclearRefusal}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := newGraph(t)
			g.AddLead(lead)
			k := meta.New(meta.Config{})
			g.Fault(c.fault)
			_, err := k.Fetch(t.Context(), g.source(nil), notice(lead.ID, time.Now()))
			got := outcome(t, err)
			if hold, ok := got.(ledger.Hold); ok && hold.Reason == ledger.PermissionMissing {
				require.Contains(t, hold.Answer.Message, "Leads Access")
			}
			require.Equal(t, c.want, bare(got))
			g.ClearFaults()
			_, err = k.Fetch(t.Context(), g.source(nil), notice(lead.ID, time.Now()))
			require.NoError(t, err, "the same notice again")
		})
	}
	_, err := meta.New(meta.Config{}).Fetch(t.Context(), none.source(map[string]string{"page_token": ""}), notice(lead.ID, time.Now()))
	require.Equal(t, ledger.Hold{Reason: ledger.TokenInvalid}, bare(outcome(t, err)))
}

// bare takes the answer out of an outcome.
func bare(o ledger.Outcome) ledger.Outcome {
	switch o := o.(type) {
	case ledger.RetryAt:
		return ledger.RetryAt{Reason: o.Reason, Wait: o.Wait}
	case ledger.Hold:
		return ledger.Hold{Reason: o.Reason}
	case ledger.Refusal:
		return ledger.Refusal{}
	}
	return o
}

// 100/33 is said of a deleted lead and of one that may not be read any more. Cases
// C166, C167 and C174.
func TestFetchMissing(t *testing.T) {
	t.Parallel()
	old := time.Now().Add(-time.Hour)
	const id, other = "1234567890123456", "1234567890123457"
	missing := `{"error":{"code":100,"error_subcode":33,"type":"GraphMethodException","message":"Unsupported get request"}}`
	cases := []struct {
		name string
		set  func(g *graph)
		n    leadform.Notice
		want ledger.Outcome // nil: the lead is found
	}{
		{"deleted, others there", func(g *graph) { g.AddLead(capitest.Lead{ID: other, FormID: formA, PageID: page}); g.DeleteLead(id) }, notice(id, old), ledger.Refusal{}},
		{"deleted, none there, access granted", func(g *graph) { g.DeleteLead(id) }, notice(id, old), ledger.Refusal{}},
		{"access lost", func(g *graph) { g.SetPage(page, capitest.Page{AppLacksAccess: true}); g.samples[id] = missing }, notice(id, old), ledger.Hold{Reason: ledger.PermissionMissing}},
		{"page lost", func(g *graph) { g.SetToken(token, capitest.Token{Pages: []string{"5"}}) }, notice(id, old), ledger.Hold{Reason: ledger.PermissionMissing}},
		{"C167, all answer so", func(g *graph) {
			g.samples[id], g.samples[formA+"/leads"], g.samples["debug_token"] = missing, missing, missing
		}, notice(id, old), ledger.Hold{Reason: ledger.PermissionMissing}},
		{"nothing listed, nobody says", func(g *graph) {
			g.samples[id], g.samples[formA+"/leads"], g.samples["debug_token"] = missing, `{"data":[]}`, `{"data":{"is_valid":true}}`
		}, notice(id, old), ledger.Hold{Reason: ledger.PermissionMissing}},
		{"listed though", func(g *graph) { g.samples[id] = missing }, notice(id, old), nil},
		{"just told", func(g *graph) { g.DeleteLead(id) }, notice(id, time.Now()), ledger.RetryAt{Reason: ledger.Backlog}},
		{"C174, after 90 days", func(g *graph) { g.samples[id] = missing }, notice(id, time.Now().Add(-91*24*time.Hour)), ledger.Refusal{}},
		{"C166, no id", func(*graph) {}, leadform.Notice{Key: "{leadgen_id}"}, ledger.Refusal{}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := newGraph(t)
			g.AddLead(capitest.Lead{ID: id, FormID: formA, PageID: page, Created: old, Fields: []capitest.Field{{Name: "city", Values: []string{"Town"}}}})
			c.set(g)
			l, err := meta.New(meta.Config{}).Fetch(t.Context(), g.source(nil), c.n)
			if c.want == nil {
				require.NoError(t, err)
				require.Equal(t, id, l.LeadID)
				return
			}
			got := bare(outcome(t, err))
			require.Equal(t, c.want, got)
			require.Equal(t, got == ledger.Refusal{}, errors.Is(err, leadform.ErrNoLead))
		})
	}
}

// The forms of a Page are read once for many leads, and again for a form that is new.
func TestFormsAreRemembered(t *testing.T) {
	t.Parallel()
	g := newGraph(t)
	k := meta.New(meta.Config{})
	for i := range 5 {
		id := strconv.Itoa(1234567890123450 + i)
		g.samples[id] = string(sample(t, "meta-lead-fetch-localized.json"))
	}
	g.samples[formsPath] = "meta-form-questions.json"
	for i := range 5 {
		l, err := k.Fetch(t.Context(), g.source(nil), leadform.Notice{Key: strconv.Itoa(1234567890123450 + i)})
		require.NoError(t, err)
		require.Equal(t, "jose@example.com", l.Contact.Email)
	}
	require.Equal(t, int32(1), g.formReads.Load())
}

func TestEndToEndWithTheStandIn(t *testing.T) {
	t.Parallel()
	g := newGraph(t)
	id := g.AddLead(capitest.Lead{
		FormID: formA, PageID: page, AdID: "300000000000003",
		Fields:      []capitest.Field{{Name: "email", Values: []string{"jane@example.com"}}, {Name: "colour", Values: []string{"blue", "red"}}},
		Disclaimers: []capitest.Box{{Key: "optin", Checked: "1"}},
	})
	k, s := meta.New(meta.Config{}), g.source(nil)
	mux := http.NewServeMux()
	var notices []leadform.Notice
	mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		got := k.Receive(leadform.Request{Method: r.Method, Header: r.Header, Body: body}, s, time.Now())
		notices = append(notices, got.Notices...)
		w.WriteHeader(got.Answer.Status)
	})
	hook := server(t, mux)
	status, err := g.DeliverLeads(t.Context(), hook, appSecret, id)
	require.NoError(t, err)
	require.Equal(t, 200, status)
	status, err = g.DeliverLeads(t.Context(), hook, "another", id)
	require.NoError(t, err)
	require.Equal(t, 401, status)
	require.Len(t, notices, 1)
	l, err := k.Fetch(t.Context(), s, notices[0])
	require.NoError(t, err)
	require.Equal(t, "jane@example.com", l.Contact.Email)
	require.Equal(t, []string{"blue", "red"}, l.Answers[1].Values)
	require.True(t, l.Answers[2].Consent)
}
