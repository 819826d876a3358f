package capi

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// birthDate is the rule of db: YYYYMMDD, 1900 to today (page "Customer information
// parameters"). Day and month that could both be the month are read in the order of
// the locale, month first without one as in Meta's builder; the other reading is an
// alternate. The date is taken as written, never moved to another time zone.
func (f *facts) birthDate(raw string) (Normalised, string) {
	if isPlaceholder(raw) {
		return Normalised{}, ProblemPlaceholder
	}
	s := raw
	if !isPrintASCII(raw) {
		s = plainText(raw)
	}
	var dates []string
	switch {
	case isDigits(s):
		dates = f.eightDigits(s)
	case len(s) == 10 && s[4] == '-' && s[7] == '-' && isDigits(s[:4]) && isDigits(s[5:7]) && isDigits(s[8:]):
		dates = f.dates(s[:4], s[5:7], s[8:], false) // ISO 8601: no number's place to be guessed
	default:
		numbers, month := dateParts(s)
		if month > 0 {
			dates = f.withMonthName(numbers, month)
		} else {
			dates = f.threeNumbers(numbers)
		}
	}
	if len(dates) == 0 {
		return Normalised{}, ProblemInvalidDate
	}
	n := one(dates[0])
	n.also(dates[1:]...)
	return n, ""
}

// eightDigits reads YYYYMMDD, else MMDDYYYY or DDMMYYYY.
func (f *facts) eightDigits(s string) []string {
	if len(s) != 8 {
		return nil
	}
	if dates := f.dates(s[:4], s[4:6], s[6:], false); len(dates) > 0 {
		return dates
	}
	return f.dates(s[4:], s[:2], s[2:4], true)
}

// threeNumbers finds the year: the number that is none of a day, else the last of
// two digits (the first, if the locale says so).
func (f *facts) threeNumbers(numbers []string) []string {
	if len(numbers) < 3 {
		return nil
	}
	numbers = numbers[:3]
	year := -1
	for i, n := range numbers {
		if len(n) > 2 || n > "31" && len(n) == 2 {
			if year >= 0 {
				return nil
			}
			year = i
		}
	}
	switch {
	case year < 0 && f.order == "ymd":
		year = 0
	case year < 0:
		year = 2
	}
	rest := make([]string, 0, 2)
	rest = append(rest, numbers[:year]...)
	rest = append(rest, numbers[year+1:]...)
	return f.dates(numbers[year], rest[0], rest[1], year != 0)
}

// withMonthName has the month and looks for day and year among the numbers.
func (f *facts) withMonthName(numbers []string, month int) []string {
	if len(numbers) < 2 {
		return nil
	}
	day, year := numbers[0], numbers[1]
	if len(day) > 2 || len(day) == 2 && day > "31" {
		day, year = year, day
	}
	if date := f.date(year, month, atoi(day)); date != "" {
		return []string{date}
	}
	return nil
}

// dates makes the dates that year and two numbers can mean, the likelier first. With
// the year in front the month follows, unless only the day can stand there.
func (f *facts) dates(year, first, second string, ambiguous bool) []string {
	a, b := atoi(first), atoi(second)
	monthFirst, dayFirst := f.date(year, a, b), f.date(year, b, a)
	if ambiguous && f.order == "dmy" {
		monthFirst, dayFirst = dayFirst, monthFirst
	}
	switch {
	case monthFirst == "" && dayFirst == "":
		return nil
	case monthFirst == "" && !ambiguous && a <= 12:
		return nil
	case monthFirst == "":
		return []string{dayFirst}
	case dayFirst == "" || !ambiguous:
		return []string{monthFirst}
	}
	return []string{monthFirst, dayFirst}
}

// date checks a date against the calendar and writes it as YYYYMMDD.
func (f *facts) date(year string, month, day int) string {
	y := f.fullYear(year)
	if y == 0 || month < 1 || month > 12 || day < 1 {
		return ""
	}
	today := f.today()
	if y == today.Year() && month*100+day > int(today.Month())*100+today.Day() {
		if len(year) != 2 {
			return ""
		}
		y -= 100
	}
	if day > daysIn(y, month) {
		return ""
	}
	digits := [8]byte{}
	for i, n := 7, y*10000+month*100+day; i >= 0; i, n = i-1, n/10 {
		digits[i] = byte('0' + n%10)
	}
	return string(digits[:])
}

// fullYear reads a year from 1900 to this one, 0 for anything else; of two digits it
// makes the latest year that is not in the future.
func (f *facts) fullYear(s string) int {
	y, now := atoi(s), f.today().Year()
	switch len(s) {
	case 2:
		if y += now / 100 * 100; y > now {
			y -= 100
		}
	case 4:
	default:
		return 0
	}
	if y < 1900 || y > now {
		return 0
	}
	return y
}

func daysIn(year, month int) int {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// dateParts collects the groups of digits and the month, if one of the words names it.
func dateParts(s string) (numbers []string, month int) {
	start := -1
	kind := func(r rune) int {
		switch {
		case r >= '0' && r <= '9':
			return 1
		case unicode.IsLetter(r) || unicode.IsMark(r):
			return 2
		}
		return 0
	}
	last := 0
	flush := func(end int) {
		switch word := s[max(start, 0):end]; last {
		case 1:
			numbers = append(numbers, word)
		case 2:
			if month == 0 {
				month = monthOf(word)
			}
		}
	}
	for i, r := range s {
		if k := kind(r); k != last {
			flush(i)
			start, last = i, k
		}
	}
	flush(len(s))
	return numbers, month
}

// monthOf finds the month that a word names or, with three letters, begins.
func monthOf(word string) int {
	word = foldAny(lower(word))
	if len(word) < 3 {
		return 0
	}
	for _, language := range monthNames {
		for i, name := range language {
			if strings.HasPrefix(name, word) {
				return i + 1
			}
		}
	}
	return 0
}

// monthNames are folded to a to z: English, German, French, Spanish, Portuguese,
// Italian, Dutch, Danish (also Norwegian and Swedish), Polish, Russian, Turkish.
var monthNames = func() (table [11][]string) {
	for i, names := range [...]string{
		"january february march april may june july august september october november december",
		"januar februar märz april mai juni juli august september oktober november dezember",
		"janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
		"enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
		"janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
		"gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
		"januari februari maart april mei juni juli augustus september oktober november december",
		"januari februari marts april maj juni juli augusti september oktober november december",
		"stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia",
		"января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
		"ocak şubat mart nisan mayıs haziran temmuz ağustos eylül ekim kasım aralık",
	} {
		table[i] = strings.Fields(foldAny(names))
	}
	return table
}()

// datePart is the rule of dobd and dobm, which stand on no page: two digits.
func datePart(raw string, most int) (Normalised, string) {
	s := plainText(raw)
	v := atoi(s)
	if !isDigits(s) || v < 1 || v > most {
		return Normalised{}, ProblemInvalidDate
	}
	return one(fmt.Sprintf("%02d", v)), ""
}

// birthYear is the rule of doby: four digits, 1900 to this year.
func (f *facts) birthYear(raw string) (Normalised, string) {
	s := plainText(raw)
	y := 0
	if isDigits(s) {
		y = f.fullYear(s)
	}
	if y == 0 {
		return Normalised{}, ProblemInvalidDate
	}
	return one(strconv.Itoa(y)), ""
}

// atoi reads digits that are known to be digits; what does not fit is out of every
// range of a date.
func atoi(s string) int {
	v, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return v
}
