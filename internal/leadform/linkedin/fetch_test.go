package linkedin_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/leadform/linkedin"
	"github.com/capiloop/capiloop/internal/ledger"
)

func TestFetchSample(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	k := linkedin.New(linkedin.Config{})
	n := deliver(t, k, f.source(nil), sample(t, "linkedin-notification.json"))
	l, err := k.Fetch(t.Context(), f.source(map[string]string{"consent_id": "0"}), n[0])
	require.NoError(t, err)
	slices.SortFunc(l.Answers, func(a, b ledger.FormAnswer) int { return strings.Compare(a.Question, b.Question) })
	require.Equal(t, ledger.Lead{
		Workspace: 7, Source: "linkedin", Kind: "linkedin_leads", Platform: "linkedin", LeadID: sampleID,
		Origin:    ledger.Origin{FormID: "7000001", FormName: "Form A", AdID: "240000001", CampaignID: "198000001"},
		Consent:   ledger.ConsentGranted,
		CreatedAt: time.UnixMilli(1794999995000).UTC(),
		Contact: ledger.Contact{
			FullName: "Ana Example", FirstName: "Ana", LastName: "Example",
			Email: "ana.personal@example.com", WorkEmail: "ana.lead@example.com", JobTitle: "Buyer",
		},
		Answers: []ledger.FormAnswer{
			{Question: "Custom question 0", Label: "¿Cuál es tu color favorito?", Values: []string{"Azul"}},
			{Question: "Email address", Label: "Email address", Values: []string{"ana.personal@example.com"}},
			{Question: "First name", Label: "First name", Values: []string{"Ana"}},
			{Question: "Function", Label: "Function", Values: []string{"Purchasing"}},
			{Question: "Job title", Label: "Job title", Values: []string{"Buyer"}},
			{Question: "Last name", Label: "Last name", Values: []string{"Example"}},
			{Question: "Work email", Label: "Work email", Values: []string{"ana.lead@example.com"}},
			{Question: "consent_0", Label: "Acepto", Values: []string{"true"}, Consent: true},
			{Question: "utm_source", Values: []string{"linkedin"}},
		},
	}, l)
}

func TestFetchOdd(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		change func(lead, form map[string]any)
		check  func(t *testing.T, l ledger.Lead)
	}{
		{"test lead", func(lead, _ map[string]any) { lead["testLead"] = true }, func(t *testing.T, l ledger.Lead) {
			t.Helper()
			require.True(t, l.Test)
		}},
		{"history", func(lead, _ map[string]any) { lead["submittedAt"] = 1750000000000 }, func(t *testing.T, l ledger.Lead) {
			t.Helper()
			require.True(t, l.History)
		}},
		{"click id in a hidden field", func(_, form map[string]any) {
			form["hiddenFields"] = []any{map[string]any{"name": "li_fat_id", "value": "AbC-1"}}
		}, func(t *testing.T, l ledger.Lead) {
			t.Helper()
			require.Equal(t, "AbC-1", l.Clicks.LiFatID)
		}},
		{"ids as texts", func(lead, _ map[string]any) {
			for _, a := range lead["formResponse"].(map[string]any)["answers"].([]any) {
				m := a.(map[string]any)
				m["questionId"] = fmt.Sprintf("%.0f", m["questionId"])
			}
		}, func(t *testing.T, l ledger.Lead) {
			t.Helper()
			require.Equal(t, "Ana Example", l.Contact.FullName)
		}},
		{"no form", func(lead, _ map[string]any) { delete(lead, "form") }, func(t *testing.T, l ledger.Lead) {
			t.Helper()
			require.Empty(t, l.Contact)
			require.Equal(t, "7000001", l.Origin.FormID)
			require.Contains(t, l.Answers, ledger.FormAnswer{Question: "10000007", Values: []string{"Ana"}})
		}},
		{"organic", func(lead, _ map[string]any) { lead["leadType"] = "EVENT" }, func(t *testing.T, l ledger.Lead) {
			t.Helper()
			require.True(t, l.Origin.Organic)
		}},
		{"resolved ids", func(lead, _ map[string]any) {
			delete(lead, "leadMetadata")
			lead["leadMetadataInfo"] = map[string]any{"sponsoredLeadMetadataInfo": map[string]any{"campaign": map[string]any{"id": "urn:li:sponsoredCampaign:5", "name": "Spring"}}}
			lead["associatedEntityInfo"] = map[string]any{"associatedCreative": map[string]any{"id": 6}}
			delete(lead, "associatedEntity")
		}, func(t *testing.T, l ledger.Lead) {
			t.Helper()
			require.Equal(t, "5", l.Origin.CampaignID)
			require.Equal(t, "Spring", l.Origin.CampaignName)
			require.Equal(t, "6", l.Origin.AdID)
		}},
		{"consent refused", func(lead, _ map[string]any) {
			lead["formResponse"].(map[string]any)["consentResponses"] = []any{map[string]any{"consentId": 0, "accepted": false}}
		}, func(t *testing.T, l ledger.Lead) {
			t.Helper()
			require.Equal(t, ledger.ConsentDenied, l.Consent)
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.change(func(lead map[string]any) { c.change(lead, lead["form"].(map[string]any)) })
			l, err := linkedin.New(linkedin.Config{}).Fetch(t.Context(), f.source(map[string]string{"consent_id": "0"}), leadform.Notice{Key: sampleID})
			require.NoError(t, err)
			c.check(t, l)
		})
	}
}

func outcome(t *testing.T, err error) ledger.Outcome {
	t.Helper()
	var f *leadform.FetchError
	require.ErrorAs(t, err, &f)
	for _, text := range []string{err.Error(), fmt.Sprintf("%+v", f), ledger.AnswerOf(f.Outcome).Message} {
		require.NotContains(t, text, token)
		require.NotContains(t, text, clientSecret)
		require.NotContains(t, text, "example.com")
	}
	return f.Outcome
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

func TestFetchErrors(t *testing.T) {
	t.Parallel()
	denied := string(sample(t, "linkedin-error.json"))
	cases := []struct {
		name string
		next answer
		want ledger.Outcome
	}{
		{"down", answer{status: 503}, ledger.RetryAt{Reason: ledger.Backlog}},
		{"broken", answer{}, ledger.RetryAt{Reason: ledger.Backlog}},
		{"HTML", answer{status: 502, body: "<html>"}, ledger.RetryAt{Reason: ledger.Backlog}},
		{"unreadable", answer{status: 200, body: `{"id":"1","x":"jane@example.com"`}, ledger.RetryAt{Reason: ledger.Backlog}},
		{"redirect", answer{status: 302, header: map[string]string{"Location": "/elsewhere"}}, ledger.RetryAt{Reason: ledger.Backlog}},
		{"quota", answer{status: 429, body: `{"message":"quota"}`}, ledger.RetryAt{Reason: ledger.Throttled}},
		{"quota that says when", answer{status: 429, header: map[string]string{"Retry-After": "90"}}, ledger.RetryAt{Reason: ledger.Throttled, Wait: 90 * time.Second}},
		{"token", answer{status: 401, body: `{"message":"expired ` + token + `"}`}, ledger.Hold{Reason: ledger.TokenInvalid}},
		{"sample", answer{status: 403, body: denied}, ledger.Hold{Reason: ledger.PermissionMissing}},
		{"version", answer{status: 426, body: `{"code":"NONEXISTENT_VERSION"}`}, ledger.Hold{Reason: ledger.UnclearRefusal}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			k := linkedin.New(linkedin.Config{})
			n := deliver(t, k, f.source(nil), sample(t, "linkedin-notification.json"))[0]
			f.fail(c.next)
			_, err := k.Fetch(t.Context(), f.source(nil), n)
			got := outcome(t, err)
			require.Equal(t, c.want, bare(got))
			if c.name == "sample" {
				require.Equal(t, 403, ledger.AnswerOf(got).Status)
				require.Equal(t, 100, ledger.AnswerOf(got).Code)
				require.Contains(t, ledger.AnswerOf(got).Message, "Not enough permissions")
			}
			_, err = k.Fetch(t.Context(), f.source(nil), n)
			require.NoError(t, err, "the same notice again")
		})
	}
}

func TestFetchMissing(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.remove()
	k := linkedin.New(linkedin.Config{})
	at := func(t time.Time) leadform.Notice {
		body, _ := json.Marshal(map[string]any{"id": sampleID, "occurred_at": t.UnixMilli()})
		return leadform.Notice{Key: sampleID, Body: body}
	}
	cases := []struct {
		name   string
		change map[string]string
		n      leadform.Notice
		want   ledger.Outcome
	}{
		{"deleted", nil, at(time.Now().Add(-time.Hour)), ledger.Refusal{}},
		{"just told", nil, at(time.Now()), ledger.RetryAt{Reason: ledger.Backlog}},
		{"taken back", nil, leadform.Notice{Key: sampleID, Deleted: true}, ledger.Refusal{}},
		{"no id", nil, leadform.Notice{Key: "../me"}, ledger.Refusal{}},
		{"no token", map[string]string{"token": ""}, at(time.Now()), ledger.Hold{Reason: ledger.TokenInvalid}},
		{"no address", map[string]string{"url": "ftp://x"}, at(time.Now()), ledger.Hold{Reason: ledger.TokenInvalid}},
		{"no version", map[string]string{"version": "latest"}, at(time.Now()), ledger.Hold{Reason: ledger.TokenInvalid}},
		{"another token", map[string]string{"token": "other"}, at(time.Now()), ledger.Hold{Reason: ledger.TokenInvalid}},
	}
	for _, c := range cases {
		_, err := k.Fetch(t.Context(), f.source(c.change), c.n)
		got := bare(outcome(t, err))
		require.Equal(t, c.want, got, c.name)
		require.Equal(t, got == ledger.Refusal{}, errors.Is(err, leadform.ErrNoLead), c.name)
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.remove()
	start := time.Now().Add(-time.Hour)
	for i := range 230 {
		f.add(t, fmt.Sprintf("lead-%d", i), start.Add(time.Duration(i)*time.Second).UnixMilli())
	}
	k := linkedin.New(linkedin.Config{})
	read := func(change map[string]string, since time.Time) (seen []string, err error) {
		for l, e := range k.Sweep(t.Context(), f.source(change), since) {
			if e != nil {
				return seen, e
			}
			seen = append(seen, l.LeadID)
		}
		return seen, nil
	}
	seen, err := read(nil, start)
	require.NoError(t, err)
	require.Len(t, seen, 230)
	seen, err = read(nil, start.Add(220*time.Second))
	require.NoError(t, err)
	require.Len(t, seen, 10)
	seen, err = read(nil, time.Time{})
	require.NoError(t, err, "no further back than LinkedIn lets us")
	require.Len(t, seen, 230)
	seen, err = read(map[string]string{"owner": ""}, start)
	require.NoError(t, err)
	require.Empty(t, seen)
	_, err = read(map[string]string{"owner": "500000001"}, start)
	require.Equal(t, ledger.Hold{Reason: ledger.TokenInvalid}, bare(outcome(t, err)))
	f.fail(answer{status: http.StatusTooManyRequests})
	_, err = read(nil, start)
	require.Equal(t, ledger.RetryAt{Reason: ledger.Throttled}, bare(outcome(t, err)))

	f.change(func(lead map[string]any) { lead["form"] = "strange" })
	seen, err = read(nil, start)
	require.Len(t, seen, 229, "one that cannot be read does not stop the others")
	require.IsType(t, ledger.Hold{}, outcome(t, err))
	for _, err := range k.Sweep(t.Context(), f.source(nil), start) {
		require.NoError(t, err)
		break // wants no more
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		change map[string]string
		next   *answer
		ok     bool
		says   string
	}{
		{"all well", nil, nil, true, "1 in the last year"},
		{"no token", map[string]string{"token": ""}, nil, false, "token is missing"},
		{"no secret", map[string]string{"client_secret": ""}, nil, false, "client_secret is missing"},
		{"no owner", map[string]string{"owner": ""}, nil, false, "Without an owner"},
		{"strange owner", map[string]string{"owner": "me"}, nil, false, "owner must look like"},
		{"token ended", map[string]string{"token": "other"}, nil, false, "HTTP 401"},
		{"denied", nil, &answer{status: 403, body: `{"message":"Not enough permissions"}`}, false, "Not enough permissions"},
		{"old version", nil, &answer{status: 426}, false, "HTTP 426"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.remove()
			f.add(t, sampleID, time.Now().Add(-time.Minute).UnixMilli())
			if c.next != nil {
				f.fail(*c.next)
			}
			lines := linkedin.New(linkedin.Config{}).Check(t.Context(), f.source(c.change))
			last := lines[len(lines)-1]
			require.Equal(t, c.ok, last.OK)
			require.Contains(t, last.Sentence, c.says)
			require.NotContains(t, last.Sentence+last.NextStep, token)
			require.Equal(t, !c.ok, last.NextStep != "")
		})
	}
}
