package meta

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/ledger"
)

// Meta forgets a lead after 90 days. A webhook can be ahead of Graph by a little, so
// a young lead that is not there yet is asked for again.
const (
	leadAge  = 90 * 24 * time.Hour
	youngAge = 10 * time.Minute
)

// Fetch reads the lead of a notice from Graph and maps it by its form's questions.
//
// Graph answers 100/33 for a lead that was deleted and for one that the token may
// not see any more. To tell them apart the leads of the form are read: a lead listed
// there is taken from there; others listed without it mean that it was deleted; none
// listed leaves it to has_lead_access; and whatever stays in doubt is held, not
// dropped, until Meta itself has forgotten it.
func (k *Kind) Fetch(ctx context.Context, s leadform.Source, n leadform.Notice) (ledger.Lead, error) {
	var w word
	if json.Unmarshal(n.Body, &w) != nil || w.LeadID == "" {
		w.LeadID = leadform.Ident(n.Key)
	}
	if !isID(w.LeadID) {
		return ledger.Lead{}, gone("its id is not a number")
	}
	r, err := k.reader(s)
	if err != nil {
		return ledger.Lead{}, failure("open Graph", err)
	}
	g, err := r.Lead(ctx, string(w.LeadID))
	if isMissing(err) {
		g, err = k.missing(ctx, r, s, w, err)
	} else if err != nil {
		err = failure("read lead", err)
	}
	if err != nil {
		return ledger.Lead{}, err
	}
	g.ID = firstOf(g.ID, string(w.LeadID))
	g.FormID, g.AdID = firstOf(g.FormID, string(w.FormID)), firstOf(g.AdID, string(w.AdID))
	if g.Created.IsZero() {
		g.Created = w.created()
	}
	form, err := k.form(ctx, r, s, g.FormID)
	l := leadOf(s, g, form)
	if err != nil && k.config.Now().Sub(g.Created) < patience(&l) {
		e := failure("read forms", err)
		if _, passing := e.Outcome.(ledger.RetryAt); passing {
			return ledger.Lead{}, e
		}
	}
	return l, nil
}

// patience is how old a lead may be to wait for a form that cannot be read at the
// moment: the form says what answers under names of its own mean. Somebody who can
// be reached should not wait long; and in the end every lead is taken as it is, its
// answers under the form's own names.
func patience(l *ledger.Lead) time.Duration {
	unknown := slices.ContainsFunc(l.Answers, func(a ledger.FormAnswer) bool {
		return !a.Consent && leadform.MetaKey(a.Question) == leadform.Custom
	})
	switch {
	case !unknown:
		return 0
	case l.Contact.Email != "" || l.Contact.Phone != "":
		return time.Minute
	}
	return time.Hour
}

// missing decides what it means that Graph does not find a lead.
func (k *Kind) missing(ctx context.Context, r *capi.Reader, s leadform.Source, w word, cause error) (capi.Lead, error) {
	created := w.created()
	if age := k.config.Now().Sub(created); !created.IsZero() && age > leadAge {
		return capi.Lead{}, gone("Meta keeps leads for 90 days")
	} else if !created.IsZero() && age < youngAge {
		f := failure("read lead", cause)
		f.Outcome = ledger.RetryAt{Answer: ledger.AnswerOf(f.Outcome), Reason: ledger.Backlog}
		return capi.Lead{}, f
	}
	if w.FormID == "" {
		return capi.Lead{}, k.decide(ctx, r, s, cause)
	}
	since := created
	if !since.IsZero() {
		since = since.Add(-time.Minute)
	}
	others := false
	for g, err := range r.FormLeads(ctx, string(w.FormID), since) {
		if err != nil && !isMissing(err) {
			return capi.Lead{}, failure("read the form's leads", err)
		}
		if err != nil {
			return capi.Lead{}, k.decide(ctx, r, s, cause) // the form is out of reach too
		}
		if g.ID == string(w.LeadID) {
			return g, nil
		}
		others = true
	}
	if others {
		return capi.Lead{}, gone("other leads of its form can be read")
	}
	return capi.Lead{}, k.decide(ctx, r, s, cause)
}

// decide asks Meta whether the leads of the Page may be read at all.
func (k *Kind) decide(ctx context.Context, r *capi.Reader, s leadform.Source, cause error) error {
	access, err := leadAccess(ctx, r, pageID(s))
	if err == nil && access != nil && access.CanAccessLead {
		return gone("the Page's leads can be read, this one was deleted")
	}
	if err != nil {
		f := failure("ask for lead access", err)
		if _, passing := f.Outcome.(ledger.RetryAt); passing {
			return f
		}
	}
	return failure("read lead", cause)
}

// leadAccess asks whether the token's user may read the Page's leads through the
// token's app. It is nil where Meta does not say.
func leadAccess(ctx context.Context, r *capi.Reader, page string) (*capi.LeadAccess, error) {
	t, err := r.DebugToken(ctx, "")
	if err != nil || t.UserID == "" {
		return nil, err
	}
	p, err := r.Page(ctx, page, t.UserID, t.AppID)
	return p.Access, err
}
