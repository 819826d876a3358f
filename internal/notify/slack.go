package notify

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
)

// slackText is how many characters of text a message may have; Slack cuts at 40,000.
const slackText = 12000

// SlackConfig says where a Slack incoming webhook is.
type SlackConfig struct {
	URL       secret.Secret     // of the webhook; it is the credential
	Transport http.RoundTripper // nil: the default
}

// Slack is an incoming webhook of Slack, or of a program that takes the same.
type Slack struct {
	url    secret.Secret
	client *http.Client
}

// NewSlack returns the channel.
func NewSlack(c SlackConfig) *Slack { return &Slack{url: c.URL, client: client(c.Transport)} }

// Send posts the message.
func (s *Slack) Send(ctx context.Context, m Message) ledger.Outcome {
	r, lost := post(ctx, s.client, s.url.Reveal(), slackBody(m))
	if lost != nil {
		return lost
	}
	return s.outcome(r, m)
}

// Check posts nothing: a webhook that lives answers that there is no text.
func (s *Slack) Check(ctx context.Context) ledger.Outcome {
	r, lost := post(ctx, s.client, s.url.Reveal(), []byte(`{}`))
	if lost != nil {
		return lost
	}
	word := strings.TrimSpace(string(r.body))
	if r.status == http.StatusBadRequest && slices.Contains([]string{"no_text", "missing_text_or_fallback_or_attachments", "invalid_payload"}, word) {
		return ledger.Accepted{Answer: ledger.Answer{Status: r.status, Message: "the webhook lives"}}
	}
	return s.outcome(r, Message{})
}

// Preview shows the request; the webhook's path is its credential.
func (s *Slack) Preview(m Message) Request {
	return Request{Method: http.MethodPost, URL: "https://hooks.slack.com/services/***", Body: slackBody(m)}
}

func (s *Slack) outcome(r reply, m Message) ledger.Outcome {
	a := ledger.Answer{Status: r.status, Message: scrub(string(r.body), m, s.url.Reveal())}
	if r.page() {
		a.Message = "a page for people came instead of Slack's answer"
	}
	switch {
	case r.status == http.StatusTooManyRequests:
		wait, _ := strconv.Atoi(r.header.Get("Retry-After"))
		return ledger.RetryAt{Answer: a, Reason: ledger.Throttled, Wait: seconds(wait)}
	case r.status >= 500 || r.status == http.StatusRequestTimeout || r.page():
		return ledger.RetryAt{Answer: a, Reason: ledger.Backlog}
	case r.status < 300:
		return ledger.Accepted{Answer: a}
	case r.status < 400:
		a.Message = "the webhook's address redirects: put in the address itself"
		return ledger.Hold{Answer: a, Reason: ledger.TokenInvalid}
	case strings.Contains(a.Message, "channel") || strings.Contains(a.Message, "prohibited") || strings.Contains(a.Message, "user_not_found"):
		return ledger.Hold{Answer: a, Reason: ledger.PermissionMissing}
	case r.status == http.StatusUnauthorized || r.status == http.StatusForbidden || r.status == http.StatusNotFound || r.status == http.StatusGone:
		return ledger.Hold{Answer: a, Reason: ledger.TokenInvalid}
	}
	return ledger.Refusal{Answer: a}
}

// slackBody writes the message in mrkdwn. With &, < and > escaped no text can mention
// a channel or hide a link.
func slackBody(m Message) []byte {
	var b strings.Builder
	b.WriteString("*" + slackEscape(line(m.Subject, 150)) + "*\n")
	if m.Text != "" {
		b.WriteString(slackEscape(m.Text) + "\n")
	}
	for i, f := range m.Fields {
		text := "*" + slackEscape(f.Label) + ":* "
		value := slackEscape(f.Value)
		if f.Link != "" && !strings.ContainsAny(f.Link+f.Value, "|<>\n") {
			value = "<" + slackEscape(f.Link) + "|" + value + ">"
		}
		if b.Len()+len(text)+len(value) > slackText {
			b.WriteString("… and " + strconv.Itoa(len(m.Fields)-i) + " more\n")
			break
		}
		b.WriteString(text + value + "\n")
	}
	// Links in the text: a button of Slack's blocks would ask the webhook's app, too, which
	// does not listen, and programs that take Slack's messages do not know them.
	if len(m.Answers) > 0 {
		list := make([]string, len(m.Answers))
		for i, a := range m.Answers {
			list[i] = "<" + slackEscape(a.URL) + "|" + slackEscape(a.Label) + ">"
		}
		b.WriteString("*" + slackEscape(m.Ask) + "* " + strings.Join(list, " · ") + "\n")
	}
	return encode(map[string]any{"text": strings.TrimSuffix(b.String(), "\n"), "unfurl_links": false})
}

func slackEscape(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
}
