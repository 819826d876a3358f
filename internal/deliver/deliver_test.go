package deliver_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/capi/capitest"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

func TestEventsArriveOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		ids := r.leads(t, 2500)
		time.Sleep(5 * time.Second)
		r.heldOnce(t, datasetA, ids)
		require.EqualValues(t, 2500, r.book(t).Total(ledger.Sent))
		require.LessOrEqual(t, r.requests(), 4)
	})
}

func TestAnIdleLaneSendsAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		time.Sleep(time.Minute)
		r.leads(t, 1)
		time.Sleep(10 * time.Millisecond)
		require.EqualValues(t, 1, r.book(t).Total(ledger.Sent))
	})
}

// Each fault of Graph that passes, or is repaired: nothing is lost, nothing counts
// twice, and the lane goes on by itself.
func TestAfterTheFaultEverythingArrives(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name  string
		fault capitest.Fault
		held  ledger.Reason // what the book says while it lasts; None: waiting
	}{
		{"server error", capitest.Fault{Mode: capitest.ModeError, Code: 500}, ""},
		{"unknown error", capitest.Fault{Mode: capitest.ModeError, Code: 1}, ""},
		{"unavailable", capitest.Fault{Mode: capitest.ModeError, Code: 2}, ""},
		{"html", capitest.Fault{Mode: capitest.ModeHTML}, ""},
		{"html with status 200", capitest.Fault{Mode: capitest.ModeHTML, Status: 200}, ""},
		{"empty", capitest.Fault{Mode: capitest.ModeEmpty}, ""},
		{"app limit", capitest.Fault{Mode: capitest.ModeError, Code: 4}, ""},
		{"user limit", capitest.Fault{Mode: capitest.ModeError, Code: 17}, ""},
		{"call limit", capitest.Fault{Mode: capitest.ModeError, Code: 613}, ""},
		{"business limit", capitest.Fault{Mode: capitest.ModeError, Code: 80004, Regain: 5}, ""},
		{"token expired", capitest.Fault{Mode: capitest.ModeError, Code: 190, Subcode: 463}, ledger.TokenInvalid},
		{"token revoked", capitest.Fault{Mode: capitest.ModeError, Code: 190, Subcode: 458}, ledger.TokenInvalid},
		{"share lapsed", capitest.Fault{Mode: capitest.ModeError, Code: 100, Subcode: 33}, ledger.DatasetOutOfReach},
		{"share lapsed, plain 100", capitest.Fault{Mode: capitest.ModeError, Code: 100}, ledger.UnclearRefusal},
		{"development access", capitest.Fault{Mode: capitest.ModeError, Code: 270}, ledger.PermissionMissing},
		{"permission", capitest.Fault{Mode: capitest.ModeError, Code: 200}, ledger.PermissionMissing},
		{"permission 10", capitest.Fault{Mode: capitest.ModeError, Code: 10}, ledger.PermissionMissing},
		{"blocked", capitest.Fault{Mode: capitest.ModeError, Code: 368}, ledger.Blocked},
		{"localised", capitest.Fault{Mode: capitest.ModeLocalised, Code: 190}, ledger.TokenInvalid},
		{"cut before", capitest.Fault{Mode: capitest.ModeCut}, ""},
		{"accepted, then cut", capitest.Fault{Mode: capitest.ModeReset}, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, r *rig) {
				c.fault.Dataset = datasetA
				r.graph.Fault(c.fault)
				ids := r.leads(t, 50)
				other := r.events(t, datasetB, 3, func(int, *capi.Event) {})
				time.Sleep(2 * time.Hour)
				book := r.book(t)
				require.EqualValues(t, 3, book.Total(ledger.Sent), "the other destination is not touched")
				if c.held == ledger.None {
					require.EqualValues(t, 50, book.Total(ledger.Waiting))
				} else {
					require.EqualValues(t, 50, book.By[ledger.Held][c.held])
					require.Len(t, r.openFindings(t), 1)
				}
				require.Less(t, r.requests(), 130, "no storm: the throttled ones may come back each minute")

				r.graph.ClearFaults()
				time.Sleep(75 * time.Minute) // the longest pause between two tries
				r.heldOnce(t, datasetA, ids)
				r.heldOnce(t, datasetB, other)
				require.EqualValues(t, 53, r.book(t).Total(ledger.Sent))
				require.Empty(t, r.openFindings(t))
				require.Empty(t, r.graph.SecondIDs())
			})
		})
	}
}

func TestATokenRepairNeedsNobodyToPressAButton(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		r.graph.Fault(capitest.Fault{Mode: capitest.ModeError, Code: 190, Dataset: datasetA})
		ids := r.leads(t, 5)
		time.Sleep(10 * time.Second)
		r.graph.ClearFaults()
		require.NoError(t, r.store.TryNow(t.Context(), r.ws.Datasets[0].ID))
		time.Sleep(3 * time.Second)
		r.heldOnce(t, datasetA, ids)
	})
}

// One bad event in a batch of 50 does not keep the other 49.
func TestThePoisonIsFoundAndNamed(t *testing.T) {
	t.Parallel()
	for _, code := range []struct{ code, subcode int }{{100, 2804050}, {100, 0}, {5, 12}} {
		for _, place := range []int{0, 17, 49} {
			t.Run(fmt.Sprintf("%d/%d at %d", code.code, code.subcode, place), func(t *testing.T) {
				t.Parallel()
				inBubble(t, func(t *testing.T, r *rig) {
					poison := fmt.Sprint("e", place+1)
					r.graph.Fault(capitest.Fault{Mode: capitest.ModePoison, Code: code.code, Subcode: code.subcode, EventID: poison})
					ids := r.leads(t, 50)
					time.Sleep(2 * time.Minute)
					good := append(append([]string(nil), ids[:place]...), ids[place+1:]...)
					r.heldOnce(t, datasetA, good)
					book := r.book(t)
					require.EqualValues(t, 49, book.Total(ledger.Sent))
					require.EqualValues(t, 1, book.By[ledger.Failed][ledger.Refused])
					require.Less(t, r.requests(), 30)
					require.Empty(t, r.openFindings(t))
				})
			})
		}
	}
}

func TestALonelySuspectFailsOnlyAfterAnotherWasAccepted(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		r.graph.Fault(capitest.Fault{Mode: capitest.ModePoison, Code: 100, EventID: "e1"})
		r.leads(t, 1)
		time.Sleep(3 * time.Hour)
		require.EqualValues(t, 1, r.book(t).By[ledger.Held][ledger.UnclearRefusal])
		good := r.leads(t, 1)
		time.Sleep(20 * time.Minute)
		r.heldOnce(t, datasetA, good)
		require.EqualValues(t, 1, r.book(t).By[ledger.Failed][ledger.Refused])
	})
}

func TestAnInvalidEventAloneFailsAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		r.graph.Fault(capitest.Fault{Mode: capitest.ModePoison, Code: 100, Subcode: 2804036, EventID: "e1"})
		r.leads(t, 1)
		time.Sleep(time.Second)
		require.EqualValues(t, 1, r.book(t).By[ledger.Failed][ledger.Refused])
		require.Equal(t, 1, r.requests())
		list, err := r.store.Latest(t.Context(), r.ws.ID, 1)
		require.NoError(t, err)
		require.Equal(t, 2804036, list[0].Deliveries[0].Answer.Subcode)
		require.NotEmpty(t, list[0].Deliveries[0].Answer.Message, "Meta's own words are kept")
	})
}

func TestFewerCountedThanSent(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		r.graph.Fault(capitest.Fault{Mode: capitest.ModePartial, Received: 2, Count: 1})
		ids := r.leads(t, 5)
		time.Sleep(10 * time.Second)
		r.heldOnce(t, datasetA, ids)
		require.EqualValues(t, 5, r.book(t).Total(ledger.Sent))
		findings := r.openFindings(t)
		require.Len(t, findings, 1)
		require.Equal(t, ledger.FindingShortCount, findings[0].Kind)
	})
}

// Graph is out of order for 26 hours: tries keep coming at growing distance, and
// nothing is given up before its deadline.
func TestALongOutage(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		r.graph.Fault(capitest.Fault{Mode: capitest.ModeError, Code: 500})
		ids := r.leads(t, 10)
		time.Sleep(26 * time.Hour)
		tries := r.requests()
		require.Greater(t, tries, 26)
		require.Less(t, tries, 60)
		require.EqualValues(t, 10, r.book(t).Total(ledger.Waiting))
		r.graph.ClearFaults()
		time.Sleep(61 * time.Minute)
		r.heldOnce(t, datasetA, ids)
	})
}

func TestWhatPassedTheDeadlineSaysSo(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		r.graph.Fault(capitest.Fault{Mode: capitest.ModeError, Code: 190, Dataset: datasetA})
		r.events(t, datasetA, 2, func(i int, e *capi.Event) {
			if i == 0 {
				e.EventTime -= 3 * 24 * 3600
			}
		})
		time.Sleep(4 * 24 * time.Hour)
		book := r.book(t)
		require.EqualValues(t, 1, book.By[ledger.Failed][ledger.Expired])
		require.EqualValues(t, 1, book.Total(ledger.Held))
		r.graph.ClearFaults()
		time.Sleep(16 * time.Minute)
		book = r.book(t)
		require.EqualValues(t, 1, book.Total(ledger.Sent))
		require.Len(t, r.graph.Kept(datasetA), 1, "the late one never left")
	})
}

// Meta forgets event ids after 48 hours: an event whose answer was lost for 47 hours
// is not sent again without a person's word.
func TestInDoubtForTooLong(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		r.graph.Fault(capitest.Fault{Mode: capitest.ModeReset, Count: 1})
		r.graph.Fault(capitest.Fault{Mode: capitest.ModeError, Code: 500})
		ids := r.leads(t, 3)
		time.Sleep(46 * time.Hour)
		require.EqualValues(t, 3, r.book(t).Total(ledger.Waiting))
		time.Sleep(2 * time.Hour)
		require.EqualValues(t, 3, r.book(t).By[ledger.Held][ledger.MaybeSent])
		r.graph.ClearFaults()
		time.Sleep(3 * time.Hour)
		for _, id := range ids {
			require.Equal(t, 1, r.graph.Times(datasetA, "Lead", id))
		}
		n, err := r.store.Decide(t.Context(), store.RetryQuery{Workspace: r.ws.ID, Now: time.Now()}, false)
		require.NoError(t, err)
		require.Equal(t, 3, n)
		require.EqualValues(t, 3, r.book(t).By[ledger.Skipped][ledger.Dropped])
	})
}

func TestAPurchaseOvertakesLeads(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		r.graph.Fault(capitest.Fault{Mode: capitest.ModeError, Code: 500, Count: 1})
		r.leads(t, 2000)
		time.Sleep(time.Second)
		r.events(t, datasetA, 1, func(_ int, e *capi.Event) {
			e.EventName, e.CustomData = "Purchase", &capi.CustomData{Value: "10", Currency: "KZT"}
		})
		time.Sleep(5 * time.Second)
		require.Equal(t, "Purchase", r.graph.Kept(datasetA)[0].EventName)
	})
}

// A request hangs while the process stops: it stops within seconds, and what hung is
// sent again under the same id after the next start.
func TestStoppingDuringAHangingRequest(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		r.graph.Fault(capitest.Fault{Mode: capitest.ModeHang, Count: 1})
		ids := r.leads(t, 3)
		time.Sleep(time.Second)
		began := time.Now()
		r.stop()
		require.Less(t, time.Since(began), 10*time.Second)
		r.start(t)
		time.Sleep(time.Minute)
		r.heldOnce(t, datasetA, ids)
		require.EqualValues(t, 3, r.book(t).Total(ledger.Sent))
	})
}

func TestHoldsAndBackOffSurviveARestart(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, r *rig) {
		r.graph.Fault(capitest.Fault{Mode: capitest.ModeError, Code: 190})
		r.leads(t, 3)
		time.Sleep(time.Hour)
		r.stop()
		before := r.requests()
		r.start(t)
		time.Sleep(time.Minute)
		require.EqualValues(t, 3, r.book(t).By[ledger.Held][ledger.TokenInvalid])
		require.LessOrEqual(t, r.requests(), before+1)
	})
}
