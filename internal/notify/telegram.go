package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
)

// telegramText is how many characters Telegram takes, less a reserve for the last
// line: it counts in UTF-16.
const telegramText = 4000

// TelegramConfig says which bot writes to which chat.
type TelegramConfig struct {
	URL       string // base of the Bot API; "" is Telegram's
	Token     secret.Secret
	ChatID    string
	Transport http.RoundTripper // nil: the default
}

// Telegram is a bot that writes to one chat. Its token is part of each address.
type Telegram struct {
	config TelegramConfig
	client *http.Client
}

// NewTelegram returns the channel.
func NewTelegram(c TelegramConfig) *Telegram {
	c.URL = strings.TrimSuffix(cmp.Or(c.URL, "https://api.telegram.org"), "/")
	return &Telegram{config: c, client: client(c.Transport)}
}

// Send writes the message into the chat.
func (t *Telegram) Send(ctx context.Context, m Message) ledger.Outcome {
	r, lost := post(ctx, t.client, t.address("sendMessage"), t.body(m))
	if lost != nil {
		return t.clean(lost)
	}
	return t.outcome(r, m)
}

// Check asks for the chat.
func (t *Telegram) Check(ctx context.Context) ledger.Outcome {
	r, lost := post(ctx, t.client, t.address("getChat"), encode(map[string]any{"chat_id": t.config.ChatID}))
	if lost != nil {
		return t.clean(lost)
	}
	return t.outcome(r, Message{})
}

// Preview shows the request without the token.
func (t *Telegram) Preview(m Message) Request {
	return Request{Method: http.MethodPost, URL: t.config.URL + "/bot***/sendMessage", Body: t.body(m)}
}

func (t *Telegram) address(method string) string {
	return t.config.URL + "/bot" + t.config.Token.Reveal() + "/" + method
}

// clean takes the token out of an error of the transport.
func (t *Telegram) clean(o ledger.Outcome) ledger.Outcome {
	a := ledger.AnswerOf(o)
	a.Message = scrub(a.Message, Message{}, t.config.Token.Reveal())
	return ledger.WithAnswer(o, a)
}

func (t *Telegram) outcome(r reply, m Message) ledger.Outcome {
	var said struct {
		OK          bool   `json:"ok"`
		Code        int    `json:"error_code"`
		Description string `json:"description"`
		Parameters  struct {
			RetryAfter int   `json:"retry_after"`
			MigrateTo  int64 `json:"migrate_to_chat_id"`
		} `json:"parameters"`
	}
	a := ledger.Answer{Status: r.status}
	if json.Unmarshal(r.body, &said) != nil {
		a.Message = "what answered is not Telegram's Bot API"
		if r.status == http.StatusNotFound {
			return ledger.Hold{Answer: a, Reason: ledger.TokenInvalid}
		}
		return ledger.RetryAt{Answer: a, Reason: ledger.Backlog}
	}
	a.Message, a.Code = scrub(said.Description, m, t.config.Token.Reveal()), said.Code
	low := strings.ToLower(said.Description)
	switch {
	case said.OK && r.status < 300:
		return ledger.Accepted{Answer: a}
	case r.status == http.StatusTooManyRequests:
		return ledger.RetryAt{Answer: a, Reason: ledger.Throttled, Wait: seconds(said.Parameters.RetryAfter)}
	case r.status >= 500 || r.status < 300:
		return ledger.RetryAt{Answer: a, Reason: ledger.Backlog}
	case said.Parameters.MigrateTo != 0:
		a.Message += "; its new chat_id is " + strconv.FormatInt(said.Parameters.MigrateTo, 10)
		return ledger.Hold{Answer: a, Reason: ledger.PermissionMissing}
	case r.status == http.StatusUnauthorized || r.status == http.StatusNotFound:
		return ledger.Hold{Answer: a, Reason: ledger.TokenInvalid}
	case r.status == http.StatusForbidden, strings.Contains(low, "chat not found"), strings.Contains(low, "chat_id"),
		strings.Contains(low, "not enough rights"), strings.Contains(low, "chat_write_forbidden"), strings.Contains(low, "deactivated"):
		return ledger.Hold{Answer: a, Reason: ledger.PermissionMissing}
	}
	return ledger.Refusal{Answer: a}
}

// body writes the message in Telegram's HTML. Telegram makes phones and addresses
// clickable by itself and knows no tel: links.
func (t *Telegram) body(m Message) []byte {
	subject := line(m.Subject, 250)
	buttons := telegramButtons(m.Answers)
	left := telegramText - utf16(subject) - utf16(m.Ask)
	for _, a := range m.Answers {
		if buttons == nil {
			left -= utf16(a.Label) + utf16(a.URL) + 3
		}
	}
	var b strings.Builder
	b.WriteString("<b>" + html(subject) + "</b>\n")
	if m.Text != "" {
		text := cut(m.Text, 2000)
		left -= utf16(text)
		b.WriteString(html(text) + "\n")
	}
	for i, f := range m.Fields {
		value := cut(f.Value, 1000)
		if left -= utf16(f.Label) + utf16(value) + 3; left < 0 {
			b.WriteString("… and " + strconv.Itoa(len(m.Fields)-i) + " more\n")
			break
		}
		text := html(value)
		if strings.HasPrefix(f.Link, "https:") {
			text = `<a href="` + html(f.Link) + `">` + text + "</a>"
		}
		b.WriteString("<b>" + html(f.Label) + ":</b> " + text + "\n")
	}
	body := map[string]any{
		"chat_id": t.config.ChatID, "parse_mode": "HTML", "link_preview_options": map[string]bool{"is_disabled": true},
	}
	if len(m.Answers) > 0 {
		b.WriteString("<b>" + html(m.Ask) + "</b>\n")
	}
	if buttons != nil {
		body["reply_markup"] = map[string]any{"inline_keyboard": [][]map[string]string{buttons}}
	} else {
		for _, a := range m.Answers {
			b.WriteString(html(a.Label) + ": " + html(a.URL) + "\n")
		}
	}
	body["text"] = strings.TrimSuffix(b.String(), "\n")
	return encode(body)
}

// telegramButtons puts answers under the message. Telegram refuses the whole message if
// it does not like a button's address, such as one of this machine: then there are none.
func telegramButtons(list []Link) []map[string]string {
	var buttons []map[string]string
	for _, a := range list {
		u, err := url.Parse(a.URL)
		if err != nil || u.Scheme != "https" || !strings.Contains(u.Hostname(), ".") || u.Port() != "" {
			return nil
		}
		buttons = append(buttons, map[string]string{"text": a.Label, "url": a.URL})
	}
	return buttons
}

// html escapes as Telegram's HTML and that of mails want it.
func html(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(text)
}

// utf16 returns at least how many units of UTF-16 the text takes.
func utf16(text string) int { return 2*utf8.RuneCountInString(text) - ascii(text) }

func ascii(text string) (n int) {
	for _, r := range text {
		if r < utf8.RuneSelf {
			n++
		}
	}
	return n
}
