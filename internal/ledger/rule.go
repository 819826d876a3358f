package ledger

import (
	"slices"
	"strings"
)

// StageReceived is the stage of every lead at its receipt: a rule for it needs no CRM.
const StageReceived = "received"

// ValueFrom says where the value of a rule's event comes from.
type ValueFrom string

// The sources of a value.
const (
	ValueNone  ValueFrom = ""
	ValueDeal  ValueFrom = "deal"
	ValueFixed ValueFrom = "fixed"
)

// Rule turns a stage into an event. Texts that name a stage or pipeline are its id or any
// label that it has or had, in any case.
type Rule struct {
	Stage    string // a stage's id or label, or StageReceived; "" if Field is set
	Pipeline string // "": of any
	Field    string // a field of the CRM that reaches the value Is
	Is       string // that value, or a label that it has or had
	CRM      string // only of the connection of this name; "": of any

	Event    string // event_name
	Value    ValueFrom
	Amount   string // of ValueFixed, decimal
	Currency string // "": the deal's, else the workspace's
	After    string // the lead's event of this name must be sent before
	Again    bool   // counts once per deal, not once per lead
	Skipped  bool   // sends the events of earlier rules that the lead has jumped over, too
	RouteAll bool   // to Meta also for leads of other ad platforms
	IfField  string // a condition: this field of the CRM has the value IfIs
	IfIs     string
	Datasets []string // ids; none: every dataset of the workspace
}

// Matches tells whether a move is the rule's, before its condition. labels are those
// that the stage has or had, pipelines those of its pipeline.
func (r *Rule) Matches(source string, c *StageChange, labels, pipelines []string) bool {
	if r.CRM != "" && r.CRM != source {
		return false
	}
	if r.Field != "" {
		return strings.EqualFold(r.Field, c.Field) && names(r.Is, c.Stage, labels)
	}
	if c.Field != "" || r.Stage == StageReceived {
		return false
	}
	return names(r.Stage, c.Stage, labels) && (r.Pipeline == "" || names(r.Pipeline, c.Pipeline, pipelines))
}

// IsFor tells whether a rule is for a stage of a source, before its condition.
func (r *Rule) IsFor(source string, st *Stage) bool {
	at := &StageChange{Pipeline: st.Pipeline, Stage: st.ID, Field: st.Field}
	return r.Matches(source, at, append([]string{st.Label}, st.Labels...), []string{st.PipelineLabel})
}

// Applies tells whether the condition of a rule holds.
func (r *Rule) Applies(c *StageChange) bool {
	if r.IfField == "" {
		return true
	}
	for name, value := range c.Fields {
		if strings.EqualFold(name, r.IfField) && sameWord(value, r.IfIs) {
			return true
		}
	}
	return false
}

func names(text, id string, labels []string) bool {
	return sameWord(text, id) || slices.ContainsFunc(labels, func(label string) bool { return sameWord(text, label) })
}

func sameWord(a, b string) bool { return strings.EqualFold(strings.TrimSpace(a), strings.TrimSpace(b)) }

// Guard is when a bulk of stage changes must be confirmed by a person.
type Guard struct {
	Off   bool
	Burst int // times the hourly norm within ten minutes
	Floor int // changes that are never too many
	// Without lists connections whose changes are not guarded.
	Without []string
}

// DefaultGuard is what holds without a word about it.
func DefaultGuard() Guard { return Guard{Burst: 5, Floor: 20} }

// UnknownNorm is how many changes within ten minutes pass while a source's norm is not
// known yet.
const UnknownNorm = 200
