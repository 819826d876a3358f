package pipedrive

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
)

var (
	_ crm.StageLister = (*Pipedrive)(nil)
	_ crm.StagePoller = (*Pipedrive)(nil)
)

// readPause is between two readings of Moves, so that deliveries still get through the
// smallest plan's 10 calls a second.
const readPause = 200 * time.Millisecond

// place is a pipeline or a stage.
type place struct {
	ID       plain `json:"id"`
	Name     plain `json:"name"`
	Order    int   `json:"order_nr"`
	Pipeline plain `json:"pipeline_id"`
	Deleted  bool  `json:"is_deleted"`
}

// Stages lists the stages of every pipeline, then the two ends that a deal can come to.
func (p *Pipedrive) Stages(ctx context.Context, a crm.Account) ([]ledger.Stage, error) {
	pipelines, err := p.places(ctx, a, "pipelines")
	if err != nil {
		return nil, err
	}
	all, err := p.places(ctx, a, "stages")
	if err != nil {
		return nil, err
	}
	var stages []ledger.Stage
	for _, line := range pipelines {
		position := 0
		for _, s := range all {
			if s.Pipeline == line.ID {
				stages = append(stages, ledger.Stage{
					Pipeline: string(line.ID), PipelineLabel: string(line.Name), ID: string(s.ID), Label: string(s.Name), Position: position, Meaning: ledger.MeaningOpen,
				})
				position++
			}
		}
	}
	return append(stages,
		ledger.Stage{Field: statusField, ID: "won", Label: "Won", PipelineLabel: "Status", Position: 0, Meaning: ledger.MeaningWon},
		ledger.Stage{Field: statusField, ID: "lost", Label: "Lost", PipelineLabel: "Status", Position: 1, Meaning: ledger.MeaningLost}), nil
}

// places lists pipelines or stages in their order.
func (p *Pipedrive) places(ctx context.Context, a crm.Account, kind string) ([]place, error) {
	var list []place
	for raw, err := range p.pages(ctx, a, "the "+kind, "/api/v2/"+kind, url.Values{"limit": {"500"}}) {
		if err != nil {
			return nil, err
		}
		var page []place
		if json.Unmarshal(raw, &page) != nil {
			return nil, strangeAnswer("the " + kind)
		}
		list = append(list, page...)
	}
	list = slices.DeleteFunc(list, func(x place) bool { return x.Deleted || x.ID == "" })
	slices.SortStableFunc(list, func(x, y place) int { return cmp.Compare(x.Order, y.Order) })
	return list, nil
}

// pages yields the data of each page of a list of version 2.
func (p *Pipedrive) pages(ctx context.Context, a crm.Account, what, path string, query url.Values) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		seen := map[string]bool{}
		for {
			r, err := p.do(ctx, a, http.MethodGet, path+"?"+query.Encode(), nil)
			if err := crm.Unread(what, classify(r, err, crm.Private(a, nil))); err != nil {
				yield(nil, err)
				return
			}
			var page struct {
				Data       json.RawMessage `json:"data"`
				Additional struct {
					Next plain `json:"next_cursor"`
				} `json:"additional_data"`
			}
			if json.Unmarshal(r.Body, &page) != nil {
				yield(nil, strangeAnswer(what))
				return
			}
			if len(page.Data) > 0 && string(page.Data) != "null" && !yield(page.Data, nil) {
				return
			}
			next := string(page.Additional.Next)
			if next == "" {
				return
			}
			if seen[next] { // it would go round for ever
				yield(nil, strangeAnswer(what))
				return
			}
			seen[next] = true
			query.Set("cursor", next)
		}
	}
}

// Moves yields in which stage each deal that was changed since stands and, if it is won or
// lost, since when. The stages in between Pipedrive tells only deal by deal, at a price
// that would use up a day's calls.
func (p *Pipedrive) Moves(ctx context.Context, a crm.Account, since time.Time) iter.Seq2[ledger.StageChange, error] {
	return func(yield func(ledger.StageChange, error) bool) {
		key, err := p.leadKey(ctx, a)
		if err != nil {
			yield(ledger.StageChange{}, err)
			return
		}
		query := url.Values{"sort_by": {"update_time"}, "sort_direction": {"asc"}, "limit": {"500"}}
		if !since.IsZero() {
			query.Set("updated_since", since.UTC().Truncate(time.Second).Format(time.RFC3339))
		}
		people := map[string]*individual{} // one person can have many deals
		for raw, err := range p.pages(ctx, a, "the changed deals", "/api/v2/deals", query) {
			var page []json.RawMessage
			if err == nil && json.Unmarshal(raw, &page) != nil {
				err = strangeAnswer("the changed deals")
			}
			if err != nil {
				yield(ledger.StageChange{}, err)
				return
			}
			for _, one := range page {
				moves, err := p.movesOf(ctx, a, one, key, people)
				if err != nil {
					yield(ledger.StageChange{}, err)
					return
				}
				for _, c := range moves {
					if !yield(c, nil) {
						return
					}
				}
			}
		}
	}
}

// movesOf are where one deal of a list stands.
func (p *Pipedrive) movesOf(ctx context.Context, a crm.Account, raw json.RawMessage, key string, people map[string]*individual) ([]ledger.StageChange, error) {
	var d deal
	if json.Unmarshal(raw, &d) != nil || record("deal", d.ID) == "" {
		return nil, strangeAnswer("the changed deals")
	}
	moves := d.moves(key)
	for i := range moves {
		c := &moves[i]
		if c.At.IsZero() { // it is still where it began
			c.At = c.CreatedAt
		}
		takeFields(a, c, raw)
		if who := crm.RecordID(c.Records, "person"); who != "" {
			x, err := p.known(ctx, a, who, people)
			if err != nil {
				return nil, err
			}
			if x != nil {
				x.take(a, c, personKeys(a))
			}
		}
		// A list has no id of an event. What was told by a hook comes again under this key.
		c.Key = fmt.Sprintf("deal/%s/%s/%s/%d", d.ID, c.Field, c.Stage, c.At.Unix())
	}
	return moves, nil
}

// known returns a person, nil for one that is gone.
func (p *Pipedrive) known(ctx context.Context, a crm.Account, id string, people map[string]*individual) (*individual, error) {
	if x, ok := people[id]; ok {
		return x, nil
	}
	t := time.NewTimer(p.pause)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-t.C:
	}
	x, err := p.individual(ctx, a, id)
	if err != nil && !crm.IsGone(err) {
		return nil, err
	}
	if len(people) >= 1000 { // of a big company only those of late are kept
		clear(people)
	}
	people[id] = x
	return x, nil
}
