package webhook_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/crm/crmtest"
	"github.com/capiloop/capiloop/internal/crm/webhook"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
)

func TestSignVectors(t *testing.T) {
	t.Parallel()
	got, err := webhook.Sign("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	require.NoError(t, err)
	require.Equal(t, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", got)
	body := `{"type":"crm.stage_changed","timestamp":"2026-11-25T10:00:00Z","data":{"crm":"custom","record_id":"deal-77","lead_id":"987650000012345",` +
		`"stage":"Closed Won","previous_stage":"Negotiation","value":1500.5,"currency":"USD","email":"ana.lead@example.com","phone":"+12025550143","changed_at":"2026-11-25T09:59:58Z"}}`
	got, err = webhook.Sign(whsec, "msg_example0001", "1795000000", []byte(body))
	require.NoError(t, err)
	require.Equal(t, "v1,bgzb4MsyCAI0WXrl56AeHN5KDwFhPDIi6UsKYmBX6fk=", got)
	got, err = webhook.Sign(whsec+" whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "a", "1", nil)
	require.NoError(t, err)
	require.Regexp(t, `^v1,\S+ v1,\S+$`, got)
	for _, bad := range []string{"", " ", "whsec_", "whsec_AQID", "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=", "whsec_?"} {
		_, err := webhook.Sign(bad, "a", "1", nil)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "AQID")
	}
}

func TestRepeatsLeaveOneLead(t *testing.T) {
	t.Parallel()
	f := newReceiver(t)
	a, l := crmtest.Account("webhook", f.URL, "secret", whsec), crmtest.Lead()
	w := webhook.New()
	for _, step := range []struct {
		fault crmtest.Fault
		want  ledger.Outcome
	}{{crmtest.TooMany, ledger.RetryAt{}}, {crmtest.Broken, ledger.RetryAt{}}, {crmtest.HTML, ledger.RetryAt{}}, {crmtest.Cut, ledger.Lost{}}} {
		f.Next(1, step.fault, "POST")
		d := w.Deliver(t.Context(), a, l, nil)
		require.IsType(t, step.want, d.Outcome)
		crmtest.Quiet(t, d)
	}
	d := w.Deliver(t.Context(), a, l, nil)
	require.IsType(t, ledger.Accepted{}, d.Outcome)
	require.Len(t, f.Writes("lead"), 1)
	calls := f.Calls("POST")
	require.Len(t, calls, 5)
	for _, c := range calls {
		require.Equal(t, calls[0].Header.Get("webhook-id"), c.Header.Get("webhook-id"))
		require.Equal(t, string(calls[0].Body), string(c.Body))
	}
	require.Equal(t, string(calls[0].Body), string(d.Sent))
}

func TestWrongSecretIsHeld(t *testing.T) {
	t.Parallel()
	f := newReceiver(t)
	for _, wrong := range []string{"", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "made-up-no-secret"} {
		d := webhook.New().Deliver(t.Context(), crmtest.Account("webhook", f.URL, "secret", wrong), crmtest.Lead(), nil)
		require.Equal(t, ledger.TokenInvalid, d.Outcome.(ledger.Hold).Reason)
		crmtest.Quiet(t, d)
	}
	require.Empty(t, f.Writes("lead"))
}

func TestPrivateAddressNeedsLeave(t *testing.T) {
	t.Parallel()
	f := newReceiver(t)
	d := webhook.New().Deliver(t.Context(), crmtest.Account("webhook", f.URL, "allow_private", "false"), crmtest.Lead(), nil)
	require.IsType(t, ledger.Hold{}, d.Outcome)
	require.Empty(t, f.Calls(""))
}

func TestJudge(t *testing.T) {
	t.Parallel()
	const zapier, maker, n8n, script = "https://hooks.zapier.com/hooks/catch/1/made-up/", "https://hook.eu1.make.com/made-up", "https://n8n.example.com/webhook/x",
		"https://script.google.com/macros/s/made-up/exec"
	for _, c := range []struct {
		url    string
		status int
		body   string
		want   ledger.Outcome
	}{
		{zapier, 200, `{"attempt":"00000000-0000-4000-8000-0000000000e1","id":"0","request_id":"0","status":"success"}`, ledger.Accepted{}},
		{zapier, 429, ``, ledger.RetryAt{Reason: ledger.Throttled}},
		{maker, 200, `Accepted`, ledger.Accepted{}},
		{maker, 400, `Queue is full.`, ledger.RetryAt{Reason: ledger.Backlog}},
		{maker, 400, `bad`, ledger.Refusal{}},
		{maker, 410, `There is no scenario listening for this webhook.`, ledger.Hold{Reason: ledger.AddressGone}},
		{n8n, 200, `{"message":"Workflow was started"}`, ledger.Accepted{}},
		{n8n, 200, ``, ledger.Accepted{}},
		{n8n, 204, "\r\n", ledger.Accepted{}},
		{n8n, 200, `<?xml version="1.0"?><ok/>`, ledger.Accepted{}},
		{n8n, 200, `taken, see <html>`, ledger.Accepted{}},
		{n8n, 200, `<!DOCTYPE html><title>Log in</title>`, ledger.Hold{Reason: ledger.AddressGone}},
		{n8n, 202, "\ufeff \n<HtMl lang=en>Ana Example", ledger.Hold{Reason: ledger.AddressGone}},
		{zapier, 200, " \n\ufeff<!doctype HTML>", ledger.Hold{Reason: ledger.AddressGone}},
		{n8n, 502, `<!DOCTYPE html><title>Bad gateway</title>`, ledger.RetryAt{Reason: ledger.Backlog}},
		{n8n, 400, `<html>`, ledger.Refusal{}},
		{n8n, 404, `{"code":404,"message":"The requested webhook \"x\" is not registered."}`, ledger.Hold{Reason: ledger.AddressGone}},
		{script, 200, `{"ok":true}`, ledger.Accepted{}},
		{script, 200, `done`, ledger.Accepted{}},
		{script, 200, `{"result":"error","error":"no sheet for Ana Example"}`, ledger.RetryAt{Reason: ledger.Backlog}},
		{script, 200, `{"ok":false}`, ledger.RetryAt{Reason: ledger.Backlog}},
		{script, 200, `<!DOCTYPE html><title>Error</title>`, ledger.Hold{Reason: ledger.AddressGone}},
		{script, 302, ``, ledger.Hold{Reason: ledger.AddressGone}},
	} {
		a := crmtest.Account("webhook", c.url)
		got := webhook.Judge(a, crmtest.Lead(), crm.Reply{Status: c.status, Body: []byte(c.body)}, nil)
		crmtest.Quiet(t, crm.Delivered{Outcome: got})
		require.IsType(t, c.want, got, "%s %d %s", c.url, c.status, c.body)
		switch o := got.(type) {
		case ledger.Hold:
			require.Equal(t, c.want.(ledger.Hold).Reason, o.Reason)
		case ledger.RetryAt:
			require.Equal(t, c.want.(ledger.RetryAt).Reason, o.Reason)
		}
	}
}

// TestAPageIsNoReceiver: people learn what is there and what to do.
func TestAPageIsNoReceiver(t *testing.T) {
	t.Parallel()
	got := webhook.Judge(crmtest.Account("webhook", "https://crm.example.com/x"), crmtest.Lead(), crm.Reply{Status: 200, Body: []byte("<html>")}, nil)
	require.Regexp(t, `page of HTML.*login.*set`, ledger.AnswerOf(got).Message)
	require.Equal(t, 200, ledger.AnswerOf(got).Status)
}

// TestAnEmptyAnswerCostsNothing: there is nothing to hide in it.
func TestAnEmptyAnswerCostsNothing(t *testing.T) {
	a, l := crmtest.Account("webhook", "https://crm.example.com/x"), crmtest.Lead()
	require.Less(t, testing.AllocsPerRun(10, func() { webhook.Judge(a, l, crm.Reply{Status: 200}, nil) }), 5.0)
}

func TestPreview(t *testing.T) {
	t.Parallel()
	l := crmtest.Lead()
	for _, format := range []string{"flat", "full", "fields"} {
		a := crmtest.Account("webhook", "https://hooks.example.com/1")
		a.Options = secret.NewOptions(map[string]string{"url": "https://hooks.example.com/1", "format": format}, nil,
			map[string]map[string]string{"fields": {"greeting": "Hello {{first_name}}", "channel": "=ads", "gender": "-"}})
		crmtest.Golden(t, format, webhook.New().Preview(a, l))
	}
}

// TestFlatKeepsItsKeys: what learns the keys from one lead must find them in the next one.
func TestFlatKeepsItsKeys(t *testing.T) {
	t.Parallel()
	a := crmtest.Account("webhook", "https://hooks.example.com/1")
	var rich, poor map[string]any
	require.NoError(t, json.Unmarshal(webhook.Body(a, crmtest.Lead()), &rich))
	require.NoError(t, json.Unmarshal(webhook.Body(a, &ledger.Lead{}), &poor))
	for key := range rich {
		if key != "answer_what_are_you_looking_for" {
			require.Contains(t, poor, key)
		}
	}
	sample := map[string]any{
		"id": "987650000012345", "source": "meta", "created_at": "2026-11-18T11:06:37Z", "full_name": "Ana Example", "first_name": "Ana", "last_name": "Example",
		"email": "ana.lead@example.com", "phone": "+12025550143", "campaign_id": "300000000000001", "campaign_name": "Campaign A", "adset_name": "Set A",
		"ad_name": "Ad A", "form_id": "200000000000002", "form_name": "Form A", "platform": "ig", "is_organic": false,
		"answer_what_are_you_looking_for": "roof_repair", "is_test": false,
	} // zapier-lead-flat.json
	for key, want := range sample {
		require.Equal(t, want, rich[key], key)
	}
	l := &ledger.Lead{Answers: []ledger.FormAnswer{{Question: "A?", Values: []string{"1", "2"}}, {Question: "a", Values: []string{"3"}}, {Question: "??", Values: nil}}}
	var body map[string]any
	require.NoError(t, json.Unmarshal(webhook.Body(a, l), &body))
	require.Equal(t, []any{"1, 2", "3", ""}, []any{body["answer_a"], body["answer_a_2"], body["answer_3"]})
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	f := newReceiver(t)
	a := crmtest.Account("webhook", f.URL)
	a.Options = secret.NewOptions(map[string]string{"url": f.URL, "secret": whsec, "allow_private": "true"}, nil,
		map[string]map[string]string{"headers": {"X-Own": "made-up-value", "webhook-id": "forged"}})
	require.IsType(t, ledger.Accepted{}, webhook.New().Deliver(t.Context(), a, crmtest.Lead(), nil).Outcome)
	require.Equal(t, "made-up-value", f.Calls("POST")[0].Header.Get("X-Own"))
	require.Equal(t, webhook.ID(crmtest.Lead()), f.Calls("POST")[0].Header.Get("Webhook-Id"))
}

func TestCheck(t *testing.T) {
	t.Parallel()
	check := func(texts map[string]string, tables map[string]map[string]string) (bad, warnings int) {
		for _, c := range webhook.New().Check(t.Context(), crm.Account{Options: secret.NewOptions(texts, nil, tables)}, true) {
			if c.Warning {
				warnings++
			} else if !c.OK {
				bad++
			}
			if !c.OK {
				require.NotEmpty(t, c.NextStep)
			}
			crmtest.QuietText(t, c.Sentence)
		}
		return bad, warnings
	}
	for name, c := range map[string]struct {
		texts         map[string]string
		tables        map[string]map[string]string
		bad, warnings int
	}{
		"good":          {texts: map[string]string{"url": "https://example.com/made-up", "secret": whsec}},
		"no url":        {bad: 1},
		"plain":         {texts: map[string]string{"url": "http://example.com/"}, bad: 1},
		"plain at home": {texts: map[string]string{"url": "http://n8n:5678/webhook/x", "allow_private": "true"}},
		"n8n's test":    {texts: map[string]string{"url": "https://n8n.example.com/webhook-test/x"}, warnings: 1},
		"secret":        {texts: map[string]string{"url": "https://example.com/", "secret": "made-up"}, bad: 1},
		"format":        {texts: map[string]string{"url": "https://example.com/", "format": "xml"}, warnings: 1},
		"tables": {
			texts:  map[string]string{"url": "https://example.com/"},
			tables: map[string]map[string]string{"headers": {"a b": "x", "ok": "y", "z": "a\nb"}, "fields": {"x": "nothing"}}, bad: 2, warnings: 1,
		},
	} {
		bad, warnings := check(c.texts, c.tables)
		require.Equal(t, [2]int{c.bad, c.warnings}, [2]int{bad, warnings}, name)
	}
	require.NotEmpty(t, webhook.New().Options())
	parallel, rate := webhook.New().Pace(crm.Account{})
	require.Positive(t, parallel)
	require.Positive(t, rate)
}

func FuzzJudge(f *testing.F) {
	f.Add(200, `{"ok":false}`)
	f.Add(http.StatusBadRequest, `Queue is full`)
	f.Fuzz(func(t *testing.T, status int, body string) {
		for _, address := range []string{"https://script.google.com/x", "https://hook.eu1.make.com/x"} {
			o := webhook.Judge(crmtest.Account("webhook", address), crmtest.Lead(), crm.Reply{Status: status, Body: []byte(body)}, nil)
			require.NotNil(t, o)
		}
	})
}
