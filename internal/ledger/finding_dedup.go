package ledger

import (
	"slices"
	"strings"
)

// OneID is the repair of an event's ids that differ.
func OneID(event string) string {
	return `Make one id when the form is shown and give it to both sides: with the tag, data-capiloop-event="` + event + `" on the form does so, and puts it into the hidden input event_id. ` +
		"Send that as event_id from the server, and as eventID from a Pixel that the page calls itself."
}

// EventSpelling is a name without what people write in different ways: AddToWishList,
// "purchase ", sign_up.
func EventSpelling(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r == ' ' || r == '_' || r == '-' || r == '.':
			return -1
		}
		return r
	}, name)
}

// eventNouns are what people call the events of Meta.
var eventNouns = map[string]string{
	"completeregistration": "sign-ups", "lead": "leads", "purchase": "purchases", "contact": "contacts", "schedule": "appointments",
	"submitapplication": "applications", "subscribe": "subscriptions", "starttrial": "trials", "addtocart": "additions to the cart", "initiatecheckout": "checkouts",
}

// EventNoun is what events of a name are called.
func EventNoun(event string) string {
	if noun := eventNouns[EventSpelling(event)]; noun != "" {
		return noun
	}
	return event + " events"
}

// ofForms are the events that a form makes.
var ofForms = []string{"completeregistration", "lead", "contact", "schedule", "submitapplication", "subscribe", "starttrial"}

// IsConversion tells whether an event of that name is what ads are for, so that a server
// should report it.
func IsConversion(event string) bool {
	name := EventSpelling(event)
	return name == "purchase" || slices.Contains(ofForms, name)
}

// EventPlace is what a page is where an event of that name happens.
func EventPlace(event, page string) string {
	if slices.Contains(ofForms, EventSpelling(event)) {
		return "form " + page
	}
	return "page " + page
}

// DedupSubject names what a finding about copies that do not pair is about; page "": all.
func DedupSubject(dataset, event, page string) string { return dataset + "/" + event + page }

func (f Finding) explainDedup() Explanation {
	parts := append(strings.Split(f.Evidence, evidenceParts), "", "", "")
	if f.Kind == FindingDedupIDs {
		dataset, event, _ := strings.Cut(f.Subject, "/")
		return Explanation{
			Title: "Browser and server report the same " + EventNoun(event) + " to " + dataset + ", and Meta counts them twice", Owner: You, Severity: "error",
			Cause: parts[0], NextStep: parts[1] + " Look at capiloop dedup, and try it: capiloop dedup-test --url https://your-page",
		}
	}
	return Explanation{
		Title: parts[0], Owner: You, Severity: "warning",
		Cause:    parts[1] + " in the last 7 days, as the tag saw the Pixel report. Whom a blocker hides from the Pixel is lost here.",
		NextStep: `Let this page call your server, too, or put data-capiloop-event="` + parts[2] + `" on its form: then the tag sends both copies.`,
	}
}
