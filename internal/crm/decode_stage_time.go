package crm

import (
	"math/big"
	"strings"
	"time"

	"github.com/capiloop/capiloop/capi"
)

const fixTime = "send 2026-11-18T14:06:37+03:00, or seconds since 1970"

// when reads the moments. One that lies ahead is no error here: recording holds it.
func (d *stageDecoder) when() {
	field := "occurred_at"
	if d.values[field] == "" {
		field = "date"
		if clock, date := d.values["time"], d.values["date"]; clock != "" {
			switch {
			case date == "":
				field = "time"
			case strings.Contains(clock, ":") && len(clock) <= 11 && !strings.Contains(date, ":"):
				d.values["date"] = date + " " + clock
			}
		}
	}
	if at, ok := d.moment(field); ok {
		d.change.At = at
	}
	if at, ok := d.moment("created_at"); ok {
		d.change.CreatedAt = at
	}
}

func (d *stageDecoder) moment(field string) (time.Time, bool) {
	text := d.values[field]
	if text == "" || isPlaceholder(text) {
		return time.Time{}, false
	}
	zone := d.zone
	if zone == nil {
		zone = time.UTC
	}
	at, zoned, code := readMoment(text, zone, d.dayFirst, d.table, d.now)
	switch {
	case code == ProblemAmbiguousDate:
		d.fail(field, code, "which number of the date is the day cannot be told", "write it as 2026-11-18 14:06, or say for the whole file whether the day or the month comes first")
	case code != "":
		d.fail(field, code, "it is not a point in time since the year 2000", fixTime)
	case !zoned && d.zone == nil:
		d.warn(field, ProblemNoZone, "the time has no zone; it was read as UTC", fixTime)
	}
	return at, code == ""
}

var (
	zonedLayouts = []string{
		time.RFC3339Nano, "2006-01-02T15:04:05.999999999Z0700", "2006-01-02T15:04Z07:00", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999 Z07:00",
		"2006-01-02 15:04:05.999999999Z0700", "2006-01-02 15:04:05.999999999 Z0700", "2006-01-02 15:04:05.999999999 UTC", time.RFC1123Z, "Mon, 2 Jan 2006 15:04:05 GMT", "Mon, 2 Jan 2006 15:04:05 -0700",
	}
	localLayouts = []string{"2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly, "2006/01/02 15:04:05", "2006/01/02 15:04", "2006/01/02"}
	clockLayouts = []string{"", " 15:04", " 15:04:05", " 3:04 PM", " 3:04:05 PM", " 3:04PM"}
)

// since is the first moment that is believed: what lies before is a number that means
// something else.
var since = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// readMoment reads a point in time. code is "" or the problem's.
func readMoment(text string, zone *time.Location, dayFirst *bool, table bool, now time.Time) (at time.Time, zoned bool, code string) {
	at, zoned, code = parseMoment(text, zone, dayFirst, table, now)
	if code == "" && (at.Before(since) || at.After(now.AddDate(100, 0, 0))) {
		code = capi.ProblemInvalidTime
	}
	if code != "" {
		return time.Time{}, zoned, code
	}
	return at.UTC(), zoned, ""
}

func parseMoment(text string, zone *time.Location, dayFirst *bool, table bool, now time.Time) (at time.Time, zoned bool, code string) {
	if at, ok := unixMoment(text, now); ok {
		return at, true, ""
	}
	for _, layout := range zonedLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t, true, ""
		}
	}
	for _, layout := range localLayouts {
		if t, err := time.ParseInLocation(layout, text, zone); err == nil {
			return t, false, ""
		}
	}
	day, month, sep := slashed(text, zone)
	switch {
	case day.IsZero() && month.IsZero():
		return time.Time{}, false, capi.ProblemInvalidTime
	case sep == '.' && !day.IsZero(): // nobody writes the month first with points
		month = time.Time{}
	case dayFirst != nil && *dayFirst:
		month = time.Time{}
	case dayFirst != nil:
		day = time.Time{}
	}
	switch {
	case !table && dayFirst == nil && sep != '.' && (day.IsZero() || month.IsZero()): // never by the single value
		return time.Time{}, false, capi.ProblemInvalidTime
	case !day.IsZero() && !month.IsZero() && !day.Equal(month):
		return time.Time{}, false, ProblemAmbiguousDate
	case day.IsZero() && month.IsZero(): // 25/11 in a file of months first
		return time.Time{}, false, capi.ProblemInvalidTime
	case day.IsZero():
		return month, false, ""
	}
	return day, false, ""
}

// slashed reads 25/11/2026 10:00 both ways; a reading that gives no date is zero.
func slashed(text string, zone *time.Location) (day, month time.Time, sep byte) {
	i := strings.IndexAny(text, "/.-")
	if i < 1 || i > 2 {
		return day, month, 0
	}
	sep = text[i]
	text = strings.ToUpper(strings.ReplaceAll(strings.ReplaceAll(text, ", ", " "), "T", " "))
	text = strings.ReplaceAll(strings.Join(strings.Fields(text), " "), string(sep), "/")
	for _, clock := range clockLayouts {
		if t, err := time.ParseInLocation("2/1/2006"+clock, text, zone); err == nil {
			day = t
		}
		if t, err := time.ParseInLocation("1/2/2006"+clock, text, zone); err == nil {
			month = t
		}
	}
	return day, month, sep
}

// unixMoment reads seconds since 1970, or milli-, micro- or nanoseconds: the largest unit
// that does not lie a century ahead.
func unixMoment(text string, now time.Time) (time.Time, bool) {
	whole, fraction, pointed := strings.Cut(text, ".")
	if !isDigits(whole) || pointed && !isDigits(fraction) || len(text) > 40 {
		return time.Time{}, false
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return time.Time{}, false
	}
	latest, thousand := new(big.Rat).SetInt64(now.AddDate(100, 0, 0).Unix()), big.NewRat(1000, 1)
	for range 3 {
		if r.Cmp(latest) <= 0 {
			break
		}
		r.Quo(r, thousand)
	}
	if r.Cmp(latest) > 0 {
		return time.Time{}, false
	}
	r.Mul(r, big.NewRat(1_000_000, 1)) // a database keeps microseconds
	return time.UnixMicro(new(big.Int).Quo(r.Num(), r.Denom()).Int64()), true
}
