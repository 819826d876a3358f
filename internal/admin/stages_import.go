package admin

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/record"
)

// StageRecorder writes stage changes down.
type StageRecorder interface {
	Stages(ctx context.Context, ws *config.Workspace, source, kind string, destination int64, changes []ledger.StageChange) ([]record.StageResult, error)
}

// ImportedStages tells what became of stage changes from a file.
type ImportedStages struct {
	Seen       int                   `json:"seen"`
	Recorded   int                   `json:"recorded"`
	Duplicates int                   `json:"duplicates"`
	NewLeads   int                   `json:"new_leads"` // nobody knew them; they were made of what the file carries
	Events     int                   `json:"events"`    // made of the changes
	Effects    map[ledger.Effect]int `json:"effects"`   // of those that were recorded
}

// Add adds up what became of another part of the file.
func (i *ImportedStages) Add(more *ImportedStages) {
	i.Seen += more.Seen
	i.Recorded += more.Recorded
	i.Duplicates += more.Duplicates
	i.NewLeads += more.NewLeads
	i.Events += more.Events
	if i.Effects == nil {
		i.Effects = make(map[ledger.Effect]int)
	}
	for effect, n := range more.Effects {
		i.Effects[effect] += n
	}
}

// csvKind is the kind of stage changes, and of leads made of them, that came in a file.
const csvKind = "csv"

// ImportStages records stage changes that were read from a file. A source that is a CRM of
// the workspace stands for that: its record ids and rules are meant.
func (a *Admin) ImportStages(ctx context.Context, by Actor, ws, source string, changes []ledger.StageChange) (*ImportedStages, error) {
	w, err := a.enter(by, Operate, "import stage changes", ws)
	if err != nil {
		return nil, err
	}
	source = strings.TrimSpace(source)
	if source == "" || utf8.RuneCountInString(source) > maxName || strings.ContainsFunc(source, isControl) {
		return nil, &Error{Code: Invalid, Message: "The name of the source is empty, longer than 60 characters, or holds what cannot be printed.", Fix: "Give a short name such as import, or the name of a CRM of the workspace."}
	}
	kind, destination := csvKind, int64(0)
	for _, c := range w.CRMs {
		if c.Name == source {
			kind, destination = c.Kind, c.ID
		}
	}
	out := &ImportedStages{Seen: len(changes), Effects: make(map[ledger.Effect]int)}
	done, err := a.c.Recorder.Stages(ctx, w, source, kind, destination, changes)
	if err != nil {
		return nil, err
	}
	for i := range done {
		d := &done[i]
		if d.Duplicate {
			out.Duplicates++
			continue
		}
		out.Recorded++
		out.Events += len(d.Events)
		out.Effects[d.Effect]++
		if d.NewLead {
			out.NewLeads++
		}
	}
	return out, nil
}

// wireChange is a stage change on its way through the socket: what is never written into a
// file or log must cross it, too.
type wireChange struct {
	ledger.StageChange

	Person   ledger.Contact    `json:"contact,omitzero"`
	External string            `json:"external_id,omitempty"`
	More     map[string]string `json:"more,omitempty"`
}

func toWire(changes []ledger.StageChange) []wireChange {
	list := make([]wireChange, len(changes))
	for i := range changes {
		list[i] = wireChange{StageChange: changes[i], Person: changes[i].Contact, External: changes[i].ExternalID, More: changes[i].Fields}
	}
	return list
}

func fromWire(list []wireChange) []ledger.StageChange {
	changes := make([]ledger.StageChange, len(list))
	for i := range list {
		changes[i] = list[i].StageChange
		changes[i].Contact, changes[i].ExternalID, changes[i].Fields = list[i].Person, list[i].External, list[i].More
	}
	return changes
}

// ImportStages is StageActions.ImportStages at the server.
func (c *Client) ImportStages(ctx context.Context, by Actor, ws, source string, changes []ledger.StageChange) (*ImportedStages, error) {
	out := &ImportedStages{}
	if err := c.post(ctx, by, "/import-stages", ws, request{Name: source, Changes: toWire(changes)}, out); err != nil {
		return nil, err
	}
	return out, nil
}
