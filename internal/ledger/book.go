package ledger

import (
	"cmp"
	"slices"
)

// Book is the balance of a span of time:
// received = sent + waiting + held + skipped + failed.
type Book struct {
	Received int64
	By       map[State]map[Reason]int64
	Beside   map[Beside]int64
}

// NewBook returns an empty book.
func NewBook() *Book {
	return &Book{By: make(map[State]map[Reason]int64), Beside: make(map[Beside]int64)}
}

// Count adds n deliveries of a state, or n of what stands beside the book.
func (b *Book) Count(state string, r Reason, n int64) {
	if slices.Contains(States[:], State(state)) {
		b.Add(State(state), r, n)
		return
	}
	b.Beside[Beside(state)] += n
}

// Add adds n deliveries of a state and reason.
func (b *Book) Add(s State, r Reason, n int64) {
	if b.By[s] == nil {
		b.By[s] = make(map[Reason]int64)
	}
	b.By[s][r] += n
}

// Total returns the number of deliveries in a state.
func (b *Book) Total(s State) int64 {
	var n int64
	for _, k := range b.By[s] {
		n += k
	}
	return n
}

// Unexplained returns what the two sides of the equation differ by: always 0.
func (b *Book) Unexplained() int64 {
	n := b.Received
	for _, s := range States {
		n -= b.Total(s)
	}
	return n
}

// Line is one line of the book.
type Line struct {
	State  State
	Reason Reason
	Count  int64
}

// Lines returns the lines that are not zero, in the order of States, largest first.
func (b *Book) Lines() []Line {
	var lines []Line
	for _, s := range States {
		start := len(lines)
		for r, n := range b.By[s] {
			if n != 0 {
				lines = append(lines, Line{s, r, n})
			}
		}
		slices.SortFunc(lines[start:], func(x, y Line) int {
			return cmp.Or(cmp.Compare(y.Count, x.Count), cmp.Compare(x.Reason, y.Reason))
		})
	}
	return lines
}
