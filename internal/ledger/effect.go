package ledger

import "maps"

// Effect is what a stage change brought about.
type Effect string

// The effects of a stage change.
const (
	EffectEvent       Effect = "event"        // an event was made of it
	EffectAlreadySent Effect = "already_sent" // its event went before, by an earlier move
	EffectNoRule      Effect = "no_rule"      // no rule is for this stage
	EffectCondition   Effect = "condition"    // a rule is for it, but its condition does not hold
	EffectHistory     Effect = "history"      // it happened before the connection
	EffectTest        Effect = "test"         // a test lead's
	EffectUndone      Effect = "undone"       // taken back by who made it
)

var effects = map[Effect]string{
	EffectEvent:       "An event was made of it.",
	EffectAlreadySent: "Nothing was sent: this lead's event of that name went before, and each goes once.",
	EffectNoRule:      "Nothing was sent: no rule is for this stage.",
	EffectCondition:   "Nothing was sent: the condition of its rule does not hold.",
	EffectHistory:     "Nothing was sent: it happened before the CRM was connected.",
	EffectTest:        "Nothing was sent: it is a test lead.",
	EffectUndone:      "Nothing was sent: it was taken back before its events left.",
}

// Sentence says the effect in words for people.
func (e Effect) Sentence() string { return effects[e] }

// Effects returns every effect with its sentence, for docs and tests.
func Effects() map[Effect]string { return maps.Clone(effects) }
