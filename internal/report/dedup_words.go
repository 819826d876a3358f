package report

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/capiloop/capiloop/internal/ledger"
)

func sentences(r *DedupRow) []string {
	list := []string{}
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if text := r.overlap(); text != "" {
		list = append(list, text)
	}
	for i := range r.Causes {
		if text := r.Causes[i].Sentence(); text != "" {
			list = append(list, text)
		}
	}
	if text := r.forecast(); text != "" {
		list = append(list, text)
	}
	browser, server := r.BrowserOnly, r.ServerOnly
	for _, p := range r.Pages {
		if p.Side == CauseBrowser {
			list = append(list, p.Title(r.Event)+".")
			browser -= p.Missing
		} else {
			add("%d server %s had no browser event: the tag was never on %s.", p.Missing, ledger.EventNoun(r.Event), ledger.EventPlace(r.Event, p.Page))
			server -= p.Missing
		}
	}
	other := func(rest, all int) string {
		if rest < all {
			return "On other pages, "
		}
		return ""
	}
	if browser > 0 {
		add("%s%d browser %s had no server event.", other(browser, r.BrowserOnly), browser, ledger.EventNoun(r.Event))
	}
	if server > 0 {
		text := fmt.Sprintf("%s%d server %s had no browser event", other(server, r.ServerOnly), server, ledger.EventNoun(r.Event))
		if r.Blocked > 0 {
			text += fmt.Sprintf("; %d times the browser blocked the Pixel", r.Blocked)
		}
		list = append(list, text+".")
	}
	if r.BrowserOnly > 0 && r.ServerOnly > 0 && min(r.BrowserOnly, r.ServerOnly)*2 > r.Browser {
		list = append(list, "Some of these may be the same, which cannot be told: let the server send the visitor's fbp, external_id, or address and agent.")
	}
	if !r.since.IsZero() {
		add("Counted since %s: there were more than are compared at once.", r.since.UTC().Format("2006-01-02 15:04 UTC"))
	}
	if !r.Yours {
		add("%s is no dataset of this workspace: the Pixel on the page is another one.", r.Dataset)
	}
	return list
}

// Sentence says a cause; "": the row says it.
func (c *DedupCause) Sentence() string {
	example := ""
	if len(c.Examples) > 0 {
		example = " (" + c.Examples[0] + ")"
	}
	text := strconv.Itoa(c.Count) + " "
	switch c.Cause {
	case CauseScheme:
		text += "by different id scheme: " + c.Browser + " vs " + c.Server + example + "."
	case CauseOwnIDs:
		text += "by ids of one kind that differ" + example + ": each side makes its own."
	case CauseNoID:
		text += "without an id in the browser: the Pixel was given no eventID."
	case CauseName:
		text += "by different name: " + strconv.Quote(c.Browser) + " in the browser, " + strconv.Quote(c.Server) + " at the server. Meta compares letter by letter."
	case CauseLate:
		text += "came more than 48 hours apart; Meta pairs no longer then."
	case CauseDataset:
		text += "by other dataset: the Pixel on the page is " + c.Browser + ", the server sends to " + c.Server + "."
	case CauseRepeated:
		return "One id was given to different visitors, " + strconv.Itoa(c.Count) + " times too many (" + strings.Join(c.Examples, ", ") + "): most often a cache keeps the page. Meta may take these people for one."
	default:
		return ""
	}
	if c.Fallback > 0 {
		text += fmt.Sprintf(" Meta still joins %d of them by the browser or the person, as long as the browser's copy comes first.", c.Fallback)
	}
	return text
}

// repair says what lets pair what does not; "": all that could pair does.
func (r *DedupRow) repair() string {
	worst := r.Worst()
	if worst == nil {
		return ""
	}
	return worst.Cause.repair(r.Event)
}

// repair says what mends a cause.
func (c Cause) repair(event string) string {
	switch c { //nolint:exhaustive // the others are of ids
	case CauseName:
		return "Give both the same event_name, letter by letter."
	case CauseDataset:
		return "Use one dataset for both: its id in fbq('init', …) and under datasets:."
	case CauseLate:
		return "Send the server's event at once, not in a batch days later."
	}
	return ledger.OneID(event)
}

// Title says a page from which one side alone reports.
func (p *DedupPage) Title(event string) string {
	return strconv.Itoa(p.Missing) + " browser " + ledger.EventNoun(event) + " had no server event: " + ledger.EventPlace(event, p.Page)
}

// overlap says how much of what both sides know pairs; "": they know nothing in common.
func (r *DedupRow) overlap() string {
	if r.Paired+r.Unpaired == 0 {
		return ""
	}
	return fmt.Sprintf("%d of the %d that both sides know pair.", r.Paired, r.Paired+r.Unpaired)
}

// forecast says what Meta counts too much; "": nothing.
func (r *DedupRow) forecast() string {
	switch {
	case r.Now <= r.AfterRepair:
		return ""
	case r.Elsewhere > 0:
		return fmt.Sprintf("Meta will show %d here; after the repair %d.", r.Now, r.AfterRepair)
	}
	return fmt.Sprintf("Meta will show %d instead of %d.", r.Now, r.AfterRepair)
}

// Summary says in a few words how many pair, the cause of most of what does not, and what
// Meta counts.
func (r *DedupRow) Summary() string {
	var parts []string
	if text := r.overlap(); text != "" {
		parts = append(parts, text)
	}
	if worst := r.Worst(); worst != nil {
		parts = append(parts, worst.Sentence())
	}
	if text := r.forecast(); text != "" {
		parts = append(parts, text)
	}
	return strings.Join(parts, " ")
}
