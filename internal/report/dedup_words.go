package report

import (
	"fmt"
	"strconv"
	"strings"
)

// OneID is the repair of ids that differ, in a sentence.
const OneID = "Make one id when the form is shown and give it to both: the tag does so for a form with data-capiloop-event and puts it into the hidden input event_id; " +
	"send that as event_id from the server and as eventID from the Pixel."

// nouns are what people call the events of Meta.
var nouns = map[string]string{
	"completeregistration": "sign-ups", "lead": "leads", "purchase": "purchases", "contact": "contacts", "schedule": "appointments",
	"submitapplication": "applications", "subscribe": "subscriptions", "starttrial": "trials", "addtocart": "additions to the cart", "initiatecheckout": "checkouts",
}

// ofForms are the events that a form makes.
var ofForms = map[string]bool{"completeregistration": true, "lead": true, "contact": true, "schedule": true, "submitapplication": true, "subscribe": true, "starttrial": true}

// Noun is what events of a name are called.
func Noun(event string) string {
	if noun := nouns[spelling(event)]; noun != "" {
		return noun
	}
	return event + " events"
}

// Place is what a page is where an event of that name happens.
func Place(event, page string) string {
	if ofForms[spelling(event)] {
		return "form " + page
	}
	return "page " + page
}

func sentences(r *DedupRow) []string {
	list := []string{}
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if both := r.Paired + r.Unpaired; both > 0 {
		add("%d of the %d that both sides know pair.", r.Paired, both)
	}
	for i := range r.Causes {
		if text := r.Causes[i].Sentence(); text != "" {
			list = append(list, text)
		}
	}
	switch {
	case r.Now > r.AfterRepair && r.Elsewhere == 0:
		add("Meta will show %d instead of %d.", r.Now, r.AfterRepair)
	case r.Now > r.AfterRepair:
		add("Meta will show %d here; after the repair %d.", r.Now, r.AfterRepair)
	}
	listed := 0
	for _, p := range r.Pages {
		if p.Side == CauseBrowser {
			add("%d browser %s had no server event: %s.", p.Missing, Noun(r.Event), Place(r.Event, p.Page))
			listed += p.Missing
		} else if r.Browser > 0 {
			add("%d server %s had no browser event: %s has no Pixel that the tag sees.", p.Missing, Noun(r.Event), Place(r.Event, p.Page))
		}
	}
	if rest := r.BrowserOnly - listed; rest > 0 {
		add("%d browser %s of %s pages had no server event.", rest, Noun(r.Event), map[bool]string{true: "other", false: "all kinds of"}[listed > 0])
	}
	if r.ServerOnly > 0 {
		text := strconv.Itoa(r.ServerOnly) + " server " + Noun(r.Event) + " had no browser event"
		if r.Blocked > 0 {
			text += "; " + strconv.Itoa(r.Blocked) + " times the browser blocked the Pixel"
		}
		list = append(list, text+".")
	}
	if r.BrowserOnly > 0 && r.ServerOnly > 0 && min(r.BrowserOnly, r.ServerOnly)*2 > r.Browser {
		list = append(list, "Some of these may be the same, which cannot be told: let the server send the visitor's fbp, external_id, or address and agent.")
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

// Repair says what lets pair what does not; "": all that could pair does.
func (r *DedupRow) Repair() string {
	worst := r.Worst()
	if worst == nil {
		return ""
	}
	return worst.Repair()
}

// Repair says what mends a cause.
func (c *DedupCause) Repair() string {
	switch c.Cause { //nolint:exhaustive // the others are of ids
	case CauseName:
		return "Give both the same event_name, letter by letter."
	case CauseDataset:
		return "Use one dataset for both: its id in fbq('init', …) and under datasets:."
	case CauseLate:
		return "Send the server's event at once, not in a batch days later."
	}
	return OneID
}
