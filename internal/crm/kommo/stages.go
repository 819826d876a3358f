package kommo

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
)

var _ crm.StageLister = (*CRM)(nil)

// Stages lists the stages of every pipeline, archived ones left out.
func (c *CRM) Stages(ctx context.Context, a crm.Account) ([]ledger.Stage, error) {
	type status struct {
		ID   json.Number `json:"id"`
		Name string      `json:"name"`
		Sort int64       `json:"sort"`
	}
	type pipeline struct {
		ID       json.Number `json:"id"`
		Name     string      `json:"name"`
		Sort     int64       `json:"sort"`
		Archived bool        `json:"is_archive"`
		Embedded struct {
			Statuses []status `json:"statuses"`
		} `json:"_embedded"`
	}
	var list struct {
		Embedded struct {
			Pipelines []pipeline `json:"pipelines"`
		} `json:"_embedded"`
	}
	if _, err := c.read(ctx, a, "the pipelines", "/leads/pipelines", &list); err != nil {
		return nil, err
	}
	all := list.Embedded.Pipelines
	slices.SortStableFunc(all, func(x, y pipeline) int { return cmp.Compare(x.Sort, y.Sort) })
	var stages []ledger.Stage
	for _, p := range all {
		if p.Archived {
			continue
		}
		statuses := p.Embedded.Statuses
		slices.SortStableFunc(statuses, func(x, y status) int { return cmp.Compare(x.Sort, y.Sort) })
		for i, s := range statuses {
			stages = append(stages, ledger.Stage{
				Pipeline: p.ID.String(), PipelineLabel: p.Name, ID: s.ID.String(), Label: s.Name, Position: i, Meaning: meaning(s.ID.String()),
			})
		}
	}
	return stages, nil
}

func number64(n int64) string { return strconv.FormatInt(n, 10) }
