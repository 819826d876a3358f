package web

import (
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/capiloop/capiloop/internal/admin"
	"github.com/capiloop/capiloop/internal/ledger"
)

// frame is what every page has.
type frame struct {
	Title     string
	Workspace string
	Links     Links
	LiveURL   string // "": the page stands still
	Static    map[string]string
	Book      *bookView
	Event     *eventView
	Lead      *leadView
	Problem   string // "404", "503"
}

// bookView is the first page.
type bookView struct {
	Sentence     string
	Book         *admin.Ledger
	Tiles        []tile
	Beside       []tile
	Destinations []admin.Destination
	Findings     []admin.Finding // open ones
	Fixed        int64
	Leads        []leadRow // the newest
	Events       []*admin.Event
	API          string
}

// tile is a number with its words.
type tile struct {
	State string
	N     int64
	Label string
}

func (w words) bookView(b *admin.Ledger, d []admin.Destination, f []admin.Finding, e []*admin.Event) *bookView {
	v := &bookView{Book: b, Destinations: d, Events: e}
	var parts []string
	for _, t := range []struct {
		state ledger.State
		n     int64
	}{{ledger.Sent, b.Sent}, {ledger.Waiting, b.Waiting}, {ledger.Held, b.Held}, {ledger.Skipped, b.Skipped}, {ledger.Failed, b.Failed}} {
		v.Tiles = append(v.Tiles, tile{string(t.state), t.n, w.say("tile." + string(t.state))})
		if t.n != 0 {
			parts = append(parts, w.count("book.part."+string(t.state), t.n))
		}
	}
	v.Sentence = w.say("book.none")
	if b.Received != 0 {
		v.Sentence = w.count("book", b.Received, w.list(parts))
	}
	for _, t := range []struct {
		what ledger.Beside
		n    int64
	}{
		{ledger.Duplicate, b.Beside.Duplicates},
		{ledger.DuplicateConflict, b.Beside.DuplicateConflicts},
		{ledger.Rejected, b.Beside.Rejected},
		{ledger.History, b.Beside.History},
		{ledger.AlreadySent, b.Beside.AlreadySent},
	} {
		if t.n != 0 {
			form := ".other"
			if t.n == 1 {
				form = ".one"
			}
			v.Beside = append(v.Beside, tile{string(t.what), t.n, w.say("beside." + string(t.what) + form)})
		}
	}
	for _, x := range f {
		if x.State == "open" {
			v.Findings = append(v.Findings, x)
		} else {
			v.Fixed++
		}
	}
	return v
}

func (w words) list(parts []string) string {
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	last := len(parts) - 1
	return strings.Join(parts[:last], ", ") + w.say("book.and") + parts[last]
}

// eventView is the page of one event.
type eventView struct {
	*admin.Event

	Happened time.Time
	Where    string
	Ways     []way
}

// way is the life line of one delivery.
type way struct {
	admin.Delivery

	Head  string
	Steps []step
}

// step is one station of a life line.
type step struct {
	Kind  string // for the dot's colour: a state, or step
	Head  string
	Link  string // of the head; "": none
	State string // shown beside the head; "": none
	At    *time.Time
	Text  string
	More  []string
	Keys  []string // came, or kept
	Left  []left
	Notes []admin.Note
	Said  string
	Codes *admin.Answer
}

// left is a key that was left out, and why.
type left struct{ Key, Why string }

func (w words) eventView(e *admin.Event) *eventView {
	v := &eventView{Event: e, Happened: time.Unix(e.EventTime, 0).UTC(), Where: w.or("source."+e.ActionSource, e.ActionSource)}
	for _, d := range e.Deliveries {
		x := way{Delivery: d, Head: w.say("event.life.nowhere")}
		if d.Destination != "" {
			x.Head = w.say("event.life.to", d.Destination)
		}
		x.Steps = append(x.Steps, w.receivedStep(e))
		if d.Payload != nil || len(d.KeysKept) > 0 || len(d.Notes) > 0 {
			x.Steps = append(x.Steps, w.encodedStep(e, d))
		}
		x.Steps = append(x.Steps, w.attemptSteps(d)...)
		x.Steps = append(x.Steps, w.lastStep(d))
		v.Ways = append(v.Ways, x)
	}
	return v
}

func (w words) receivedStep(e *admin.Event) step {
	s := step{Kind: "step", Head: w.say("life.received"), At: &e.ReceivedAt, Keys: w.keys(e.KeysCame)}
	s.Text = w.say("life.received.text", e.Source) + " "
	if len(s.Keys) > 0 {
		s.Text += w.say("life.received.keys")
	} else {
		s.Text += w.say("life.received.nokeys")
	}
	if e.Consent != "" {
		s.Text += " " + w.say("life.received.consent", e.Consent)
	}
	return s
}

// encodedStep tells what became of each key: kept, or left out and why.
func (w words) encodedStep(e *admin.Event, d admin.Delivery) step {
	s := step{Kind: "step", Head: w.say("life.encoded"), Text: w.say("life.encoded.text"), Keys: w.keys(d.KeysKept)}
	if len(s.Keys) > 0 {
		s.Text += " " + w.say("life.kept")
	}
	told := make(map[string]bool)
	for _, key := range e.KeysCame {
		if slices.Contains(d.KeysKept, key) {
			continue
		}
		why := w.say("life.left.rule")
		for _, n := range d.Notes {
			if fieldIs(n.Field, key) {
				why, told[n.Field] = n.Reason, true
			}
		}
		s.Left = append(s.Left, left{w.key(key), why})
	}
	for _, n := range d.Notes {
		if !told[n.Field] {
			s.Notes = append(s.Notes, n)
		}
	}
	return s
}

// fieldIs tells whether a note's field is a match key: "user_data.em" or, for one of
// several values, "user_data.em[1]".
func fieldIs(field, key string) bool {
	rest, ok := strings.CutPrefix(field, "user_data."+key)
	return ok && (rest == "" || rest[0] == '[' || rest[0] == '.')
}

func (w words) attemptSteps(d admin.Delivery) []step {
	var list []step
	shown := len(d.Answers)
	first := max(d.Attempts, shown) - shown
	if first > 0 && shown > 0 {
		list = append(list, step{Kind: "step", Head: "…", Text: w.count("life.earlier", int64(first))})
	}
	for i, a := range slices.Backward(d.Answers) {
		s := step{Kind: "step", Head: w.say("life.attempt", first+shown-i), At: a.At, Said: a.Message}
		outcome := a.Outcome
		if outcome == "" {
			outcome = "underway"
		}
		s.Text = w.or("outcome."+outcome, outcome)
		if outcome == "refused" || outcome == "held" {
			s.Kind = map[string]string{"refused": "failed", "held": "held"}[outcome]
		}
		travelled := w.say("life.alone")
		if a.Events != 1 {
			travelled = w.say("life.with", a.Events)
		}
		s.More = append(s.More, travelled)
		if a.Status != 0 || a.Code != 0 || a.FBTraceID != "" {
			s.Codes = &a
		}
		list = append(list, s)
	}
	return list
}

func (w words) lastStep(d admin.Delivery) step {
	s := step{Kind: string(d.State), Head: w.say("state." + string(d.State)), At: d.SettledAt, Text: w.or("reason."+string(d.Reason), d.Sentence)}
	if d.NextAt != nil {
		s.More = append(s.More, w.say("life.next", d.NextAt))
	}
	if !d.State.Final() && d.Deadline != nil {
		s.More = append(s.More, w.say("life.deadline", d.Deadline))
	}
	if d.FBTraceID != "" {
		s.More = append(s.More, w.say("life.receipt", d.FBTraceID))
	}
	return s
}

func (w words) key(name string) string { return w.or("key."+name, name) }

func (w words) keys(names []string) []string {
	list := make([]string, 0, len(names))
	for _, n := range names {
		list = append(list, w.key(n))
	}
	return list
}

// funcs are what templates can call.
func (w words) funcs() template.FuncMap {
	return template.FuncMap{
		"t": w.say, "count": w.count, "n": w.number,
		"key":    w.key,
		"short":  func(t any) string { return momentOf(t).Format(w["time.short"]) },
		"long":   func(t any) string { return momentOf(t).Format(w["time.long"]) },
		"iso":    func(t any) string { return momentOf(t).Format(time.RFC3339) },
		"reason": func(code ledger.Reason, sentence string) string { return w.or("reason."+string(code), sentence) },
		"text":   func(p admin.Payload) string { return string(p) },
	}
}

func momentOf(t any) time.Time {
	switch t := t.(type) {
	case time.Time:
		return t.UTC()
	case *time.Time:
		if t != nil {
			return t.UTC()
		}
	}
	return time.Time{}
}
