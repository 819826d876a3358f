package gohighlevel_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/crm/crmtest"
	"github.com/capiloop/capiloop/internal/crm/gohighlevel"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
)

var _ crm.CRM = (*gohighlevel.CRM)(nil)

func account(f *fake, more ...string) crm.Account {
	return crmtest.Account(gohighlevel.Kind, f.URL, append([]string{"location_id", location}, more...)...)
}

// full is an account with pipeline and tags.
func full(address string) crm.Account {
	a := crmtest.Account(gohighlevel.Kind, address)
	a.Options = secret.NewOptions(
		map[string]string{"url": address, "token": crmtest.Token, "allow_private": "true", "location_id": location, "pipeline_id": "pl1", "stage_id": "st1"},
		map[string][]string{"tags": {"meta"}},
		map[string]map[string]string{"fields": {"monetaryValue": "=1500.5", "id:cf9": "answer:what_are_you_looking_for", "city": "=Washington", "lead_answers": "-"}})
	return a
}

func TestTheSampleContact(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	a := account(f)
	a.Options = secret.NewOptions(map[string]string{"url": f.URL, "token": crmtest.Token, "allow_private": "true", "location_id": location}, nil,
		map[string]map[string]string{"fields": {"fbclid": "-", "fbc": "-", "fbp": "-", "gclid": "-", "lead_answers": "-"}})
	d := gohighlevel.New().Deliver(t.Context(), a, crmtest.Lead(), nil)
	require.IsType(t, ledger.Accepted{}, d.Outcome, ledger.AnswerOf(d.Outcome).Message)
	require.Equal(t, []string{"contact:ct1"}, d.Records)
	require.JSONEq(t, `{"locationId":"locExample0000000001","firstName":"Ana","lastName":"Example","email":"ana.lead@example.com","phone":"+12025550143",
		"postalCode":"20500","source":"Meta Lead Ad","customFields":[{"key":"meta_lead_id","field_value":"987650000012345"}]}`, string(d.Sent))
	crmtest.Quiet(t, d)
}

func TestContactOpportunityAndTags(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.contacts = []*record{{ID: "ct1", Fields: map[string]any{"email": "ana.lead@example.com"}, Custom: map[string]string{}, Tags: []string{"vip"}}}
	c, a := gohighlevel.New(), full(f.URL)
	d := c.Deliver(t.Context(), a, crmtest.Lead(), nil)
	require.IsType(t, ledger.Accepted{}, d.Outcome, ledger.AnswerOf(d.Outcome).Message)
	require.Equal(t, []string{"opportunity:op-ct1", "contact:ct1"}, d.Records)
	require.Equal(t, []string{"vip", "meta"}, f.contacts[0].Tags)
	require.Equal(t, "IwAR-example-fbclid", f.contacts[0].Custom["fbclid"])
	require.JSONEq(t, `{"locationId":"locExample0000000001","pipelineId":"pl1","pipelineStageId":"st1","contactId":"ct1","name":"Ana Example",
		"status":"open","monetaryValue":1500.5}`, string(f.Calls("POST /opportunities/upsert")[0].Body))

	again := c.Deliver(t.Context(), a, crmtest.Lead(), d.Records)
	require.IsType(t, ledger.Accepted{}, again.Outcome)
	require.Equal(t, d.Records, again.Records)
	require.Len(t, f.Calls("POST /opportunities/upsert"), 1, "a known opportunity is left where the sales people put it")
	require.Len(t, f.Calls("PUT /contacts/ct1"), 1)
	require.NotContains(t, string(again.Sent), "locationId")
	require.NotContains(t, string(again.Sent), "source")
	require.Len(t, f.contacts, 1)
}

func TestAKnownContactThatIsGoneIsMadeAgain(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	d := gohighlevel.New().Deliver(t.Context(), account(f), crmtest.Lead(), []string{"contact:ct99"})
	require.IsType(t, ledger.Accepted{}, d.Outcome)
	require.Equal(t, []string{"contact:ct1"}, d.Records)
}

func TestALostAnswerLeavesOneRecord(t *testing.T) {
	t.Parallel()
	for _, duplicates := range []bool{false, true} {
		for _, step := range []string{"POST /contacts/upsert", "POST /opportunities", "POST /contacts/ct1/tags"} {
			f := newFake(t)
			f.duplicates = duplicates
			f.Next(1, crmtest.Cut, step)
			c, a := gohighlevel.New(), full(f.URL)
			d := c.Deliver(t.Context(), a, crmtest.Lead(), nil)
			require.IsType(t, ledger.Lost{}, d.Outcome, step)
			crmtest.Quiet(t, d)
			for _, known := range [][]string{nil, d.Records} {
				d = c.Deliver(t.Context(), a, crmtest.Lead(), known)
				require.IsType(t, ledger.Accepted{}, d.Outcome, step)
			}
			require.Len(t, f.contacts, 1, "%s, duplicates allowed: %v", step, duplicates)
			require.Len(t, f.deals, 1)
			require.Len(t, f.Writes("opportunity"), 1)
			require.Equal(t, []string{"meta"}, f.contacts[0].Tags)
		}
	}
}

func TestTwoEnquiriesOfOnePersonStayTwoWhereTheLocationWantsThat(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.duplicates = true
	c, a := gohighlevel.New(), account(f)
	second := crmtest.Lead()
	second.LeadID = "987650000012346"
	c.Deliver(t.Context(), a, crmtest.Lead(), nil)
	c.Deliver(t.Context(), a, second, nil)
	require.Len(t, f.contacts, 2)
}

func TestTroubleIsClassed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault crmtest.Fault
		match string
		want  ledger.Outcome
	}{
		"too many": {crmtest.TooMany, "POST /contacts/upsert", ledger.RetryAt{Reason: ledger.Throttled, Wait: 10 * time.Second}},
		"broken":   {crmtest.Broken, "POST /contacts/upsert", ledger.RetryAt{Reason: ledger.Backlog}},
		"page":     {crmtest.HTML, "POST /contacts/upsert", ledger.RetryAt{Reason: ledger.Backlog}},
		"search":   {crmtest.Cut, "GET /contacts/search", ledger.RetryAt{Reason: ledger.Backlog}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.Next(1, c.fault, c.match)
			d := gohighlevel.New().Deliver(t.Context(), account(f), crmtest.Lead(), nil)
			crmtest.Quiet(t, d)
			got, ok := d.Outcome.(ledger.RetryAt)
			require.True(t, ok, "%T", d.Outcome)
			got.Answer = ledger.Answer{}
			require.Equal(t, c.want, got)
			require.Empty(t, f.contacts)
		})
	}
}

func TestAHangIsLostAndRepeatedSafely(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.Next(1, crmtest.Hang, "POST /contacts/upsert")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	c := gohighlevel.New()
	require.IsType(t, ledger.Lost{}, c.Deliver(ctx, account(f), crmtest.Lead(), nil).Outcome)
	require.IsType(t, ledger.Accepted{}, c.Deliver(t.Context(), account(f), crmtest.Lead(), nil).Outcome)
	require.Len(t, f.Writes("contact"), 1)
}

func TestErrorShapes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		body   string
		want   ledger.Outcome
		says   string
	}{
		"token":     {401, `{"statusCode":401,"message":"Invalid JWT"}`, ledger.Hold{Reason: ledger.TokenInvalid}, "Invalid JWT"},
		"scope":     {401, `{"statusCode":401,"message":"The token is not authorized for this scope."}`, ledger.Hold{Reason: ledger.PermissionMissing}, "scope"},
		"forbidden": {403, `{"statusCode":403,"message":"Forbidden resource","error":"Forbidden"}`, ledger.Hold{Reason: ledger.PermissionMissing}, "Forbidden resource"},
		"location":  {422, `{"statusCode":422,"message":["locationId can't be undefined"],"error":"Unprocessable Entity"}`, ledger.Hold{Reason: ledger.FieldMissing}, "locationId"},
		"pipeline":  {400, `{"statusCode":400,"message":"The pipeline id is invalid."}`, ledger.Hold{Reason: ledger.FieldMissing}, "pipeline"},
		"array":     {422, `{"statusCode":422,"message":["email must be an email","phone +12025550143 is bad"],"error":"Unprocessable Entity"}`, ledger.Refusal{}, "email must be an email; phone *** is bad"},
		"string":    {400, `{"statusCode":400,"message":"Invalid JSON from Ana Example","error":"Bad Request"}`, ledger.Refusal{}, "Invalid JSON"},
		"empty":     {400, ``, ledger.Refusal{}, "bad request"},
		"not ours":  {200, `{}`, ledger.RetryAt{Reason: ledger.Backlog}, "does not name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					_, _ = w.Write([]byte(`{"contact":null}`))
					return
				}
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			}))
			t.Cleanup(s.Close)
			d := gohighlevel.New().Deliver(t.Context(), full(s.URL), crmtest.Lead(), nil)
			require.IsType(t, c.want, d.Outcome)
			if hold, ok := c.want.(ledger.Hold); ok {
				require.Equal(t, hold.Reason, d.Outcome.(ledger.Hold).Reason)
			}
			require.Contains(t, ledger.AnswerOf(d.Outcome).Message, c.says)
			crmtest.Quiet(t, d)
		})
	}
}

func TestTheFakeRefusesWhatGoHighLevelRefuses(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	for _, a := range []crm.Account{account(f, "location_id", ""), account(f, "location_id", "locOther"), account(f, "stage_id", "st9", "pipeline_id", "pl1")} {
		d := gohighlevel.New().Deliver(t.Context(), a, crmtest.Lead(), nil)
		require.IsType(t, ledger.Hold{}, d.Outcome)
		crmtest.Quiet(t, d)
	}
	for path, status := range map[string]int{"/contacts/upsert": 400, "/other": 400} { // no Version
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.URL+path, nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+crmtest.Token)
		answer, err := http.DefaultTransport.RoundTrip(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, status, answer.StatusCode)
	}
}

func TestAmountsAreNumbersOrLeftOut(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"1500": "1500", "1500.5": "1500.5", "1500.50": "1500.5", "1e3": "1000", "0": "", "-3": "", "abc": "", "NaN": "", "1 500,00": "", "": "",
	} {
		a := full("https://services.example.com")
		a.Options = secret.NewOptions(map[string]string{"pipeline_id": "pl1", "stage_id": "st1"}, nil, map[string]map[string]string{"fields": {"monetaryValue": "=" + given}})
		var body map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(gohighlevel.New().Preview(a, crmtest.Lead())[2].Body, &body))
		require.Equal(t, want, string(body["monetaryValue"]), given)
	}
}

func TestADayWithoutCallsIsWaitedFor(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.Busy = func(w http.ResponseWriter) {
		w.Header().Set("X-RateLimit-Daily-Remaining", "0")
		says(w, 429, "Too Many Requests")
	}
	f.Next(1, crmtest.TooMany, "GET /contacts")
	d := gohighlevel.New().Deliver(t.Context(), account(f), crmtest.Lead(), nil)
	require.Equal(t, time.Hour, d.Outcome.(ledger.RetryAt).Wait)
}

func TestOddLeadsGoToo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		contact ledger.Contact
		has     map[string]any
		lacks   []string
	}{
		"phone only":     {ledger.Contact{Phone: "202 555 0143", FirstName: "Ana"}, map[string]any{"phone": "+12025550143"}, []string{"email"}},
		"nothing":        {ledger.Contact{FullName: "Ana María Example"}, map[string]any{"firstName": "Ana", "lastName": "María Example"}, []string{"email", "phone"}},
		"bad phone":      {ledger.Contact{Phone: "call me", Email: "ana.lead@example.com"}, map[string]any{"email": "ana.lead@example.com"}, []string{"phone"}},
		"bad email":      {ledger.Contact{Phone: "202 555 0143", Email: "ana.lead"}, map[string]any{"phone": "+12025550143"}, []string{"email"}},
		"country":        {ledger.Contact{Email: "ana.lead@example.com", Country: "United States"}, map[string]any{"country": "US"}, nil},
		"country of odd": {ledger.Contact{Email: "ana.lead@example.com", Country: "Atlantis"}, nil, []string{"country"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			l := crmtest.Lead()
			l.Contact, l.Test = c.contact, true
			d := gohighlevel.New().Deliver(t.Context(), account(f), l, nil)
			require.IsType(t, ledger.Accepted{}, d.Outcome, ledger.AnswerOf(d.Outcome).Message)
			for k, v := range c.has {
				require.Equal(t, v, f.contacts[0].Fields[k], k)
			}
			for _, k := range c.lacks {
				require.NotContains(t, f.contacts[0].Fields, k)
			}
			require.Equal(t, "Meta Lead Ad (test)", f.contacts[0].Fields["source"])
			require.Equal(t, []string{"test lead"}, f.contacts[0].Tags)
		})
	}
}

func TestOAuthRenewsAndKeepsTheNewToken(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	a := account(f, "token", "", "client_id", "client-1", "client_secret", "made-up-client-secret", "refresh_token", f.refresh)
	kept := map[string]string{}
	a.SaveOption = func(_ context.Context, name string, value secret.Secret) error {
		kept[name] = value.Reveal()
		return nil
	}
	c := gohighlevel.New()
	require.IsType(t, ledger.Accepted{}, c.Deliver(t.Context(), a, crmtest.Lead(), nil).Outcome)
	require.Equal(t, "made-up-refresh-1", kept["refresh_token"])
	f.access = "made-up-ended"
	require.IsType(t, ledger.Accepted{}, c.Deliver(t.Context(), a, crmtest.Lead(), nil).Outcome)
	require.Equal(t, "made-up-refresh-2", kept["refresh_token"])
	require.Len(t, f.contacts, 1)

	a.ID, f.refresh = 8, "made-up-other"
	d := c.Deliver(t.Context(), a, crmtest.Lead(), nil)
	require.Equal(t, ledger.TokenInvalid, d.Outcome.(ledger.Hold).Reason)
	crmtest.Quiet(t, d)
}

func TestCheckFindsAndRepairs(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	delete(f.custom, "meta_lead_id")
	c, a := gohighlevel.New(), full(f.URL)
	name := func(checks []crm.Check, name string) crm.Check {
		i := slices.IndexFunc(checks, func(x crm.Check) bool { return x.Name == name })
		require.GreaterOrEqual(t, i, 0, name)
		return checks[i]
	}
	checks := c.Check(t.Context(), a, false)
	require.True(t, name(checks, "access").OK)
	require.False(t, name(checks, "lead id field").OK)
	require.True(t, name(checks, "custom fields").Warning)
	require.True(t, name(checks, "pipeline").OK)
	require.Empty(t, f.Writes("field"))

	require.True(t, name(c.Check(t.Context(), a, true), "custom fields").OK)
	require.Contains(t, f.custom, "meta_lead_id")
	require.Contains(t, f.custom, "li_fat_id")
	made := len(f.Writes("field"))
	for _, check := range c.Check(t.Context(), a, true) {
		require.True(t, check.OK, check.Sentence)
	}
	require.Len(t, f.Writes("field"), made)

	checks = c.Check(t.Context(), account(f, "token", "made-up-wrong-token"), false)
	require.False(t, checks[0].OK)
	require.Contains(t, checks[0].Sentence, "Invalid JWT")
	require.False(t, name(c.Check(t.Context(), account(f, "pipeline_id", "pl2"), false), "pipeline").OK)
	f.Next(1, crmtest.Broken, "GET /opportunities/pipelines")
	require.False(t, name(c.Check(t.Context(), a, false), "pipeline").OK)
	delete(f.custom, "fbc")
	f.Next(1, crmtest.Broken, "POST /locations")
	require.True(t, name(c.Check(t.Context(), a, true), "custom field fbc").Warning)
}

func TestPreview(t *testing.T) {
	t.Parallel()
	a := crmtest.Account(gohighlevel.Kind, "", "location_id", location)
	crmtest.Golden(t, "contact", gohighlevel.New().Preview(a, crmtest.Lead()))
	l := crmtest.Lead()
	l.Test, l.LeadID = true, ""
	crmtest.Golden(t, "full", gohighlevel.New().Preview(full("https://services.example.com"), l))
}

func TestTheSampleAnswerIsUnderstood(t *testing.T) {
	t.Parallel()
	sample := `{"new":true,"contact":{"id":"ctExample00000000001","customFields":[{"id":"cfExample0000000001","value":"987650000012345"}]},"traceId":"00000000-0000-4000-8000-0000000000a1"}`
	require.True(t, json.Valid([]byte(sample)))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(sample)) }))
	t.Cleanup(s.Close)
	d := gohighlevel.New().Deliver(t.Context(), crmtest.Account(gohighlevel.Kind, s.URL, "location_id", location), crmtest.Lead(), nil)
	require.Equal(t, []string{"contact:ctExample00000000001"}, d.Records)
}

func TestUnsavedTokenDoesNotStop(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	a := account(f, "client_id", "client-1", "client_secret", "made-up-client-secret", "refresh_token", f.refresh)
	a.SaveOption = func(context.Context, string, secret.Secret) error { return errors.New("disk full") }
	require.IsType(t, ledger.Accepted{}, gohighlevel.New().Deliver(t.Context(), a, crmtest.Lead(), nil).Outcome)
}
