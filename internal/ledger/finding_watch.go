package ledger

import (
	"strconv"
	"strings"
	"time"
)

// Subjects of the findings about what Meta is told of leads: each is one cause.
const (
	TooFewStages = "stages"       // sequence: fewer than two events
	NoRawLead    = "raw lead"     // sequence: nothing is sent when a lead comes in
	OnlyWinners  = "only winners" // sequence: nothing but won stages
	LowCoverage  = "coverage"     // volume: too few leads have an event
	FewLeads     = "leads"        // volume: too few leads a month
	LateEvents   = "delay"        // volume: moves are told of too late
)

// What Meta recommends for the Conversion Leads integration (its help pages of September
// 2026).
const (
	AdvisedLeads    = 200            // a month
	AdvisedCoverage = 60             // percent of leads that have an event
	AdvisedStages   = 2              // the raw lead among them; three are better
	AdvisedDelay    = 24 * time.Hour // upload at least daily, best at once
)

// DeadlineEvidence puts the evidence of a finding about a deadline together; destination
// and event are its subject.
func DeadlineEvidence(why Reason, count int64, first time.Time) string {
	return StageEvidence(string(why), strconv.FormatInt(count, 10), first.UTC().Format(time.RFC3339))
}

// DeadlineSubject names what a finding about a deadline is about.
func DeadlineSubject(destination, event string) string { return destination + "/" + event }

func (f Finding) explainDeadline() Explanation {
	destination, event, _ := strings.Cut(f.Subject, "/")
	why, rest, _ := strings.Cut(f.Evidence, evidenceParts)
	count, first, _ := strings.Cut(rest, evidenceParts)
	what := count + " " + event + " for " + destination
	if event == LeadName {
		what = count + " leads for " + destination
	}
	return Explanation{
		Title: "Soon too late: " + what, Owner: You, Severity: "error",
		Cause:    Reason(why).Sentence() + " The first is lost at " + first + ".",
		NextStep: Reason(why).Remedy(destination),
	}
}

// explainAdvice says what Meta recommends and what was measured.
func (f Finding) explainAdvice() Explanation {
	e := Explanation{Owner: You, Severity: "warning"}
	first, second, _ := strings.Cut(f.Evidence, evidenceParts)
	switch f.Subject {
	case TooFewStages:
		e.Title = "Meta learns of too few stages"
		e.Cause = "The rules make " + first + " kind of event. Meta asks for two stages at least, the raw lead among them, and advises three."
		e.NextStep = "Map one more stage under stages:, such as {stage: received, event: Lead} or the stage of qualified leads; capiloop stages lists them."
	case NoRawLead:
		e.Title = "Meta does not learn of the raw lead"
		e.Cause = "No rule is for the moment a lead comes in, nor for the CRM's first stage. Meta compares every later stage with it."
		e.NextStep = "Add {stage: received, event: Lead} under stages:."
	case OnlyWinners:
		e.Title = "Meta learns of winners only"
		e.Cause = "Every rule is for a won stage. Meta learns from the steps on the way, too, and asks for two stages at least, the raw lead among them."
		e.NextStep = "Map the raw lead and the stage of qualified leads under stages:."
	case LowCoverage:
		e.Title = first + " % of Meta's leads have an event"
		e.Cause = "Of " + second + " leads from Meta in the last 28 days " + first + " % have an event. Meta asks for 60 % at least."
		e.NextStep = "Look at capiloop funnel and capiloop stages: which stages have no rule, and which leads are never moved in the CRM?"
	case FewLeads:
		e.Title = first + " of 200 leads a month: this improves measuring, not delivery"
		e.Cause = "Meta brought " + first + " leads in the last 28 days. Its delivery learns from the quality of leads at 200 a month and more."
		if second != "" {
			e.Title = first + " of 200 leads a month so far"
			e.Cause = "Meta has brought " + first + " leads in " + second + " days. Its delivery learns from the quality of leads at 200 a month and more; below that this improves measuring, not delivery."
		}
		e.NextStep = "Nothing is wrong: reports say what a good lead costs. For delivery to learn, let one dataset stand for more campaigns or a larger budget."
	case LateEvents:
		e.Title = "Stage changes come " + first + " hours after they happened"
		e.Cause = "Half of the moves of the last 7 days were told of more than " + first + " hours late. Meta asks for an upload at least daily, best at once, and takes nothing after 7 days."
		e.NextStep = "Let the CRM tell by its webhook (capiloop sources shows the address), and ask the team to move leads on the day on which it happens."
	}
	return e
}
