package ledger

import (
	"log/slog"
	"strings"
	"time"
)

// Meaning says what a stage stands for in its CRM.
type Meaning string

// The meanings of a stage.
const (
	MeaningUnknown Meaning = ""
	MeaningOpen    Meaning = "open"
	MeaningWon     Meaning = "won"
	MeaningLost    Meaning = "lost"
)

// Stage is a place in a CRM's pipeline. Pipeline and ID name it for ever; labels are
// what people see and change.
type Stage struct {
	Pipeline, ID                string // ID alone where the CRM has no pipelines
	PipelineLabel, Label        string
	Position                    int // in its pipeline, from 0
	Meaning                     Meaning
	Field                       string // not "": the value of a field, which is watched like a stage
	FirstSeen, LastSeen, GoneAt time.Time
	Count                       int64    // how many changes went there
	Labels                      []string // that it had before
}

// Name is what people call the stage: its label, else its id.
func (s Stage) Name() string {
	if s.Label != "" {
		return s.Label
	}
	return s.ID
}

// StageChange is one move of a lead in a CRM, as a hook, a file or a call told of it.
// One that is thin names records only: the CRM must be read for whose they are.
type StageChange struct {
	Key  string `json:"key"`  // a repeat of the same move is recognised by it; "" is made of the rest
	Thin bool   `json:"thin"` // Contact, LeadID and Amount must be read from the CRM

	// Whose move it is: any of these. The first that is known wins.
	Lead       ID        `json:"lead,omitzero"`      // our own, of who has it from us; then nobody else is looked for
	LeadID     string    `json:"lead_id,omitempty"`  // of the ad platform, out of the CRM's custom field, or ours
	Platform   string    `json:"platform,omitempty"` // of LeadID; "": whichever has it
	Records    []string  `json:"records,omitempty"`  // the CRM's, the most specific first: "deal:9001", "contact:51"
	Contact    Contact   `json:"-"`
	ExternalID string    `json:"-"`
	CreatedAt  time.Time `json:"created_at,omitzero"` // of the lead in the CRM, for one that we do not know; zero: At

	// Where to, and when by the CRM's clock.
	Pipeline      string    `json:"pipeline,omitempty"`
	PipelineLabel string    `json:"pipeline_label,omitempty"`
	Stage         string    `json:"stage"` // the id, or the value of Field
	StageLabel    string    `json:"stage_label,omitempty"`
	Field         string    `json:"field,omitempty"` // not "": a field reached the value Stage
	Meaning       Meaning   `json:"meaning,omitempty"`
	From          string    `json:"from,omitempty"` // the stage before, where the CRM tells
	At            time.Time `json:"at,omitzero"`    // zero: the moment of receipt
	By            string    `json:"by,omitempty"`   // the CRM's id of who moved it

	DealID   string            `json:"deal_id,omitempty"`
	Amount   string            `json:"amount,omitempty"`   // decimal, with a point; "": none
	Currency string            `json:"currency,omitempty"` // ISO 4217; "": the account's or the workspace's
	Fields   map[string]string `json:"-"`                  // further fields, for rules with a condition

	NotBefore time.Time `json:"not_before,omitzero"` // its events wait until then, and it may be taken back

	History bool `json:"history,omitempty"` // it happened before the CRM was connected
	Test    bool `json:"test,omitempty"`
}

// LogValue says where a move went, not whose it was.
func (c StageChange) LogValue() slog.Value {
	return slog.GroupValue(slog.String("pipeline", c.Pipeline), slog.String("stage", c.Stage), slog.Time("at", c.At))
}

// Identity is what a repeat of the move is recognised by. It may hold an e-mail: only a
// keyed hash of it may be kept.
func (c *StageChange) Identity() string {
	if c.Key != "" {
		return c.Key
	}
	return strings.Join([]string{
		c.Platform, c.LeadID, strings.Join(c.Records, ","), c.Contact.Email, c.Contact.Phone, c.ExternalID, c.DealID, c.Field, c.Pipeline, c.Stage, c.At.UTC().Format(time.RFC3339Nano),
	}, "\x00")
}

// ClockSkew is how far the clocks of a CRM and of a lead's source may differ: a stage up
// to that much before its lead is set to just after it.
const ClockSkew = 10 * time.Minute

// Merge says that a CRM has made one record of several.
type Merge struct {
	Kept   string   // "contact:51"
	Merged []string // "contact:52"
	At     time.Time
}
