package pipedrive_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/crm/crmtest"
	"github.com/capiloop/capiloop/internal/crm/pipedrive"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
)

// both runs a test with leads and with deals.
func both(t *testing.T, test func(t *testing.T, kind string, c *company, a crm.Account)) {
	t.Helper()
	for _, kind := range []string{"lead", "deal"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := newCompany(t)
			more := []string{}
			if kind == "deal" {
				more = []string{"deal", "true", "pipeline", "1", "stage", "1"}
			}
			test(t, kind, c, crmtest.Account("pipedrive", c.URL, more...))
		})
	}
}

// TestRepeatsLeaveOneRecord: the index stays behind all the time.
func TestRepeatsLeaveOneRecord(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, kind string, c *company, a crm.Account) {
		t.Helper()
		l := crmtest.Lead()
		p := pipedrive.New()
		for _, step := range []struct {
			fault crmtest.Fault
			match string
			want  ledger.Outcome
		}{
			{crmtest.TooMany, "GET /api/v2/persons/search", ledger.RetryAt{}},
			{crmtest.Cut, "GET /api/v2/persons", ledger.RetryAt{}},
			{crmtest.Broken, "POST /api/v2/persons", ledger.RetryAt{}},
			{crmtest.Cut, "POST /api/v2/persons", ledger.Lost{}},
			{crmtest.HTML, "POST /api/v", ledger.RetryAt{}},
			{crmtest.Cut, "POST /api/v", ledger.Lost{}},
		} {
			c.Next(1, step.fault, step.match)
			d := p.Deliver(t.Context(), a, l, nil)
			require.IsType(t, step.want, d.Outcome, step.match)
			crmtest.Quiet(t, d)
		}
		d := p.Deliver(t.Context(), a, l, nil)
		require.IsType(t, ledger.Accepted{}, d.Outcome)
		require.Len(t, c.Writes("person"), 1)
		require.Len(t, c.Writes(kind), 1)
		require.Equal(t, l.LeadID, c.Writes(kind)[0].Key)
		require.Equal(t, []string{kind + ":" + c.Writes(kind)[0].ID, "person:11"}, d.Records)

		c.indexed = true
		again := p.Deliver(t.Context(), a, l, nil)
		require.Equal(t, d.Records, again.Records)
		again = p.Deliver(t.Context(), a, l, d.Records)
		require.Equal(t, d.Records, again.Records)
		again = p.Deliver(t.Context(), a, l, []string{"person:11"})
		require.Equal(t, d.Records, again.Records)
		require.Len(t, c.Writes(kind), 1)
	})
}

func TestSamples(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, kind string, c *company, a crm.Account) {
		t.Helper()
		l := crmtest.Lead()
		l.Origin.FormName = ""
		d := pipedrive.New().Deliver(t.Context(), a, l, nil)
		require.IsType(t, ledger.Accepted{}, d.Outcome)
		require.JSONEq(t, `{"name":"Ana Example","emails":[{"value":"ana.lead@example.com","primary":true,"label":"work"}],"phones":[{"value":"+12025550143","primary":true,"label":"mobile"}]}`,
			string(c.Calls("POST /api/v2/persons")[0].Body))
		want := `{"title":"Ana Example – Meta lead","person_id":11,"origin_id":"987650000012345","` + key + `":"987650000012345"}`
		if kind == "deal" {
			want = `{"title":"Ana Example – Meta lead","person_id":11,"pipeline_id":1,"stage_id":1,"custom_fields":{"` + key + `":"987650000012345"}}`
		}
		require.JSONEq(t, want, string(d.Sent))

		l.LeadID = "987650000012399" // the same person asks again
		d = pipedrive.New().Deliver(t.Context(), a, l, nil)
		require.Equal(t, "person:11", d.Records[1])
		require.Len(t, c.Writes(kind), 2)
		require.Len(t, c.Writes("person"), 1)
	})
}

func TestKnownPersonKeepsWhatPeopleWrote(t *testing.T) {
	t.Parallel()
	c := newCompany(t)
	c.indexed = true
	c.persons = []m{{"id": 5, "name": "Anita", "phones": []any{m{"value": "+1 202 555 0143"}}}, {"id": 6, "name": "Other", "emails": []any{m{"value": "other@example.com"}}}}
	c.records["leads"] = []m{{"id": "00000000-0000-11ed-8000-000000000009", "person_id": 6, key: "987650000012399"}}
	a := crmtest.Account("pipedrive", c.URL, "lead_id_field", key)
	d := pipedrive.New().Deliver(t.Context(), a, crmtest.Lead(), nil)
	require.IsType(t, ledger.Accepted{}, d.Outcome)
	require.Equal(t, "person:5", d.Records[1])
	require.Equal(t, "Anita", c.persons[0]["name"])
	require.NotNil(t, c.persons[0]["emails"])
	require.Equal(t, []any{m{"value": "+1 202 555 0143"}}, c.persons[0]["phones"])
	require.Empty(t, c.Calls("GET /api/v1/dealFields"))

	l := crmtest.Lead() // a record that was moved to somebody else is still the lead's
	l.LeadID = "987650000012399"
	d = pipedrive.New().Deliver(t.Context(), a, l, nil)
	require.Equal(t, "lead:00000000-0000-11ed-8000-000000000009", d.Records[0])
	require.Len(t, c.Writes("lead"), 1)

	l = &ledger.Lead{ID: 5} // nobody can be looked for
	d = pipedrive.New().Deliver(t.Context(), a, l, nil)
	require.IsType(t, ledger.Accepted{}, d.Outcome)
	require.Len(t, c.Writes("person"), 1)
}

func TestFaults(t *testing.T) {
	t.Parallel()
	c := newCompany(t)
	d := pipedrive.New().Deliver(t.Context(), crmtest.Account("pipedrive", c.URL, "token", "made-up-wrong"), crmtest.Lead(), nil)
	require.Equal(t, ledger.TokenInvalid, d.Outcome.(ledger.Hold).Reason)
	crmtest.Quiet(t, d)
	d = pipedrive.New().Deliver(t.Context(), crmtest.Account("pipedrive", c.URL, "lead_id_field", strings.Repeat("f", 40)), crmtest.Lead(), nil)
	require.Equal(t, ledger.FieldMissing, d.Outcome.(ledger.Hold).Reason)
	require.Contains(t, ledger.AnswerOf(d.Outcome).Message, "doctor --repair")
	delete(c.fields, key)
	d = pipedrive.New().Deliver(t.Context(), crmtest.Account("pipedrive", c.URL), crmtest.Lead(), nil)
	require.Equal(t, ledger.FieldMissing, d.Outcome.(ledger.Hold).Reason)

	for _, x := range []struct {
		status int
		header http.Header
		body   string
		want   ledger.Outcome
	}{
		{429, http.Header{"X-Ratelimit-Reset": {"2"}}, `{"success":false,"error":"Request over limit","errorCode":429}`, ledger.RetryAt{Reason: ledger.Throttled, Wait: 2 * time.Second}},
		{429, http.Header{"X-Daily-Requests-Left": {"0"}}, ``, ledger.RetryAt{Reason: ledger.Throttled, Wait: 30 * time.Minute}},
		{403, nil, "\n<!DOCTYPE html><title>Cloudflare</title>", ledger.RetryAt{Reason: ledger.Throttled, Wait: 5 * time.Minute}},
		{403, nil, `{"success":false,"error":"Scope and URL mismatch"}`, ledger.Hold{Reason: ledger.PermissionMissing}},
		{402, nil, `{"success":false,"error":"payment required"}`, ledger.Hold{Reason: ledger.PermissionMissing}},
		{400, nil, `{"success":false,"error":"Bad request"}`, ledger.Refusal{}},
		{500, nil, ``, ledger.RetryAt{Reason: ledger.Backlog}},
	} {
		got := pipedrive.Classify(crm.Reply{Status: x.status, Header: x.header, Body: []byte(x.body)}, nil, nil)
		require.IsType(t, x.want, got)
		switch o := got.(type) {
		case ledger.RetryAt:
			o.Answer = ledger.Answer{}
			require.Equal(t, x.want, o)
		case ledger.Hold:
			require.Equal(t, x.want.(ledger.Hold).Reason, o.Reason)
		}
	}
}

func TestOAuth(t *testing.T) {
	t.Parallel()
	c := newCompany(t)
	a := crmtest.Account("pipedrive", "", "token", "", "client_id", "1", "client_secret", "made-up-secret", "refresh_token", "made-up-refresh", "oauth_url", c.URL+"/oauth/token")
	p := pipedrive.New()
	require.IsType(t, ledger.Accepted{}, p.Deliver(t.Context(), a, crmtest.Lead(), nil).Outcome) // at api_domain
	c.value = "Bearer made-up-other"
	require.IsType(t, ledger.Accepted{}, p.Deliver(t.Context(), a, crmtest.Lead(), nil).Outcome)
	require.Len(t, c.Calls("POST /oauth"), 2)
	require.Len(t, c.Writes("lead"), 1)
}

func TestCheckAndRepair(t *testing.T) {
	t.Parallel()
	c := newCompany(t)
	a := crmtest.Account("pipedrive", c.URL, "deal", "true", "stage", "1", "pipeline", "1")
	var saved string
	a.SaveOption = func(_ context.Context, name string, value secret.Secret) error {
		saved = name + "=" + value.Reveal()
		return nil
	}
	bad := func(a crm.Account, repair bool) (names []string) {
		for _, k := range pipedrive.New().Check(t.Context(), a, repair) {
			crmtest.QuietText(t, k.Sentence)
			if !k.OK {
				require.NotEmpty(t, k.NextStep)
				names = append(names, k.Name)
			}
		}
		return names
	}
	require.Empty(t, bad(a, true))
	require.Empty(t, saved)
	delete(c.fields, key)
	require.Equal(t, []string{"lead_id_field"}, bad(a, false))
	require.Empty(t, bad(a, true))
	require.Equal(t, "lead_id_field="+strings.Repeat("ab", 20), saved)
	require.Empty(t, bad(a, false))
	require.IsType(t, ledger.Accepted{}, pipedrive.New().Deliver(t.Context(), a, crmtest.Lead(), nil).Outcome)

	require.Equal(t, []string{"lead_id_field", "stage"}, bad(crmtest.Account("pipedrive", c.URL, "lead_id_field", "none", "deal", "1", "stage", "9"), true))
	require.Equal(t, []string{"token"}, bad(crmtest.Account("pipedrive", c.URL, "token", "made-up-wrong"), true))
}

func TestPreview(t *testing.T) {
	t.Parallel()
	steady := func(calls []crm.Call) []crm.Call { // the list of the newest has a time in it
		for i := range calls {
			if before, after, ok := strings.Cut(calls[i].URL, "updated_since="); ok {
				_, rest, _ := strings.Cut(after, "&")
				calls[i].URL = before + "updated_since=NOW&" + rest
			}
		}
		return calls
	}
	own := func(texts map[string]string) crm.Account {
		a := crmtest.Account("pipedrive", "")
		a.Options = secret.NewOptions(texts, nil, map[string]map[string]string{"fields": {strings.Repeat("c", 40): "page_url", "name": "=x"}, "deal_fields": {strings.Repeat("d", 40): "fbclid"}})
		return a
	}
	crmtest.Golden(t, "lead", steady(pipedrive.New().Preview(own(map[string]string{"title": "{{first_name}}: {{form_name}}"}), crmtest.Lead())))
	crmtest.Golden(t, "deal", steady(pipedrive.New().Preview(own(map[string]string{"deal": "true", "stage": "3", "lead_id_field": key}), crmtest.Lead())))
	require.NotEmpty(t, pipedrive.New().Options())
	parallel, _ := pipedrive.New().Pace(crm.Account{})
	require.Equal(t, 1, parallel)
}

func FuzzAnswers(f *testing.F) {
	for _, s := range []string{`{"data":{"items":[{"item":{"id":11,"emails":["ana.lead@example.com"]}}]}}`, `{"data":[{"id":"x","` + key + `":"987650000012345"}]}`, `{"data":null}`, `[]`, `{"data":{"id":{}}}`} {
		f.Add(200, []byte(s))
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		require.NotNil(t, pipedrive.Classify(crm.Reply{Status: status, Body: body}, nil, nil))
		pipedrive.Read(crmtest.Account("pipedrive", ""), crmtest.Lead(), key, body)
	})
}
