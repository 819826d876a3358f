package web_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/admin/admintest"
	"github.com/capiloop/capiloop/internal/ledger"
)

func connected(t *testing.T) *admintest.World {
	t.Helper()
	w := admintest.New(t)
	w.Connect(ledger.Rule{Stage: ledger.StageReceived, Event: "Lead"}, ledger.Rule{Stage: "Visit", Event: "QualifiedLead"})
	return w
}

func TestTheBookWithoutLeads(t *testing.T) {
	t.Parallel()
	body := page(t, pages(t, admintest.New(t)), "/", http.StatusOK)
	require.Contains(t, body, "Leads, newest first: where they stand")
	require.Contains(t, body, "POST /v1/leads")
	require.NotContains(t, body, `class="leads"`)
}

func TestTheBookShowsWhereLeadsStand(t *testing.T) {
	t.Parallel()
	w := connected(t)
	for n := range 12 {
		w.Take(n, time.Hour, nil)
	}
	w.Move(ledger.StageChange{LeadID: admintest.LeadID(11), Stage: "7", StageLabel: "Visit", At: admintest.Now.Add(-time.Minute)})
	body := page(t, pages(t, w), "/", http.StatusOK)
	_, table, _ := strings.Cut(body, `<table class="leads">`)
	table, _, _ = strings.Cut(table, "</table>")
	require.Equal(t, 10, strings.Count(table, `<th scope="row">`), "the newest ones only")
	_, row, _ := strings.Cut(table, "<tbody>")
	row, _, _ = strings.Cut(row, "</tr>")
	for _, want := range []string{admintest.LeadID(11), "forms", "On the way", "Visit", "Lead", "QualifiedLead"} {
		require.Contains(t, row, want)
	}
	require.NotContains(t, table, admintest.LeadID(1)+"<")
	require.Contains(t, table, "none yet", "no stage of the others")
	require.Contains(t, body, "CRM "+admintest.CRM)
	require.NotContains(t, body, "Jane")
	require.NotContains(t, body, "jane")
}

func TestALeadsPage(t *testing.T) {
	t.Parallel()
	w := connected(t)
	got := w.Take(1, time.Hour, func(l *ledger.Lead) { l.Origin.FormName, l.Origin.CampaignName = "Autumn", "Courses" })
	w.Move(ledger.StageChange{LeadID: admintest.LeadID(1), Stage: "7", StageLabel: "Visit", At: admintest.Now.Add(-time.Minute)})
	w.Settle(admintest.First, ledger.Sent, ledger.None, ledger.None, ledger.Answer{Status: 200, TraceID: "TRACE-GOOD"})
	h := pages(t, w)
	body := page(t, h, "/leads/"+got.ID.String(), http.StatusOK)
	require.Equal(t, body, page(t, h, "/leads/"+admintest.LeadID(1), http.StatusOK), "the platform's id names it, too")
	at := 0
	for _, want := range []string{
		admintest.LeadID(1), "on its way into the CRM", got.ID.String(), "forms", "ad platform: meta", "Autumn", "Courses", "Visit",
		"Form sent", "Moved to Visit", "An event was made of it.", "Received", "By the source forms.", "Event Lead", "Sent", "TRACE-GOOD",
	} {
		i := strings.Index(strings.ToLower(body[at:]), strings.ToLower(want))
		require.GreaterOrEqual(t, i, 0, "%s is missing, or not in its place", want)
		at += i
	}
	require.NotContains(t, body, "Jane")
	require.NotContains(t, body, "jane1@")
}

func TestALeadThatIsNotThere(t *testing.T) {
	t.Parallel()
	h := pages(t, connected(t))
	for _, path := range []string{"/leads/1jszax4nr2000", "/leads/123", "/leads/%3Cscript%3E", "/leads/"} {
		page(t, h, path, http.StatusNotFound)
	}
	require.Equal(t, http.StatusNotFound, get(t, h, "/live/leads/123").Code)
}

func TestHostileLeadsAreHarmless(t *testing.T) {
	t.Parallel()
	w := connected(t)
	attack := `"><script>alert(1)</script><img src=x onerror=alert(2)>'` + "\r\ndata: x\u202egnp.exe"
	got := w.Take(1, time.Hour, func(l *ledger.Lead) {
		l.LeadID, l.Source, l.Platform = attack, attack, attack
		l.Origin.FormName, l.Origin.CampaignName, l.Contact.FullName = attack, attack, attack
	})
	w.Move(ledger.StageChange{LeadID: attack, Platform: attack, Stage: attack, StageLabel: attack, PipelineLabel: attack, By: attack, At: admintest.Now})
	h := pages(t, w)
	for _, path := range []string{"/", "/leads/" + got.ID.String()} {
		body := page(t, h, path, http.StatusOK)
		require.NotContains(t, body, "<script>")
		require.NotContains(t, body, "<img")
		require.Contains(t, body, "&lt;script&gt;alert(1)")
	}
}
