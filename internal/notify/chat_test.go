package notify_test

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/notify"
	"github.com/capiloop/capiloop/internal/secret"
)

const (
	hookPath = "/services/T000/B000/not-a-real-hook"
	botToken = "1000001:not-a-real-bot-token"
)

func dialTo(address string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
}

// answering is a server that answers every request the same; it hands the last body out.
func answering(t *testing.T, status int, head http.Header, body string) (base string, last func() map[string]any) {
	t.Helper()
	got := make(chan []byte, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		got <- text
		if status == 0 {
			panic(http.ErrAbortHandler)
		}
		maps.Copy(w.Header(), head)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL, func() map[string]any {
		var x map[string]any
		require.NoError(t, json.Unmarshal(<-got, &x))
		return x
	}
}

var nasty = notify.Message{
	ID: "x", Subject: "New <!channel> *lead*\nAna", Text: "5 < 6 & 7",
	Fields: []notify.Field{
		{Label: "Phone", Value: "+12025550143", Link: "tel:+12025550143"},
		{Label: "Page", Value: "a page", Link: `https://www.example.com/?a=1&b="2"`},
		{Label: "Say <b>", Value: "<@U1|x> <a href='https://x.example'>y</a>"},
	},
}

func TestSlackEscapes(t *testing.T) {
	t.Parallel()
	base, last := answering(t, 200, nil, "ok")
	require.IsType(t, ledger.Accepted{}, notify.NewSlack(notify.SlackConfig{URL: secret.New(base + hookPath)}).Send(t.Context(), nasty))
	require.Equal(t, "*New &lt;!channel&gt; *lead* Ana*\n5 &lt; 6 &amp; 7\n*Phone:* <tel:+12025550143|+12025550143>\n"+
		"*Page:* <https://www.example.com/?a=1&amp;b=\"2\"|a page>\n"+
		"*Say &lt;b&gt;:* &lt;@U1|x&gt; &lt;a href='https://x.example'&gt;y&lt;/a&gt;", last()["text"])
}

func TestSlackClassesItsAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		head   http.Header
		body   string
		want   ledger.Outcome
	}{
		"taken":             {200, nil, "ok", ledger.Accepted{Answer: ledger.Answer{Status: 200, Message: "ok"}}},
		"slow down":         {429, http.Header{"Retry-After": {"30"}}, "", ledger.RetryAt{Answer: ledger.Answer{Status: 429}, Reason: ledger.Throttled, Wait: 30 * time.Second}},
		"out of order":      {500, nil, "rollup_error", ledger.RetryAt{Answer: ledger.Answer{Status: 500, Message: "rollup_error"}, Reason: ledger.Backlog}},
		"a page":            {200, http.Header{"Content-Type": {"text/html"}}, "<html>log in", ledger.RetryAt{Answer: ledger.Answer{Status: 200, Message: "a page for people came instead of Slack's answer"}, Reason: ledger.Backlog}},
		"redirect":          {302, http.Header{"Location": {"https://x.example"}}, "", ledger.Hold{Answer: ledger.Answer{Status: 302, Message: "the webhook's address redirects: put in the address itself"}, Reason: ledger.TokenInvalid}},
		"revoked":           {403, nil, "invalid_token", ledger.Hold{Answer: ledger.Answer{Status: 403, Message: "invalid_token"}, Reason: ledger.TokenInvalid}},
		"no such hook":      {404, nil, "no_service", ledger.Hold{Answer: ledger.Answer{Status: 404, Message: "no_service"}, Reason: ledger.TokenInvalid}},
		"archived":          {410, nil, "channel_is_archived", ledger.Hold{Answer: ledger.Answer{Status: 410, Message: "channel_is_archived"}, Reason: ledger.PermissionMissing}},
		"not allowed":       {403, nil, "action_prohibited", ledger.Hold{Answer: ledger.Answer{Status: 403, Message: "action_prohibited"}, Reason: ledger.PermissionMissing}},
		"payload":           {400, nil, "invalid_payload", ledger.Refusal{Answer: ledger.Answer{Status: 400, Message: "invalid_payload"}}},
		"words of the lead": {400, nil, "bad: +12025550143", ledger.Refusal{Answer: ledger.Answer{Status: 400, Message: "bad: ***"}}},
		"cut":               {0, nil, "", ledger.Lost{Answer: ledger.Answer{Message: "EOF"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base, _ := answering(t, c.status, c.head, c.body)
			require.Equal(t, c.want, notify.NewSlack(notify.SlackConfig{URL: secret.New(base + hookPath)}).Send(t.Context(), nasty))
		})
	}
}

func TestSlackCheckSendsNoText(t *testing.T) {
	t.Parallel()
	base, last := answering(t, 400, nil, "no_text")
	require.IsType(t, ledger.Accepted{}, notify.NewSlack(notify.SlackConfig{URL: secret.New(base + hookPath)}).Check(t.Context()))
	require.Empty(t, last())
	base, _ = answering(t, 404, nil, "no_service")
	require.IsType(t, ledger.Hold{}, notify.NewSlack(notify.SlackConfig{URL: secret.New(base + hookPath)}).Check(t.Context()))
}

func TestTelegramEscapes(t *testing.T) {
	t.Parallel()
	base, last := answering(t, 200, nil, `{"ok":true,"result":{}}`)
	c := notify.NewTelegram(notify.TelegramConfig{URL: base + "/", Token: secret.New(botToken), ChatID: "-1001"})
	require.IsType(t, ledger.Accepted{}, c.Send(t.Context(), nasty))
	got := last()
	require.Equal(t, "<b>New &lt;!channel&gt; *lead* Ana</b>\n5 &lt; 6 &amp; 7\n<b>Phone:</b> +12025550143\n"+
		"<b>Page:</b> <a href=\"https://www.example.com/?a=1&amp;b=&quot;2&quot;\">a page</a>\n"+
		"<b>Say &lt;b&gt;:</b> &lt;@U1|x&gt; &lt;a href='https://x.example'&gt;y&lt;/a&gt;", got["text"])
	require.Equal(t, "-1001", got["chat_id"])
	require.NotContains(t, c.Preview(nasty).URL, "not-a-real")
}

func TestTelegramClassesItsAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		body   string
		want   ledger.Outcome
		says   string
	}{
		"slow down":          {429, `{"ok":false,"error_code":429,"description":"Too Many Requests: retry after 7","parameters":{"retry_after":7}}`, ledger.RetryAt{Reason: ledger.Throttled, Wait: 7 * time.Second}, "retry after 7"},
		"token":              {401, `{"ok":false,"error_code":401,"description":"Unauthorized"}`, ledger.Hold{Reason: ledger.TokenInvalid}, "Unauthorized"},
		"no token":           {404, `{"ok":false,"error_code":404,"description":"Not Found"}`, ledger.Hold{Reason: ledger.TokenInvalid}, ""},
		"chat":               {400, `{"ok":false,"error_code":400,"description":"Bad Request: chat not found"}`, ledger.Hold{Reason: ledger.PermissionMissing}, "chat not found"},
		"kicked":             {403, `{"ok":false,"error_code":403,"description":"Forbidden: bot was kicked from the group chat"}`, ledger.Hold{Reason: ledger.PermissionMissing}, ""},
		"moved":              {400, `{"ok":false,"error_code":400,"description":"Bad Request: group chat was upgraded to a supergroup chat","parameters":{"migrate_to_chat_id":-1009}}`, ledger.Hold{Reason: ledger.PermissionMissing}, "-1009"},
		"text":               {400, `{"ok":false,"error_code":400,"description":"Bad Request: can't parse entities near +12025550143"}`, ledger.Refusal{}, "near ***"},
		"out of order":       {502, `{"ok":false,"error_code":502,"description":"Bad Gateway"}`, ledger.RetryAt{Reason: ledger.Backlog}, ""},
		"a page":             {200, `<html>`, ledger.RetryAt{Reason: ledger.Backlog}, "not Telegram"},
		"says its own token": {400, `{"ok":false,"description":"odd ` + botToken + `"}`, ledger.Refusal{}, "odd ***"},
		"cut":                {0, ``, ledger.Lost{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base, _ := answering(t, c.status, nil, c.body)
			ch := notify.NewTelegram(notify.TelegramConfig{URL: base, Token: secret.New(botToken), ChatID: "-1001"})
			for _, o := range []ledger.Outcome{ch.Send(t.Context(), nasty), ch.Check(t.Context())} {
				require.IsType(t, c.want, o)
				require.NotContains(t, ledger.AnswerOf(o).Message, "not-a-real")
				switch w := c.want.(type) {
				case ledger.RetryAt:
					require.Equal(t, w.Reason, o.(ledger.RetryAt).Reason)
					require.Equal(t, w.Wait, o.(ledger.RetryAt).Wait)
				case ledger.Hold:
					require.Equal(t, w.Reason, o.(ledger.Hold).Reason)
				}
			}
			require.Contains(t, ledger.AnswerOf(ch.Send(t.Context(), nasty)).Message, c.says)
		})
	}
}

func TestNoErrorTellsTheToken(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]ledger.Outcome{
		"telegram refused": notify.NewTelegram(notify.TelegramConfig{URL: "http://127.0.0.1:1", Token: secret.New(botToken)}).Send(t.Context(), nasty),
		"telegram unclear": notify.NewTelegram(notify.TelegramConfig{URL: "http://127.0.0.1:1", Token: secret.New("not-a-real\x7f")}).Send(t.Context(), nasty),
		"slack refused":    notify.NewSlack(notify.SlackConfig{URL: secret.New("http://127.0.0.1:1" + hookPath)}).Send(t.Context(), nasty),
		"slack unclear":    notify.NewSlack(notify.SlackConfig{URL: secret.New("not-a-real://%zz")}).Send(t.Context(), nasty),
	} {
		require.NotContains(t, ledger.AnswerOf(o).Message, "not-a-real", name)
		require.NotContains(t, ledger.AnswerOf(o).Message, "Ana", name)
		require.NotEqual(t, ledger.Lost{}, o, name)
	}
}

func TestLongMessagesAreCut(t *testing.T) {
	t.Parallel()
	m := notify.Message{Subject: strings.Repeat("s", 900), Text: strings.Repeat("т", 3000)}
	for range 300 {
		m.Fields = append(m.Fields, notify.Field{Label: "Question", Value: strings.Repeat("🚗", 200)})
	}
	for _, c := range []struct {
		channel notify.Channel
		limit   int
	}{
		{notify.NewTelegram(notify.TelegramConfig{Token: secret.New(botToken)}), 4096},
		{notify.NewSlack(notify.SlackConfig{}), 40000},
	} {
		var x struct{ Text string }
		require.NoError(t, json.Unmarshal(c.channel.Preview(m).Body, &x))
		text := strings.NewReplacer("<b>", "", "</b>", "").Replace(x.Text)
		units := 0
		for _, r := range text {
			units++
			if r > 0xffff {
				units++
			}
		}
		require.Less(t, units, c.limit)
		require.Contains(t, text, " more")
	}
}
