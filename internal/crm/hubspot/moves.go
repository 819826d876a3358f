package hubspot

import (
	"context"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
)

var _ crm.StagePoller = (*HubSpot)(nil)

const (
	searchLimit = 200
	searchEnd   = 10_000 // behind so many results the search goes no further
	searchPause = 220 * time.Millisecond
	searchLag   = time.Minute // how late the index of the search can be
)

// Moves yields the stages that deals were moved to since, in the order in which the
// deals were changed last. A deal that was changed otherwise tells the stage in which it
// stands.
func (h *HubSpot) Moves(ctx context.Context, a crm.Account, since time.Time) iter.Seq2[ledger.StageChange, error] {
	return func(yield func(ledger.StageChange, error) bool) {
		for id, err := range h.changedDeals(ctx, a, since.Add(-searchLag)) {
			var moves []ledger.StageChange
			if err == nil {
				moves, err = h.movesOf(ctx, a, id, since)
			}
			if crm.IsGone(err) {
				continue
			}
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

// movesOf reads a deal's way. A move has the key that its hook has, so that it counts
// once, whoever tells of it first.
func (h *HubSpot) movesOf(ctx context.Context, a crm.Account, id string, since time.Time) ([]ledger.StageChange, error) {
	if err := h.rest(ctx); err != nil {
		return nil, err
	}
	d, err := h.deal(ctx, a, id)
	if err != nil {
		return nil, err
	}
	stages := d.versions(dealStage)
	if len(stages) == 0 { // a portal that gives no history
		stages = []version{{Value: d.Properties[dealStage], At: d.Properties["hs_lastmodifieddate"]}}
	}
	last := stages[len(stages)-1]
	whole := ledger.StageChange{Records: []string{record("deal", d.ID)}, Stage: string(last.Value), At: last.time()}
	if err := h.completeDeal(ctx, a, &whole, d); err != nil {
		return nil, err
	}
	number := h.portal(ctx, a).id
	var moves []ledger.StageChange
	for i, v := range stages {
		if v.time().Before(since) && i < len(stages)-1 {
			continue
		}
		c := whole
		c.Stage, c.At, c.Pipeline, c.From = string(v.Value), v.time(), d.pipelineAt(v.time()), ""
		if i > 0 {
			c.From = string(stages[i-1].Value)
		}
		e := event{SourceID: v.SourceID}
		c.By = e.by()
		c.Key = moveKey(word(number), "deal.propertyChange", d.ID, dealStage, v.Value, word(strconv.FormatInt(c.At.UnixMilli(), 10)))
		moves = append(moves, c)
	}
	return moves, nil
}

// changedDeals lists deals by their last change. After each page a window of its own
// begins at the newest change seen, so that no window gets to where the search ends, and so
// that a deal which is changed meanwhile, and so moves to the end, does not push another
// across the border of a page. Only within one millisecond is there a second page.
func (h *HubSpot) changedDeals(ctx context.Context, a crm.Account, since time.Time) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		newest, after := max(since.UnixMilli(), 0), 0
		seen := map[word]bool{} // of the newest millisecond
		for {
			page, err := h.search(ctx, a, newest, after)
			if err != nil {
				yield("", err)
				return
			}
			from := newest
			for _, o := range page.Results {
				if seen[o.ID] || record("deal", o.ID) == "" {
					continue
				}
				if at := moment(o.Properties["hs_lastmodifieddate"]).UnixMilli(); at > newest {
					newest = at
					clear(seen)
				}
				seen[o.ID] = true
				if !yield(string(o.ID), nil) {
					return
				}
			}
			next, err := strconv.Atoi(string(page.Paging.Next.After))
			switch {
			case err != nil: // there is none
				return
			case newest > from:
				after = 0
			case next <= after: // it would go round for ever
				yield("", unreadable("the changed deals", crm.Reply{Status: http.StatusOK}))
				return
			case next+searchLimit <= searchEnd:
				after = next
			default: // the search ends within one millisecond; it goes on after it
				newest, after = newest+1, 0
			}
		}
	}
}

type page struct {
	Results []found `json:"results"`
	Paging  struct {
		Next struct {
			After word `json:"after"`
		} `json:"next"`
	} `json:"paging"`
}

func (h *HubSpot) search(ctx context.Context, a crm.Account, since int64, after int) (page, error) {
	if err := h.rest(ctx); err != nil {
		return page{}, err
	}
	body := map[string]any{
		"filterGroups": []any{map[string]any{"filters": []any{map[string]any{
			"propertyName": "hs_lastmodifieddate", "operator": "GTE", "value": strconv.FormatInt(since, 10),
		}}}},
		"sorts":      []any{map[string]any{"propertyName": "hs_lastmodifieddate", "direction": "ASCENDING"}},
		"properties": []string{"hs_lastmodifieddate"},
		"limit":      searchLimit,
	}
	if after > 0 {
		body["after"] = strconv.Itoa(after)
	}
	var p page
	err := h.read(ctx, a, "the changed deals", http.MethodPost, prefix(a, "objects")+"/deals/search", crm.JSON(body), &p)
	return p, err
}

// rest keeps below the 5 searches a second that an account has, and leaves room for the
// deliveries among all calls.
func (h *HubSpot) rest(ctx context.Context) error {
	t := time.NewTimer(h.pause)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
