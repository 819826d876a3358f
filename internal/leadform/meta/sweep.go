package meta

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/ledger"
)

// sweepPart is how many leads of a form are held at once.
const sweepPart = 2000

// Sweep yields the Page's leads created at since or later, form by form, oldest first
// in each: the time up to which all are read may move on only after the last. Graph
// lists the newest first, so a form with more than some thousand is read in several
// rounds. A form that cannot be read does not keep the others from being read; its
// error comes at the end.
func (k *Kind) Sweep(ctx context.Context, s leadform.Source, since time.Time) iter.Seq2[ledger.Lead, error] {
	return func(yield func(ledger.Lead, error) bool) {
		r, err := k.reader(s)
		if err != nil {
			yield(ledger.Lead{}, failure("open Graph", err))
			return
		}
		var broken error
		for form, err := range r.Forms(ctx, pageID(s)) {
			if err != nil {
				yield(ledger.Lead{}, failure("list the Page's forms", err))
				return
			}
			if form.Status == "DRAFT" {
				continue
			}
			err = sweepForm(ctx, r, form.ID, since, sweepPart, func(g capi.Lead) bool {
				g.FormID = cmp.Or(g.FormID, form.ID)
				return yield(leadOf(s, g, form), nil)
			})
			switch {
			case err == nil:
			case err == errStopped: //nolint:errorlint // it is never wrapped
				return
			case !isMissing(err):
				yield(ledger.Lead{}, failure("read the leads of form "+form.ID, err))
				return
			case form.Status != "DELETED" && broken == nil:
				broken = failure("read the leads of form "+form.ID, err)
			}
		}
		if broken != nil {
			yield(ledger.Lead{}, broken)
		}
	}
}

type stopped struct{}

func (stopped) Error() string { return "the reader has stopped" }

// errStopped says that yield wanted no more.
var errStopped error = stopped{}

// sweepForm yields a form's leads oldest first, holding at most twice part at once.
// Where there are more, the oldest are yielded and the form is read again from the
// last of them; each lead is yielded once.
func sweepForm(ctx context.Context, r *capi.Reader, form string, since time.Time, part int, yield func(capi.Lead) bool) error {
	done := make(map[string]bool) // yielded with the second that the next round begins at
	for {
		var held []capi.Lead
		more := false
		for g, err := range r.FormLeads(ctx, form, since) {
			if err != nil {
				return err
			}
			if done[g.ID] {
				continue
			}
			if held = append(held, g); len(held) >= 2*part {
				oldestFirst(held)
				clear(held[part:])
				held, more = held[:part], true
			}
		}
		oldestFirst(held)
		for _, g := range held {
			if !yield(g) {
				return errStopped
			}
		}
		if !more || len(held) == 0 {
			return nil
		}
		last := held[len(held)-1].Created.Truncate(time.Second)
		if last.After(since) {
			since = last
			clear(done)
		}
		for _, g := range held {
			if !g.Created.Before(since) {
				done[g.ID] = true
			}
		}
	}
}

func oldestFirst(leads []capi.Lead) {
	slices.SortStableFunc(leads, func(a, b capi.Lead) int { return a.Created.Compare(b.Created) })
}
