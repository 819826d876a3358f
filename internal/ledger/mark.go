package ledger

import (
	"strings"
	"time"
)

// KindMark is the kind of a stage change that a person made by a one-tap link of a
// message.
const KindMark = "mark"

const (
	// MarkValid is how long a link can be used.
	MarkValid = 14 * 24 * time.Hour
	// MarkUndo is how long a mark can be taken back; its events wait that long.
	MarkUndo = 10 * time.Minute
	// MarkRemind is how old a lead is that people are reminded of.
	MarkRemind = 48 * time.Hour
)

// Choice is what a person can say of a lead with one tap.
type Choice string

// The choices, as a link has them.
const (
	ChoiceGood   Choice = "good"
	ChoiceBad    Choice = "bad"
	ChoiceBooked Choice = "booked"
	ChoiceSold   Choice = "sold"
)

// Choices returns all of them in the order in which people see them.
func Choices() []Choice { return []Choice{ChoiceGood, ChoiceBad, ChoiceBooked, ChoiceSold} }

// markStages are the stages of marks: a pipeline without a CRM.
var markStages = []struct {
	choice  Choice
	label   string
	meaning Meaning
}{
	{ChoiceGood, "Good", MeaningOpen}, {ChoiceBooked, "Booked", MeaningOpen}, {ChoiceSold, "Sold", MeaningWon}, {ChoiceBad, "Bad", MeaningLost},
}

// Stage is the stage that the choice stands for; "" if it is none of ours.
func (c Choice) Stage() string {
	for _, s := range markStages {
		if s.choice == c {
			return s.label
		}
	}
	return ""
}

// Meaning says what the choice's stage stands for.
func (c Choice) Meaning() Meaning {
	for _, s := range markStages {
		if s.choice == c {
			return s.meaning
		}
	}
	return MeaningUnknown
}

// ChoiceOf returns the choice that a stage stands for; "" if none.
func ChoiceOf(stage string) Choice {
	for _, s := range markStages {
		if strings.EqualFold(s.label, stage) {
			return s.choice
		}
	}
	return ""
}

// MarkStages are the stages of marks in their order.
func MarkStages() []Stage {
	list := make([]Stage, len(markStages))
	for i, s := range markStages {
		list[i] = Stage{ID: s.label, Label: s.label, Position: i, Meaning: s.meaning}
	}
	return list
}

// WantsMark tells whether any rule is for a stage that people mark leads with.
func WantsMark(rules []Rule) bool {
	for i := range rules {
		if ChoiceOf(rules[i].Stage) != "" {
			return true
		}
	}
	return false
}
