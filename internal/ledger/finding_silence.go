package ledger

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// What a silence points at: the first part of the way that nothing comes through.
const (
	HopForm    = "form"    // the platform was asked and has no leads either
	HopWebhook = "webhook" // nobody calls us; whether there are leads, only the platform knows
	HopPage    = "page"    // the website's form or tag
	HopCaller  = "caller"  // the program that sends by an API key
	HopCRM     = "crm"     // whoever tells of stages by an API key or file
	HopPeople  = "people"  // the CRM was asked, and nobody has moved a card
)

// SilenceSubject names what a silence is about; an empty name means all that the source
// usually brings.
func SilenceSubject(source, name string) string {
	if name == "" {
		return source
	}
	return source + "/" + name
}

// SilenceEvidence puts the evidence of a silence together: what has most likely broken,
// since when, how much would have come since, and how much comes on a usual day.
func SilenceEvidence(hop string, since time.Time, expected, perDay float64) string {
	return StageEvidence(hop, since.UTC().Format("2006-01-02 15:04 UTC"), amount(expected), amount(perDay))
}

func amount(x float64) string {
	if x < 10 {
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return strconv.FormatFloat(x, 'f', 0, 64)
}

func (f Finding) explainSilence() Explanation {
	source, name, one := strings.Cut(f.Subject, "/")
	parts := append(strings.Split(f.Evidence, evidenceParts), "", "", "", "")
	hop, since, expected, perDay := parts[0], parts[1], parts[2], parts[3]
	what := "Nothing"
	if one {
		what = "No " + name
	}
	e := Explanation{
		Title: what + " from " + source + " since " + since, Owner: You, Severity: "error",
		Cause: fmt.Sprintf("Usually %s come a day, and about %s would have come since; so few come by chance less than once in 500 days. ", perDay, expected),
	}
	switch hop {
	case HopForm:
		e.Owner = Client
		e.Cause += "The platform was asked and has no new leads either: the form, its ads or their budget."
		e.NextStep = "Look at the ads of this form: are they running, is there budget, was the form replaced by another? Fill the form in once yourself."
	case HopWebhook:
		e.Cause += "The platform has not called; whether people filled in the form only the platform can say."
		e.NextStep = "Fill the form in once yourself. If it does not arrive, put the webhook's address into the platform anew: capiloop sources shows it."
	case HopPage:
		e.Cause += "The website's form or tag does not report any more, most often after a change of the page, or there are no visitors."
		e.NextStep = "Open the page and send the form once: capiloop dedup-test --url PAGE shows what arrives."
	case HopPeople:
		e.Owner = Client
		e.Cause += "The CRM was asked: nobody has moved a card there."
		e.NextStep = "Ask the team whether leads are moved in the CRM, and whether the pipeline or the stage was replaced by another: capiloop stages lists them."
	case HopCRM:
		e.Cause += "Whoever tells of stages by this key has stopped."
		e.NextStep = "Look at the program that calls POST /v1/stages: its log, its key, its address."
	default:
		e.Cause += "The program that sends by this key has stopped, or what it tells of has."
		e.NextStep = "Look at that program: its log, its key, its address. Was it replaced or switched off?"
	}
	return e
}
