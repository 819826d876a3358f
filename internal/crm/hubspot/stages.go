package hubspot

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
)

var _ crm.StageLister = (*HubSpot)(nil)

type pipeline struct {
	ID       word `json:"id"`
	Label    word `json:"label"`
	Order    int  `json:"displayOrder"`
	Archived bool `json:"archived"`
	Stages   []struct {
		ID       word     `json:"id"`
		Label    word     `json:"label"`
		Order    int      `json:"displayOrder"`
		Archived bool     `json:"archived"`
		Metadata struct { // texts, all of them
			Closed      word `json:"isClosed"`
			Probability word `json:"probability"`
		} `json:"metadata"`
	} `json:"stages"`
}

// Stages lists the stages of deals, then the values of the two properties in which a
// contact's way is kept.
func (h *HubSpot) Stages(ctx context.Context, a crm.Account) ([]ledger.Stage, error) {
	var list struct {
		Results []pipeline `json:"results"`
	}
	if err := h.read(ctx, a, "the pipelines", http.MethodGet, prefix(a, "pipelines")+"/deals", nil, &list); err != nil {
		return nil, err
	}
	slices.SortStableFunc(list.Results, func(x, y pipeline) int { return cmp.Compare(x.Order, y.Order) })
	var stages []ledger.Stage
	for _, p := range list.Results {
		if !p.Archived {
			stages = append(stages, p.stages()...)
		}
	}
	for _, name := range []string{lifecycle, leadStatus} {
		values, err := h.values(ctx, a, name)
		if err != nil {
			return nil, err
		}
		stages = append(stages, values...)
	}
	return stages, nil
}

func (p *pipeline) stages() []ledger.Stage {
	type entry struct {
		order int
		stage ledger.Stage
	}
	entries := make([]entry, 0, len(p.Stages))
	for _, s := range p.Stages {
		if s.ID == "" || s.Archived {
			continue
		}
		entries = append(entries, entry{s.Order, ledger.Stage{
			Pipeline: string(p.ID), ID: string(s.ID), PipelineLabel: string(p.Label), Label: string(s.Label), Meaning: meaning(s.Metadata.Closed, s.Metadata.Probability),
		}})
	}
	slices.SortStableFunc(entries, func(x, y entry) int { return cmp.Compare(x.order, y.order) })
	stages := make([]ledger.Stage, 0, len(entries))
	for i, e := range entries {
		e.stage.Position = i
		stages = append(stages, e.stage)
	}
	return stages
}

// meaning goes by what the portal has set, never by the id: there are portals whose
// closedwon is labelled Lost.
func meaning(closed, probability word) ledger.Meaning {
	if closed != "true" {
		return ledger.MeaningOpen
	}
	switch p, err := strconv.ParseFloat(string(probability), 64); {
	case err == nil && p == 1:
		return ledger.MeaningWon
	case err == nil && p == 0:
		return ledger.MeaningLost
	}
	return ledger.MeaningOpen
}

type choice struct {
	Value  word `json:"value"`
	Label  word `json:"label"`
	Order  int  `json:"displayOrder"`
	Hidden bool `json:"hidden"`
}

// values lists what a property of contacts can be. A portal, or a token, without it has
// just no such stages.
func (h *HubSpot) values(ctx context.Context, a crm.Account, name string) ([]ledger.Stage, error) {
	var p struct {
		Label   word     `json:"label"`
		Options []choice `json:"options"`
	}
	err := h.read(ctx, a, "the values of "+name, http.MethodGet, prefix(a, "properties")+"/contacts/"+name, nil, &p)
	if status := crm.StatusOf(err); status == http.StatusNotFound || status == http.StatusForbidden {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(p.Options, func(x, y choice) int { return cmp.Compare(x.Order, y.Order) })
	var stages []ledger.Stage
	for _, o := range p.Options {
		if o.Value != "" && !o.Hidden {
			stages = append(stages, ledger.Stage{ID: string(o.Value), Label: string(o.Label), PipelineLabel: string(p.Label), Position: len(stages), Field: name})
		}
	}
	return stages, nil
}

// portalKept is how long it is believed what an account says about itself.
const portalKept = time.Hour

// portal is what an account says about itself; empty where the token may not ask.
type portal struct {
	id       string
	currency string
	until    time.Time
}

// portal returns the account's number, which stands in the keys of its events, and the
// currency of amounts that carry none.
func (h *HubSpot) portal(ctx context.Context, a crm.Account) portal {
	h.mu.Lock()
	p, known := h.portals[a.ID]
	h.mu.Unlock()
	if known && time.Now().Before(p.until) {
		return p
	}
	var details struct {
		ID       word `json:"portalId"`
		Currency word `json:"companyCurrency"`
	}
	if err := h.read(ctx, a, "the account", http.MethodGet, "/account-info/v3/details", nil, &details); err != nil && ctx.Err() != nil {
		return p
	}
	p = portal{cmp.Or(a.Options.Text("portal_id"), string(details.ID)), string(details.Currency), time.Now().Add(portalKept)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.portals[a.ID] = p
	return p
}
