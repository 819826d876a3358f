package config

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"

	"github.com/capiloop/capiloop/internal/ledger"
)

const (
	maxEventName = 50  // Meta's pixel takes no longer one, and its reports show no more
	maxWord      = 200 // of a stage, pipeline, field or value
)

// follower is a rule that waits for another event.
type follower struct {
	event, after string
	at           value
}

// stages reads the rules of a workspace: which stage is reported as which event. It
// comes after the datasets and CRMs, which rules name.
func (r *reader) stages(m *mapping, w *FileWorkspace) {
	seen := map[string]int{}
	var followers []follower
	m.items("stages", func(_ int, v value) {
		var rule ledger.Rule
		v.mapping(func(m *mapping) {
			r.trigger(m, &rule)
			r.narrow(m, w, &rule)
			r.reported(m, w, &rule)
			if take(m, "after", &rule.After, eventOf) && rule.After != "" {
				at, _ := m.get("after")
				followers = append(followers, follower{rule.Event, rule.After, at})
			}
			r.atReceipt(m, &rule)
			if rule.Event != "" && rule.Stage+rule.Field != "" {
				once(seen, sameRule(&rule), m.value, flaw{"a rule for the same stage and event", "make one of the two"})
			}
		})
		w.Rules = append(w.Rules, rule)
	})
	r.inOrder(w.Rules, followers)
}

// sameRule is the same for two rules that would make the same event of the same move.
func sameRule(rule *ledger.Rule) string {
	return strings.ToLower(strings.Join([]string{rule.Stage, rule.Field, rule.Is, rule.Pipeline, rule.CRM, rule.IfField, rule.IfIs}, "\x00")) + "\x00" + rule.Event
}

// trigger reads what a rule waits for: a stage, or a field that reaches a value.
func (r *reader) trigger(m *mapping, rule *ledger.Rule) {
	byStage := take(m, "stage", &rule.Stage, wordOf)
	byField := take(m, "field", &rule.Field, wordOf)
	reaches := takeSetting(m, "is", &rule.Is)
	inPipeline := take(m, "pipeline", &rule.Pipeline, wordOf)
	wrong := func(key string, f flaw) {
		v, _ := m.get(key)
		r.report(v.at(), v.path, f)
	}
	switch {
	case byStage && byField:
		wrong("field", flaw{"the rule has a stage already", "make a rule of its own for the field"})
	case !byStage && !byField:
		r.report(m.at(), m.path, flaw{"the rule has no stage", "add stage: with the id or label of a stage, or received for the moment the lead comes in; or field: and is: for a field that reaches a value"})
	case byField && !reaches:
		r.report(m.at(), m.path, flaw{"the rule does not say which value the field reaches", "add is: with the value"})
	case byStage && reaches:
		wrong("is", flaw{"there is no field that could reach the value", "add field: in the place of stage:, or take the key out"})
	case byField && inPipeline:
		wrong("pipeline", flaw{"a field belongs to no pipeline", "take the key out"})
	}
	if strings.EqualFold(rule.Stage, ledger.StageReceived) && rule.Stage != ledger.StageReceived {
		v, _ := m.get("stage")
		r.warn(v, flaw{"this is a stage of the CRM", "write " + ledger.StageReceived + " in small letters for the moment the lead comes in"})
	}
}

// narrow reads what makes a rule hold for some moves or datasets only.
func (r *reader) narrow(m *mapping, w *FileWorkspace, rule *ledger.Rule) {
	take(m, "crm", &rule.CRM, func(text string) (string, *flaw) {
		for _, c := range w.CRMs {
			if strings.EqualFold(c.Name, text) {
				return c.Name, nil
			}
		}
		return "", &flaw{"is no CRM of the workspace", "write the name of one under crms:"}
	})
	if v, ok := m.get("if"); ok {
		v.mapping(func(m *mapping) { r.condition(m, rule) })
	}
	take(m, "route", &rule.RouteAll, func(text string) (bool, *flaw) {
		if text != "own" && text != "all" {
			return false, &flaw{"is no way of an event", "write own (a lead of another ad platform is not told to Meta) or all"}
		}
		return text == "all", nil
	})
	v, ok := m.get("datasets")
	if !ok {
		return
	}
	n := 0
	seen := map[string]int{}
	v.list(func(_ int, item value) {
		n++
		if s, ok := item.text(); ok {
			if id, ok := read(s, false, w.datasetNamed); ok {
				once(seen, id, item, flaw{"this dataset", "name it once"})
				rule.Datasets = append(rule.Datasets, id)
			}
		}
	})
	if _, isList := v.node.(*ast.SequenceNode); n == 0 && (isList || v.empty()) {
		r.report(v.at(), v.path, flaw{"the list is empty, and the event would go nowhere", "list ids of datasets, or take the key out to send to all of them"})
	}
}

func (w *FileWorkspace) datasetNamed(id string) (string, *flaw) {
	if !slices.ContainsFunc(w.Datasets, func(d FileDataset) bool { return d.ID == id }) {
		return "", &flaw{"is no dataset of the workspace", "write the id of one under datasets:"}
	}
	return id, nil
}

// condition reads the field that must have a value for a rule to hold.
func (r *reader) condition(m *mapping, rule *ledger.Rule) {
	n := 0
	m.rest(func(e entry, _ value) {
		n++
		rule.IfField = strings.TrimSpace(e.key)
		takeSetting(m, e.key, &rule.IfIs)
	})
	if n != 1 || rule.IfField == "" {
		r.report(m.at(), m.path, flaw{"a condition is one field with its value", "write {field: value}"})
	}
}

// worth is where an event's value comes from.
type worth struct {
	from   ledger.ValueFrom
	amount string
}

// reported reads the event that a rule makes.
func (r *reader) reported(m *mapping, w *FileWorkspace, rule *ledger.Rule) {
	if !take(m, "event", &rule.Event, eventOf) {
		r.report(m.at(), m.path, flaw{"the rule has no event", "add event: with a name such as QualifiedLead"})
	} else if meant := spelling(rule.Event); meant != "" {
		v, _ := m.get("event")
		r.warn(v, flaw{"the event is another one than " + meant + ", for names go out as they are written", "write " + meant + " if that is meant"})
	}
	var value worth
	hasValue := take(m, "value", &value, worthOf)
	rule.Value, rule.Amount = value.from, value.amount
	hasCurrency := take(m, "currency", &rule.Currency, currencyOf)
	switch {
	case rule.Value == ledger.ValueFixed && !hasCurrency && w.Currency == "":
		v, _ := m.get("value")
		r.report(v.at(), v.path, flaw{"the amount has no currency", "add currency: here, or to the workspace"})
	case hasCurrency && !hasValue:
		v, _ := m.get("currency")
		r.report(v.at(), v.path, flaw{"there is no value that it would be the currency of", "add value: deal, or an amount, or take the key out"})
	}
	if v, ok := m.get("again"); ok {
		v.boolean(&rule.Again)
	}
	if v, ok := m.get("skipped"); ok {
		v.boolean(&rule.Skipped)
	}
}

// atReceipt refuses what cannot be known when a lead comes in: nothing of a CRM is.
func (r *reader) atReceipt(m *mapping, rule *ledger.Rule) {
	if rule.Stage != ledger.StageReceived {
		return
	}
	for _, key := range []string{"pipeline", "crm", "if", "again", "skipped"} {
		if v, ok := m.get(key); ok {
			r.report(v.at(), v.path, flaw{"a lead that comes in has no CRM behind it yet", "take the key out, or name a stage of the CRM"})
		}
	}
	if rule.Value == ledger.ValueDeal {
		v, _ := m.get("value")
		r.report(v.at(), v.path, flaw{"a lead that comes in has no deal yet", "write an amount, or take the key out"})
	}
}

// inOrder looks whether each event that a rule waits for can come.
func (r *reader) inOrder(rules []ledger.Rule, followers []follower) {
	made := map[string]bool{}
	for i := range rules {
		made[rules[i].Event] = true
	}
	before := waits{}
	for _, f := range followers {
		switch {
		case f.after == f.event:
			r.report(f.at.at(), f.at.path, flaw{"the event waits for itself", "write the event of another rule"})
		case !made[f.after]:
			r.report(f.at.at(), f.at.path, flaw{"no rule of the workspace has this event", "write the event of another rule, letter by letter"})
		case before.leads(f.after, f.event, map[string]bool{}):
			r.report(f.at.at(), f.at.path, flaw{"the events wait for each other in a circle", "let the first one of them wait for none"})
		default:
			before[f.event] = append(before[f.event], f.after)
		}
	}
}

// waits are the events that an event waits for.
type waits map[string][]string

// leads tells whether one event waits for another, be it by way of others.
func (w waits) leads(from, to string, seen map[string]bool) bool {
	if from == to {
		return true
	}
	if seen[from] {
		return false
	}
	seen[from] = true
	return slices.ContainsFunc(w[from], func(next string) bool { return w.leads(next, to, seen) })
}

// guard reads when a bulk of stage changes must be confirmed.
func (r *reader) guard(m *mapping, w *FileWorkspace) {
	m.section("guard", func(g *mapping) {
		take(g, "burst", &w.Guard.Burst, wholeFrom(2))
		take(g, "floor", &w.Guard.Floor, wholeFrom(1))
		v, ok := g.get("off")
		if _, isList := v.node.(*ast.SequenceNode); ok && !isList {
			v.boolean(&w.Guard.Off)
			return
		}
		v.list(func(_ int, item value) {
			s, ok := item.text()
			if !ok {
				return
			}
			name, ok := read(s, false, wordOf)
			if ok && !slices.ContainsFunc(w.CRMs, func(c FileCRM) bool { return c.Name == name }) {
				r.warn(item, flaw{"no CRM of the workspace has this name", "it is taken for the name of an API key"})
			}
			w.Guard.Without = append(w.Guard.Without, name)
		})
	})
}

func wholeFrom(least int) func(string) (int, *flaw) {
	return func(text string) (int, *flaw) {
		n, err := strconv.Atoi(text)
		if err != nil || n < least || n > 1_000_000 {
			return 0, &flaw{"is no whole number that could be meant", "write " + strconv.Itoa(least) + " or more"}
		}
		return n, nil
	}
}

// takeSetting reads a value of a CRM, which may be true or false as well.
func takeSetting(m *mapping, key string, into *string) bool {
	v, there := m.get(key)
	if b, ok := v.node.(*ast.BoolNode); ok {
		*into = strconv.FormatBool(b.Value)
	} else if there {
		take(m, key, into, wordOf)
	}
	return there
}

func wordOf(text string) (string, *flaw) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return "", &flaw{"is empty", "write a value, or take the key out"}
	case utf8.RuneCountInString(text) > maxWord:
		return "", &flaw{"is longer than 200 characters", "write the id in its place"}
	case strings.ContainsFunc(text, unicode.IsControl):
		return "", &flaw{"holds control characters", "write it on one line"}
	}
	return text, nil
}

func eventOf(text string) (string, *flaw) {
	switch {
	case strings.TrimSpace(text) != text || text == "":
		return "", &flaw{"is no name of an event", "write it without blanks around it, such as QualifiedLead"}
	case utf8.RuneCountInString(text) > maxEventName:
		return "", &flaw{"is longer than 50 characters, the most that a name of an event may have", "write a shorter one"}
	case strings.ContainsFunc(text, unicode.IsControl):
		return "", &flaw{"holds control characters", "write it on one line"}
	case text == ledger.LeadName:
		return "", &flaw{"stands for a lead on its way to a CRM", "write another name, such as Lead"}
	}
	return text, nil
}

// amount is above 0 if it has another digit than 0.
var amount = regexp.MustCompile(`\A(0|[1-9][0-9]{0,11})(\.[0-9]{1,4})?\z`)

func worthOf(text string) (worth, *flaw) {
	switch {
	case text == "none":
		return worth{}, nil
	case text == string(ledger.ValueDeal):
		return worth{from: ledger.ValueDeal}, nil
	case amount.MatchString(text) && strings.Trim(text, "0.") != "":
		return worth{from: ledger.ValueFixed, amount: text}, nil
	}
	return worth{}, &flaw{"is no value of an event", "write deal (the amount of the CRM's deal), none, or an amount above 0 such as 250 or 99.90"}
}

// eventNames are those that people give to stages, as Meta and its guides write them.
var eventNames = []string{
	"Lead", "QualifiedLead", "ConvertedLead", "Contacted", "Contact", "Schedule", "SubmitApplication", "CompleteRegistration", "StartTrial", "Subscribe",
	"InitiateCheckout", "AddPaymentInfo", "Purchase",
}

// spelling returns the known name that another spelling of it most likely means.
func spelling(event string) string {
	letters := func(name string) string {
		return strings.Map(func(c rune) rune {
			if !unicode.IsLetter(c) {
				return -1
			}
			return unicode.ToLower(c)
		}, name)
	}
	for _, name := range eventNames {
		if event != name && letters(event) == letters(name) {
			return name
		}
	}
	return ""
}
