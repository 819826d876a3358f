package hubspot_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/crm/crmtest"
	"github.com/capiloop/capiloop/internal/crm/hubspot"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
)

func TestNewContactThenTheSameAgain(t *testing.T) {
	t.Parallel()
	h := newPortal(t)
	a, l := crmtest.Account("hubspot", h.URL), crmtest.Lead()
	crmOf := hubspot.New()
	d := crmOf.Deliver(t.Context(), a, l, nil)
	require.IsType(t, ledger.Accepted{}, d.Outcome)
	require.Equal(t, []string{"contact:51"}, d.Records)
	require.Contains(t, string(d.Sent), `"email":"ana.lead@example.com"`)
	p := h.objects["contacts"][0].p
	require.Equal(t, map[string]string{
		"email": "ana.lead@example.com", "firstname": "Ana", "lastname": "Example", "phone": "+12025550143", "zip": "20500", "lifecyclestage": "lead",
		"hs_lead_status": "NEW", "meta_lead_id": "987650000012345", "lead_fbclid": "IwAR-example-fbclid", "lead_gclid": "gclid-Example",
	}, p)

	p["lifecyclestage"] = "customer" // a person moved it on
	for _, known := range [][]string{nil, {"contact:51"}, {"contact:404"}} {
		d = crmOf.Deliver(t.Context(), a, l, known)
		require.IsType(t, ledger.Accepted{}, d.Outcome)
		require.Equal(t, []string{"contact:51"}, d.Records)
	}
	require.Equal(t, "customer", p["lifecyclestage"])
	require.Len(t, h.Writes("contacts"), 1)
}

func TestDealIsOpenedOnce(t *testing.T) {
	t.Parallel()
	h := newPortal(t)
	a, l := crmtest.Account("hubspot", h.URL, "deal", "true"), crmtest.Lead()
	crmOf := hubspot.New()
	h.Next(1, crmtest.Cut, "POST /crm/v3/objects/deals")
	d := crmOf.Deliver(t.Context(), a, l, nil)
	require.IsType(t, ledger.Lost{}, d.Outcome)
	require.Equal(t, []string{"contact:51"}, d.Records)
	h.objects["deals"][0].p["dealstage"] = "closedwon"
	for _, known := range [][]string{nil, {"contact:51"}, {"deal:52", "contact:51"}} {
		d = crmOf.Deliver(t.Context(), a, l, known)
		require.IsType(t, ledger.Accepted{}, d.Outcome)
		require.Equal(t, []string{"deal:52", "contact:51"}, d.Records)
	}
	require.Len(t, h.Writes("deals"), 1)
	require.Equal(t, "51", h.objects["deals"][0].linked)
	require.Equal(t, map[string]string{"dealname": "Ana Example – Form A", "pipeline": "default", "dealstage": "closedwon", "meta_lead_id": l.LeadID}, h.objects["deals"][0].p)

	l.LeadID = "987650000012399" // the same person asks again: a deal of its own
	d = crmOf.Deliver(t.Context(), a, l, nil)
	require.Equal(t, []string{"deal:53", "contact:51"}, d.Records)
}

func TestRepeatsLeaveOneContact(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*ledger.Lead){
		"with e-mail":    func(*ledger.Lead) {},
		"without e-mail": func(l *ledger.Lead) { l.Contact.Email = "" },
		"bad e-mail":     func(l *ledger.Lead) { l.Contact.Email = "ana.lead@invalid" },
		"no lead id":     func(l *ledger.Lead) { l.LeadID, l.Contact.Email = "", "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newPortal(t)
			a, l := crmtest.Account("hubspot", h.URL), crmtest.Lead()
			prepare(l)
			for _, step := range []struct {
				fault crmtest.Fault
				want  ledger.Outcome
			}{{crmtest.TooMany, ledger.RetryAt{}}, {crmtest.Broken, ledger.RetryAt{}}, {crmtest.HTML, ledger.RetryAt{}}, {crmtest.Cut, ledger.Lost{}}} {
				h.Next(1, step.fault, "POST /crm/v3/objects/contacts")
				d := hubspot.New().Deliver(t.Context(), a, l, nil)
				require.IsType(t, step.want, d.Outcome)
				require.Empty(t, d.Records)
				crmtest.Quiet(t, d)
				if step.fault == crmtest.TooMany {
					require.Equal(t, 10*time.Second, d.Outcome.(ledger.RetryAt).Wait)
					require.Equal(t, ledger.Throttled, d.Outcome.(ledger.RetryAt).Reason)
				}
			}
			d := hubspot.New().Deliver(t.Context(), a, l, nil)
			require.IsType(t, ledger.Accepted{}, d.Outcome)
			require.Equal(t, []string{"contact:51"}, d.Records)
			require.Len(t, h.Writes("contacts"), 1)
		})
	}
}

func TestSecondAddressOfAContact(t *testing.T) {
	t.Parallel()
	h := newPortal(t)
	h.objects["contacts"] = []*record{{id: "7", p: map[string]string{"email": "old@example.com", "meta_lead_id": "987650000012345"}}}
	d := hubspot.New().Deliver(t.Context(), crmtest.Account("hubspot", h.URL), crmtest.Lead(), nil)
	require.Equal(t, []string{"contact:7"}, d.Records)
	require.Equal(t, "old@example.com", h.objects["contacts"][0].p["email"])
	require.Empty(t, h.Writes("contacts"))
}

func TestFaults(t *testing.T) {
	t.Parallel()
	h := newPortal(t)
	d := hubspot.New().Deliver(t.Context(), crmtest.Account("hubspot", h.URL, "token", "made-up-wrong-one"), crmtest.Lead(), nil)
	require.Equal(t, ledger.TokenInvalid, d.Outcome.(ledger.Hold).Reason)
	crmtest.Quiet(t, d)

	delete(h.props["contacts"], "meta_lead_id")
	d = hubspot.New().Deliver(t.Context(), crmtest.Account("hubspot", h.URL), crmtest.Lead(), nil)
	require.Equal(t, ledger.FieldMissing, d.Outcome.(ledger.Hold).Reason)
	require.Contains(t, ledger.AnswerOf(d.Outcome).Message, "doctor --repair")

	for _, c := range []struct {
		status int
		body   string
		want   ledger.Outcome
	}{
		{429, `{"policyName":"DAILY"}`, ledger.RetryAt{Reason: ledger.Throttled, Wait: 30 * time.Minute}},
		{429, `{"policyName":"SECONDLY"}`, ledger.RetryAt{Reason: ledger.Throttled, Wait: time.Second}},
		{423, ``, ledger.RetryAt{Reason: ledger.Backlog, Wait: 2 * time.Second}},
		{477, ``, ledger.RetryAt{Reason: ledger.Backlog}},
		{403, `{"category":"MISSING_SCOPES"}`, ledger.Hold{Reason: ledger.PermissionMissing}},
		{502, `<html>`, ledger.RetryAt{Reason: ledger.Backlog}},
		{400, `{"errors":[{"code":"INVALID_OPTION"}]}`, ledger.Refusal{}},
		{400, `{"errors":[{"code":"PROPERTY_DOESNT_EXIST"}]}`, ledger.Hold{Reason: ledger.FieldMissing}},
	} {
		got := hubspot.Classify(crm.Reply{Status: c.status, Body: []byte(c.body)}, nil, nil)
		require.IsType(t, c.want, got)
		switch o := got.(type) {
		case ledger.Hold:
			require.Equal(t, c.want.(ledger.Hold).Reason, o.Reason)
		case ledger.RetryAt:
			o.Answer = ledger.Answer{}
			require.Equal(t, c.want, o)
		}
	}
}

func TestOAuth(t *testing.T) {
	t.Parallel()
	h := newPortal(t)
	a := crmtest.Account("hubspot", h.URL, "token", "", "client_id", "1", "client_secret", "made-up-secret", "refresh_token", "made-up-refresh")
	crmOf := hubspot.New()
	require.IsType(t, ledger.Accepted{}, crmOf.Deliver(t.Context(), a, crmtest.Lead(), nil).Outcome)
	h.token = "made-up-ended"
	require.IsType(t, ledger.Accepted{}, crmOf.Deliver(t.Context(), a, crmtest.Lead(), nil).Outcome)
	require.Len(t, h.Calls("POST /oauth"), 2)
	a = crmtest.Account("hubspot", h.URL, "refresh_token", "made-up-wrong-refresh")
	d := crmOf.Deliver(t.Context(), a, crmtest.Lead(), nil)
	require.Equal(t, ledger.TokenInvalid, d.Outcome.(ledger.Hold).Reason)
	crmtest.Quiet(t, d)
}

func TestCheckAndRepair(t *testing.T) {
	t.Parallel()
	h := newPortal(t)
	a := crmtest.Account("hubspot", h.URL, "deal", "true")
	bad := func(a crm.Account, repair bool) (names []string) {
		for _, c := range hubspot.New().Check(t.Context(), a, repair) {
			crmtest.QuietText(t, c.Sentence)
			if !c.OK {
				require.NotEmpty(t, c.NextStep)
				names = append(names, c.Name)
			}
		}
		return names
	}
	require.Empty(t, bad(a, false))
	for _, name := range []string{"meta_lead_id", "lead_fbclid", "lead_gclid"} {
		delete(h.props["contacts"], name)
		delete(h.props["deals"], name)
	}
	missing := []string{"contacts.lead_fbclid", "contacts.lead_gclid", "contacts.meta_lead_id", "deals.meta_lead_id"}
	require.Equal(t, missing, bad(a, false))
	require.Empty(t, bad(a, true))
	require.Empty(t, bad(a, false))
	require.True(t, h.props["contacts"]["meta_lead_id"])
	require.True(t, h.props["deals"]["meta_lead_id"])
	require.IsType(t, ledger.Accepted{}, hubspot.New().Deliver(t.Context(), a, crmtest.Lead(), nil).Outcome)

	h.props["contacts"]["meta_lead_id"] = false
	require.Equal(t, []string{"contacts.meta_lead_id"}, bad(a, true))
	require.Equal(t, []string{"token"}, bad(crmtest.Account("hubspot", h.URL, "token", "made-up-wrong"), true))
	require.Contains(t, bad(crmtest.Account("hubspot", h.URL, "deal", "true", "stage", "none"), false), "stage")
}

func TestVersionAndOwnFields(t *testing.T) {
	t.Parallel()
	h := newPortal(t)
	a := crmtest.Account("hubspot", h.URL)
	a.Options = secret.NewOptions(map[string]string{"url": h.URL, "token": crmtest.Token, "allow_private": "true", "version": "2026-03"}, nil,
		map[string]map[string]string{"fields": {"company": "=Of {{x}}", "lead_fbclid": "-", "meta_lead_id": "-", "city": "{{postcode}}"}})
	require.IsType(t, ledger.Accepted{}, hubspot.New().Deliver(t.Context(), a, crmtest.Lead(), nil).Outcome)
	require.Len(t, h.Calls("POST /crm/objects/2026-03/contacts"), 1)
	p := h.objects["contacts"][0].p
	require.Equal(t, "20500", p["city"])
	require.Equal(t, crmtest.Lead().LeadID, p["meta_lead_id"])
	require.NotContains(t, p, "lead_fbclid")
}

func TestPreview(t *testing.T) {
	t.Parallel()
	a := crmtest.Account("hubspot", "", "deal", "true")
	crmtest.Golden(t, "email", hubspot.New().Preview(a, crmtest.Lead()))
	l := crmtest.Lead()
	l.Contact.Email = ""
	crmtest.Golden(t, "phone", hubspot.New().Preview(crmtest.Account("hubspot", ""), l))
	require.NotEmpty(t, hubspot.New().Options())
	_, with := hubspot.New().Pace(a)
	_, without := hubspot.New().Pace(crm.Account{})
	require.Less(t, with, without)
}

func FuzzAnswer(f *testing.F) {
	for _, s := range []string{`{"id":"51"}`, `{"message":"Contact already exists. Existing ID: 51"}`, `{"id":51}`, `[]`, `{"policyName":1}`, strings.Repeat("[", 99)} {
		f.Add(409, []byte(s))
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		r := crm.Reply{Status: status, Body: body}
		require.NotNil(t, hubspot.Classify(r, nil, nil))
		require.Regexp(t, `^[0-9]*$`, hubspot.Conflict(r))
	})
}
