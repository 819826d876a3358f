package kommo_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/crm/crmtest"
	"github.com/capiloop/capiloop/internal/crm/kommo"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
)

var _ crm.CRM = (*kommo.CRM)(nil)

func account(address string, more ...string) crm.Account {
	return crmtest.Account(kommo.Kind, address, more...)
}

// full is an account with all settings.
func full(address string) crm.Account {
	a := account(address)
	a.Options = secret.NewOptions(
		map[string]string{"url": address, "token": crmtest.Token, "allow_private": "true", "pipeline_id": "3000001", "status_id": "30000011", "lead_id_field": "900001"},
		map[string][]string{"tags": {"meta"}},
		map[string]map[string]string{"fields": {"price": "=1500.4", "FBCLID": "-"}})
	return a
}

func TestTheSampleRequest(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	l := crmtest.Lead()
	l.IP, l.PageURL, l.CreatedAt = "203.0.113.7", "https://www.example.com", time.Unix(1795000000, 0)
	d := kommo.Old().Deliver(t.Context(), full(f.URL), l, nil)
	require.IsType(t, ledger.Accepted{}, d.Outcome, ledger.AnswerOf(d.Outcome).Message)
	require.Equal(t, []string{"lead:7000101", "contact:8000101"}, d.Records)
	require.JSONEq(t, `[{"name":"Ana Example – Meta lead","price":1500,"pipeline_id":3000001,"status_id":30000011,"request_id":"987650000012345",
		"custom_fields_values":[{"field_id":900001,"values":[{"value":"987650000012345"}]}],
		"_embedded":{"tags":[{"name":"meta"}],
			"contacts":[{"first_name":"Ana","last_name":"Example","custom_fields_values":[
				{"field_code":"EMAIL","values":[{"enum_code":"WORK","value":"ana.lead@example.com"}]},
				{"field_code":"PHONE","values":[{"enum_code":"WORK","value":"+12025550143"}]}]}],
			"metadata":{"category":"forms","form_id":"200000000000002","form_name":"Form A","form_page":"https://www.example.com",
				"form_sent_at":1795000000,"ip":"203.0.113.7","referer":"https://www.example.com"}}}]`, string(d.Sent))
	crmtest.Quiet(t, d)
}

func TestAnUpdateTouchesOurFieldsOnly(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	c, a := kommo.Old(), account(f.URL)
	first := c.Deliver(t.Context(), a, crmtest.Lead(), nil)
	for _, known := range [][]string{first.Records, nil} { // known, and found by the search
		d := c.Deliver(t.Context(), a, crmtest.Lead(), known)
		require.IsType(t, ledger.Accepted{}, d.Outcome)
		require.Equal(t, first.Records, d.Records)
		var body map[string]any
		require.NoError(t, json.Unmarshal(d.Sent, &body))
		require.Len(t, body, 1)
	}
	require.Len(t, f.Writes("lead"), 1)
	require.Equal(t, "987650000012345", f.leads[0].Custom[900001])
	require.Equal(t, "IwAR-example-fbclid", f.leads[0].Custom[900002])
	require.Len(t, f.Calls("GET /api/v4/leads/custom_fields"), 2, "two pages, once")

	f.leads[0].Gone = true
	d := c.Deliver(t.Context(), a, crmtest.Lead(), first.Records)
	require.Equal(t, []string{"lead:7000102", "contact:8000102"}, d.Records)
}

func TestALostAnswerLeavesOneRecord(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]crmtest.Fault{"cut": crmtest.Cut, "hang": crmtest.Hang} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.lag = 300 * time.Millisecond
			f.Next(1, fault, "POST /api/v4/leads/complex")
			c := kommo.Old()
			c.SetLag(600 * time.Millisecond)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			d := c.Deliver(ctx, account(f.URL), crmtest.Lead(), nil)
			require.IsType(t, ledger.Lost{}, d.Outcome)
			require.Empty(t, d.Records)
			crmtest.Quiet(t, d)

			short, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer stop()
			require.IsType(t, ledger.RetryAt{}, c.Deliver(short, account(f.URL), crmtest.Lead(), nil).Outcome)
			other := crmtest.Lead()
			other.LeadID = "987650000012999"
			require.IsType(t, ledger.Accepted{}, c.Deliver(t.Context(), account(f.URL), other, nil).Outcome, "a lost one delays nobody else")

			d = c.Deliver(t.Context(), account(f.URL), crmtest.Lead(), nil)
			require.IsType(t, ledger.Accepted{}, d.Outcome)
			require.NotEmpty(t, d.Records)
			var keys []string
			for _, w := range f.Writes("lead") {
				keys = append(keys, w.Key)
			}
			require.ElementsMatch(t, []string{"987650000012345", "987650000012999"}, keys)
		})
	}
}

func TestAfterACrashTheSearchIsAskedTwice(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.lag = 200 * time.Millisecond
	first := kommo.Old().Deliver(t.Context(), account(f.URL), crmtest.Lead(), nil) // and then the process dies
	require.IsType(t, ledger.Accepted{}, first.Outcome)
	next := kommo.New()
	next.SetLag(400 * time.Millisecond)
	fresh := crmtest.Lead()
	fresh.LeadID, fresh.CreatedAt = "987650000012777", time.Now()
	began := time.Now()
	require.IsType(t, ledger.Accepted{}, next.Deliver(t.Context(), account(f.URL), fresh, nil).Outcome)
	require.Less(t, time.Since(began), 300*time.Millisecond, "a lead that came since needs no second look")
	d := next.Deliver(t.Context(), account(f.URL), crmtest.Lead(), nil)
	require.IsType(t, ledger.Accepted{}, d.Outcome)
	require.Equal(t, first.Records, d.Records)
	require.Len(t, f.leads, 2)
}

func TestAmountsAreWholeNumbersOrLeftOut(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"1500": "1500", "1500.5": "1501", "1500.50": "1501", "1e3": "1000", "0": "", "-3": "", "": "", "abc": "", "NaN": "", "Inf": "", "1 500,00": "", "1e99": "",
	} {
		a := account("https://example.kommo.com")
		a.Options = secret.NewOptions(nil, nil, map[string]map[string]string{"fields": {"price": "=" + given}})
		calls := kommo.Old().Preview(a, crmtest.Lead())
		var body []map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(calls[1].Body, &body))
		require.Equal(t, want, string(body[0]["price"]), given)
	}
}

func TestTroubleIsClassed(t *testing.T) {
	t.Parallel()
	const create = "POST /api/v4/leads/complex"
	for name, c := range map[string]struct {
		fault crmtest.Fault
		match string
		want  ledger.RetryAt
	}{
		"too many": {crmtest.TooMany, create, ledger.RetryAt{Reason: ledger.Throttled, Wait: 2 * time.Second}},
		"broken":   {crmtest.Broken, create, ledger.RetryAt{Reason: ledger.Backlog}},
		"page":     {crmtest.HTML, create, ledger.RetryAt{Reason: ledger.Backlog}},
		"search":   {crmtest.Cut, "GET /api/v4/leads", ledger.RetryAt{Reason: ledger.Backlog}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.Next(1, c.fault, c.match)
			k := kommo.Old()
			k.SetLag(10 * time.Millisecond)
			d := k.Deliver(t.Context(), account(f.URL), crmtest.Lead(), nil)
			crmtest.Quiet(t, d)
			got, ok := d.Outcome.(ledger.RetryAt)
			require.True(t, ok, "%T", d.Outcome)
			got.Answer = ledger.Answer{}
			require.Equal(t, c.want, got)
			require.IsType(t, ledger.Accepted{}, k.Deliver(t.Context(), account(f.URL), crmtest.Lead(), nil).Outcome)
			require.Len(t, f.leads, 1)
		})
	}
}

func TestTooManyCallsEndInABlock(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.limit = 0
	c := kommo.Old()
	for range 3 {
		require.Equal(t, ledger.Throttled, c.Deliver(t.Context(), account(f.URL), crmtest.Lead(), nil).Outcome.(ledger.RetryAt).Reason)
	}
	require.Equal(t, ledger.Blocked, c.Deliver(t.Context(), account(f.URL), crmtest.Lead(), nil).Outcome.(ledger.Hold).Reason)
	parallel, perSecond := c.Pace(account(f.URL))
	require.LessOrEqual(t, 2*perSecond, 7.0)
	require.LessOrEqual(t, parallel, 7)
}

func TestErrorShapes(t *testing.T) {
	t.Parallel()
	const detail = `"title":"Bad Request","type":"https://httpstatus.es/400","status":400,"detail":"Request validation failed"`
	at := func(code, path, detail string) string {
		return `{"validation-errors":[{"request_id":"0","errors":[{"code":"` + code + `","path":"` + path + `","detail":"` + detail + `"}]}],`
	}
	for name, c := range map[string]struct {
		status int
		body   string
		want   ledger.Outcome
		says   string
	}{
		"sample":   {400, at("NotSupportedChoice", "custom_fields_values.0.field_id", "The value you selected is not a valid choice.") + detail + "}", ledger.Hold{Reason: ledger.FieldMissing}, "custom_fields_values.0.field_id: The value you selected is not a valid choice. (NotSupportedChoice)"},
		"pipeline": {400, at("NotSupportedChoice", "pipeline_id", "No.") + detail + "}", ledger.Hold{Reason: ledger.FieldMissing}, "pipeline_id"},
		"value":    {400, at("InvalidType", "name", "Ana Example is too long") + detail + "}", ledger.Refusal{}, "name: *** is too long (InvalidType)"},
		"bare":     {400, "{" + detail + "}", ledger.Refusal{}, "Request validation failed"},
		"token":    {401, `{"title":"Unauthorized","status":401,"detail":"The token made-up-token-0001-no-real-one has expired"}`, ledger.Hold{Reason: ledger.TokenInvalid}, "has expired"},
		"unpaid":   {402, `{"title":"Payment Required","status":402,"detail":"Account is not paid"}`, ledger.Hold{Reason: ledger.PermissionMissing}, "not paid"},
		"rights":   {403, `{"title":"Forbidden","status":403,"detail":"No rights"}`, ledger.Hold{Reason: ledger.PermissionMissing}, "No rights"},
		"unclear":  {200, `[]`, ledger.Lost{}, "does not name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					w.WriteHeader(http.StatusNoContent)
					return
				}
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			}))
			t.Cleanup(s.Close)
			d := kommo.Old().Deliver(t.Context(), full(s.URL), crmtest.Lead(), nil)
			require.IsType(t, c.want, d.Outcome)
			if hold, ok := c.want.(ledger.Hold); ok {
				require.Equal(t, hold.Reason, d.Outcome.(ledger.Hold).Reason)
			}
			require.Contains(t, ledger.AnswerOf(d.Outcome).Message, c.says)
			crmtest.Quiet(t, d)
		})
	}
}

func TestAMergeIsTold(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.merge = true
	c, second := kommo.Old(), crmtest.Lead()
	second.LeadID = "987650000012346"
	c.Deliver(t.Context(), account(f.URL), crmtest.Lead(), nil)
	d := c.Deliver(t.Context(), account(f.URL), second, nil)
	require.Contains(t, d.Outcome.(ledger.Accepted).Answer.Message, "merged it into lead 7000101")
	require.Equal(t, "lead:7000101", d.Records[0])
}

func TestAFormThatKommoDoesNotLikeIsLeftOut(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.noForms = true
	d := kommo.Old().Deliver(t.Context(), account(f.URL), crmtest.Lead(), nil)
	require.IsType(t, ledger.Accepted{}, d.Outcome, ledger.AnswerOf(d.Outcome).Message)
	require.NotContains(t, string(d.Sent), "metadata")
	require.Len(t, f.leads, 1)
}

func TestWithoutAFieldForTheLeadIDNothingIsMade(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.fields = nil
	c := kommo.Old()
	d := c.Deliver(t.Context(), account(f.URL), crmtest.Lead(), nil)
	require.Equal(t, ledger.FieldMissing, d.Outcome.(ledger.Hold).Reason)
	require.Empty(t, f.leads)

	checks := c.Check(t.Context(), account(f.URL), false)
	require.False(t, line(t, checks, "lead id field").OK)
	require.Empty(t, f.fields)
	require.True(t, line(t, c.Check(t.Context(), account(f.URL), true), "lead id field").OK)
	require.Len(t, f.Writes("field"), 2)
	require.True(t, line(t, c.Check(t.Context(), account(f.URL), true), "lead id field").OK)
	require.Len(t, f.Writes("field"), 2)
	require.IsType(t, ledger.Accepted{}, c.Deliver(t.Context(), account(f.URL), crmtest.Lead(), nil).Outcome)
	require.Contains(t, string(f.Calls("POST /api/v4/leads/complex")[0].Body), "What are you looking for?: roof_repair")
}

func TestAFieldThatVanishesIsNoticed(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	c := kommo.Old()
	c.Deliver(t.Context(), account(f.URL), crmtest.Lead(), nil)
	f.fields = slices.DeleteFunc(f.fields, func(x field) bool { return x.Code == "FBCLID" })
	second := crmtest.Lead()
	second.LeadID = "987650000012346"
	require.IsType(t, ledger.Hold{}, c.Deliver(t.Context(), account(f.URL), second, nil).Outcome)
	require.IsType(t, ledger.Accepted{}, c.Deliver(t.Context(), account(f.URL), second, nil).Outcome)
	require.Len(t, f.leads, 2)
}

func line(t *testing.T, checks []crm.Check, name string) crm.Check {
	t.Helper()
	i := slices.IndexFunc(checks, func(x crm.Check) bool { return x.Name == name })
	require.GreaterOrEqual(t, i, 0, name)
	return checks[i]
}

func TestCheck(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	c := kommo.Old()
	checks := c.Check(t.Context(), full(f.URL), false)
	for _, name := range []string{"access", "lead id field", "pipeline"} {
		require.True(t, line(t, checks, name).OK, name)
	}
	a := account(f.URL, "lead_id_field", "5", "pipeline_id", "3000001", "status_id", "9")
	a.Currency = "EUR"
	checks = c.Check(t.Context(), a, true)
	require.True(t, line(t, checks, "currency").Warning)
	require.False(t, line(t, checks, "lead id field").OK)
	require.False(t, line(t, checks, "pipeline").OK)
	require.False(t, line(t, c.Check(t.Context(), account(f.URL, "pipeline_id", "4"), false), "pipeline").OK)
	checks = c.Check(t.Context(), account(f.URL, "token", "made-up-other-token"), false)
	require.False(t, checks[0].OK)
	a.Options = secret.NewOptions(map[string]string{"url": f.URL, "token": crmtest.Token, "allow_private": "true"}, nil,
		map[string]map[string]string{"fields": {"Colour": "answer:colour", "budget": "answer:budget", "contact.POSITION": "job_title"}})
	require.Contains(t, line(t, c.Check(t.Context(), a, false), "fields").Sentence, "Colour;")
}

func TestFieldsOfEachType(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.fields = append(f.fields, field{900004, "Test?", "", "checkbox"})
	a := account(f.URL)
	a.Options = secret.NewOptions(map[string]string{"url": f.URL, "token": crmtest.Token, "allow_private": "true"}, nil,
		map[string]map[string]string{"fields": {"Budget": "=1500.50", "900004": "is_test", "Test?": "is_test", "contact.700009": "city", "contact.web": "=x", "name": "{{first_name}}!", "price": "=-3"}})
	l := crmtest.Lead()
	l.Test, l.Contact.JobTitle, l.Contact.City, l.Contact.Company = true, "Boss", "Washington", "Example Ltd"
	d := kommo.Old().Deliver(t.Context(), a, l, nil)
	require.IsType(t, ledger.Accepted{}, d.Outcome, ledger.AnswerOf(d.Outcome).Message)
	require.InDelta(t, 1500.5, f.leads[0].Custom[900003], 0)
	sent := string(d.Sent)
	require.Contains(t, sent, `"name":"Ana!"`)
	require.Contains(t, sent, `"name":"test lead"`)
	require.Contains(t, sent, `"field_code":"POSITION"`)
	require.Contains(t, sent, `"field_id":700009`)
	require.Contains(t, sent, `"companies":[{"name":"Example Ltd"}]`)
	require.NotContains(t, sent, "price")
}

func TestAPersonWithoutANameIsNamedByHowToReachThem(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	l := crmtest.Lead()
	l.Contact, l.Origin.FormID = ledger.Contact{Phone: "202 555 0143"}, ""
	d := kommo.Old().Deliver(t.Context(), account(f.URL), l, nil)
	require.IsType(t, ledger.Accepted{}, d.Outcome)
	require.Contains(t, string(d.Sent), `"first_name":"+12025550143"`)
	require.Contains(t, string(d.Sent), `"name":"+12025550143 – Meta lead"`)
	require.NotContains(t, string(d.Sent), "metadata")
}

func TestOAuthRenewsAndKeepsTheNewToken(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	a := account(f.URL, "client_id", "client-1", "client_secret", "made-up-client-secret", "refresh_token", f.refresh, "redirect_uri", "https://example.com/back")
	kept := ""
	a.SaveOption = func(_ context.Context, name string, value secret.Secret) error {
		kept = name + "=" + value.Reveal()
		return nil
	}
	c := kommo.Old()
	require.IsType(t, ledger.Accepted{}, c.Deliver(t.Context(), a, crmtest.Lead(), nil).Outcome)
	require.Equal(t, "refresh_token=made-up-refresh-1", kept)
	a.ID, f.refresh = 8, "made-up-other"
	d := c.Deliver(t.Context(), a, crmtest.Lead(), nil)
	require.Equal(t, ledger.TokenInvalid, d.Outcome.(ledger.Hold).Reason)
	crmtest.Quiet(t, d)
}

func TestPreview(t *testing.T) {
	t.Parallel()
	crmtest.Golden(t, "named", kommo.Old().Preview(account("https://example.kommo.com"), crmtest.Lead()))
	l := crmtest.Lead()
	l.Test = true
	crmtest.Golden(t, "full", kommo.Old().Preview(full("https://example.amocrm.ru/"), l))
	for _, o := range kommo.Old().Options() {
		require.NotEmpty(t, strings.TrimSpace(o.Help))
	}
}
