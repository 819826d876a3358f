package admin

import (
	"context"
	"net/url"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

// StageActions are what can be done with the stages of CRMs and the moves of leads.
type StageActions interface {
	// Stages lists every stage that the CRMs of a workspace have or had.
	Stages(ctx context.Context, by Actor, ws string) ([]Stage, error)
	// ImportStages records stage changes that were read from a file.
	ImportStages(ctx context.Context, by Actor, ws, source string, changes []ledger.StageChange) (*ImportedStages, error)
	// DryRun tells what rules would have sent of what is recorded.
	DryRun(ctx context.Context, by Actor, ws string, q DryRunQuery) (*DryRun, error)
}

// Stage is a stage of a CRM, with what the rules make of it.
type Stage struct {
	Source        string         `json:"source"`
	Field         string         `json:"field"` // not "": the stage is a value of this field
	Pipeline      string         `json:"pipeline"`
	PipelineLabel string         `json:"pipeline_label"`
	ID            string         `json:"stage"`
	Label         string         `json:"label"`
	FormerLabels  []string       `json:"former_labels"`
	Meaning       ledger.Meaning `json:"meaning"`      // open, won, lost; "": not known
	Moves         int64          `json:"moves"`        // of leads into it
	LastMoveAt    *time.Time     `json:"last_move_at"` // null: none yet
	Events        []string       `json:"events"`       // that the rules make of it; none: no rule is for it
	GoneAt        *time.Time     `json:"gone_at"`      // null: the CRM has it
}

// Name is what people call the stage.
func (s *Stage) Name() string {
	if s.Label != "" {
		return s.Label
	}
	return s.ID
}

// Stages lists every stage that the CRMs of a workspace have or had, in each CRM's order.
func (a *Admin) Stages(ctx context.Context, by Actor, ws string) ([]Stage, error) {
	w, err := a.enter(by, Read, "look at stages", ws)
	if err != nil {
		return nil, err
	}
	known, err := a.c.Store.Stages(ctx, w.ID)
	if err != nil {
		return nil, err
	}
	list := make([]Stage, 0, len(known))
	for _, st := range known {
		out := Stage{
			Source: st.Source, Field: st.Field, Pipeline: st.Pipeline, PipelineLabel: st.PipelineLabel, ID: st.ID, Label: st.Label,
			FormerLabels: append([]string{}, st.Labels...), Meaning: st.Meaning, Moves: st.Count, LastMoveAt: when(st.LastSeen), Events: []string{}, GoneAt: when(st.GoneAt),
		}
		for i := range w.Rules {
			if r := &w.Rules[i]; r.IsFor(st.Source, &st.Stage) {
				out.Events = append(out.Events, r.Event)
			}
		}
		list = append(list, out)
	}
	return list, nil
}

// Stages is StageActions.Stages at the server.
func (c *Client) Stages(ctx context.Context, by Actor, ws string) ([]Stage, error) {
	var list []Stage
	err := c.get(ctx, by, "/stages", ws, nil, &list)
	return list, err
}

// stageRoutes puts the actions on stages on the socket.
func stageRoutes(a Actions, get func(string, func(context.Context, Actor, string, url.Values) (any, error)),
	post func(string, func(context.Context, Actor, string, request) (any, error)),
) {
	get("/stages", func(ctx context.Context, by Actor, ws string, _ url.Values) (any, error) {
		return a.Stages(ctx, by, ws)
	})
	post("/import-stages", func(ctx context.Context, by Actor, ws string, q request) (any, error) {
		return a.ImportStages(ctx, by, ws, q.Name, fromWire(q.Changes))
	})
	post("/dry-run", func(ctx context.Context, by Actor, ws string, q request) (any, error) {
		return a.DryRun(ctx, by, ws, q.DryRun)
	})
}
