package crm

import (
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strings"

	"github.com/capiloop/capiloop/internal/ledger"
)

// Unread is the error of a reading of what that had an outcome other than Accepted, else
// nil. A reading that was cut off has done nothing, so it is simply to be made again.
func Unread(what string, o ledger.Outcome) error {
	switch x := o.(type) {
	case ledger.Accepted:
		return nil
	case ledger.Lost:
		o = ledger.RetryAt{Answer: x.Answer, Reason: ledger.Backlog}
	}
	a := ledger.AnswerOf(o)
	if a.Status == 0 {
		return &ReadError{Outcome: o, Err: fmt.Errorf("read %s: %s", what, a.Message)}
	}
	return &ReadError{Outcome: o, Err: fmt.Errorf("read %s: %d: %s", what, a.Status, a.Message)}
}

// UnreadRecord is Unread for one record: that it is not found says nothing about the
// account, only that somebody deleted it.
func UnreadRecord(what string, o ledger.Outcome) error {
	if a := ledger.AnswerOf(o); a.Status == http.StatusNotFound || a.Status == http.StatusGone {
		o = ledger.Refusal{Answer: a}
	}
	return Unread(what, o)
}

// StatusOf returns the HTTP status that a reading failed with, 0 if there was none.
func StatusOf(err error) int {
	e, ok := errors.AsType[*ReadError](err)
	if !ok {
		return 0
	}
	return ledger.AnswerOf(e.Outcome).Status
}

// IsGone tells whether a reading failed because the record is not there.
func IsGone(err error) bool {
	s := StatusOf(err)
	return s == http.StatusNotFound || s == http.StatusGone
}

// Decimal writes a number out of JSON or of a text field as a decimal with a point, and
// returns "" for what is none: an amount is rather left out than guessed.
func Decimal(text string) string {
	text = strings.TrimSpace(text)
	// The exponent is looked at before big.Rat would write out a billion digits.
	if text == "" || len(text) > 40 || strings.Trim(text, "+-.0123456789eE") != "" {
		return ""
	}
	mantissa, exponent, scientific := strings.Cut(strings.ToLower(text), "e")
	if !scientific {
		exponent = "0"
	}
	if n := strings.TrimLeft(exponent, "+-"); n == "" || len(n) > 2 || len(exponent)-len(n) > 1 {
		return ""
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return ""
	}
	if !scientific && mantissa[0] != '+' && mantissa[0] != '.' && !strings.HasSuffix(mantissa, ".") {
		return text // as the CRM wrote it: 1500.50 stays so
	}
	digits, _ := r.FloatPrec()
	return r.FloatString(digits)
}
