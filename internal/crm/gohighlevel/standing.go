package gohighlevel

import (
	"context"
	"iter"
	"net/url"
	"strings"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
)

var _ crm.Standing = (*CRM)(nil)

// TellsStanding says of which fields a hook may tell what stood there long before: those of
// contacts, for the hook of a contact has all of them whatever was changed.
func (c *CRM) TellsStanding(field string) bool { return field != "" && field != statusField }

// reached are the values of watched fields as changes like whole. Their keys are the same
// whether a hook or the baseline tells of them: each value of a contact counts once.
func reached(a crm.Account, tags []word, fields []customValue, whole ledger.StageChange) []ledger.StageChange {
	var list []ledger.StageChange
	add := func(field string, value word) {
		if value == "" {
			return
		}
		c := whole
		c.Key = strings.Join([]string{whole.Records[0], field, string(value)}, "\x00")
		c.Field, c.Stage = field, string(value)
		list = append(list, c)
	}
	for _, field := range crm.Watched(a) {
		if field == "tags" {
			for _, tag := range tags {
				add(field, tag)
			}
		}
		for _, f := range fields {
			if string(f.ID) == field {
				add(field, plain(f.Value))
			}
		}
	}
	return list
}

// baseline yields the values in which the watched fields of all contacts stand. Since when
// is not told: what the location held when it was connected is history.
func (c *CRM) baseline(ctx context.Context, a crm.Account) iter.Seq2[ledger.StageChange, error] {
	return func(yield func(ledger.StageChange, error) bool) {
		if len(crm.Watched(a)) == 0 {
			return
		}
		names, err := c.names(ctx, a)
		if err != nil {
			yield(ledger.StageChange{}, err)
			return
		}
		for p, err := range c.contacts(ctx, a) {
			if err != nil {
				yield(ledger.StageChange{}, err)
				return
			}
			if p.ID == "" {
				continue
			}
			for _, change := range reached(a, p.Tags, p.Fields, ledger.StageChange{Records: records("contact", p.ID)}) {
				p.tell(a, names, &change)
				if !yield(change, nil) {
					return
				}
			}
		}
	}
}

// contacts lists all of the location.
func (c *CRM) contacts(ctx context.Context, a crm.Account) iter.Seq2[person, error] {
	q := url.Values{"locationId": {a.Options.Text("location_id")}, "limit": {"100"}}
	return pages(ctx, c, a, "the contacts", "/contacts/", q, func(p *page) []person { return p.Contacts })
}

// page is one of a list; After and AfterID name the next.
type page struct {
	Opportunities []opportunity `json:"opportunities"`
	Contacts      []person      `json:"contacts"`
	Meta          struct {
		After   word `json:"startAfter"`
		AfterID word `json:"startAfterId"`
	} `json:"meta"`
}

// pages goes through a list, leaving calls for leads.
func pages[T any](ctx context.Context, c *CRM, a crm.Account, what, path string, q url.Values, of func(*page) []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		seen := map[word]bool{}
		for range maxPages {
			var p page
			err := c.patient(ctx, func() error { return c.read(ctx, a, what, path+"?"+q.Encode(), &p) })
			if err != nil {
				yield(none, err)
				return
			}
			list := of(&p)
			for _, item := range list {
				if !yield(item, nil) {
					return
				}
			}
			next := p.Meta.AfterID
			if len(list) < pageSize && p.Meta.After == "" || len(list) == 0 || next == "" || seen[next] {
				return
			}
			seen[next] = true
			q.Set("startAfter", string(p.Meta.After))
			q.Set("startAfterId", string(next))
			if err := c.rest(ctx); err != nil {
				yield(none, err)
				return
			}
		}
	}
}
