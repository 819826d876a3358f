package web

import (
	"embed"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// All sentences of the pages stand in one file per language; another language is one
// file more.
//
//go:embed messages/*.json
var messageFiles embed.FS

// words is one language.
type words map[string]string

func loadWords(language string) (words, error) {
	b, err := messageFiles.ReadFile("messages/" + language + ".json")
	if err != nil {
		return nil, fmt.Errorf("read the messages: %w", err)
	}
	var w words
	if err := json.Unmarshal(b, &w); err != nil {
		return nil, fmt.Errorf("read the messages of %s: %w", language, err)
	}
	return w, nil
}

// say returns a message with {0}, {1} … replaced. A message that is missing shows as
// its own name, which a test looks for.
func (w words) say(key string, args ...any) string {
	text, ok := w[key]
	if !ok {
		return "«" + key + "»"
	}
	if len(args) == 0 {
		return text
	}
	pairs := make([]string, 0, 2*len(args))
	for i, a := range args {
		pairs = append(pairs, "{"+strconv.Itoa(i)+"}", w.text(a))
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// count is say for a message with a number, which has the forms .one and .other.
func (w words) count(key string, n int64, args ...any) string {
	form := ".other"
	if n == 1 {
		form = ".one"
	}
	return w.say(key+form, append([]any{n}, args...)...)
}

// or returns the message, or what stands in for it: texts that other packages have,
// which a language may say in its own way.
func (w words) or(key, otherwise string) string {
	if text, ok := w[key]; ok {
		return text
	}
	return otherwise
}

func (w words) text(a any) string {
	switch a := a.(type) {
	case int64:
		return w.number(a)
	case int:
		return w.number(int64(a))
	case time.Time:
		return a.UTC().Format(w["time.long"])
	case *time.Time:
		return a.UTC().Format(w["time.long"])
	default:
		return fmt.Sprint(a)
	}
}

// number writes n with its thousands apart.
func (w words) number(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "−", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + w["number.group"] + digits[i:]
	}
	return sign + digits
}
