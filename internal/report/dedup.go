package report

import (
	"cmp"
	"slices"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

// MetaWindow is for how long after the first copy Meta discards the second.
const MetaWindow = 48 * time.Hour

// ServerEvent is an event that a dataset has from a server, or will have.
type ServerEvent struct {
	ID                           ledger.ID // of its delivery
	Dataset, Name, EventID, Page string
	At                           time.Time // when it happened
	SentAt                       time.Time // when Meta got it
	Elsewhere                    bool      // it says that it happened elsewhere than on a website

	// Keyed fingerprints as those of sightings; 0 is none.
	FBP, External, Visitor int64
}

// Copies are what is compared: the browsers' and the servers' copies of events.
type Copies struct {
	From time.Time // what was received before only serves as the other half of a pair
	// ViewsFrom is the same for looks at pages, of which fewer days can be read; before From:
	// they are as the others.
	ViewsFrom time.Time
	Since     time.Time // when the tag began to look: server events from before say nothing
	Default   string    // the dataset of a Pixel whose number is not known
	Yours     []string  // the workspace's datasets
	Browser   []ledger.Sighting
	Server    []ServerEvent
}

// Cause is why the two copies of an event do not pair.
type Cause string

// The causes.
const (
	CauseScheme   Cause = "id_scheme"     // ids of two kinds
	CauseOwnIDs   Cause = "own_ids"       // ids of one kind, but each side makes its own
	CauseNoID     Cause = "no_id"         // the Pixel was given none
	CauseName     Cause = "name"          // another name, or another spelling of it
	CauseLate     Cause = "late"          // more than 48 hours apart
	CauseDataset  Cause = "other_dataset" // the Pixel is another than the dataset
	CauseBrowser  Cause = "browser_only"
	CauseServer   Cause = "server_only"
	CauseRepeated Cause = "repeated_id" // browsers use one id again and again
)

// Dedup tells how many of the browsers' and the servers' copies of events pair.
type Dedup struct {
	From time.Time  `json:"from"`
	Rows []DedupRow `json:"rows"`
	// NextStep says what to do where there is nothing to compare yet.
	NextStep string `json:"next_step,omitempty"`
	CutShort bool   `json:"cut_short"` // there was more than is read at once: From is later than asked
}

// DedupRow is of one event name of one dataset.
type DedupRow struct {
	Dataset     string       `json:"dataset"`
	Yours       bool         `json:"yours"` // it is one of the workspace's datasets
	Event       string       `json:"event"`
	Browser     int          `json:"browser"`
	Server      int          `json:"server"`
	Blocked     int          `json:"blocked"` // the Pixel never ran, so that Meta heard of them by the server alone
	Paired      int          `json:"paired"`
	Unpaired    int          `json:"unpaired"` // both sides have them, and they do not pair
	Fallback    int          `json:"fallback"` // of them, those that Meta still joins by fbp or external_id
	BrowserOnly int          `json:"browser_only"`
	ServerOnly  int          `json:"server_only"`
	Elsewhere   int          `json:"elsewhere"`    // their other copy is with another dataset
	Now         int          `json:"now"`          // what Meta counts
	AfterRepair int          `json:"after_repair"` // what it will count
	Causes      []DedupCause `json:"causes"`
	Pages       []DedupPage  `json:"pages"`
	Sentences   []string     `json:"sentences"`
	NextStep    string       `json:"next_step,omitempty"` // what lets pair what does not

	known []known
	since time.Time // zero: since the span begins
}

// DedupCause is one cause, with how many events it is the cause of.
type DedupCause struct {
	Cause    Cause    `json:"cause"`
	Count    int      `json:"count"`
	Fallback int      `json:"fallback"`
	Browser  string   `json:"browser"` // what the browser's ids are, or its name for the event
	Server   string   `json:"server"`
	Examples []string `json:"examples"` // of the browser's and the server's ids: "a / b"
}

// DedupPage is a page whose events one side alone has.
type DedupPage struct {
	Page    string `json:"page"`
	Side    Cause  `json:"side"` // browser_only or server_only
	Events  int    `json:"events"`
	Missing int    `json:"missing"`

	latest bool // its latest events are of them, too
}

// known is an action of which both sides know.
type known struct {
	at    time.Time
	twice bool // Meta counts it twice
}

type rowKey struct{ dataset, name string }

// NewDedup compares the copies. The order in which they are given does not matter.
func NewDedup(c *Copies) *Dedup {
	m := newMatcher(c)
	m.byID()
	m.byRest()
	t := &dedupTally{c: c, m: m, rows: map[rowKey]*DedupRow{}, names: map[rowKey]map[string]int{}, pages: map[rowKey]map[pageKey]*pageCount{}, causes: map[rowKey]map[causeKey]*DedupCause{}, tagged: map[string]bool{}}
	t.count()
	return t.dedup()
}

// UnpairedByID returns the deliveries for which more must be known than their ids.
func UnpairedByID(c *Copies) (list []ledger.ID) {
	m := newMatcher(c)
	m.byID()
	for i := range m.server {
		if m.ofServer[i] < 0 && !m.server[i].Elsewhere {
			list = append(list, m.server[i].ID)
		}
	}
	return list
}

// Trouble tells whether of the latest actions that both sides know Meta counts too many
// twice; what lies further back may have been mended since.
func (r *DedupRow) Trouble() bool {
	const latest, least, percent = 20, 5, 25 // Meta's goal for the overlap is 75 %
	if len(r.known) < least {
		return false
	}
	last := r.known[max(0, len(r.known)-latest):]
	twice := 0
	for _, k := range last {
		if k.twice {
			twice++
		}
	}
	return twice*100 >= percent*len(last)
}

// Silent returns the pages of which the server hears nothing, until now.
func (r *DedupRow) Silent() (list []DedupPage) {
	const least = 5
	for _, p := range r.Pages {
		if p.Side == CauseBrowser && p.Missing >= least && p.latest {
			list = append(list, p)
		}
	}
	return list
}

// Worst is the cause of most of what does not pair; nil: all that could pair does.
func (r *DedupRow) Worst() *DedupCause {
	var worst *DedupCause
	for i := range r.Causes {
		if c := &r.Causes[i]; c.Cause.bothKnow() && (worst == nil || c.Count > worst.Count) {
			worst = c
		}
	}
	return worst
}

// bothKnow tells whether the cause is of actions that both sides know of.
func (c Cause) bothKnow() bool {
	return c != CauseBrowser && c != CauseServer && c != CauseRepeated
}

func (d *Dedup) sort() {
	slices.SortFunc(d.Rows, func(a, b DedupRow) int {
		return cmp.Or(cmp.Compare(b.Browser+b.Server, a.Browser+a.Server), cmp.Compare(a.Dataset, b.Dataset), cmp.Compare(a.Event, b.Event))
	})
}
