package meta

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/platform"
)

// maxSkew is how far the two clocks may be apart before events of "now" are at
// risk of lying in Meta's future.
const maxSkew = 30 * time.Second

// Check asks Meta about the token, the dataset and the time, without sending an
// event. A token made in Events Manager can send only: that it may not read the
// dataset is a warning, for only a real event has the last word.
func (p *Platform) Check(ctx context.Context, a platform.Account) []platform.Check {
	reader, err := capi.NewReader(p.clientConfig(a))
	if err != nil {
		return []platform.Check{{Name: "settings", Sentence: err.Error(), NextStep: "Mend the dataset's entry in the configuration."}}
	}
	now := time.Now()
	return []platform.Check{checkClock(ctx, reader, now), checkToken(ctx, reader, now), checkDataset(ctx, reader, graphID(a.Destination.Name), now)}
}

func checkClock(ctx context.Context, r *capi.Reader, now time.Time) platform.Check {
	c := platform.Check{Name: "clock"}
	theirs, err := r.ServerTime(ctx)
	if err != nil {
		c.Sentence, c.NextStep = "Graph cannot be reached: "+reason(err), "Check the connection to graph.facebook.com, port 443, and a proxy in between."
		return c
	}
	skew := now.Sub(theirs).Round(time.Second)
	if skew.Abs() > maxSkew {
		c.Sentence = fmt.Sprintf("This machine's clock is %s off Meta's.", skew)
		c.NextStep = "Switch time synchronisation (NTP) on: events from the future are refused."
		return c
	}
	c.OK, c.Sentence = true, fmt.Sprintf("Graph answers; the clocks are %s apart.", skew.Abs())
	return c
}

func checkToken(ctx context.Context, r *capi.Reader, now time.Time) platform.Check {
	c := platform.Check{Name: "token"}
	t, err := r.DebugToken(ctx, "")
	switch {
	case err != nil:
		c.Sentence, c.NextStep = "The token could not be examined: "+reason(err), nextStep(err)
	case !t.Valid:
		x := capi.Explain(t.ErrorCode, t.ErrorSubcode)
		c.Sentence, c.NextStep = x.Title+". "+x.Cause, x.NextStep
	case !t.ExpiresAt.IsZero() && t.ExpiresAt.Before(now.Add(7*24*time.Hour)):
		c.Warning = true
		c.Sentence = "The token is valid until " + t.ExpiresAt.UTC().Format("2 January 2006, 15:04 MST") + " only."
		c.NextStep = "Make a token in Events Manager, which does not expire, and put it into the configuration before then."
	default:
		c.OK, c.Sentence = true, "The token is valid"+until(t.ExpiresAt)+scopes(t.Scopes)+"."
	}
	return c
}

func until(t time.Time) string {
	if t.IsZero() {
		return " and does not expire"
	}
	return " until " + t.UTC().Format("2 January 2006")
}

func scopes(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return " (" + strings.Join(list, ", ") + ")"
}

func checkDataset(ctx context.Context, r *capi.Reader, id string, now time.Time) platform.Check {
	c := platform.Check{Name: "dataset"}
	d, err := r.Dataset(ctx, id)
	switch {
	case err != nil && sendOnly(err):
		c.Warning = true
		c.Sentence = "The token may not read the dataset: " + reason(err)
		c.NextStep = "Tokens from Events Manager can only send; the last word has an event: capiloop doctor --send-test."
	case err != nil:
		c.Sentence, c.NextStep = "The dataset cannot be read: "+reason(err), nextStep(err)
	case d.Unavailable:
		c.Sentence, c.NextStep = "The dataset is marked as unavailable.", "Open it in Events Manager and see why."
	case !d.AccessEnds.IsZero() && d.AccessEnds.Before(now.Add(14*24*time.Hour)):
		c.Warning = true
		c.Sentence = "The dataset is shared with us only until " + d.AccessEnds.UTC().Format("2 January 2006") + "."
		c.NextStep = "Ask its owner to extend the share."
	default:
		c.OK, c.Sentence = true, "The dataset can be read"+named(d.Name)+"."
	}
	return c
}

func named(name string) string {
	if name == "" {
		return ""
	}
	return ": " + name
}

// sendOnly tells whether an error may only mean that the token cannot read.
func sendOnly(err error) bool {
	var e *capi.APIError
	return errors.As(err, &e) && (e.Code == 10 || e.Code >= 200 && e.Code <= 299 || e.Code == 100 && e.Subcode != 33)
}

func reason(err error) string {
	if e, ok := errors.AsType[*capi.APIError](err); ok {
		return e.Explanation().Title + "."
	}
	return err.Error()
}

func nextStep(err error) string {
	if e, ok := errors.AsType[*capi.APIError](err); ok {
		return e.Explanation().NextStep
	}
	return "Try again."
}
