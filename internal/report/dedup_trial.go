package report

import (
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
// than a look at a page. Where the page's visitors are known, what others do meanwhile
// does not count. Of several the newest is taken, for one may try again.
func NewTrial(c *Copies, page, event string) *Trial {
	f := &trialFilter{page: page, event: ledger.EventSpelling(event), visitors: map[int64]bool{}}
	for i := range c.Browser {
		if b := &c.Browser[i]; b.Page == page && b.Visitor != 0 {
			f.visitors[b.Visitor] = true
		}
	}
	own := *c
	own.Browser, own.Server = nil, nil
	var blocked *ledger.Sighting
	for i := range c.Browser {
		b := &c.Browser[i]
		if f.isLook(b.Name) {
			continue
		}
		own.Browser = append(own.Browser, *b)
		if b.Blocked && f.isOf(b) && f.wants(b.Name) && (blocked == nil || b.ID > blocked.ID) {
			blocked = b
		}
	}
	for _, s := range c.Server {
		if !f.isLook(s.Name) {
			s.Elsewhere = false // that it says so may be what is wrong
			own.Server = append(own.Server, s)
		}
	}
	m := newMatcher(&own)
	m.byID()
	m.byRest()
	if t := m.trial(f); t != nil {
		return t
	}
	t := m.alone(f)
	if t.Browser == nil {
		t.Browser = blocked
	}
	return t
}

// alone returns copies of which no other is known. One of the same person under another
// name and id is shown beside.
func (m *matcher) alone(f *trialFilter) *Trial {
	t := &Trial{}
	for i := range m.browser {
		if b := &m.browser[i]; f.isOf(b) && f.wants(b.Name) && (t.Browser == nil || t.Browser.Page != f.page || b.Page == f.page) {
			t.Browser = b // the newest, as they are sorted
		}
	}
	wanted := false
	for i := range m.server {
		s := &m.server[i]
		if m.ofServer[i] < 0 && (f.wants(s.Name) || !wanted && t.Browser != nil && alike(t.Browser, s)) {
			t.Server, wanted = s, f.wants(s.Name)
		}
	}
	for i := range m.browser {
		if b := &m.browser[i]; m.ofBrowser[i] < 0 && t.Browser == nil && t.Server != nil && alike(b, t.Server) {
			t.Browser = b
		}
	}
	return t
}

// alike tells whether two copies are of one person, as far as is known.
func alike(b *ledger.Sighting, s *ServerEvent) bool {
	return !others(b, s) && (b.FBP != 0 && b.FBP == s.FBP || b.External != 0 && b.External == s.External || b.Visitor != 0 && b.Visitor == s.Visitor)
}

// trialFilter says what belongs to a trial.
type trialFilter struct {
	page, event string
	visitors    map[int64]bool // of the page
}

// isLook tells whether an event is no more than a look at a page, and not asked for.
func (f *trialFilter) isLook(name string) bool {
	name = ledger.EventSpelling(name)
	return name != f.event && (name == "pageview" || name == "viewcontent")
}

// isOf tells whether an event is of a visitor of the page.
func (f *trialFilter) isOf(b *ledger.Sighting) bool {
	return len(f.visitors) == 0 || f.visitors[b.Visitor]
}

func (f *trialFilter) wants(name string) bool {
	return f.event == "" || ledger.EventSpelling(name) == f.event
}

// trial returns the two copies of one action, those that pair and those of the page
// first; nil: there are none. One of the two may have another name: that is then what is
// wrong.
func (m *matcher) trial(f *trialFilter) (best *Trial) {
	rank := func(t *Trial) (n int) {
		if t.Paired {
			n += 2
		}
		if t.Browser.Page == f.page {
			n++
		}
		return n
	}
	for i := range m.server {
		n := m.ofServer[i]
		if n < 0 || !f.isOf(&m.browser[n]) || !f.wants(m.browser[n].Name) && !f.wants(m.server[i].Name) {
			continue
		}
		t := &Trial{Browser: &m.browser[n], Server: &m.server[i], Paired: m.cause[i] == "", Cause: m.cause[i], Fallback: m.fallback[i]}
		if best == nil || rank(t) >= rank(best) {
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
		sentence, next = "They do not pair: the Pixel on the page is "+b.Dataset+", the server sends to "+s.Dataset+".", CauseDataset.repair(s.Name)
	case ledger.EventSpelling(b.Name) != ledger.EventSpelling(s.Name) || t.Cause == CauseName:
		sentence, next = "They do not pair: the browser calls it "+strconv.Quote(b.Name)+", the server "+strconv.Quote(s.Name)+".", CauseName.repair(s.Name)
	case t.Cause == CauseLate:
		sentence, next = "They do not pair: Meta got them more than 48 hours apart.", CauseLate.repair(s.Name)
	case b.EventID == "":
		sentence, next = "They do not pair: the Pixel was given no eventID.", ledger.OneID(shown(s.Name))
	case b.EventID == s.EventID:
		sentence, next = "They do not pair, though they have one id: another event took its place.", "Try again; if it stays, look at capiloop dedup."
	case scheme(b.EventID) != scheme(s.EventID):
		sentence, next = "They do not pair: different id scheme, "+scheme(b.EventID)+" vs "+scheme(s.EventID)+".", ledger.OneID(shown(s.Name))
	default:
		sentence, next = "They do not pair: each side makes its own id.", ledger.OneID(shown(s.Name))
	}
	if t.Fallback {
		sentence += " Meta may still join them by the browser or the person, as the browser's came first."
	}
	return sentence, next
}

// IDShown is an event id as people may see it, and of what kind it is.
func IDShown(id string) (text, kind string) { return shown(id), scheme(id) }
