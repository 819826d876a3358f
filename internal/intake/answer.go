package intake

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/record"
)

// problemConflict marks an event whose id another person's event has.
const problemConflict = "duplicate_conflict"

// duplicateSentence stands for a duplicate's own: what became of the first one is
// found under its url.
const duplicateSentence = "The same event came before; it was counted as a duplicate and is not sent again."

// answerEvents writes the answer of POST /v1/events. It is written by hand: at ten
// thousand requests a second reflection is what costs most, after the disk.
func (h *Handler) answerEvents(results []record.Result, warnings capi.Problems) (status int, body []byte) {
	var n tally
	first := -1 // the first that was rejected
	for i := range results {
		switch r := &results[i]; {
		case r.Rejected != nil:
			if n.rejected++; first < 0 {
				first = i
			}
		case r.Duplicate:
			n.duplicates++
		default:
			n.accepted++
		}
	}
	b := make([]byte, 0, 256+256*len(results))
	b = append(b, '{')
	status = http.StatusAccepted
	if n.accepted+n.duplicates == 0 {
		status = http.StatusUnprocessableEntity
		b = appendNoneTaken(b, results, first)
	}
	b = strconv.AppendInt(append(b, `"accepted":`...), int64(n.accepted), 10)
	b = strconv.AppendInt(append(b, `,"duplicates":`...), int64(n.duplicates), 10)
	b = append(b, `,"rejected":[`...)
	for i, comma := 0, false; i < len(results); i++ {
		if r := &results[i]; r.Rejected != nil {
			b = separate(b, comma)
			b, comma = appendRejected(b, i, r), true
		}
	}
	b = append(b, `],"events":[`...)
	for i, comma := 0, false; i < len(results); i++ {
		if r := &results[i]; r.Rejected == nil {
			b = separate(b, comma)
			b, comma = h.appendTaken(b, i, r), true
		}
	}
	b = append(b, ']')
	if len(warnings) > 0 {
		b = appendProblems(append(b, `,"warnings":`...), warnings)
	}
	return status, append(b, "}\n"...)
}

// appendNoneTaken says in the place of an error what is wrong when nothing is right.
func appendNoneTaken(b []byte, results []record.Result, first int) []byte {
	e := wrong{code: "none_taken", message: "none of the " + strconv.Itoa(len(results)) + " events could be taken", fix: "see rejected, where each has its reason"}
	p := firstError(results[first].Rejected)
	if len(results) == 1 {
		e = wrong{code: p.Code, message: p.Reason, fix: p.Fix, field: p.Field}
	}
	b = append(b, `"error":{"code":`...)
	b = appendText(b, e.code)
	b = appendText(append(b, `,"message":`...), e.message)
	b = appendText(append(b, `,"fix":`...), e.fix)
	if e.field != "" {
		b = appendText(append(b, `,"field":`...), e.field)
	}
	return append(b, `},`...)
}

func appendRejected(b []byte, index int, r *record.Result) []byte {
	p := firstError(r.Rejected)
	b = strconv.AppendInt(append(b, `{"index":`...), int64(index), 10)
	if r.EventID != "" {
		b = appendText(append(b, `,"event_id":`...), r.EventID)
	}
	b = append(b, ',')
	b = appendProblem(b, &p)
	more := 0
	for i := range r.Rejected {
		if q := &r.Rejected[i]; q.Severity == capi.SeverityError && *q != p {
			if more++; more == 1 {
				b = append(b, `,"more":[`...)
			} else {
				b = append(b, ',')
			}
			b = append(appendProblem(append(b, '{'), q), '}')
		}
	}
	if more > 0 {
		b = append(b, ']')
	}
	return append(b, '}')
}

func (h *Handler) appendTaken(b []byte, index int, r *record.Result) []byte {
	b = strconv.AppendInt(append(b, `{"index":`...), int64(index), 10)
	id := r.ID.String()
	b = append(append(b, `,"id":"`...), id...)
	b = appendText(append(b, `","event_id":`...), r.EventID)
	b = appendText(append(b, `,"event_name":`...), r.EventName)
	sentence := duplicateSentence
	if !r.Duplicate {
		sentence = r.Reason.Sentence()
		b = append(append(b, `,"state":"`...), r.State...)
		b = append(b, '"')
		if r.Reason != "" {
			b = append(append(append(b, `,"reason":"`...), r.Reason...), '"')
		}
	}
	b = appendText(append(b, `,"sentence":`...), sentence)
	b = appendText(append(b, `,"url":`...), h.c.PublicURL+eventsPath+"/"+id)
	b = strconv.AppendBool(append(b, `,"duplicate":`...), r.Duplicate)
	warnings := r.Warnings
	if r.Conflict {
		warnings = append(slices.Clip(warnings), capi.Problem{
			Field: "event_id", Code: problemConflict, Reason: "another person's event has the same event_id", Fix: "make a new id for each event; a cached page repeats one",
		})
	}
	b = appendProblems(append(b, `,"warnings":`...), warnings)
	return append(b, '}')
}

func appendProblems(b []byte, list capi.Problems) []byte {
	b = append(b, '[')
	for i := range list {
		b = append(appendProblem(append(separate(b, i > 0), '{'), &list[i]), '}')
	}
	return append(b, ']')
}

// appendProblem writes the members of a problem, without braces.
func appendProblem(b []byte, p *capi.Problem) []byte {
	b = appendText(append(b, `"field":`...), p.Field)
	b = appendText(append(b, `,"code":`...), p.Code)
	b = appendText(append(b, `,"reason":`...), p.Reason)
	return appendText(append(b, `,"fix":`...), p.Fix)
}

func separate(b []byte, comma bool) []byte {
	if comma {
		return append(b, ',')
	}
	return b
}

// firstError returns the problem for which an event was rejected.
func firstError(list capi.Problems) capi.Problem {
	for _, p := range list {
		if p.Severity == capi.SeverityError {
			return p
		}
	}
	return capi.Problem{Field: "event", Code: "refused", Severity: capi.SeverityError, Reason: "the event could not be taken", Fix: example}
}
