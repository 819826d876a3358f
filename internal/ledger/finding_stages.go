package ledger

import "strings"

// What the evidence of a finding about stages begins with; the stage's names follow.
const (
	StageRenamed  = "renamed"
	StageGone     = "gone"
	RuleWithout   = "no_such_stage"
	Unwatched     = "unwatched_field"
	evidenceParts = "\n"
)

// StageEvidence puts the evidence of a finding about a stage together.
func StageEvidence(what string, names ...string) string {
	return strings.Join(append([]string{what}, names...), evidenceParts)
}

func (f Finding) explainGuard() Explanation {
	return Explanation{
		Title: "Events wait for your OK (" + f.Subject + ")", Owner: You, Severity: "error", Cause: Reason(f.Evidence).Sentence(),
		NextStep: "Look at them, then send them with capiloop retry --held --reason " + f.Evidence + ", or skip them with --drop in the place of --held.",
	}
}

func (f Finding) explainMapping() Explanation {
	what, rest, _ := strings.Cut(f.Evidence, evidenceParts)
	before, now, _ := strings.Cut(rest, evidenceParts)
	e := Explanation{Owner: You, Severity: "warning"}
	switch what {
	case StageRenamed:
		e.Title = "A stage was renamed (" + f.Subject + ")"
		e.Cause = "The stage " + before + " is called " + now + " in the CRM now. Its rule goes on as before."
		e.NextStep = "Write the new name into stages: when you touch the configuration next; nothing is lost until then."
	case StageGone:
		e.Title = "A stage was deleted (" + f.Subject + ")"
		e.Cause = "The stage " + before + ", which a rule is for, is not in the CRM any more."
		e.NextStep = "Write the stage that took its place into stages:, or take the rule out."
	case Unwatched:
		e.Title = "A rule is for a field that no CRM watches (" + f.Subject + ")"
		e.Cause = "The CRM does not tell of the field " + before + ", so the rule never holds."
		e.NextStep = "Write the field into watch: of the CRM under crms:, letter by letter as the rule has it."
	default:
		e.Title = "A rule is for a stage that is not there (" + f.Subject + ")"
		e.Cause = "No pipeline of the CRM has a stage " + before + "."
		e.NextStep = "Compare with: capiloop stages. Write the stage's id or its name as the CRM shows it."
	}
	return e
}
