package admin

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

// MarkActions are what a one-tap link allows. The link itself is the right: whoever has
// it may mark that one lead, and is not shown who the lead is.
type MarkActions interface {
	// MarkView shows what the lead is marked as. It changes nothing.
	MarkView(ctx context.Context, token string) (*MarkView, error)
	// Mark says what became of a lead. amount is as a person typed it; "" is none.
	Mark(ctx context.Context, token string, choice ledger.Choice, amount string) (*Marked, error)
	// UndoMark takes a mark back, while its events wait.
	UndoMark(ctx context.Context, token, id string) (*Marked, error)
}

var _ MarkActions = (*Admin)(nil)

// MarkView is what the page of a link shows. A link may be forwarded: it holds no contact.
type MarkView struct {
	Form       string
	ReceivedAt time.Time // in the workspace's time zone
	Currency   string    // of the amount of Sold; "": none is asked for
	Marks      []Mark    // the newest first, without those that were taken back
}

// Mark is what somebody said of a lead.
type Mark struct {
	ID               string
	Choice           ledger.Choice
	At               time.Time
	Amount, Currency string
	UndoUntil        time.Time // zero: it cannot be taken back any more
	also             []ledger.ID
}

// Marked tells what became of a mark or of its end.
type Marked struct {
	*MarkView
	Outcome MarkOutcome
	Mark    Mark
}

// MarkOutcome is what happened.
type MarkOutcome string

// The outcomes.
const (
	MarkDone     MarkOutcome = "done"
	MarkAlready  MarkOutcome = "already"
	MarkUndone   MarkOutcome = "undone"
	MarkTooLate  MarkOutcome = "late"   // it cannot be taken back
	MarkBadMoney MarkOutcome = "amount" // the amount cannot be read; nothing was recorded
)

// Whoever makes a mark, the ledger knows it came by a link; one that another implies says
// by which.
const (
	byLink    = "link"
	impliedBy = "link for "
)

// marking is a link that was looked up.
type marking struct {
	ws   *config.Workspace
	crm  *config.CRM
	lead *ledger.Lead
	now  time.Time
}

// MarkView shows what the lead of a link is marked as.
func (a *Admin) MarkView(ctx context.Context, token string) (*MarkView, error) {
	m, err := a.marking(ctx, token)
	if err != nil {
		return nil, err
	}
	return a.markView(ctx, m)
}

// Mark records what a person says of a lead, each choice once.
func (a *Admin) Mark(ctx context.Context, token string, choice ledger.Choice, amount string) (*Marked, error) {
	m, err := a.marking(ctx, token)
	if err != nil {
		return nil, err
	}
	if choice.Stage() == "" {
		return nil, &Error{Code: Invalid, Message: "That is no choice of this page.", Fix: "Choose one of good, bad, booked and sold."}
	}
	before, err := a.markView(ctx, m)
	if err != nil {
		return nil, err
	}
	if i := before.index(choice); i >= 0 {
		return &Marked{MarkView: before, Outcome: MarkAlready, Mark: before.Marks[i]}, nil
	}
	change := m.change(choice, byLink)
	if choice == ledger.ChoiceSold && before.Currency != "" {
		number, ok := amountOf(amount, before.Currency)
		if !ok {
			return &Marked{MarkView: before, Outcome: MarkBadMoney, Mark: Mark{Choice: choice, Amount: amount}}, nil
		}
		if number != "" {
			change.Amount, change.Currency = number, before.Currency
		}
	}
	changes := []ledger.StageChange{change}
	if m.impliesGood(choice, before) {
		changes = []ledger.StageChange{m.change(ledger.ChoiceGood, impliedBy+string(choice)), change}
	}
	done, err := a.c.Recorder.Stages(ctx, m.ws, m.crm.Name, ledger.KindMark, m.crm.ID, changes)
	if err != nil {
		return nil, err
	}
	after, err := a.markView(ctx, m)
	if err != nil {
		return nil, err
	}
	made := &Marked{MarkView: after, Outcome: MarkDone}
	if done[len(done)-1].Duplicate {
		made.Outcome = MarkAlready
	}
	if i := after.index(choice); i >= 0 {
		made.Mark = after.Marks[i]
	}
	a.c.Log.Info("lead marked", "workspace", m.ws.Name, "crm", m.crm.Name, "lead", m.lead.ID.String(), "choice", string(choice), "outcome", string(made.Outcome))
	return made, nil
}

// UndoMark takes a mark back, and with it what it implied.
func (a *Admin) UndoMark(ctx context.Context, token, id string) (*Marked, error) {
	m, err := a.marking(ctx, token)
	if err != nil {
		return nil, err
	}
	before, err := a.markView(ctx, m)
	if err != nil {
		return nil, err
	}
	change, err := ledger.ParseID(id)
	if err != nil {
		return nil, noMark()
	}
	i := slices.IndexFunc(before.Marks, func(k Mark) bool { return k.ID == id })
	made := &Marked{MarkView: before, Outcome: MarkUndone}
	if i < 0 { // taken back already, or not of this lead
		return made, nil
	}
	made.Mark = before.Marks[i]
	err = a.c.Store.UndoStages(ctx, &store.Undoing{
		Workspace: m.ws.ID, Lead: m.lead.ID, Changes: append([]ledger.ID{change}, before.Marks[i].also...), Now: m.now,
	})
	switch {
	case errors.Is(err, store.ErrTooLate):
		made.Outcome = MarkTooLate
		return made, nil
	case err != nil:
		return nil, err
	}
	a.c.Log.Info("mark taken back", "workspace", m.ws.Name, "crm", m.crm.Name, "lead", m.lead.ID.String(), "choice", string(made.Mark.Choice))
	made.MarkView, err = a.markView(ctx, m)
	return made, err
}

func noMark() *Error {
	return &Error{Code: NotFound, Message: "This link is not valid.", Fix: "Open it from the message once more; it must be whole."}
}

// marking checks a link and finds its lead.
func (a *Admin) marking(ctx context.Context, token string) (*marking, error) {
	s := a.c.Settings.Get()
	t, w, ok := readMark(s, token)
	if !ok {
		return nil, noMark()
	}
	now := a.c.Clock.Now()
	if !now.Before(t.issued.Add(ledger.MarkValid)) {
		return nil, &Error{
			Code: Gone, Message: "This link is more than 14 days old, and nothing can be marked by it any more.",
			Fix: "Take the link of a newer message or reminder of the same lead.",
		}
	}
	i := slices.IndexFunc(w.CRMs, func(c *config.CRM) bool { return c.ID == t.crm })
	if i < 0 {
		return nil, noMark()
	}
	row, err := a.c.Store.LeadFor(ctx, t.crm, t.lead)
	if errors.Is(err, store.ErrNotFound) || err == nil && (row.Lead.Workspace != w.ID || row.Lead.ID != t.lead) {
		return nil, noMark()
	}
	if err != nil {
		return nil, err
	}
	return &marking{ws: w, crm: w.CRMs[i], lead: &row.Lead, now: now}, nil
}

// change is the move that a choice stands for. Its key makes it count once.
func (m *marking) change(choice ledger.Choice, by string) ledger.StageChange {
	return ledger.StageChange{
		Key: "mark/" + m.lead.ID.String() + "/" + string(choice), Lead: m.lead.ID, Stage: choice.Stage(), Meaning: choice.Meaning(),
		At: m.now, By: by, NotBefore: m.now.Add(ledger.MarkUndo),
	}
}

// impliesGood tells whether a choice says that the lead was good, which nobody has said
// yet: who buys was good before, and a platform that hears of sales only learns less.
func (m *marking) impliesGood(choice ledger.Choice, before *MarkView) bool {
	if choice != ledger.ChoiceSold && choice != ledger.ChoiceBooked {
		return false
	}
	if before.index(ledger.ChoiceGood) >= 0 || before.index(ledger.ChoiceBad) >= 0 {
		return false
	}
	return slices.ContainsFunc(m.ws.Rules, func(r ledger.Rule) bool { return m.ruled(&r, ledger.ChoiceGood) })
}

func (m *marking) ruled(r *ledger.Rule, choice ledger.Choice) bool {
	return ledger.ChoiceOf(r.Stage) == choice && (r.CRM == "" || r.CRM == m.crm.Name)
}

func (v *MarkView) index(choice ledger.Choice) int {
	return slices.IndexFunc(v.Marks, func(k Mark) bool { return k.Choice == choice })
}

func (a *Admin) markView(ctx context.Context, m *marking) (*MarkView, error) {
	zone := m.ws.Timezone
	if zone == nil {
		zone = time.UTC
	}
	v := &MarkView{
		Form: cmp.Or(m.lead.Origin.FormName, m.lead.Origin.FormID, m.lead.Source), ReceivedAt: m.lead.ID.Time().In(zone),
		Currency: m.ws.Currency,
	}
	for i := range m.ws.Rules {
		if r := &m.ws.Rules[i]; m.ruled(r, ledger.ChoiceSold) && r.Currency != "" {
			v.Currency = r.Currency
		}
	}
	moves, err := a.c.Store.Moves(ctx, m.lead.ID)
	if err != nil {
		return nil, err
	}
	for _, move := range moves {
		choice := ledger.ChoiceOf(move.Stage)
		if !strings.HasPrefix(move.By, byLink) || move.Effect == ledger.EffectUndone || choice == "" {
			continue
		}
		k := Mark{ID: move.ID.String(), Choice: choice, At: move.At.In(zone), Amount: move.Amount, Currency: move.Currency}
		if until := move.ID.Time().Add(ledger.MarkUndo); m.now.Before(until) {
			k.UndoUntil = until.In(zone)
		}
		for _, other := range moves {
			if other.By == impliedBy+string(choice) && other.At.Equal(move.At) && other.Effect != ledger.EffectUndone {
				k.also = append(k.also, other.ID)
			}
		}
		v.Marks = append(v.Marks, k)
	}
	slices.Reverse(v.Marks)
	return v, nil
}
