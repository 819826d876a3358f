package crm

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/capiloop/capiloop/internal/ledger"
)

const (
	maxWords   = 500
	maxAhead   = 256  // how far Scrub looks beyond maxWords: three times enough, for a letter of another case can have three bytes
	maxValue   = 2048 // what is listed of a private value: more than Scrub ever looks at
	enough     = 64   // so much of a long value gives it away
	wordLength = 6    // a shorter value is hidden only as a word of its own
	maxWait    = 24 * time.Hour
)

// Repair is the next step for a custom field that is missing.
const Repair = "run capiloop doctor --repair, or create it by hand"

// Classify turns what a call gave into an outcome by the rules that hold for most CRMs; a
// CRM looks at its own exceptions first. hide is what may not be in the message: Private
// lists it.
func Classify(r Reply, err error, hide []string) ledger.Outcome {
	if err != nil {
		return classifyError(err, hide)
	}
	a := AnswerOf(r, hide)
	switch s := r.Status; {
	case s >= 200 && s < 300:
		return ledger.Accepted{Answer: a}
	case s >= 300 && s < 400:
		a.Message = "the address answers with a redirect, which is not followed; set the address that it leads to"
		return ledger.Hold{Answer: a, Reason: ledger.AddressGone}
	case s == http.StatusUnauthorized:
		return ledger.Hold{Answer: a, Reason: ledger.TokenInvalid}
	case s == http.StatusForbidden || s == http.StatusPaymentRequired:
		return ledger.Hold{Answer: a, Reason: ledger.PermissionMissing}
	case s == http.StatusNotFound || s == http.StatusGone || s == http.StatusMethodNotAllowed:
		return ledger.Hold{Answer: a, Reason: ledger.AddressGone}
	case s == http.StatusTooManyRequests:
		return ledger.RetryAt{Answer: a, Reason: ledger.Throttled, Wait: RetryAfter(r)}
	case s == http.StatusRequestTimeout || s == http.StatusTooEarly || s == http.StatusLocked || s >= 500:
		return ledger.RetryAt{Answer: a, Reason: ledger.Backlog, Wait: RetryAfter(r)}
	default:
		return ledger.Refusal{Answer: a}
	}
}

func classifyError(err error, hide []string) ledger.Outcome {
	a := ledger.Answer{Message: Scrub(err.Error(), hide)}
	e, ok := errors.AsType[*CallError](err)
	if !ok {
		return ledger.RetryAt{Answer: a, Reason: ledger.Backlog}
	}
	switch e.Stage {
	case Cut:
		return ledger.Lost{Answer: a}
	case Forbidden:
		return ledger.Hold{Answer: a, Reason: ledger.AddressGone}
	case NoAccess:
		a.Status = e.became.Status
		if s := a.Status; s == 400 || s == 401 || s == 403 || s == 404 {
			return ledger.Hold{Answer: a, Reason: ledger.TokenInvalid}
		}
		return ledger.RetryAt{Answer: a, Reason: ledger.Backlog, Wait: RetryAfter(e.became)}
	default:
		return ledger.RetryAt{Answer: a, Reason: ledger.Backlog}
	}
}

// AnswerOf returns the answer with the CRM's own words, without what hide lists.
func AnswerOf(r Reply, hide []string) ledger.Answer {
	words, trace := Words(r)
	return ledger.Answer{Status: r.Status, TraceID: Scrub(trace, hide), Message: Scrub(words, hide)}
}

// RetryAfter reads the header of that name: seconds or a date; 0: it does not say.
func RetryAfter(r Reply) time.Duration {
	text := strings.TrimSpace(r.Header.Get("Retry-After"))
	var wait time.Duration
	if n, err := strconv.ParseFloat(text, 64); err == nil && n > 0 && n < 1e6 {
		wait = time.Duration(n * float64(time.Second))
	} else if at, err := http.ParseTime(text); err == nil {
		wait = time.Until(at)
	}
	return min(max(wait, 0), maxWait)
}

// Words picks what a CRM says went wrong, and its name for the request, out of the
// usual shapes; a page of HTML is not repeated.
func Words(r Reply) (words, trace string) {
	body := bytes.TrimSpace(r.Body)
	var list []string
	var value any
	switch {
	case len(body) == 0:
	case json.Unmarshal(body, &value) == nil:
		if object, ok := value.(map[string]any); ok {
			for _, name := range []string{"correlationId", "traceId", "request_id"} {
				if text, ok := object[name].(string); ok && trace == "" {
					trace = text
				}
			}
		}
		if r.Status < 200 || r.Status >= 300 {
			list = collect(nil, value, 0)
		}
	case body[0] == '<':
		list = []string{"the answer was a page of HTML"}
	case r.Status < 200 || r.Status >= 300:
		list = []string{string(body[:min(len(body), maxWords+maxAhead+utf8.UTFMax)])} // Scrub cuts it
	}
	if len(list) == 0 && (r.Status < 200 || r.Status >= 300) {
		list = []string{strings.ToLower(http.StatusText(r.Status))}
	}
	return strings.Join(list, "; "), trace
}

// collect gathers the texts under the keys that error shapes use.
func collect(list []string, value any, depth int) []string {
	if depth > 4 || len(list) >= 8 {
		return list
	}
	switch v := value.(type) {
	case string:
		if v = strings.TrimSpace(v); v != "" && !slices.Contains(list, v) {
			list = append(list, v)
		}
	case []any:
		for _, item := range v {
			list = collect(list, item, depth+1)
		}
	case map[string]any:
		for _, key := range []string{"message", "error", "error_description", "error_info", "title", "detail", "code", "errors", "validation-errors", "path"} {
			list = collect(list, v[key], depth+1)
		}
	}
	return list
}

var (
	addressPattern = regexp.MustCompile(`[^\s@"'<>(),;:=\[\]]+(?:@|%40)[^\s@"'<>(),;:=\[\]]+`)
	numberPattern  = regexp.MustCompile(`\+\d[\d ().-]{5,}\d`)
)

// Scrub takes out of a message what hide lists, and whatever looks like an e-mail address
// or an international phone number. What it costs does not depend on how long the values
// of hide are. The text is looked through a little further than it is kept, so that a
// value at the cut is known.
func Scrub(text string, hide []string) string {
	if text == "" {
		return ""
	}
	text, cut := strings.CutSuffix(text, "…")
	whole := len(text)
	text = firstBytes(text, maxWords+maxAhead)
	keep := len(firstBytes(text, maxWords))
	ends := findAll(text, hide, cut && len(text) == whole)
	for _, pattern := range []*regexp.Regexp{addressPattern, numberPattern} {
		for _, m := range pattern.FindAllStringIndex(text, -1) {
			ends[m[0]] = max(ends[m[0]], m[1])
		}
	}
	var b strings.Builder
	at := 0
	for from := 0; from < keep; from++ {
		to := ends[from]
		if to == 0 {
			continue
		}
		b.WriteString(text[at:from])
		b.WriteString("***")
		for at = from; at < to; at++ { // with what overlaps
			to = max(to, ends[at])
		}
		from = at - 1
	}
	b.WriteString(text[at:max(at, keep)])
	if max(at, keep) < whole {
		cut = true
	}
	shown := strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(b.String(), ""))
	if cut && len(shown) <= maxWords {
		return shown + "…"
	}
	return cutText(shown, maxWords)
}

// findAll returns, for each place of the text, the end of the longest value that begins
// there, or 0. Case makes no difference; a short value counts only where
// it is not a part of a longer word: a first name must not eat the middle of "properties".
// Of a long value its beginning is enough, and at the end of a text that was cut, a few
// letters of it.
func findAll(text string, values []string, cut bool) []int {
	places := map[rune][]int{}
	for i, r := range text {
		places[fold(r)] = append(places[fold(r)], i)
	}
	ends := make([]int, len(text))
	for _, value := range values {
		first, _ := utf8.DecodeRuneInString(value)
		for _, from := range places[fold(first)] {
			of, n := common(value, text[from:])
			to := from + n
			if of < len(value) && of < enough && (!cut || to < len(text) || of < wordLength) {
				continue
			}
			before, _ := utf8.DecodeLastRuneInString(text[:from])
			after, _ := utf8.DecodeRuneInString(text[to:])
			if len(value) >= wordLength || !inWord(before) && !inWord(after) {
				ends[from] = max(ends[from], to)
			}
		}
	}
	return ends
}

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// common returns how many bytes of the value, and of the text, agree but for case.
func common(value, text string) (ofValue, ofText int) {
	for ofValue < len(value) && ofText < len(text) {
		if v := value[ofValue]; v == text[ofText] && v < utf8.RuneSelf { // most often
			ofValue, ofText = ofValue+1, ofText+1
			continue
		}
		v, nv := utf8.DecodeRuneInString(value[ofValue:])
		t, nt := utf8.DecodeRuneInString(text[ofText:])
		if v != t && fold(v) != fold(t) {
			break
		}
		ofValue, ofText = ofValue+nv, ofText+nt
	}
	return ofValue, ofText
}

// fold returns the least of the runes that differ only in case.
func fold(r rune) rune {
	if r < utf8.RuneSelf {
		if 'a' <= r && r <= 'z' {
			r -= 'a' - 'A'
		}
		return r
	}
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	return least
}

// firstBytes cuts a text between two runes.
func firstBytes(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

func cutText(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return firstBytes(text, limit) + "…"
}

// Private lists what no message may hold: the contact and the answers of the lead (it may
// be nil), and the settings of the account that can be credentials. A long value is
// listed by its beginning, which is all that Scrub needs.
func Private(a Account, l *ledger.Lead) []string {
	var list []string
	add := func(least int, values ...string) {
		for _, v := range values {
			if v = firstBytes(strings.TrimSpace(v), maxValue); len(v) < least {
				continue
			}
			list = append(list, v)
			for _, escaped := range []string{url.QueryEscape(v), url.PathEscape(v)} {
				if escaped != v {
					list = append(list, escaped)
				}
			}
		}
	}
	for _, name := range a.Options.Names() {
		add(12, a.Options.Secret(name).Reveal())
	}
	for _, v := range a.Options.Map("headers") {
		add(4, v)
	}
	if l != nil {
		c := l.Contact
		add(2, c.FullName, c.FirstName, c.LastName, c.Email, c.Phone, c.WorkEmail, c.WorkPhone, c.Street, c.City, c.Postcode, c.Birthday, c.Company)
		for _, name := range []string{c.FullName, c.FirstName, c.LastName} {
			add(2, strings.Fields(firstBytes(name, maxValue))...)
		}
		for _, phone := range []string{c.Phone, c.WorkPhone} {
			phone = firstBytes(phone, maxValue)
			number := Phone(a, l, phone)
			add(5, number, digits(phone))
			for from := 0; from < len(digits(number)) && from <= 3; from++ { // with the country's code, and without
				add(7, digits(number)[from:])
			}
		}
		for _, answer := range l.Answers {
			add(2, answer.Values...)
		}
		add(4, c.JobTitle, l.IP, l.UserAgent)
	}
	return list
}

func digits(s string) string {
	return strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, s)
}
