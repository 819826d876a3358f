package capiloop_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/ledger"
)

//go:generate go test -count 1 -run TestGeneratedPages -update .

var update = flag.Bool("update", false, "write the generated parts of the docs anew")

// TestGeneratedPages compares the parts of the pages that are made from the code. A
// part stands between <!-- generated: NAME --> and <!-- end -->.
func TestGeneratedPages(t *testing.T) {
	t.Parallel()
	for page, parts := range map[string]map[string]string{
		"docs/states.md":     {"reasons": reasonTable(t), "backoff": backoffTable()},
		"docs/operations.md": {"findings": findingTable(t)},
		"docs/errors.md":     {"catalogue": catalogueTable(), "requests": requestTable(t), "problems": problemTable(t)},
	} {
		old, err := os.ReadFile(page)
		require.NoError(t, err)
		text := string(old)
		for name, part := range parts {
			begin := "<!-- generated: " + name + " -->\n"
			before, rest, ok := strings.Cut(text, begin)
			require.True(t, ok, "%s has no part %s", page, name)
			_, after, ok := strings.Cut(rest, "<!-- end -->")
			require.True(t, ok, "%s: the part %s has no end", page, name)
			text = before + begin + part + "<!-- end -->" + after
		}
		if *update {
			require.NoError(t, os.WriteFile(page, []byte(text), 0o644))
			continue
		}
		require.Equal(t, text, string(old), "%s is out of date: make docs", page)
	}
}

func row(cells ...string) string {
	for i := range cells {
		cells[i] = strings.ReplaceAll(strings.ReplaceAll(cells[i], "|", `\|`), "\n", " ")
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// stateOf says in which states a reason is used; the table of reasons does not know.
var stateOf = map[ledger.Reason][]ledger.State{
	ledger.Queued: {ledger.Waiting}, ledger.Retrying: {ledger.Waiting}, ledger.Throttled: {ledger.Waiting}, ledger.AnswerLost: {ledger.Waiting},
	ledger.Backlog:      {ledger.Waiting},
	ledger.TokenInvalid: {ledger.Held}, ledger.PermissionMissing: {ledger.Held}, ledger.DatasetOutOfReach: {ledger.Held}, ledger.Blocked: {ledger.Held},
	ledger.UnclearRefusal: {ledger.Held}, ledger.MaybeSent: {ledger.Held}, ledger.NotCounted: {ledger.Held}, ledger.ClockAhead: {ledger.Held},
	ledger.DestinationGone: {ledger.Held}, ledger.FieldMissing: {ledger.Held}, ledger.AddressGone: {ledger.Held},
	ledger.BulkChange: {ledger.Held}, ledger.ValueOutlier: {ledger.Held}, ledger.TestName: {ledger.Held}, ledger.Sequence: {ledger.Held},
	ledger.OtherPlatform: {ledger.Skipped}, ledger.SequenceBroken: {ledger.Skipped}, ledger.Undone: {ledger.Skipped}, ledger.NoMatchKey: {ledger.Failed}, ledger.InvalidTime: {ledger.Failed},
	ledger.NoConsent: {ledger.Skipped}, ledger.Crawler: {ledger.Skipped}, ledger.NotLive: {ledger.Skipped}, ledger.NoDestination: {ledger.Skipped}, ledger.Dropped: {ledger.Skipped}, ledger.WasRemoved: {ledger.Skipped}, ledger.Cleared: {ledger.Skipped},
	ledger.Expired: {ledger.Failed}, ledger.Refused: {ledger.Failed},
}

func reasonTable(t *testing.T) string {
	t.Helper()
	reasons := ledger.Reasons()
	delete(reasons, ledger.None)
	for r := range reasons {
		require.Contains(t, stateOf, r, "say in stateOf in which states the new reason is used")
	}
	var b strings.Builder
	b.WriteString(row("state", "reason", "sentence") + "|---|---|---|\n")
	for _, s := range []ledger.State{ledger.Waiting, ledger.Held, ledger.Skipped, ledger.Failed} {
		var lines []string
		for r, sentence := range reasons {
			if slices.Contains(stateOf[r], s) {
				lines = append(lines, row(string(s), "`"+string(r)+"`", sentence))
			}
		}
		slices.Sort(lines)
		b.WriteString(strings.Join(lines, ""))
	}
	return b.String()
}

func backoffTable() string {
	var wait, probe []string
	for n := 1; n == 1 || ledger.Backoff(n-1, 0) != ledger.Backoff(n, 0); n++ {
		wait = append(wait, short(ledger.Backoff(n, 0)))
	}
	for n := 1; n == 1 || ledger.ProbeAfter(n-1) != ledger.ProbeAfter(n); n++ {
		probe = append(probe, short(ledger.ProbeAfter(n)))
	}
	return row("what", "how long") + "|---|---|\n" +
		row("a lane waits after its 1st, 2nd, 3rd … failure in a row", strings.Join(wait, ", ")+", and so on; from the 4th on up to a fifth less, by chance") +
		row("a held lane is probed after", strings.Join(probe, ", ")+", and so on") +
		row("an event without an answer is sent again for at most", short(ledger.DedupWindow)) +
		row("an event expires", short(ledger.ExpiryMargin)+" before Meta's limit: "+days(capi.MaxAge(capi.ActionSourceWebsite))+" after it happened, "+
			days(capi.MaxAge(capi.ActionSourcePhysicalStore))+" for `physical_store`")
}

func short(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return strconv.Itoa(int(d.Hours())) + " h"
	case d%time.Minute == 0:
		return strconv.Itoa(int(d.Minutes())) + " min"
	}
	return strconv.Itoa(int(d.Seconds())) + " s"
}

func days(d time.Duration) string { return strconv.Itoa(int(d.Hours()/24)) + " days" }

// findingTable says each finding as the product says it, of an example.
func findingTable(t *testing.T) string {
	t.Helper()
	list := []ledger.Finding{
		{Kind: ledger.FindingAccess, Subject: "1234567890", Evidence: string(ledger.TokenInvalid)},
		{Kind: ledger.FindingAccess, Subject: "1234567890", Evidence: string(ledger.PermissionMissing)},
		{Kind: ledger.FindingAccess, Subject: "1234567890", Evidence: string(ledger.DatasetOutOfReach)},
		{Kind: ledger.FindingAccess, Subject: "1234567890", Evidence: string(ledger.UnclearRefusal)},
		{Kind: ledger.FindingAccess, Subject: "1234567890", Evidence: string(ledger.Blocked)},
		{Kind: ledger.FindingMaybeSent, Subject: "Lead"},
		{Kind: ledger.FindingShortCount, Subject: "1234567890"},
		{Kind: ledger.FindingDuplicateConflict, Subject: "website/Lead"},
		{Kind: ledger.FindingClock, Subject: "website/Lead"},
		{Kind: ledger.FindingCRM, Subject: "sales", Evidence: string(ledger.FieldMissing)},
		{Kind: ledger.FindingSource, Subject: "forms", Evidence: string(ledger.PermissionMissing)},
		{Kind: ledger.FindingUnknownPage, Subject: "1234567890"},
		{Kind: ledger.FindingStages, Subject: "sales", Evidence: string(ledger.PermissionMissing)},
		{Kind: ledger.FindingGuard, Subject: "sales", Evidence: string(ledger.BulkChange)},
		{Kind: ledger.FindingMapping, Subject: "sales/1/42", Evidence: ledger.StageEvidence(ledger.StageRenamed, "Qualified", "SQL")},
		{Kind: ledger.FindingMapping, Subject: "sales/1/42", Evidence: ledger.StageEvidence(ledger.StageGone, "Qualified")},
		{Kind: ledger.FindingMapping, Subject: "sales/Qualifed", Evidence: ledger.StageEvidence(ledger.RuleWithout, "Qualifed")},
		{Kind: ledger.FindingMapping, Subject: "rule/Temperature", Evidence: ledger.StageEvidence(ledger.Unwatched, "Temperature")},
		{Kind: ledger.FindingDeadline, Subject: ledger.DeadlineSubject("1234567890", "Purchase"), Evidence: ledger.DeadlineEvidence(ledger.TokenInvalid, 7, time.Date(2026, 11, 30, 14, 0, 0, 0, time.UTC))},
		{Kind: ledger.FindingSequence, Subject: ledger.TooFewStages, Evidence: "1"},
		{Kind: ledger.FindingSequence, Subject: ledger.NoRawLead},
		{Kind: ledger.FindingSequence, Subject: ledger.OnlyWinners},
		{Kind: ledger.FindingSilence, Subject: ledger.SilenceSubject("forms", ""), Evidence: ledger.SilenceEvidence(ledger.HopForm, time.Date(2026, 10, 6, 14, 0, 0, 0, time.UTC), 9.2, 5.1)},
		{Kind: ledger.FindingSilence, Subject: ledger.SilenceSubject("site", "Lead"), Evidence: ledger.SilenceEvidence(ledger.HopPage, time.Date(2026, 10, 6, 14, 0, 0, 0, time.UTC), 14, 40)},
		{Kind: ledger.FindingVolume, Subject: ledger.LowCoverage, Evidence: "41\n120"},
		{Kind: ledger.FindingVolume, Subject: ledger.FewLeads, Evidence: "30"},
		{Kind: ledger.FindingVolume, Subject: ledger.FewLeads, Evidence: "12\n9"},
		{Kind: ledger.FindingVolume, Subject: ledger.LateEvents, Evidence: "31"},
		{Kind: ledger.FindingDedupIDs, Subject: ledger.DedupSubject("1234567890", "CompleteRegistration", ""), Evidence: ledger.StageEvidence(
			"0 of the 80 that both sides know pair. 80 by different id scheme: 13-digit time vs integer (1764556800123 / 4711). Meta will show 190 instead of 110.", ledger.OneID("CompleteRegistration"))},
		{Kind: ledger.FindingDedupMissing, Subject: ledger.DedupSubject("1234567890", "CompleteRegistration", "/signup-old"), Evidence: ledger.StageEvidence(
			"20 browser sign-ups had no server event: form /signup-old", "20 of 20 CompleteRegistration of /signup-old came from browsers only", "CompleteRegistration")},
	}
	source, err := os.ReadFile("internal/ledger/finding.go")
	require.NoError(t, err)
	kinds := map[ledger.FindingKind]bool{}
	var b strings.Builder
	b.WriteString(row("kind", "what", "why", "who", "next step") + "|---|---|---|---|---|\n")
	for _, f := range list {
		kinds[f.Kind] = true
		x := f.Explain()
		b.WriteString(row("`"+string(f.Kind)+"`", x.Title, x.Cause, ownerWords[capi.Owner(x.Owner)], x.NextStep))
	}
	require.Len(t, kinds, strings.Count(string(source), " FindingKind = "), "a kind of finding is not in the list above")
	return b.String()
}

var ownerWords = map[capi.Owner]string{capi.OwnerYou: "you", capi.OwnerClient: "your client", capi.OwnerMeta: "Meta"}

// catalogueTable is for people: one entry to a line, sorted by code.
func catalogueTable() string {
	does := map[capi.Handling]string{
		capi.HandlingRetried: "sends again by itself", capi.HandlingWaits: "holds the dataset, keeps the events, probes",
		capi.HandlingApart: "tries the events apart", capi.HandlingNever: "finds the event, fails it, sends the others",
	}
	var b strings.Builder
	b.WriteString(row("code", "what", "why", "who mends it", "next step", "Capiloop") + "|---|---|---|---|---|---|\n")
	for _, x := range capi.Catalogue() {
		code := strconv.Itoa(x.Code)
		if x.Subcode != 0 {
			code = fmt.Sprintf("%d/%d", x.Code, x.Subcode)
		}
		b.WriteString(row(code, x.Title, x.Cause, ownerWords[x.Owner], x.NextStep, does[x.Retried]))
	}
	return b.String()
}

func requestTable(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(row("status", "code", "what is wrong", "what would be right") + "|---|---|---|---|\n")
	for _, s := range sayings(t) {
		if s.status != "" {
			b.WriteString(row(s.status, "`"+s.code+"`", s.reason, s.fix))
		}
	}
	return b.String()
}

func problemTable(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(row("code", "", "what is wrong", "what would be right") + "|---|---|---|---|\n")
	for _, s := range sayings(t) {
		if s.severity != "" {
			b.WriteString(row("`"+s.code+"`", s.severity, s.reason, s.fix))
		}
	}
	return b.String()
}
