// Package notify carries texts to people: by mail, to a Slack channel, to a Telegram
// chat. A channel sends one message at a time, never tries again by itself, keeps
// nothing and logs nothing; what became of a message is one of the ledger's outcomes.
// What it says in an outcome holds no credential and nothing of the message.
//
// No channel knows a message by its id: after ledger.Lost a repeat may show it twice.
// Mail carries Message.ID as its Message-ID, by which many mailboxes drop the second.
package notify

import (
	"context"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/capiloop/capiloop/internal/ledger"
)

// timeout ends a message that nobody answers to.
const timeout = 20 * time.Second

// Message is one message. Its parts are plain text: each channel escapes them.
type Message struct {
	ID      string // a repeat carries the same; letters, digits and dashes
	Subject string // one line
	Text    string // comes before the fields; may be empty
	Fields  []Field
	Ask     string // a question, which the answers follow; one line
	Answers []Link // each a button where the channel has such
}

// Link is an answer that opens an address.
type Link struct{ Label, URL string }

// Field is one line of a message: what it is about and what it says.
type Field struct {
	Label, Value string
	Link         string // tel:, mailto: or https:, where the value can be clicked; may be empty
}

// Request is what a channel would send, without its credentials.
type Request struct {
	Method, URL string
	Body        []byte
}

// Channel is a way to people. Methods are safe for concurrent use.
type Channel interface {
	// Send sends the message: Accepted, RetryAt, Hold, Refusal or Lost.
	Send(ctx context.Context, m Message) ledger.Outcome
	// Check asks whether a message would pass, without sending one.
	Check(ctx context.Context) ledger.Outcome
	// Preview shows what Send would send.
	Preview(m Message) Request
}

// line makes a text one line without control characters, of at most n characters.
func line(text string, n int) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	return cut(text, n)
}

// cut shortens a text to n characters.
func cut(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}

// plain is the message's body as plain text.
func plain(m Message) string {
	var b strings.Builder
	if m.Text != "" {
		b.WriteString(m.Text + "\n")
		if len(m.Fields) > 0 {
			b.WriteString("\n")
		}
	}
	for _, f := range m.Fields {
		b.WriteString(f.Label + ": " + f.Value)
		if strings.HasPrefix(f.Link, "tel:") || strings.HasPrefix(f.Link, "https:") {
			b.WriteString(" <" + f.Link + ">")
		}
		b.WriteString("\n")
	}
	if len(m.Answers) > 0 {
		b.WriteString("\n" + m.Ask + "\n")
	}
	for _, a := range m.Answers {
		b.WriteString(a.Label + ": " + a.URL + "\n")
	}
	return b.String()
}

// scrub takes secrets and what the message says out of somebody else's words.
func scrub(words string, m Message, secrets ...string) string {
	hide := secrets
	for _, f := range m.Fields {
		hide = append(hide, f.Value)
	}
	for _, a := range m.Answers {
		hide = append(hide, a.URL)
	}
	hide = append(hide, m.Subject)
	for _, h := range hide {
		if utf8.RuneCountInString(h) > 3 {
			words = strings.ReplaceAll(words, h, "***")
		}
	}
	return line(words, 500)
}
