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
	maxWords = 500
	maxWait  = 24 * time.Hour
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
		list = []string{cutText(string(body), 200)}
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
// or an international phone number.
func Scrub(text string, hide []string) string {
	for _, h := range hide {
		text = replaceWord(text, h)
	}
	text = addressPattern.ReplaceAllString(text, "***")
	text = numberPattern.ReplaceAllString(text, "***")
	text = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	return cutText(text, maxWords)
}

func cutText(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + "…"
}

// replaceWord hides one value, in any case, where it is not a part of a longer word:
// a first name must not eat the middle of "properties".
func replaceWord(text, hide string) string {
	pattern, err := regexp.Compile(`(?i)` + regexp.QuoteMeta(hide))
	if err != nil || hide == "" {
		return text
	}
	var b strings.Builder
	at := 0
	for _, m := range pattern.FindAllStringIndex(text, -1) {
		before, _ := utf8.DecodeLastRuneInString(text[:m[0]])
		after, _ := utf8.DecodeRuneInString(text[m[1]:])
		if len(hide) < 6 && (unicode.IsLetter(before) || unicode.IsDigit(before) || unicode.IsLetter(after) || unicode.IsDigit(after)) {
			continue
		}
		b.WriteString(text[at:m[0]])
		b.WriteString("***")
		at = m[1]
	}
	b.WriteString(text[at:])
	return b.String()
}

// Private lists what no message may hold: the contact and the answers of the lead (it may
// be nil), and the settings of the account that can be credentials. Longest first.
func Private(a Account, l *ledger.Lead) []string {
	var list []string
	add := func(least int, values ...string) {
		for _, v := range values {
			if v = strings.TrimSpace(v); len(v) >= least {
				list = append(list, v, url.QueryEscape(v), url.PathEscape(v))
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
		add(2, strings.Fields(c.FullName+" "+c.FirstName+" "+c.LastName)...)
		for _, phone := range []string{c.Phone, c.WorkPhone} {
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
	slices.SortFunc(list, func(x, y string) int { return len(y) - len(x) })
	return slices.Compact(list)
}

func digits(s string) string {
	return strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, s)
}
