package watch

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// office is when people fill in forms: by day more than by night, on weekends little.
func office(at time.Time) float64 {
	share := []float64{0, 0, 0, 0, 0, 0, 1, 2, 5, 9, 11, 11, 9, 9, 10, 10, 8, 6, 4, 3, 2, 1, 1, 0}[at.Hour()] / 102
	if at.Weekday() == time.Saturday || at.Weekday() == time.Sunday {
		return share * 0.3 * 7 / 5.6
	}
	return share * 7 / 5.6
}

// simulate runs a source for some weeks that learn and some that are judged. Every day
// has its own luck; after stop nothing comes any more. It returns when an alarm began.
func simulate(r *rand.Rand, perDay float64, judged int, stop time.Time) (alarms []time.Time) {
	start := time.Date(2026, 8, 3, 0, 0, 0, 0, time.UTC)
	end := start.AddDate(0, 0, learnDays+judged)
	var hours []hourly
	luck, alarm := 1.0, false
	var usual pace
	var last time.Time
	learned, enough := false, false
	for at := start; at.Before(end); at = at.Add(time.Hour) {
		if at.Hour() == 0 {
			luck = math.Exp(0.25*r.NormFloat64() - 0.03)
		}
		n := poisson(r, perDay*office(at)*luck)
		if !stop.IsZero() && !at.Before(stop) {
			n = 0
		}
		if n > 0 {
			hours = append(hours, hourly{at.Unix() / 3600, int64(n)})
			alarm, learned = false, false
		}
		now := at.Add(time.Hour)
		if now.Sub(start) < learnDays*day || alarm || n > 0 {
			continue
		}
		if !learned {
			usual, last, enough = learn(hours, time.UTC)
			learned = true
		}
		if !enough {
			continue
		}
		if _, alarm = usual.silent(last, now); alarm {
			alarms = append(alarms, now)
		}
	}
	return alarms
}

func poisson(r *rand.Rand, mean float64) int {
	n, limit, product := 0, math.Exp(-mean), r.Float64()
	for product > limit {
		n++
		product *= r.Float64()
	}
	return n
}

// working counts the hours of working days between two times, as a person would: nine to
// six, Monday to Friday.
func working(from, to time.Time) (hours float64) {
	for at := from; at.Before(to); at = at.Add(time.Hour) {
		if d := at.Weekday(); d != time.Saturday && d != time.Sunday && at.Hour() >= 9 && at.Hour() < 18 {
			hours++
		}
	}
	return hours
}

// TestTheSilenceSimulation prints the figures of docs/operations.md:
//
//	go test ./internal/watch -run Simulation -v
func TestTheSilenceSimulation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		perDay  float64
		falsely float64 // alarms a quarter at most
		hours   float64 // of work until nine of ten stops are found
	}{{5, 1, 18}, {100, 1, 3}, {20, 1, 9}} {
		r := rand.New(rand.NewPCG(1, uint64(c.perDay)))
		const sources, quarter = 20, 91
		falsely := 0
		for range sources {
			falsely += len(simulate(r, c.perDay, quarter, time.Time{}))
		}
		var found []float64
		for n := range 2 * sources {
			// On a working day, at any hour of it.
			stop := time.Date(2026, 9, 7+n%5, 9+n%9, 0, 0, 0, time.UTC)
			alarms := simulate(r, c.perDay, 28, stop)
			alarms = slices.DeleteFunc(alarms, func(at time.Time) bool { return at.Before(stop) })
			require.NotEmpty(t, alarms, "%g a day: a stop was not found in four weeks", c.perDay)
			found = append(found, working(stop, alarms[0]))
		}
		slices.Sort(found)
		half, most := found[len(found)/2], found[len(found)*9/10]
		t.Logf("%3g a day: %.2f false alarms a quarter; a stop is found after %.0f working hours (half), %.0f (nine of ten)", c.perDay, float64(falsely)/sources, half, most)
		require.LessOrEqual(t, float64(falsely)/sources, c.falsely)
		require.LessOrEqual(t, most, c.hours)
	}
}
