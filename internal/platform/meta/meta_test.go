package meta_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/capi/capitest"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/platform"
	"github.com/capiloop/capiloop/internal/platform/meta"
	"github.com/capiloop/capiloop/internal/secret"
)

func account(token string) platform.Account {
	return platform.Account{Destination: ledger.Destination{ID: 1, Kind: meta.Kind, Name: "1234567890"}, Token: secret.New(token), URL: "http://graph.test"}
}

func newPlatform(g *capitest.Graph) *meta.Platform {
	return meta.New(meta.Config{Transport: capitest.Transport(g), Sandbox: capitest.Transport(g)})
}

// batch makes n good rows.
func batch(t *testing.T, p *meta.Platform, n int) *ledger.Batch {
	t.Helper()
	b := &ledger.Batch{}
	for i := range n {
		x := p.Encode(&capi.Event{
			EventName: "Lead", EventTime: time.Now().Unix(), EventID: string(rune('a' + i)), ActionSource: capi.ActionSourceOther,
			UserData: capi.UserData{Email: []string{"jane@example.com"}},
		}, platform.Rules{})
		require.NoError(t, x.Problems.Err())
		b.Rows = append(b.Rows, ledger.Row{ID: ledger.ID(i + 1), Payload: x.Payload})
	}
	return b
}

// Each answer of Graph becomes the outcome that the retry table asks for.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	code := func(c, s int) capitest.Fault { return capitest.Fault{Mode: capitest.ModeError, Code: c, Subcode: s} }
	cases := []struct {
		name  string
		fault capitest.Fault
		rows  int
		want  ledger.Outcome // its type, and Reason, Unclear, OneByOne
	}{
		{"server error", code(500, 0), 2, ledger.RetryAt{Reason: ledger.Backlog}},
		{"html", capitest.Fault{Mode: capitest.ModeHTML}, 2, ledger.RetryAt{Reason: ledger.Backlog}},
		{"throttled", code(80004, 0), 2, ledger.RetryAt{Reason: ledger.Throttled}},
		{"token", code(190, 463), 2, ledger.Hold{Reason: ledger.TokenInvalid}},
		{"proof", code(104, 0), 2, ledger.Hold{Reason: ledger.TokenInvalid}},
		{"share", code(100, 33), 2, ledger.Hold{Reason: ledger.DatasetOutOfReach}},
		{"permission", code(200, 0), 2, ledger.Hold{Reason: ledger.PermissionMissing}},
		{"blocked", code(368, 0), 2, ledger.Hold{Reason: ledger.Blocked}},
		{"fault of one", code(100, 2804050), 2, ledger.Split{}},
		{"fault of the one", code(100, 2804050), 1, ledger.Refusal{}},
		{"unclear", code(100, 0), 2, ledger.Split{Unclear: true}},
		{"unclear, alone", code(100, 0), 1, ledger.Refusal{Unclear: true}},
		{"not in the catalogue", code(5, 12), 1, ledger.Refusal{Unclear: true}},
		{"fewer", capitest.Fault{Mode: capitest.ModePartial, Received: 1}, 2, ledger.Split{OneByOne: true}},
		{"cut after it was written", capitest.Fault{Mode: capitest.ModeReset}, 2, ledger.Lost{}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := capitest.New(capitest.Options{Now: time.Now})
			p := newPlatform(g)
			g.Fault(c.fault)
			got := p.Send(t.Context(), account("EAAtoken"), batch(t, p, c.rows))
			require.Equal(t, c.want, bare(got))
			require.NotContains(t, ledger.AnswerOf(got).Message, "EAAtoken")
		})
	}
}

// bare takes the answer's texts out of an outcome.
func bare(o ledger.Outcome) ledger.Outcome {
	switch o := o.(type) {
	case ledger.RetryAt:
		return ledger.RetryAt{Reason: o.Reason}
	case ledger.Hold:
		return ledger.Hold{Reason: o.Reason}
	case ledger.Split:
		return ledger.Split{Unclear: o.Unclear, OneByOne: o.OneByOne}
	case ledger.Refusal:
		return ledger.Refusal{Unclear: o.Unclear}
	case ledger.Lost:
		return ledger.Lost{}
	}
	return o
}

func TestTheTokenAppliesAtSend(t *testing.T) {
	t.Parallel()
	g := capitest.New(capitest.Options{Now: time.Now})
	p := newPlatform(g)
	b := batch(t, p, 1)
	require.IsType(t, ledger.Hold{}, p.Send(t.Context(), account("bad-token"), b))
	require.IsType(t, ledger.Accepted{}, p.Send(t.Context(), account("good-token"), b))
	require.IsType(t, ledger.Hold{}, p.Send(t.Context(), account(""), b), "no token at all")
}

func TestTheSandboxNeedsNoTokenAndNoNetwork(t *testing.T) {
	t.Parallel()
	g := capitest.New(capitest.Options{Now: time.Now})
	p := meta.New(meta.Config{Transport: refuse{}, Sandbox: capitest.Transport(g)})
	a := platform.Account{Destination: ledger.Destination{ID: 9, Name: meta.Sandbox}}
	require.IsType(t, ledger.Accepted{}, p.Send(t.Context(), a, batch(t, p, 1)))
	for _, c := range p.Check(t.Context(), a) {
		require.True(t, c.OK, "%+v", c)
	}
}

type refuse struct{}

func (refuse) RoundTrip(*http.Request) (*http.Response, error) { return nil, http.ErrAbortHandler }

func TestChecksTellWhatIsWrong(t *testing.T) {
	t.Parallel()
	g := capitest.New(capitest.Options{Now: time.Now})
	p := newPlatform(g)
	find := func(a platform.Account, name string) platform.Check {
		for _, c := range p.Check(t.Context(), a) {
			if c.Name == name {
				return c
			}
		}
		t.Fatalf("no check %s", name)
		return platform.Check{}
	}
	require.True(t, find(account("good-token"), "token").OK)
	require.True(t, find(account("good-token"), "dataset").OK)
	require.True(t, find(account("good-token"), "clock").OK)
	c := find(account("bad-463"), "token")
	require.False(t, c.OK)
	require.NotEmpty(t, c.NextStep)

	g.SetDataset("1234567890", capitest.Dataset{AccessExpires: time.Now().Add(48 * time.Hour)})
	c = find(account("good-token"), "dataset")
	require.True(t, c.Warning, "a share that ends soon is said")
	g.RemoveDataset("1234567890")
	c = find(account("good-token"), "dataset")
	require.False(t, c.OK)
	require.False(t, c.Warning)

	late := capitest.New(capitest.Options{Now: func() time.Time { return time.Now().Add(-11 * time.Minute) }})
	p = newPlatform(late)
	c = find(account("good-token"), "clock")
	require.False(t, c.OK)
	require.Contains(t, c.NextStep, "NTP")
}
