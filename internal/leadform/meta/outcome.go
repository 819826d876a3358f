package meta

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/ledger"
)

// failure says what a failed read means for the leads that wait: Graph's answers
// about a token or a permission hold them until someone has repaired it, everything
// that passes by itself is tried again. A lead is never refused here.
func failure(doing string, err error) *leadform.FetchError {
	e, ok := errors.AsType[*capi.APIError](err)
	if !ok {
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return later(fmt.Errorf("%s: %w", doing, err))
		}
		return held(ledger.TokenInvalid, fmt.Errorf("%s: %w", doing, err)) // settings that cannot work
	}
	safe := *e
	safe.Body = "" // of an answer that could not be read: it may hold a person's data
	a := ledger.Answer{Status: e.HTTPStatus, Code: e.Code, Subcode: e.Subcode, TraceID: e.FBTraceID, Message: words(e)}
	var o ledger.Outcome
	switch e.Class {
	case capi.ClassThrottled:
		o = ledger.RetryAt{Answer: a, Reason: ledger.Throttled, Wait: e.Wait}
	case capi.ClassRetry, capi.ClassUnsent, capi.ClassAmbiguous: // a read may be repeated
		o = ledger.RetryAt{Answer: a, Reason: ledger.Backlog}
	default:
		o = ledger.Hold{Answer: a, Reason: holdReason(e)}
	}
	return &leadform.FetchError{Outcome: o, Err: fmt.Errorf("%s: %w", doing, &safe)}
}

// holdReason says what a person has to repair. Code 100 without a subcode is unclear
// by itself, but its words may name a permission.
func holdReason(e *capi.APIError) ledger.Reason {
	switch {
	case e.Class != capi.ClassAccess && e.Code == 100 && strings.Contains(strings.ToLower(e.Message), "permission"):
		return ledger.PermissionMissing
	case e.Class != capi.ClassAccess:
		return ledger.UnclearRefusal
	case e.Code == 368:
		return ledger.Blocked
	case e.Code == 190 || e.Code == 102 || e.Code == 104 || e.Code == 0: // 0: refused by our own reader, for settings that cannot work
		return ledger.TokenInvalid
	}
	return ledger.PermissionMissing
}

// words are Meta's own, with where to look: a missing right to leads has two places.
func words(e *capi.APIError) string {
	text := firstOf(e.UserMessage, e.Message, e.Explanation().Title)
	if holdReason(e) == ledger.PermissionMissing {
		text += " (" + leadsAccess + ")"
	}
	return text
}

const leadsAccess = "the token needs leads_retrieval, and the Page's Leads Access in Business Settings must list the app and its user"

func later(err error) *leadform.FetchError {
	return &leadform.FetchError{Outcome: ledger.RetryAt{Answer: ledger.Answer{Message: err.Error()}, Reason: ledger.Backlog}, Err: err}
}

func held(why ledger.Reason, err error) *leadform.FetchError {
	return &leadform.FetchError{Outcome: ledger.Hold{Answer: ledger.Answer{Message: err.Error()}, Reason: why}, Err: err}
}

// gone says that there is no such lead, and why that is known.
func gone(why string) *leadform.FetchError {
	err := fmt.Errorf("%w: %s", leadform.ErrNoLead, why)
	return &leadform.FetchError{Outcome: ledger.Refusal{Answer: ledger.Answer{Message: err.Error()}}, Err: err}
}

// isMissing tells whether Graph says that an object is not there: it says the same
// of one that the token may not see.
func isMissing(err error) bool {
	e, ok := errors.AsType[*capi.APIError](err)
	if !ok || e.HTTPStatus == 0 {
		return false
	}
	return e.Code == 803 || e.Code == 100 && (e.Subcode == 33 || e.Type == "GraphMethodException")
}
