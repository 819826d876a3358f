package report

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
	"github.com/capiloop/capiloop/internal/store"
)

const (
	maxAnswer  = 60 // characters; a longer one is a text, not a choice
	maxDigits  = 6  // more may be a phone number
	leastGiven = 2  // what one person alone has answered may tell who it is
)

// Answers counts the leads of each answer of a form: "question = answer".
type Answers struct {
	ring  *secret.Ring
	cells map[[2]string]int64 // by group and event
	leads map[string]int64    // by group
}

// NewAnswers returns an empty count; ring opens the leads.
func NewAnswers(ring *secret.Ring) *Answers {
	return &Answers{ring: ring, cells: map[[2]string]int64{}, leads: map[string]int64{}}
}

var errSealed = errors.New("it was sealed under another master key")

// Add opens a lead and counts it under each of its answers. One whose contact was cleared
// has none any more.
func (a *Answers) Add(row *store.LeadRow, events []string) error {
	if row.Wrapped == nil || row.Sealed == nil || a.ring == nil {
		return nil
	}
	lead := row.Lead
	plain, err := a.ring.ReadLead(int64(lead.ID), row.Wrapped, row.Sealed)
	if err == nil {
		err = lead.Join(plain)
	}
	if err != nil {
		return fmt.Errorf("open lead %s: %w", lead.ID, errors.Join(errSealed, err))
	}
	counted := map[string]bool{}
	for _, answer := range lead.Answers {
		if answer.Private {
			continue
		}
		if answer.Consent {
			continue
		}
		question := strings.TrimSpace(answer.Label)
		if question == "" {
			question = answer.Question
		}
		for _, value := range answer.Values {
			value = strings.Join(strings.Fields(value), " ")
			group := question + " = " + value
			if counted[group] || !isChoice(value, &lead.Contact) {
				continue
			}
			counted[group] = true
			a.leads[group]++
			for _, event := range events {
				a.cells[[2]string{group, event}]++
			}
		}
	}
	return nil
}

// Cells returns the counts of the answers that more than one lead has given.
func (a *Answers) Cells() []store.FunnelCell {
	var list []store.FunnelCell
	for group, n := range a.leads {
		if n >= leastGiven {
			list = append(list, store.FunnelCell{Group: group, Leads: n})
		}
	}
	for key, n := range a.cells {
		if a.leads[key[0]] >= leastGiven {
			list = append(list, store.FunnelCell{Group: key[0], Event: key[1], Leads: n})
		}
	}
	return list
}

// isChoice tells whether an answer may be shown: one of a few words that says nothing of
// who gave it.
func isChoice(value string, c *ledger.Contact) bool {
	if value == "" || utf8.RuneCountInString(value) > maxAnswer || strings.Contains(value, "@") {
		return false
	}
	digits := 0
	for _, r := range value {
		if unicode.IsDigit(r) {
			digits++
		}
	}
	if digits > maxDigits {
		return false
	}
	return !ofThePerson(value, c)
}

// ofThePerson tells whether an answer names who gave it.
func ofThePerson(value string, c *ledger.Contact) bool {
	value = strings.ToLower(value)
	words := func(s string) []string {
		return strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) })
	}
	own := slices.Concat(words(c.FullName), words(c.FirstName), words(c.LastName))
	if slices.ContainsFunc(words(value), func(word string) bool { return utf8.RuneCountInString(word) > 1 && slices.Contains(own, word) }) {
		return true
	}
	return slices.ContainsFunc([]string{c.Company, c.Street, c.Birthday}, func(text string) bool {
		text = strings.ToLower(strings.TrimSpace(text))
		return text != "" && strings.Contains(value, text)
	})
}
