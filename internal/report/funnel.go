package report

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

// AllLeads is the first step where no event is made at the receipt of a lead.
const AllLeads = "leads"

// enoughLeads are needed for a row's rates to say anything.
const enoughLeads = 30

// Funnel tells how far leads came: all of them, and cut by something.
type Funnel struct {
	Steps []Step `json:"steps"`
	Rows  []Row  `json:"rows"`
}

// Step is an event that leads reached.
type Step struct {
	Event      string   `json:"event"`
	Count      int64    `json:"count"`       // leads
	OfPrevious *float64 `json:"of_previous"` // 0 to 1, with four digits; null: there is none, or nobody was there
	OfFirst    *float64 `json:"of_first"`
	CostEach   *float64 `json:"cost_each"` // null: what was spent is not known
}

// Row is the funnel of a part of the leads.
type Row struct {
	Name   string `json:"name"` // "": not known of these leads
	Leads  int64  `json:"leads"`
	Steps  []Step `json:"steps"`
	TooFew bool   `json:"too_few"` // its rates say nothing yet
}

// NewFunnel puts a funnel together. The steps come in the order of the rules, what is made
// at the receipt first; after them events of rules that are gone. total are the cells of
// all leads, parts those of the groups.
func NewFunnel(rules []ledger.Rule, total, parts []store.FunnelCell) *Funnel {
	all := tally(total)[""]
	events := inOrder(rules, all)
	f := &Funnel{Steps: stepsOf(events, all), Rows: []Row{}}
	groups := tally(parts)
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		counts := groups[name]
		f.Rows = append(f.Rows, Row{Name: name, Leads: counts[""], Steps: stepsOf(events, counts), TooFew: counts[""] < enoughLeads})
	}
	slices.SortStableFunc(f.Rows, func(a, b Row) int { return cmp.Compare(b.Leads, a.Leads) })
	return f
}

// tally sorts cells: by group, then by event, "" being the leads.
func tally(cells []store.FunnelCell) map[string]map[string]int64 {
	groups := map[string]map[string]int64{}
	for _, c := range cells {
		if groups[c.Group] == nil {
			groups[c.Group] = map[string]int64{}
		}
		groups[c.Group][c.Event] += c.Leads
	}
	return groups
}

// inOrder returns the events of the steps; "" stands for the leads themselves.
func inOrder(rules []ledger.Rule, counts map[string]int64) []string {
	var events []string
	add := func(event string) {
		if !slices.Contains(events, event) {
			events = append(events, event)
		}
	}
	for i := range rules {
		if rules[i].Stage == ledger.StageReceived {
			add(rules[i].Event)
		}
	}
	if len(events) == 0 {
		add("")
	}
	for i := range rules {
		add(rules[i].Event)
	}
	var others []string
	for event := range counts {
		if event != "" && !slices.Contains(events, event) {
			others = append(others, event)
		}
	}
	slices.SortFunc(others, func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	return append(events, others...)
}

func stepsOf(events []string, counts map[string]int64) []Step {
	steps := make([]Step, len(events))
	for i, event := range events {
		steps[i] = Step{Event: cmp.Or(event, AllLeads), Count: counts[event]}
		steps[i].OfFirst = share(steps[i].Count, steps[0].Count)
		if i > 0 {
			steps[i].OfPrevious = share(steps[i].Count, steps[i-1].Count)
		}
	}
	return steps
}

// share rounds to four digits.
func share(part, whole int64) *float64 {
	if whole == 0 {
		return nil
	}
	const digits = 1e4
	v := math.Round(float64(part)/float64(whole)*digits) / digits
	return &v
}
