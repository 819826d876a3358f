package gohighlevel

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"slices"
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
		for range c.pages {
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
		// A part taken for the whole would make news of what stood in the rest.
		yield(none, crm.Unread(what, ledger.RetryAt{Reason: ledger.Backlog, Answer: ledger.Answer{Status: http.StatusOK, Message: "the list does not end"}}))
	}
}

// checkWatched tells of watched fields that contacts do not have, by the ids of those they
// have, and whether what stands in them can be read.
func (c *CRM) checkWatched(ctx context.Context, a crm.Account, hide, have []string) []crm.Check {
	watched := crm.Watched(a)
	if len(watched) == 0 {
		return nil
	}
	var checks []crm.Check
	missing := slices.DeleteFunc(watched, func(field string) bool { return field == "tags" || slices.Contains(have, field) })
	if len(missing) > 0 {
		checks = append(checks, crm.Check{
			Name: "watch", Warning: true, Sentence: "Contacts have no custom field with the id " + strings.Join(missing, ", ") + ", so no rule for it ever holds.",
			NextStep: "Name the field in watch, and in the rule, by its id in GoHighLevel, or tags.",
		})
	}
	q := url.Values{"locationId": {a.Options.Text("location_id")}, "limit": {"1"}}
	if _, o := c.call(ctx, a, hide, http.MethodGet, "/contacts/?"+q.Encode(), nil); o != nil {
		checks = append(checks, crm.Check{
			Name: "watch", Warning: true, Sentence: "The contacts cannot be listed: " + words(o) + ". Until they can, nobody knows what stood in watched fields before, and webhooks that tell of them wait.",
			NextStep: "Give the token the scope contacts.readonly.",
		})
	}
	return checks
}
