package report_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/report"
)

// Whoever tries a form again, or opens other pages meanwhile, is shown what came last.
func TestATrialTakesTheNewest(t *testing.T) {
	t.Parallel()
	later := func(n int) time.Time { return monday.Add(time.Duration(n) * 20 * time.Second) }
	elsewhere := func(g *ledger.Sighting) { g.Page = "/other" }
	for name, c := range map[string]struct {
		make func(f *field)
		want [2]string // the two ids
		pair bool
	}{
		"pairs": {func(f *field) {
			for n, id := range []string{"a", "b"} {
				f.browser("Lead", id, later(n))
				f.server("Lead", id, later(n))
			}
		}, [2]string{"b", "b"}, true},
		"what pairs before what does not": {func(f *field) {
			f.browser("Lead", "a", later(0))
			f.server("Lead", "a", later(0))
			f.browser("Lead", "b", later(9))
			f.server("Lead", "c", later(9))
		}, [2]string{"a", "a"}, true},
		"browsers alone": {func(f *field) {
			f.browser("Lead", "a", later(0))
			f.browser("Lead", "b", later(1))
			f.browser("Lead", "c", later(2), elsewhere)
		}, [2]string{"b", ""}, false},
		"servers alone": {func(f *field) {
			f.server("Lead", "a", later(0))
			f.server("Lead", "b", later(1))
			f.server("Contact", "c", later(2))
		}, [2]string{"", "b"}, false},
		"blocked": {func(f *field) {
			f.browser("Lead", "a", later(0), func(g *ledger.Sighting) { g.Blocked = true })
			f.browser("Lead", "b", later(1), func(g *ledger.Sighting) { g.Blocked = true })
		}, [2]string{"b", ""}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newField()
			c.make(f)
			trial := report.NewTrial(&f.Copies, "/signup", "Lead")
			var ids [2]string
			if trial.Browser != nil {
				ids[0] = trial.Browser.EventID
			}
			if trial.Server != nil {
				ids[1] = trial.Server.EventID
			}
			require.Equal(t, c.want, ids)
			require.Equal(t, c.pair, trial.Paired)
		})
	}
}
