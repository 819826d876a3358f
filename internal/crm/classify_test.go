package crm_test

import (
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/crm/crmtest"
	"github.com/capiloop/capiloop/internal/ledger"
)

// TestAHugeAnswerCostsLittle: a lead of many megabytes must not stop its lane. It does not
// run beside other tests, for it looks at the memory.
func TestAHugeAnswerCostsLittle(t *testing.T) {
	a, unit := crmtest.Account("x", "https://example.com"), "my secret wish, Ü 100% & more; "
	huge := strings.Repeat(unit, 7<<20/len(unit))
	for name, change := range map[string]func(l *ledger.Lead){
		"answer": func(l *ledger.Lead) { l.Answers = []ledger.FormAnswer{{Question: "q", Values: []string{huge}}} },
		"name":   func(l *ledger.Lead) { l.Contact.FullName = huge },
		"phone":  func(l *ledger.Lead) { l.Contact.Phone = huge },
		"many": func(l *ledger.Lead) {
			values := make([]string, 500)
			for i := range values {
				values[i] = "my secret wish" + strings.Repeat(" ", i%300) + strconv.Itoa(i)
			}
			l.Answers = []ledger.FormAnswer{{Question: "q", Values: append(values, "my secret wish")}}
		},
	} {
		l := crmtest.Lead()
		change(l)
		body := []byte(`{"message":"` + huge[:1000] + `"}`)
		best := time.Hour // of a few, for the machine may be busy
		for range 3 {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			o := crm.Classify(crm.Reply{Status: 400, Body: body}, nil, crm.Private(a, l))
			best = min(best, time.Since(start))
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(30<<20), name)
			require.NotContains(t, ledger.AnswerOf(o).Message, "wish", name)
		}
		require.Less(t, best, 50*time.Millisecond, name)
	}
}

func TestScrubHidesWhatTheCutLeaves(t *testing.T) {
	t.Parallel()
	long := strings.TrimSpace(strings.Repeat("Wunsch & Ziel, ", 3000))
	hide := []string{long, url.QueryEscape(long), url.PathEscape(long), "made-up-token-of-the-account", "Żółć"}
	for _, value := range append(hide, strings.ToUpper(long), strings.ToLower("ŻÓŁĆ")) {
		for before := range 520 {
			got := crm.Scrub(strings.Repeat(".", before)+value+".", hide)
			require.Empty(t, strings.Trim(got, ".*…"), "%d %.20s", before, value)
			require.LessOrEqual(t, len(got), 510)
		}
	}
	// What somebody else has cut, and what a server repeats a part of.
	require.Equal(t, "bad: ***…", crm.Scrub("bad: made-up-tok…", hide))
	require.Equal(t, `bad: "***" is too long`, crm.Scrub(`bad: "`+long[:100]+`" is too long`, hide))
	// A plain text is not cut before it is looked through.
	for before := range 300 {
		got := crm.AnswerOf(crm.Reply{Status: 400, Body: []byte(strings.Repeat(".", before) + "made-up-token-of-the-account")}, hide).Message
		require.NotContains(t, got, "m", "%d", before)
	}
}

func TestScrubFolds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, hide, want string }{
		{"", "x", ""},
		{"no value", "", "no value"},
		{"İstanbul and ISTANBUL", "istanbul", "İstanbul and ***"},
		{"ȺȺȺ then ana", "Ana", "ȺȺȺ then ***"}, // the lower case of Ⱥ is longer
		{"kelvin KELVIN \u212aelvin", "kelvin", "*** *** ***"},
		{"anastasia, ana; Ana", "ana", "anastasia, ***; ***"},
		{"xexamplex", "example", "x***x"},
		{"a\ufffdb and c", "a\xffb", "*** and c"}, // as JSON repeats what is no UTF-8
		{"line\nbreak is wrong", "line\nbreak", "*** is wrong"},
		{"(.*)+[ is wrong", "(.*)+[", "*** is wrong"},
		{"Ana Example", "Ana", "*** Example"},
	} {
		require.Equal(t, c.want, crm.Scrub(c.text, []string{c.hide}), c.text)
	}
	require.Equal(t, "*** went", crm.Scrub("Ana Example went", []string{"Ana", "Ana Exam", "na Example"}))
}

func BenchmarkScrubHugeAnswer(b *testing.B) {
	l := crmtest.Lead()
	l.Answers = []ledger.FormAnswer{{Question: "q", Values: []string{strings.Repeat("wish ", 7<<20/5)}}}
	a, r := crmtest.Account("x", "https://example.com"), crm.Reply{Status: 400, Body: []byte(strings.Repeat("wish ", 200))}
	b.ReportAllocs()
	for b.Loop() {
		crm.Classify(r, nil, crm.Private(a, l))
	}
}
