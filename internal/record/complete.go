package record

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/config"
)

// Codes of the problems that recording finds.
const (
	ProblemTimeDefaulted   = "time_defaulted"
	ProblemTimeClamped     = "time_clamped"
	ProblemTimeAhead       = "time_ahead"
	ProblemEventIDMade     = "event_id_made"
	ProblemUnknownDataset  = "unknown_dataset"
	ProblemPayloadTooLarge = "too_large"
	ProblemReservedName    = "event_name_reserved"
)

// maxAhead is how far a caller's clock may be ahead before its events wait. Up to
// that they are set back to the moment of receipt.
const maxAhead = 60 * time.Second

// complete fills in what a caller may leave out, and tells whether the event lies
// so far ahead that it must wait for its time.
func complete(e *capi.Event, now time.Time, warnings *capi.Problems) (ahead bool) {
	warn := func(field, code, reason, fix string) {
		*warnings = append(*warnings, capi.Problem{Field: field, Code: code, Severity: capi.SeverityWarning, Reason: reason, Fix: fix})
	}
	received := now.Unix()
	switch d := time.Duration(e.EventTime-received) * time.Second; {
	case e.EventTime == 0:
		e.EventTime = received
		warn("event_time", ProblemTimeDefaulted, "no time was given; the moment of receipt was used", "send when it happened, in Unix seconds")
	case d > maxAhead:
		ahead = true
		warn("event_time", ProblemTimeAhead, "the time lies more than a minute ahead; the event waits until then", "set the clock of the sending system")
	case d > 0:
		e.EventTime = received
		warn("event_time", ProblemTimeClamped, "the time lay a few seconds ahead and was set to the moment of receipt", "set the clock of the sending system")
	}
	if e.EventID = strings.TrimSpace(e.EventID); e.EventID == "" {
		e.EventID = makeEventID(e, now)
		if e.CustomData == nil || e.EventID != strings.TrimSpace(e.CustomData.OrderID) {
			warn("event_id", ProblemEventIDMade, "no event_id was given and one was made; a repeat cannot be recognised", "send the id that the Pixel gets as eventID")
		}
	}
	return ahead
}

// makeEventID takes for an id what makes the event unique, so that the order sent twice
// is one: its number, which the Pixel of the shop's page can name as eventID too (Meta's
// page "Deduplicate Pixel and Server Events" advises it; the name of the event belongs to
// the key). Without an order it is new each time (a UUID of version 7, RFC 9562).
func makeEventID(e *capi.Event, now time.Time) string {
	if e.CustomData != nil {
		// No database takes NUL in a text.
		if order := strings.ReplaceAll(strings.TrimSpace(e.CustomData.OrderID), "\x00", ""); order != "" {
			return order
		}
	}
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, by its documentation
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(now.UnixMilli()))
	copy(b[:6], ms[2:])
	b[6] = b[6]&0x0f | 0x70
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// route returns the datasets that an event goes to.
func route(ws *config.Workspace, dataset string) ([]*config.Dataset, *capi.Problem) {
	if dataset == "" {
		return ws.Datasets, nil
	}
	for _, d := range ws.Datasets {
		if d.Name == dataset {
			return []*config.Dataset{d}, nil
		}
	}
	return nil, &capi.Problem{
		Field: "dataset", Code: ProblemUnknownDataset, Severity: capi.SeverityError,
		Reason: "this workspace has no dataset of that id", Fix: "leave dataset out, or name one of the workspace's datasets",
	}
}

// reservedName keeps the book of events apart from that of leads.
func reservedName() capi.Problem {
	return capi.Problem{
		Field: "event_name", Code: ProblemReservedName, Severity: capi.SeverityError,
		Reason: "this name is kept for the book of leads", Fix: "send Lead, or a name of your own",
	}
}

func tooLarge(most int) capi.Problem {
	return capi.Problem{
		Field: "event", Code: ProblemPayloadTooLarge, Severity: capi.SeverityError,
		Reason: fmt.Sprintf("the event is larger than the %d bytes that a destination takes", most), Fix: "send fewer contents or custom properties",
	}
}
