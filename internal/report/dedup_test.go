package report_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/report"
)

var monday = time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)

// field is what a test compares: one dataset, 111.
type field struct {
	report.Copies
	n ledger.ID
}

func newField() *field {
	return &field{Copies: report.Copies{From: monday.Add(-time.Hour), Default: "111", Yours: []string{"111"}}}
}

func (f *field) id(at time.Time) ledger.ID {
	f.n++
	return ledger.IDAt(at) + f.n<<6
}

func (f *field) browser(name, id string, at time.Time, change ...func(*ledger.Sighting)) {
	g := ledger.Sighting{ID: f.id(at), Dataset: "111", Name: name, EventID: id, At: at, Page: "/signup"}
	for _, c := range change {
		c(&g)
	}
	f.Browser = append(f.Browser, g)
}

func (f *field) server(name, id string, at time.Time, change ...func(*report.ServerEvent)) {
	e := report.ServerEvent{ID: f.id(at), Dataset: "111", Name: name, EventID: id, At: at, SentAt: at.Add(time.Second), Page: "/signup"}
	for _, c := range change {
		c(&e)
	}
	f.Server = append(f.Server, e)
}

// saas is the week of a business whose form has 110 sign-ups: 80 are known to both sides,
// 10 to the server alone, for a blocker, and 20 come through an old form.
func saas(oneID bool) *field {
	f := newField()
	for n := range 110 {
		at := monday.Add(time.Duration(n) * 90 * time.Minute)
		stamp, row := strconv.FormatInt(at.UnixMilli(), 10), strconv.Itoa(4700+n)
		if oneID {
			row = stamp
		}
		person := int64(1000 + n)
		switch {
		case n%11 == 10:
			f.browser("CompleteRegistration", stamp, at, func(g *ledger.Sighting) { g.Blocked, g.Visitor = true, person })
		case n%11 < 2:
			f.browser("CompleteRegistration", stamp, at, func(g *ledger.Sighting) { g.Page, g.Visitor = "/signup-old", person })
			continue
		default:
			f.browser("CompleteRegistration", stamp, at, func(g *ledger.Sighting) { g.Visitor = person })
		}
		f.server("CompleteRegistration", row, at.Add(3*time.Second), func(e *report.ServerEvent) { e.Visitor = person })
	}
	return f
}

func TestTheClassicDedupBug(t *testing.T) {
	t.Parallel()
	d := report.NewDedup(&saas(false).Copies)
	require.Len(t, d.Rows, 1)
	r := d.Rows[0]
	require.Equal(t, []int{100, 90, 10, 0, 80, 0, 20, 10, 190, 110}, []int{r.Browser, r.Server, r.Blocked, r.Paired, r.Unpaired, r.Fallback, r.BrowserOnly, r.ServerOnly, r.Now, r.AfterRepair})
	require.Equal(t, report.CauseScheme, r.Causes[0].Cause)
	require.Equal(t, []string{"13-digit time", "integer"}, []string{r.Causes[0].Browser, r.Causes[0].Server})
	require.Equal(t, []string{
		"0 of the 80 that both sides know pair.",
		"80 by different id scheme: 13-digit time vs integer (1795431600000 / 4702).",
		"Meta will show 190 instead of 110.",
		"20 browser sign-ups had no server event: form /signup-old.",
		"10 server sign-ups had no browser event; 10 times the browser blocked the Pixel.",
	}, r.Sentences)
	require.True(t, r.Trouble())
	require.Len(t, r.Silent(), 1)

	r = report.NewDedup(&saas(true).Copies).Rows[0]
	require.Equal(t, []int{80, 0, 20, 10, 110, 110}, []int{r.Paired, r.Unpaired, r.BrowserOnly, r.ServerOnly, r.Now, r.AfterRepair})
	require.Nil(t, r.Worst())
	require.False(t, r.Trouble())
	require.Len(t, r.Silent(), 1, "the old form is another trouble")
}

func TestCausesAreTold(t *testing.T) {
	t.Parallel()
	person := func(g *ledger.Sighting) { g.FBP = 7 }
	known := func(e *report.ServerEvent) { e.FBP = 7 }
	for name, c := range map[string]struct {
		make func(f *field)
		want string // cause counts, fallback, now, after
	}{
		"they pair":                          {func(f *field) { f.browser("Lead", "a", monday); f.server("Lead", "a", monday) }, "[] 0 1 1"},
		"C199: a text is compared as a text": {func(f *field) { f.browser("Lead", "000001", monday); f.server("Lead", "1", monday) }, "[own_ids 1] 0 2 1"},
		"C205: another spelling":             {func(f *field) { f.browser("lead ", "a", monday); f.server("Lead", "a", monday) }, "[name 1] 0 2 1"},
		"C205: a wish": {func(f *field) {
			f.browser("AddToWishList", "a", monday, person)
			f.server("AddToWishlist", "b", monday, known)
		}, "[name 1] 0 2 1"},
		"another name": {func(f *field) { f.browser("SubmitForm", "a", monday); f.server("Lead", "a", monday) }, "[name 1] 0 2 1"},
		"no id": {func(f *field) {
			f.browser("Lead", "", monday, person)
			f.server("Lead", "b", monday.Add(time.Minute), known)
		}, "[no_id 1] 1 1 1"},
		"Meta joins by the browser": {func(f *field) {
			f.browser("Lead", "1763884800000", monday, person)
			f.server("Lead", "b", monday.Add(time.Minute), known)
		}, "[id_scheme 1] 1 1 1"},
		"not if the server is first": {func(f *field) {
			f.browser("Lead", "1763884800000", monday.Add(time.Minute), person)
			f.server("Lead", "b", monday, known)
		}, "[id_scheme 1] 0 2 1"},
		"late": {func(f *field) {
			f.browser("Lead", "a", monday)
			f.server("Lead", "a", monday, func(e *report.ServerEvent) { e.SentAt = monday.Add(49 * time.Hour) })
		}, "[late 1] 0 2 1"},
		"just in time": {func(f *field) {
			f.browser("Lead", "a", monday)
			f.server("Lead", "a", monday, func(e *report.ServerEvent) { e.SentAt = monday.Add(48 * time.Hour) })
		}, "[] 0 1 1"},
		"alone in a minute": {func(f *field) {
			f.browser("Lead", "1763884800000", monday)
			f.server("Lead", "7", monday.Add(50*time.Second))
		}, "[id_scheme 1] 0 2 1"},
		"not alone": {func(f *field) {
			f.browser("Lead", "1763884800000", monday)
			f.browser("Lead", "1763884801000", monday.Add(time.Second))
			f.server("Lead", "7", monday.Add(50*time.Second))
		}, "[browser_only 2 server_only 1] 0 3 3"},
		"somebody else": {func(f *field) {
			f.browser("Lead", "1763884800000", monday, person)
			f.server("Lead", "7", monday, func(e *report.ServerEvent) { e.FBP = 8 })
		}, "[browser_only 1 server_only 1] 0 2 2"},
		"of a CRM": {func(f *field) {
			f.browser("Lead", "a", monday)
			f.server("Lead", "b", monday, func(e *report.ServerEvent) { e.Elsewhere = true })
		}, "[browser_only 1] 0 1 1"},
		"C200: a cache keeps the page": {func(f *field) {
			for n := range 3 {
				f.browser("AddToCart", "static-1", monday.Add(time.Duration(n)*time.Hour), func(g *ledger.Sighting) { g.FBP = int64(n + 1) })
			}
			f.server("AddToCart", "static-1", monday)
		}, "[browser_only 2 repeated_id 2] 0 3 3"},
		"the page of thanks again": {func(f *field) {
			f.browser("Purchase", "a", monday, person)
			f.browser("Purchase", "a", monday.Add(time.Hour), person)
			f.server("Purchase", "a", monday)
		}, "[browser_only 1] 0 2 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newField()
			c.make(f)
			causes, fallback, now, after := []string{}, 0, 0, 0
			for _, r := range report.NewDedup(&f.Copies).Rows {
				for _, cause := range r.Causes {
					causes = append(causes, string(cause.Cause)+" "+strconv.Itoa(cause.Count))
				}
				fallback, now, after = fallback+r.Fallback, now+r.Now, after+r.AfterRepair
			}
			require.Equal(t, c.want, fmt.Sprint(causes, " ", fallback, " ", now, " ", after))
		})
	}
}

// A shop gives its cart and its order one number: these are two events.
func TestNamesThatBothSidesUseAreNotMixed(t *testing.T) {
	t.Parallel()
	f := newField()
	f.browser("InitiateCheckout", "a", monday)
	f.server("InitiateCheckout", "b", monday.Add(time.Hour))
	f.browser("Purchase", "b", monday)
	f.server("Purchase", "a", monday.Add(time.Hour))
	for _, r := range report.NewDedup(&f.Copies).Rows {
		require.Equal(t, []int{0, 0, 1, 1}, []int{r.Paired, r.Unpaired, r.BrowserOnly, r.ServerOnly}, r.Event)
	}
}

func TestAPixelOfAnotherDataset(t *testing.T) {
	t.Parallel()
	f := newField()
	f.browser("Lead", "a", monday, func(g *ledger.Sighting) { g.Dataset = "999" })
	f.browser("Lead", "b", monday, func(g *ledger.Sighting) { g.Dataset = "" })
	f.server("Lead", "a", monday)
	f.server("Lead", "b", monday)
	f.server("Lead", "c", monday, func(e *report.ServerEvent) { e.Dataset = "222" }) // no page has its Pixel
	d := report.NewDedup(&f.Copies)
	require.Len(t, d.Rows, 2)
	ours, foreign := d.Rows[0], d.Rows[1]
	require.Equal(t, []int{1, 2, 1, 1, 2, 2}, []int{ours.Browser, ours.Server, ours.Paired, ours.Elsewhere, ours.Now, ours.AfterRepair})
	require.Equal(t, []int{1, 0, 1, 1, 0}, []int{foreign.Browser, foreign.Server, foreign.Elsewhere, foreign.Now, foreign.AfterRepair})
	require.Contains(t, ours.Sentences, "1 by other dataset: the Pixel on the page is 999, the server sends to 111.")
	require.Contains(t, foreign.Sentences, "999 is no dataset of this workspace: the Pixel on the page is another one.")
}

func TestWhatWasReceivedBeforeIsTheOtherHalfOnly(t *testing.T) {
	t.Parallel()
	f := newField()
	f.From = monday
	f.Since = monday.Add(2 * time.Hour)
	f.browser("Lead", "a", monday.Add(-time.Minute))
	f.server("Lead", "a", monday.Add(time.Minute))
	f.browser("Lead", "b", monday.Add(time.Minute))
	f.server("Lead", "b", monday.Add(2*time.Minute))
	f.server("Lead", "c", monday.Add(time.Hour)) // before the tag was there
	f.server("Lead", "d", monday.Add(3*time.Hour))
	r := report.NewDedup(&f.Copies).Rows[0]
	require.Equal(t, []int{1, 2, 1, 1, 2}, []int{r.Browser, r.Server, r.Paired, r.ServerOnly, r.Now})
}

func TestPagesAreNamedThatMatter(t *testing.T) {
	t.Parallel()
	f := newField()
	for n := range 6 {
		at := monday.Add(time.Duration(n) * time.Hour)
		f.browser("PageView", "", at)
		f.browser("Lead", "a"+strconv.Itoa(n), at)
		f.server("Purchase", "b"+strconv.Itoa(n), at, func(e *report.ServerEvent) { e.Page = "/app" })
		f.server("Contact", "c"+strconv.Itoa(n), at)
	}
	said := map[string][]string{}
	silent := 0
	for _, r := range report.NewDedup(&f.Copies).Rows {
		said[r.Event] = r.Sentences
		silent += len(r.Silent())
	}
	require.Equal(t, map[string][]string{
		"PageView": {"6 browser PageView events had no server event."},
		"Lead":     {"6 browser leads had no server event: form /signup."},
		"Purchase": {"6 server purchases had no browser event: the tag was never on page /app."},
		"Contact":  {"6 server contacts had no browser event."},
	}, said)
	require.Equal(t, 1, silent)
}

func TestIDsAreNamedForPeople(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"1764556800123": "13-digit time", "1764556800": "10-digit time", "4711": "integer", "01945f3e-7a10-7cc1-8f00-0123456789ab": "UUID",
		"order.0123456789abcdef0123456789abcdef": "id of an order", "deadbeef01234567": "hex number", "lead_4711": "text with the prefix lead_",
		"1764556800123_ab": "13-digit time with an ending", "thanks": "text",
	} {
		f := newField()
		f.browser("Lead", id, monday, func(g *ledger.Sighting) { g.FBP = 7 })
		f.server("Lead", "§", monday, func(e *report.ServerEvent) { e.FBP = 7 })
		r := report.NewDedup(&f.Copies).Rows[0]
		require.Equal(t, want, r.Causes[0].Browser, id)
	}
	f := newField()
	f.browser("Lead", "jane@example.com", monday)
	f.server("Lead", "4711", monday)
	require.Equal(t, []string{"(not shown) / 4711"}, report.NewDedup(&f.Copies).Rows[0].Causes[0].Examples)
}

func TestPropertyDedupAddsUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := newField()
		datasets, names := []string{"111", "222", ""}, []string{"Lead", "lead", "Purchase"}
		for range rapid.IntRange(0, 25).Draw(t, "browsers") {
			f.browser(rapid.SampledFrom(names).Draw(t, "name"), rapid.SampledFrom([]string{"", "a", "b", "7"}).Draw(t, "id"), monday.Add(time.Duration(rapid.IntRange(0, 200).Draw(t, "at"))*17*time.Minute), func(g *ledger.Sighting) {
				g.Dataset, g.FBP, g.Visitor = rapid.SampledFrom(datasets).Draw(t, "dataset"), rapid.Int64Range(0, 3).Draw(t, "fbp"), rapid.Int64Range(0, 3).Draw(t, "visitor")
				g.Blocked = rapid.IntRange(0, 9).Draw(t, "blocked") == 0
			})
		}
		for range rapid.IntRange(0, 25).Draw(t, "servers") {
			f.server(rapid.SampledFrom(names).Draw(t, "name"), rapid.SampledFrom([]string{"a", "b", "7", "8"}).Draw(t, "id"), monday.Add(time.Duration(rapid.IntRange(0, 200).Draw(t, "at"))*17*time.Minute), func(e *report.ServerEvent) {
				e.Dataset, e.FBP, e.Visitor = rapid.SampledFrom(datasets[:2]).Draw(t, "dataset"), rapid.Int64Range(0, 3).Draw(t, "fbp"), rapid.Int64Range(0, 3).Draw(t, "visitor")
			})
		}
		d := report.NewDedup(&f.Copies)
		browsers, servers, blocked := 0, 0, 0
		for _, r := range d.Rows {
			require.Equal(t, r.Browser+r.Server, 2*(r.Paired+r.Unpaired)+r.BrowserOnly+r.ServerOnly+r.Elsewhere, "each copy is taken once")
			require.Equal(t, r.Now, r.Browser+r.Server-r.Paired-r.Fallback)
			require.LessOrEqual(t, r.AfterRepair, r.Now)
			require.LessOrEqual(t, r.Fallback, r.Unpaired)
			require.GreaterOrEqual(t, r.AfterRepair, 0)
			causes := 0
			for _, c := range r.Causes {
				if c.Cause != report.CauseRepeated && c.Cause != report.CauseDataset {
					causes += c.Count
				}
			}
			require.Equal(t, r.Unpaired+r.BrowserOnly+r.ServerOnly, causes, "each that does not pair has a cause")
			browsers, servers, blocked = browsers+r.Browser, servers+r.Server, blocked+r.Blocked
		}
		seen := 0
		for _, b := range f.Browser {
			if !b.Blocked {
				seen++
			}
		}
		require.Equal(t, seen, browsers)
		require.Equal(t, len(f.Browser)-seen, blocked)
		require.LessOrEqual(t, servers, len(f.Server), "those of a dataset without a Pixel are left out")

		f.Browser = rapid.Permutation(f.Browser).Draw(t, "order")
		f.Server = rapid.Permutation(f.Server).Draw(t, "order")
		require.Equal(t, d, report.NewDedup(&f.Copies), "the order does not matter")
	})
}
