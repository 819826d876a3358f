package message_test

import (
	"bufio"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/crm/crmtest"
	"github.com/capiloop/capiloop/internal/crm/message"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/notify"
	"github.com/capiloop/capiloop/internal/secret"
)

var _ crm.CRM = (*message.CRM)(nil)

// chats is a fake of Slack's webhooks and of Telegram's Bot API: it refuses what they
// refuse and keeps what it took.
type chats struct {
	server *crmtest.Server
	texts  []string
}

func newChats(t *testing.T) *chats {
	t.Helper()
	c := &chats{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /services/T0/B0/"+crmtest.Token, func(w http.ResponseWriter, r *http.Request) {
		var m struct{ Text string }
		switch {
		case !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") || json.NewDecoder(r.Body).Decode(&m) != nil:
			http.Error(w, "invalid_payload", http.StatusBadRequest)
		case m.Text == "":
			http.Error(w, "no_text", http.StatusBadRequest)
		default:
			c.texts = append(c.texts, m.Text)
			c.server.Wrote("message", "1", m.Text)
			_, _ = w.Write([]byte("ok"))
		}
	})
	bot := func(f func(w http.ResponseWriter, m map[string]any)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			var m map[string]any
			if json.NewDecoder(r.Body).Decode(&m) != nil || m["chat_id"] != "-1001" {
				crmtest.Answer(w, 400, map[string]any{"ok": false, "error_code": 400, "description": "Bad Request: chat not found"})
				return
			}
			f(w, m)
		}
	}
	mux.HandleFunc("POST /bot"+crmtest.Token+"/sendMessage", bot(func(w http.ResponseWriter, m map[string]any) {
		text, _ := m["text"].(string)
		if text == "" || len(text) > 4096 || m["parse_mode"] != "HTML" {
			crmtest.Answer(w, 400, map[string]any{"ok": false, "error_code": 400, "description": "Bad Request: message text is empty"})
			return
		}
		c.texts = append(c.texts, text)
		c.server.Wrote("message", "1", text)
		crmtest.Answer(w, 200, map[string]any{"ok": true, "result": map[string]any{}})
	}))
	mux.HandleFunc("POST /bot"+crmtest.Token+"/getChat", bot(func(w http.ResponseWriter, _ map[string]any) {
		crmtest.Answer(w, 200, map[string]any{"ok": true, "result": map[string]any{}})
	}))
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		crmtest.Answer(w, 404, map[string]any{"ok": false, "error_code": 404, "description": "Not Found"})
	})
	c.server = crmtest.New(t, mux)
	return c
}

// kinds are the two chats with an account on the fake.
func (c *chats) kinds() map[string]struct {
	crm     *message.CRM
	account crm.Account
} {
	return map[string]struct {
		crm     *message.CRM
		account crm.Account
	}{
		"slack":    {message.NewSlack(), crmtest.Account("slack", c.server.URL+"/services/T0/B0/"+crmtest.Token)},
		"telegram": {message.NewTelegram(), crmtest.Account("telegram", c.server.URL, "chat_id", "-1001")},
	}
}

func TestALeadIsToldOnce(t *testing.T) {
	t.Parallel()
	c := newChats(t)
	for name, k := range c.kinds() {
		before := len(c.texts)
		d := k.crm.Deliver(t.Context(), k.account, crmtest.Lead(), nil)
		require.IsType(t, ledger.Accepted{}, d.Outcome, name)
		require.NotEmpty(t, d.Records, name)
		require.NotEmpty(t, d.Sent, name)
		crmtest.Quiet(t, d)
		again := k.crm.Deliver(t.Context(), k.account, crmtest.Lead(), d.Records)
		require.IsType(t, ledger.Accepted{}, again.Outcome, name)
		require.Equal(t, d.Records, again.Records, name)
		require.Len(t, c.texts, before+1, name)
		require.Contains(t, c.texts[before], "+12025550143", name)
		require.Contains(t, c.texts[before], "What are you looking for?", name)
	}
}

func TestTroubleIsClassed(t *testing.T) {
	t.Parallel()
	for fault, want := range map[crmtest.Fault]ledger.Outcome{
		crmtest.TooMany: ledger.RetryAt{}, crmtest.Broken: ledger.RetryAt{}, crmtest.HTML: ledger.RetryAt{}, crmtest.Cut: ledger.Lost{},
	} {
		c := newChats(t)
		for name, k := range c.kinds() {
			c.server.Next(1, fault, "POST /")
			d := k.crm.Deliver(t.Context(), k.account, crmtest.Lead(), nil)
			require.IsType(t, want, d.Outcome, "%s %d", name, fault)
			require.Empty(t, d.Records)
			crmtest.Quiet(t, d)
		}
	}
}

func TestWrongAccessIsHeld(t *testing.T) {
	t.Parallel()
	c := newChats(t)
	for name, k := range map[string]struct {
		crm     *message.CRM
		account crm.Account
	}{
		"hook":    {message.NewSlack(), crmtest.Account("slack", c.server.URL+"/services/T0/B0/made-up-other-hook")},
		"token":   {message.NewTelegram(), crmtest.Account("telegram", c.server.URL, "chat_id", "-1001", "token", "made-up-other-token")},
		"chat":    {message.NewTelegram(), crmtest.Account("telegram", c.server.URL, "chat_id", "-9")},
		"private": {message.NewSlack(), crmtest.Account("slack", c.server.URL+"/services/T0/B0/"+crmtest.Token, "allow_private", "false")},
		"server":  {message.NewEmail(), crmtest.Account("email", "https://mail.example.com")},
	} {
		d := k.crm.Deliver(t.Context(), k.account, crmtest.Lead(), nil)
		require.IsType(t, ledger.Hold{}, d.Outcome, name)
		crmtest.Quiet(t, d)
		checks := k.crm.Check(t.Context(), k.account, false)
		require.False(t, checks[len(checks)-1].OK, name)
		for _, check := range checks {
			crmtest.QuietText(t, check.Sentence+check.NextStep)
		}
	}
	require.Empty(t, c.texts)
}

func TestCheckSendsNothing(t *testing.T) {
	t.Parallel()
	c := newChats(t)
	for name, k := range c.kinds() {
		checks := k.crm.Check(t.Context(), k.account, true)
		require.Len(t, checks, 1, name)
		require.True(t, checks[0].OK, name)
		parallel, _ := k.crm.Pace(k.account)
		require.Equal(t, 1, parallel)
	}
	require.Empty(t, c.texts)
	a := crmtest.Account("telegram", c.server.URL, "chat_id", "-1001", "timezone", "Mars/Olympus")
	checks := message.NewTelegram().Check(t.Context(), a, false)
	require.True(t, checks[0].Warning)
	require.True(t, checks[1].OK)
}

func mailAccount(address string) crm.Account {
	return crm.Account{ID: 7, Kind: "email", Country: "US", Options: secret.NewOptions(
		map[string]string{"url": address, "from": "Leads <leads@example.com>", "timezone": "Asia/Almaty"},
		map[string][]string{"to": {"sales@example.com"}}, nil)}
}

func TestPreview(t *testing.T) {
	t.Parallel()
	lead := crmtest.Lead()
	lead.Test = true
	lead.Contact.City, lead.Contact.WorkEmail, lead.Contact.Company = "Washington", "ana@work.example", "Example <Ltd> & Co"
	lead.Answers = append(lead.Answers,
		ledger.FormAnswer{Question: "email", Values: []string{"ana.lead@example.com"}},
		ledger.FormAnswer{Question: "any_colours", Values: []string{"red <b>", "blue & green"}})
	crmtest.Golden(t, "email", message.NewEmail().Preview(mailAccount("smtp://mail.example.com"), lead))
	crmtest.Golden(t, "slack", message.NewSlack().Preview(crmtest.Account("slack", "https://hooks.slack.com/services/T0/B0/"+crmtest.Token), lead))
	crmtest.Golden(t, "telegram", message.NewTelegram().Preview(crmtest.Account("telegram", "", "chat_id", "-1001"), lead))
	require.Empty(t, message.NewEmail().Preview(mailAccount("mail.example.com"), lead))
}

func TestTheTextNamesWhoIsThere(t *testing.T) {
	t.Parallel()
	a := crm.Account{Country: "US"}
	for want, l := range map[string]*ledger.Lead{
		"New lead: Ana Example":                 {Contact: ledger.Contact{FirstName: "Ana", LastName: "Example"}},
		"New lead: Example Ltd":                 {Contact: ledger.Contact{Company: "Example Ltd", Phone: "2025550143"}},
		"New lead: +12025550143":                {Contact: ledger.Contact{Phone: "202 555 0143"}},
		"New lead: a@example.com":               {Contact: ledger.Contact{Email: "A@example.com"}},
		"New lead: Form A":                      {Origin: ledger.Origin{FormName: "Form A"}},
		"New lead: without a name":              {},
		"[Test] New lead: <test lead: dummy …>": {Test: true, Contact: ledger.Contact{FullName: "<test lead: dummy …>"}},
	} {
		require.Equal(t, want, message.Message(a, l).Subject)
	}
	m := message.Message(a, &ledger.Lead{
		Consent: ledger.ConsentDenied, Platform: "meta", Source: "forms", Origin: ledger.Origin{Organic: true}, PageURL: "javascript:alert(1)",
		Contact: ledger.Contact{Phone: "call me", Email: "a b@example.com?bcc=x"},
	})
	require.Contains(t, m.Text, "did not agree")
	require.Equal(t, []notify.Field{
		{Label: "Phone", Value: "call me"},
		{Label: "E-mail", Value: "a b@example.com?bcc=x"},
		{Label: "Source", Value: "forms · Meta, without an ad"},
		{Label: "Page", Value: "javascript:alert(1)"},
		{Label: "Lead id", Value: ledger.ID(0).String()},
	}, m.Fields)
}

func TestMailGoesOut(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	got := make(chan string, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		say := func(s string) { _, _ = c.Write([]byte(s + "\r\n")) }
		say("220 here")
		var mail strings.Builder
		inMail := false
		for lines := bufio.NewScanner(c); lines.Scan(); {
			switch text := lines.Text(); {
			case inMail && text == ".":
				inMail = false
				got <- mail.String()
				say("250 taken")
			case inMail:
				mail.WriteString(text + "\n")
			case text == "DATA":
				inMail = true
				say("354 go on")
			case text == "QUIT":
				say("221 bye")
				return
			default:
				say("250 fine")
			}
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	d := message.NewEmail().Deliver(t.Context(), mailAccount("smtp://"+l.Addr().String()), crmtest.Lead(), nil)
	require.IsType(t, ledger.Accepted{}, d.Outcome, ledger.AnswerOf(d.Outcome).Message)
	mail := <-got
	require.Contains(t, mail, "Subject: New lead: Ana Example")
	require.Contains(t, mail, "16:06 +05")
	require.Equal(t, []string{"email:" + crmtest.Lead().ID.String()}, d.Records)
}

func TestOptionsAreNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []*message.CRM{message.NewEmail(), message.NewSlack(), message.NewTelegram()} {
		for _, o := range c.Options() {
			require.NotEmpty(t, o.Name)
			require.NotEmpty(t, o.Help)
		}
	}
}
