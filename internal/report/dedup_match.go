package report

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

const (
	samePerson = 30 * time.Minute // one person's two copies of an action are this near
	sameTime   = 60 * time.Second // two copies without a person are this near, if alone
	mostTried  = 500              // of the nearest, for one event
)

// matcher finds for each copy the other one. Each is taken once.
type matcher struct {
	c         *Copies
	browser   []ledger.Sighting // the Pixel's that Meta has
	server    []ServerEvent
	ofBrowser []int // the other half; -1: none
	ofServer  []int
	cause     []Cause         // by server event; "": they pair
	fallback  []bool          // by server event
	told      map[rowKey]bool // where people could be told by more than the time
}

func newMatcher(c *Copies) *matcher {
	m := &matcher{c: c, server: slices.Clone(c.Server)}
	slices.SortFunc(m.server, func(a, b ServerEvent) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	at := map[[2]string]string{}
	for i := range m.server {
		s := &m.server[i]
		if key := [2]string{s.Name, s.EventID}; at[key] == "" || s.Dataset == c.Default {
			at[key] = s.Dataset
		}
	}
	for i := range c.Browser {
		b := c.Browser[i]
		if b.Blocked {
			continue
		}
		if b.Dataset == "" {
			b.Dataset = cmp.Or(at[[2]string{b.Name, b.EventID}], c.Default)
		}
		m.browser = append(m.browser, b)
	}
	slices.SortFunc(m.browser, func(a, b ledger.Sighting) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	m.ofBrowser, m.ofServer = fill(len(m.browser)), fill(len(m.server))
	m.cause, m.fallback, m.told = make([]Cause, len(m.server)), make([]bool, len(m.server)), map[rowKey]bool{}
	return m
}

func fill(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = -1
	}
	return list
}

// apart is how far apart Meta got the two copies. When the Pixel's report arrived is not
// known better than between what the page says and when the tag told us: a browser that
// was offline reports late by both ways.
func apart(b *ledger.Sighting, s *ServerEvent) time.Duration {
	first, last := b.At, b.ID.Time()
	if last.Before(first) {
		first, last = last, first
	}
	switch {
	case s.SentAt.Before(first):
		return first.Sub(s.SentAt)
	case s.SentAt.After(last):
		return s.SentAt.Sub(last)
	}
	return 0
}

// between is how far apart the two actions happened.
func between(b *ledger.Sighting, s *ServerEvent) time.Duration { return b.At.Sub(s.At).Abs() }

// byID finds what pairs as Meta does it: by the same name and id in one dataset.
func (m *matcher) byID() {
	m.match(func(b *ledger.Sighting) any { return idKey(b.Dataset, b.Name, b.EventID) }, func(s *ServerEvent) any { return idKey(s.Dataset, s.Name, s.EventID) },
		func(b *ledger.Sighting, s *ServerEvent) bool { return apart(b, s) <= MetaWindow }, "")
}

func idKey(dataset, name, id string) any {
	if id == "" {
		return nil
	}
	return [3]string{dataset, name, id}
}

// byRest finds the other copy of what does not pair, the surest ways first.
func (m *matcher) byRest() {
	always := func(*ledger.Sighting, *ServerEvent) bool { return true }
	m.match(func(b *ledger.Sighting) any { return idKey(b.Dataset, b.Name, b.EventID) }, func(s *ServerEvent) any { return idKey(s.Dataset, s.Name, s.EventID) }, always, CauseLate)
	near := func(b *ledger.Sighting, s *ServerEvent) bool { return between(b, s) <= MetaWindow }
	m.match(func(b *ledger.Sighting) any { return idKey(b.Dataset, ledger.EventSpelling(b.Name), b.EventID) }, func(s *ServerEvent) any { return idKey(s.Dataset, ledger.EventSpelling(s.Name), s.EventID) }, near, CauseName)
	m.match(func(b *ledger.Sighting) any { return idKey("", ledger.EventSpelling(b.Name), b.EventID) }, func(s *ServerEvent) any { return idKey("", ledger.EventSpelling(s.Name), s.EventID) }, near, CauseDataset)
	m.byOneSidedName()

	// Meta's second key needs the browser's copy first.
	joins := func(b *ledger.Sighting, s *ServerEvent) bool {
		return !b.At.After(s.SentAt) && apart(b, s) <= MetaWindow && between(b, s) <= samePerson && b.Name == s.Name
	}
	same := func(b *ledger.Sighting, s *ServerEvent) bool { return between(b, s) <= samePerson && !others(b, s) }
	byFBP := func(b *ledger.Sighting) any { return personKey(b.Dataset, b.Name, b.FBP) }
	byExternal := func(b *ledger.Sighting) any { return personKey(b.Dataset, b.Name, b.External) }
	m.match(byExternal, func(s *ServerEvent) any { return personKey(s.Dataset, s.Name, s.External) }, joins, causeFallback)
	m.match(byFBP, func(s *ServerEvent) any { return personKey(s.Dataset, s.Name, s.FBP) }, joins, causeFallback)
	m.match(byExternal, func(s *ServerEvent) any { return personKey(s.Dataset, s.Name, s.External) }, same, causeByIDs)
	m.match(byFBP, func(s *ServerEvent) any { return personKey(s.Dataset, s.Name, s.FBP) }, same, causeByIDs)
	m.match(func(b *ledger.Sighting) any { return personKey(b.Dataset, b.Name, b.Visitor) }, func(s *ServerEvent) any { return personKey(s.Dataset, s.Name, s.Visitor) }, same, causeByIDs)
	for i := range m.server {
		if s := &m.server[i]; m.ofServer[i] >= 0 && s.Visitor != 0 && m.browser[m.ofServer[i]].Visitor == s.Visitor {
			m.told[rowKey{s.Dataset, ledger.EventSpelling(s.Name)}] = true
		}
	}
	m.byTime()
}

// Instead of a cause: it is told by the two ids.
const (
	causeByIDs    Cause = "ids"
	causeFallback Cause = "fallback"
)

func personKey(dataset, name string, mark int64) any {
	if mark == 0 {
		return nil
	}
	return struct {
		dataset, name string
		mark          int64
	}{dataset, ledger.EventSpelling(name), mark}
}

// others tells whether two copies are of two people.
func others(b *ledger.Sighting, s *ServerEvent) bool {
	differ := func(a, b int64) bool { return a != 0 && b != 0 && a != b }
	return differ(b.External, s.External) || b.External == 0 && differ(b.FBP, s.FBP)
}

// match takes for each server event of a key the nearest browser event of the same key.
func (m *matcher) match(ofBrowser func(*ledger.Sighting) any, ofServer func(*ServerEvent) any, fits func(*ledger.Sighting, *ServerEvent) bool, cause Cause) {
	groups := map[any][]int{}
	for i := range m.browser {
		if key := ofBrowser(&m.browser[i]); m.ofBrowser[i] < 0 && key != nil {
			groups[key] = append(groups[key], i)
		}
	}
	for i := range m.server {
		s := &m.server[i]
		key := ofServer(s)
		if m.ofServer[i] >= 0 || key == nil || s.Elsewhere && cause != "" {
			continue
		}
		if n := m.nearest(groups[key], s, fits); n >= 0 {
			m.take(n, i, cause)
		}
	}
}

// nearest returns the nearest in time of a sorted group that is not taken; -1: none fits.
func (m *matcher) nearest(group []int, s *ServerEvent, fits func(*ledger.Sighting, *ServerEvent) bool) int {
	right := sort.Search(len(group), func(n int) bool { return !m.browser[group[n]].At.Before(s.At) })
	left := right - 1
	for range mostTried {
		var n int
		switch {
		case left < 0 && right >= len(group):
			return -1
		case right >= len(group) || left >= 0 && between(&m.browser[group[left]], s) <= between(&m.browser[group[right]], s):
			n = group[left]
			left--
		default:
			n = group[right]
			right++
		}
		if m.ofBrowser[n] < 0 && fits(&m.browser[n], s) {
			return n
		}
	}
	return -1
}

func (m *matcher) take(b, s int, cause Cause) {
	m.ofBrowser[b], m.ofServer[s] = s, b
	left, right := &m.browser[b], &m.server[s]
	if cause == causeFallback || cause == causeByIDs {
		m.fallback[s] = cause == causeFallback
		switch {
		case left.Name != right.Name:
			cause = CauseName
		case left.EventID == "":
			cause = CauseNoID
		case scheme(left.EventID) != scheme(right.EventID):
			cause = CauseScheme
		default:
			cause = CauseOwnIDs
		}
	}
	m.cause[s] = cause
}

// byOneSidedName finds what has one id on both sides and a name that only its own side
// uses: SubmitForm and Lead. Names that both sides use are two events, whatever their ids:
// a shop may give its cart and its order one number.
func (m *matcher) byOneSidedName() {
	left, right := map[string]bool{}, map[string]bool{}
	for i := range m.browser {
		left[ledger.EventSpelling(m.browser[i].Name)] = true
	}
	for i := range m.server {
		right[ledger.EventSpelling(m.server[i].Name)] = true
	}
	m.match(func(b *ledger.Sighting) any {
		if right[ledger.EventSpelling(b.Name)] {
			return nil
		}
		return idKey(b.Dataset, "", b.EventID)
	}, func(s *ServerEvent) any {
		if left[ledger.EventSpelling(s.Name)] {
			return nil
		}
		return idKey(s.Dataset, "", s.EventID)
	}, func(b *ledger.Sighting, s *ServerEvent) bool { return between(b, s) <= samePerson }, CauseName)
}

// byTime takes two copies as one action where there is no third near either of them.
func (m *matcher) byTime() {
	type group struct{ browser, server []int }
	groups := map[rowKey]*group{}
	of := func(dataset, name string) *group {
		key := rowKey{dataset, ledger.EventSpelling(name)}
		if groups[key] == nil {
			groups[key] = &group{}
		}
		return groups[key]
	}
	for i := range m.browser {
		if b := &m.browser[i]; m.ofBrowser[i] < 0 {
			g := of(b.Dataset, b.Name)
			g.browser = append(g.browser, i)
		}
	}
	for i := range m.server {
		if s := &m.server[i]; m.ofServer[i] < 0 && !s.Elsewhere {
			g := of(s.Dataset, s.Name)
			g.server = append(g.server, i)
		}
	}
	for key, g := range groups {
		type pair struct{ b, s int }
		var pairs []pair
		for _, s := range g.server {
			at := m.server[s].At
			near := span(g.browser, func(i int) time.Time { return m.browser[i].At }, at)
			if len(near) != 1 || len(span(g.server, func(i int) time.Time { return m.server[i].At }, m.browser[near[0]].At)) != 1 {
				continue
			}
			b := &m.browser[near[0]]
			if !others(b, &m.server[s]) && (!m.told[key] || b.Visitor == 0 || m.server[s].Visitor == 0 || b.Visitor == m.server[s].Visitor) {
				pairs = append(pairs, pair{near[0], s})
			}
		}
		for _, p := range pairs {
			m.take(p.b, p.s, causeByIDs)
		}
	}
}

// span returns those of a sorted list that are near a time.
func span(list []int, at func(int) time.Time, t time.Time) []int {
	from := sort.Search(len(list), func(n int) bool { return !at(list[n]).Before(t.Add(-sameTime)) })
	to := sort.Search(len(list), func(n int) bool { return at(list[n]).After(t.Add(sameTime)) })
	return list[from:to]
}
