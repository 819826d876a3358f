package linkedin

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/ledger"
)

// leadFields brings the form in the same call, so that answers can be joined.
const leadFields = "ownerInfo,associatedEntityInfo,leadMetadataInfo,owner,leadType,versionedLeadGenFormUrn,id,submittedAt,testLead," +
	"formResponse,form:(hiddenFields,creationLocale,name,id,content)"

// A webhook can be ahead of the API by a little; leads can be read for a year.
const (
	youngAge = 10 * time.Minute
	lookBack = 365 * 24 * time.Hour
	pageSize = 100
)

// Fetch reads the lead of a notice with its form.
func (k *Kind) Fetch(ctx context.Context, s leadform.Source, n leadform.Notice) (ledger.Lead, error) {
	var w word
	if json.Unmarshal(n.Body, &w) != nil || w.ID == "" {
		w.ID = n.Key
	}
	if n.Deleted {
		return ledger.Lead{}, gone("the member has taken it back")
	}
	if !responsePattern.MatchString("urn:li:leadGenFormResponse:" + w.ID) {
		return ledger.Lead{}, gone("its id is none of LinkedIn's")
	}
	a, err := k.api(s)
	if err != nil {
		return ledger.Lead{}, unset(err)
	}
	var r response
	if f := a.get(ctx, "/rest/leadFormResponses/"+url.PathEscape(w.ID), "fields="+leadFields, &r); f != nil {
		if f.status != http.StatusNotFound {
			return ledger.Lead{}, failure("read lead", f)
		}
		if at := w.occurred(); !at.IsZero() && k.config.Now().Sub(at) < youngAge {
			e := failure("read lead", f)
			e.Outcome = ledger.RetryAt{Answer: ledger.AnswerOf(e.Outcome), Reason: ledger.Backlog}
			return ledger.Lead{}, e
		}
		return ledger.Lead{}, gone("it was deleted, or the member has taken it back")
	}
	if r.ID == "" {
		r.ID = leadform.Ident(w.ID)
	}
	l := r.lead(s)
	if l.CreatedAt.IsZero() {
		l.CreatedAt = w.occurred()
	}
	return l, nil
}

// gone says that there is no such lead, and why that is known.
func gone(why string) *leadform.FetchError {
	err := fmt.Errorf("%w: %s", leadform.ErrNoLead, why)
	return &leadform.FetchError{Outcome: ledger.Refusal{Answer: ledger.Answer{Message: err.Error()}}, Err: err}
}

// Sweep yields the owner's leads submitted at since or later, in LinkedIn's order,
// which nothing promises: the time up to which all are read may move on only after
// the last. Without an owner there is nothing to list.
func (k *Kind) Sweep(ctx context.Context, s leadform.Source, since time.Time) iter.Seq2[ledger.Lead, error] {
	return func(yield func(ledger.Lead, error) bool) {
		if firstOf(s.Options.Text("owner")) == "" {
			return
		}
		a, err := k.api(s)
		if err != nil {
			yield(ledger.Lead{}, unset(err))
			return
		}
		now := k.config.Now()
		if oldest := now.Add(-lookBack + time.Hour); since.Before(oldest) {
			since = oldest
		}
		broken := 0
		for start := 0; ; {
			page, err := a.list(ctx, s, since, now, start, pageSize)
			if err != nil {
				yield(ledger.Lead{}, err)
				return
			}
			for _, raw := range page.Elements {
				var r response
				if json.Unmarshal(raw, &r) != nil || r.ID == "" {
					broken++ // it does not keep the others from being read
				} else if !yield(r.lead(s), nil) {
					return
				}
			}
			start += len(page.Elements)
			if len(page.Elements) == 0 || page.Paging.Total > 0 && start >= page.Paging.Total {
				break
			}
		}
		if broken > 0 {
			yield(ledger.Lead{}, failure("list leads", &fault{status: http.StatusBadRequest, message: fmt.Sprintf("%d leads cannot be read", broken)}))
		}
	}
}

type responses struct {
	Paging struct {
		Total int `json:"total"`
	} `json:"paging"`
	Elements []json.RawMessage `json:"elements"`
}

func (a api) list(ctx context.Context, s leadform.Source, from, to time.Time, start, count int) (responses, error) {
	owner, leadType, err := ownerQuery(firstOf(s.Options.Text("owner")))
	if err != nil {
		return responses{}, unset(err)
	}
	query := "q=owner&owner=" + owner + "&leadType=(leadType:" + leadType + ")&limitedToTestLeads=false" +
		"&submittedAtTimeRange=(start:" + strconv.FormatInt(from.UnixMilli(), 10) + ",end:" + strconv.FormatInt(to.UnixMilli(), 10) + ")" +
		"&fields=" + leadFields + "&count=" + strconv.Itoa(count) + "&start=" + strconv.Itoa(start)
	var page responses
	if f := a.get(ctx, "/rest/leadFormResponses", query, &page); f != nil {
		return responses{}, failure("list leads", f)
	}
	return page, nil
}
