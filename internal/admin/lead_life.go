package admin

import (
	"context"
	"errors"
	"strings"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

// lifeOf adds to a lead what became of it in the CRM, and the events made of it.
func (a *Admin) lifeOf(ctx context.Context, w *config.Workspace, lead ledger.ID, v *Lead) error {
	into, err := a.c.Store.MergedInto(ctx, lead)
	if err != nil {
		return err
	}
	if into != 0 {
		v.MergedInto = into.String()
	}
	moves, err := a.c.Store.Moves(ctx, lead)
	if err != nil {
		return err
	}
	if len(moves) > 0 {
		stages, err := a.c.Store.Stages(ctx, w.ID)
		if err != nil {
			return err
		}
		for i := range moves {
			name, pipeline := stageName(&moves[i], stages)
			v.Hops = append(v.Hops, Hop{At: moves[i].At, What: "stage", Detail: moveSentence(&moves[i], name, pipeline), Stage: name})
		}
		v.inOrder()
	}
	events, err := a.c.Store.LeadEvents(ctx, lead)
	if err != nil {
		return err
	}
	for _, id := range events {
		e, err := a.eventView(ctx, w.ID, id)
		if errors.Is(err, store.ErrNotFound) {
			continue // its time is up
		}
		if err != nil {
			return err
		}
		v.Events = append(v.Events, e)
	}
	return nil
}

// stageName is what people call the stage of a move, and its pipeline.
func stageName(m *store.StageMove, stages []store.SourceStage) (name, pipeline string) {
	for i := range stages {
		st := &stages[i]
		if st.Source == m.Source && st.Field == m.Field && st.Pipeline == m.Pipeline && st.ID == m.Stage {
			return st.Name(), orElse(st.PipelineLabel, m.Pipeline)
		}
	}
	return m.Stage, m.Pipeline
}

// moveSentence says where a lead went, who moved it, and what came of it.
func moveSentence(m *store.StageMove, name, of string) string {
	var b strings.Builder
	switch {
	case m.Field != "":
		b.WriteString(m.Field + " became " + name)
	case of != "":
		b.WriteString("to " + name + " in " + of)
	default:
		b.WriteString("to " + name)
	}
	b.WriteString(", told by " + m.Source)
	if m.By != "" {
		b.WriteString(", moved by " + m.By)
	}
	return b.String() + ". " + m.Effect.Sentence()
}
