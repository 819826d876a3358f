package ledger

import "time"

// Answer is what a destination said to a request, kept beside the batch so that a
// person can read it. It never holds a token.
type Answer struct {
	Status  int    // HTTP status; 0: there was no answer
	Code    int    // the destination's error code, 0: none
	Subcode int    // and subcode
	TraceID string // the destination's name for the request (fbtrace_id)
	Message string // its own words, or ours where it had none
}

// Outcome is what became of a request: one of Sent…, RetryAt, Refusal, Split,
// Hold and Lost. A platform's Send gives it, deliver acts on it.
type Outcome interface{ answer() Answer }

// Accepted says that the destination has all rows of the request.
type Accepted struct{ Answer Answer }

// RetryAt says that the whole lane should come back later. Wait is zero where the
// destination did not say when; then the lane backs off by itself.
type RetryAt struct {
	Answer Answer
	Reason Reason
	Wait   time.Duration
}

// Refusal says that the one row of the request can never be sent. Unclear marks an
// answer that may also mean that the whole destination is out of reach.
type Refusal struct {
	Answer  Answer
	Unclear bool
}

// Split says that the destination refused a request of several rows as a whole for
// the fault of one, or (OneByOne) that it counted fewer than it was given.
type Split struct {
	Answer   Answer
	Unclear  bool
	OneByOne bool
}

// Hold says that nothing will pass until a person has repaired access.
type Hold struct {
	Answer Answer
	Reason Reason
}

// Lost says that the request may have been taken: it was cut after it was written.
type Lost struct{ Answer Answer }

func (o Accepted) answer() Answer { return o.Answer }
func (o RetryAt) answer() Answer  { return o.Answer }
func (o Refusal) answer() Answer  { return o.Answer }
func (o Split) answer() Answer    { return o.Answer }
func (o Hold) answer() Answer     { return o.Answer }
func (o Lost) answer() Answer     { return o.Answer }

// AnswerOf returns what the destination said.
func AnswerOf(o Outcome) Answer { return o.answer() }

// WithAnswer returns the outcome with another answer, such as one from which what is
// private was taken out.
func WithAnswer(o Outcome, a Answer) Outcome {
	switch o := o.(type) {
	case Accepted:
		o.Answer = a
		return o
	case RetryAt:
		o.Answer = a
		return o
	case Refusal:
		o.Answer = a
		return o
	case Split:
		o.Answer = a
		return o
	case Hold:
		o.Answer = a
		return o
	case Lost:
		o.Answer = a
		return o
	}
	return o
}
