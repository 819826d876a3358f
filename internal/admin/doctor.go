package admin

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/platform"
)

const (
	doctorAtOnce  = 8
	doctorTimeout = 20 * time.Second // per dataset
)

// testEvent is the name of the doctor's test event: one that no campaign optimises
// for, since a test event counts like any other.
const testEvent = "CapiloopTest"

// Doctor looks at every dataset, several at once. It sends nothing unless asked to.
func (a *Admin) Doctor(ctx context.Context, by Actor, ws string, o DoctorOptions) (*Report, error) {
	need, what := Read, "run the doctor"
	if o.SendTest || o.Repair {
		need, what = Operate, "send test events or repair CRMs"
	}
	if err := allow(by, need, what); err != nil {
		return nil, err
	}
	workspaces := a.c.Settings.Get().Workspaces
	if ws != "" {
		w, err := a.workspace(ws)
		if err != nil {
			return nil, err
		}
		workspaces = []*config.Workspace{w}
	}
	r := &Report{OK: true, Datasets: []DatasetReport{}}
	var datasets []*config.Dataset
	for _, w := range workspaces {
		for _, d := range w.Datasets {
			if o.Destination == "" || o.Destination == d.Name {
				r.Datasets = append(r.Datasets, DatasetReport{Workspace: w.Name, Dataset: d.Name})
				datasets = append(datasets, d)
			}
		}
	}
	if o.Destination != "" && len(datasets) == 0 {
		return nil, &Error{Code: NotFound, Message: "There is no dataset " + strconv.Quote(o.Destination) + " in the settings.", Fix: "Leave it out to look at all of them."}
	}
	var group sync.WaitGroup
	slots := make(chan struct{}, doctorAtOnce)
	for i, d := range datasets {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			r.Datasets[i].Checks = a.examine(ctx, d, o)
		})
	}
	group.Wait()
	if o.Destination == "" {
		r.Connections = a.connections(ctx, workspaces, o.Repair)
		for _, c := range r.Connections {
			r.OK = r.OK && c.OK
		}
	}
	for i := range r.Datasets {
		d := &r.Datasets[i]
		d.OK = true
		for _, c := range d.Checks {
			d.OK = d.OK && (c.OK || c.Warning)
		}
		r.OK = r.OK && d.OK
	}
	return r, nil
}

func (a *Admin) examine(ctx context.Context, d *config.Dataset, o DoctorOptions) []Check {
	ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
	defer cancel()
	p := a.c.Platforms[d.Kind]
	if p == nil {
		return []Check{{Name: "settings", Sentence: "This build cannot send to " + d.Kind + ".", NextStep: "Take the dataset out of the configuration."}}
	}
	account := platform.Account{Destination: d.Destination, Token: d.Token, AppSecret: d.AppSecret, URL: d.URL, Version: d.APIVersion}
	found := p.Check(ctx, account)
	list := make([]Check, 0, len(found)+2)
	for _, c := range found {
		list = append(list, Check(c))
	}
	if !d.Live {
		list = append(list, Check{Name: "live", Warning: true, Sentence: "The dataset is switched off: events for it are not sent.", NextStep: "Set live: true in its entry of the configuration."})
	}
	if o.SendTest {
		list = append(list, a.sendTest(ctx, p, account, d, o))
	}
	return list
}

// sendTest sends one event, past the queue: it is the doctor's, not the workspace's,
// and stands in no book.
func (a *Admin) sendTest(ctx context.Context, p platform.Platform, account platform.Account, d *config.Dataset, o DoctorOptions) Check {
	c := Check{Name: "test event"}
	code := o.TestEventCode
	if code == "" {
		code = d.TestEventCode
	}
	if code == "" {
		c.Sentence = "No test event was sent, for the dataset has no test_event_code."
		c.NextStep = "Take the code from Events Manager, tab Test events, and give it, or set test_event_code in the dataset's entry."
		return c
	}
	now := a.c.Clock.Now()
	e := &capi.Event{
		EventName: testEvent, EventTime: now.Unix(), EventID: "capiloop-doctor-" + strconv.FormatInt(now.UnixNano(), 36),
		ActionSource: capi.ActionSourceSystemGenerated,
		UserData:     capi.UserData{Email: []string{"doctor@example.com"}, ExternalID: []string{"capiloop-doctor"}},
	}
	x := p.Encode(e, platform.Rules{Locale: capi.Locale{Now: now}})
	if err := x.Problems.Err(); err != nil {
		c.Sentence, c.NextStep = "The test event could not be made: "+err.Error(), "Report this as a fault of Capiloop."
		return c
	}
	outcome := p.Send(ctx, account, &ledger.Batch{
		Destination: d.ID, ClaimedAt: now, Envelope: ledger.Envelope{TestCode: code},
		Rows: []ledger.Row{{Workspace: d.Workspace, Name: testEvent, Payload: x.Payload, Size: len(x.Payload)}},
	})
	answer := ledger.AnswerOf(outcome)
	switch outcome := outcome.(type) {
	case ledger.Accepted:
		c.OK = true
		c.Sentence = "The dataset took a test event (" + testEvent + ", fbtrace_id " + answer.TraceID + "). It shows under Test events, and it counts like any other event: Meta does not set test events apart."
	case ledger.Hold:
		c.Sentence, c.NextStep = outcome.Reason.Sentence()+" "+answer.Message, "Mend the access, then run the doctor again."
	case ledger.Lost:
		c.Sentence, c.NextStep = "The connection broke before the answer came; the test event may have arrived.", "Look under Test events in Events Manager, then try again."
	case ledger.RetryAt:
		c.Sentence, c.NextStep = "The dataset did not take the test event: "+answer.Message, "Try again in a minute."
	default:
		c.Sentence, c.NextStep = "The dataset refused the test event: "+answer.Message, "Check the test_event_code in Events Manager, tab Test events."
	}
	return c
}
