package report

import (
	"slices"
	"strconv"

	"github.com/capiloop/capiloop/internal/ledger"
)

// Trial is what became of a form that was sent once, on purpose.
type Trial struct {
	Browser  *ledger.Sighting
	Server   *ServerEvent
	Paired   bool
	Cause    Cause
	Fallback bool
}

// NewTrial finds the two copies of what was done on a page; event "": any that is more
// than a look at a page. Copies of that page go before those of others.
func NewTrial(c *Copies, page, event string) *Trial {
	wanted := func(name string) bool {
		if event != "" {
			return ledger.EventSpelling(name) == ledger.EventSpelling(event)
		}
		return ledger.EventSpelling(name) != "pageview" && ledger.EventSpelling(name) != "viewcontent"
	}
	own := *c
	own.Browser, own.Server = nil, nil
	var blocked *ledger.Sighting
	for _, b := range c.Browser {
		if wanted(b.Name) {
			own.Browser = append(own.Browser, b)
		}
		if b.Blocked && wanted(b.Name) && (blocked == nil || b.ID < blocked.ID) {
			blocked = &b
		}
	}
	for _, s := range c.Server {
		// The page of another name is compared, too: that may be what is wrong.
		s.Elsewhere = false
		if event == "" && wanted(s.Name) || event != "" && (wanted(s.Name) || !slices.ContainsFunc(c.Server, func(o ServerEvent) bool { return wanted(o.Name) }) && ledger.EventSpelling(s.Name) != "pageview") {
			own.Server = append(own.Server, s)
		}
	}
	m := newMatcher(&own)
	m.byID()
	m.byRest()
	if t := m.trial(page); t != nil {
		return t
	}
	t := &Trial{}
	switch {
	case len(m.browser) > 0:
		t.Browser = &m.browser[0]
		if i := slices.IndexFunc(m.browser, func(b ledger.Sighting) bool { return b.Page == page }); i >= 0 {
			t.Browser = &m.browser[i]
		}
	case blocked != nil:
		t.Browser = blocked
	}
	if len(m.server) > 0 {
		t.Server = &m.server[0]
	}
	return t
}

// trial returns the two copies of one action, those that pair and those of the page
// first; nil: there are none.
func (m *matcher) trial(page string) (best *Trial) {
	rank := func(t *Trial) (n int) {
		if t.Paired {
			n += 2
		}
		if t.Browser.Page == page {
			n++
		}
		return n
	}
	for i := range m.server {
		n := m.ofServer[i]
		if n < 0 {
			continue
		}
		t := &Trial{Browser: &m.browser[n], Server: &m.server[i], Paired: m.cause[i] == "", Cause: m.cause[i], Fallback: m.fallback[i]}
		if best == nil || rank(t) > rank(best) {
			best = t
		}
	}
	return best
}

// Words says what the trial has shown, and what to do.
func (t *Trial) Words() (sentence, next string) {
	b, s := t.Browser, t.Server
	switch {
	case b == nil && s == nil:
		return "Neither the browser's event nor the server's has come.",
			"Look whether the page loads the tag (capiloop sources prints the snippet), whether you agreed to the consent banner, and whether the form reports an event at all."
	case b != nil && b.Blocked && s == nil:
		return "The browser blocked the Pixel, and the server's event has not come.", "Switch the blocker off and try again. Let the server send its event to POST /v1/events, or use the tag for both."
	case b != nil && b.Blocked:
		return "The browser blocked the Pixel: Meta has the server's event alone, which is what it is for.", "To see whether the two pair, try again in a browser without a blocker."
	case s == nil:
		return "Only the browser's event has come.", "This form never calls the server: send its event to POST /v1/events under the same event_id, or put data-capiloop-event on the form, and the tag sends both."
	case b == nil:
		return "Only the server's event has come.",
			"The tag saw no Pixel's event: look whether the page has the Pixel and the tag, whether the form calls fbq, and whether you agreed to the consent banner."
	case t.Paired:
		return "They pair: Meta counts one.", ""
	}
	return t.why()
}

// why says why two copies do not pair.
func (t *Trial) why() (sentence, next string) {
	b, s := t.Browser, t.Server
	switch {
	case t.Cause == CauseDataset || b.Dataset != "" && b.Dataset != s.Dataset:
		sentence, next = "They do not pair: the Pixel on the page is "+b.Dataset+", the server sends to "+s.Dataset+".", (&DedupCause{Cause: CauseDataset}).Repair()
	case ledger.EventSpelling(b.Name) != ledger.EventSpelling(s.Name) || t.Cause == CauseName:
		sentence, next = "They do not pair: the browser calls it "+strconv.Quote(b.Name)+", the server "+strconv.Quote(s.Name)+".", (&DedupCause{Cause: CauseName}).Repair()
	case t.Cause == CauseLate:
		sentence, next = "They do not pair: Meta got them more than 48 hours apart.", (&DedupCause{Cause: CauseLate}).Repair()
	case b.EventID == "":
		sentence, next = "They do not pair: the Pixel was given no eventID.", ledger.OneID
	case b.EventID == s.EventID:
		sentence, next = "They do not pair, though they have one id: another event took its place.", "Try again; if it stays, look at capiloop dedup."
	case scheme(b.EventID) != scheme(s.EventID):
		sentence, next = "They do not pair: different id scheme, "+scheme(b.EventID)+" vs "+scheme(s.EventID)+".", ledger.OneID
	default:
		sentence, next = "They do not pair: each side makes its own id.", ledger.OneID
	}
	if t.Fallback {
		sentence += " Meta may still join them by the browser or the person, as the browser's came first."
	}
	return sentence, next
}

// IDShown is an event id as people may see it, and of what kind it is.
func IDShown(id string) (text, kind string) { return shown(id), scheme(id) }
