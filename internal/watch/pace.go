package watch

import (
	"math"
	"time"
)

// What is learned from, and when it is enough. Below that nobody can tell silence from
// chance, and nothing is said.
const (
	learnDays    = 28 // the last four weeks
	leastDays    = 14 // since the first
	leastEvents  = 20
	rareOnce     = 500  // a silence is told of when so few come once in 500 days
	extraScatter = 0.02 // of days beyond chance that no four weeks show
)

// hourly is how many came in one hour, counted from 1970.
type hourly struct{ hour, n int64 }

// pace is how often something usually comes: by the weekday and the hour of its zone, each
// drawn towards the even where few were seen.
type pace struct {
	perDay  float64
	weekday [7]float64  // shares of a week
	hour    [24]float64 // shares of a day
	scatter float64     // of days around their expectation beyond chance: 1/shape of a gamma
	zone    *time.Location
}

// learn learns from the four weeks before the last hour in which something came: what was
// quiet since says nothing about the usual. Not ok: too little to learn from.
func learn(hours []hourly, zone *time.Location) (p pace, last time.Time, ok bool) {
	if len(hours) == 0 {
		return pace{}, time.Time{}, false
	}
	from := time.Unix(hours[len(hours)-1].hour*3600, 0).Add(-learnDays * day)
	var byWeekday [7]float64
	var byHour [24]float64
	total := 0.0
	first := time.Time{}
	daily := map[int]float64{}
	for _, h := range hours {
		at := time.Unix(h.hour*3600, 0).In(zone)
		if h.n <= 0 || at.Before(from) {
			continue
		}
		if first.IsZero() {
			first = at
		}
		n := float64(h.n)
		total += n
		byWeekday[at.Weekday()] += n
		byHour[at.Hour()] += n
		daily[dayOf(at)] += n
		last = at.Add(time.Hour)
	}
	if total < leastEvents || last.Sub(first) < leastDays*day {
		return pace{}, last, false
	}
	p = pace{zone: zone, perDay: total / (last.Sub(first).Hours() / 24)}
	for w := range byWeekday {
		p.weekday[w] = (byWeekday[w] + 1) / (total + 7)
	}
	for h := range byHour { // people keep to hours, not to the stroke of one
		smooth := byHour[(h+23)%24]/4 + byHour[h]/2 + byHour[(h+1)%24]/4
		p.hour[h] = (smooth + 0.25) / (total + 6)
	}
	p.scatter = p.scatterOf(daily, first, last) + 1/total + extraScatter
	return p, last, true
}

func dayOf(t time.Time) int { return t.Year()*1000 + t.YearDay() }

// rate is how many usually come in the hour that a time lies in.
func (p *pace) rate(at time.Time) float64 {
	at = at.In(p.zone)
	return p.perDay * 7 * p.weekday[at.Weekday()] * p.hour[at.Hour()]
}

// scatterOf is how much more the whole days vary than chance alone would have it (moments
// of the negative binomial).
func (p *pace) scatterOf(daily map[int]float64, first, last time.Time) float64 {
	above, squares := 0.0, 0.0
	for at := first; at.Before(last); at = at.AddDate(0, 0, 1) {
		want := p.perDay * 7 * p.weekday[at.In(p.zone).Weekday()]
		got := daily[dayOf(at.In(p.zone))]
		above += (got-want)*(got-want) - want
		squares += want * want
	}
	return max(0, above/squares)
}

// quiet tells how many would usually have come between two times, and how probable it is
// that none did. Each day has its own luck.
func (p *pace) quiet(from, to time.Time) (expected, probability float64) {
	logp, today, current := 0.0, 0.0, 0
	end := func() {
		logp -= math.Log1p(p.scatter*today) / p.scatter
		expected += today
		today = 0
	}
	for at := from; at.Before(to); at = at.Add(time.Hour) {
		if d := dayOf(at.In(p.zone)); d != current {
			end()
			current = d
		}
		part := min(to.Sub(at).Hours(), 1)
		today += part * p.rate(at)
	}
	end()
	return expected, math.Exp(logp)
}

// silent tells whether what is quiet since last is no chance any more. Who hears of
// something a hundred times a day has a hundred chances a day to be quiet.
func (p *pace) silent(last, now time.Time) (expected float64, silent bool) {
	expected, probability := p.quiet(last, now)
	return expected, probability < 1/(rareOnce*max(1, p.perDay))
}
