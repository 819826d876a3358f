package message_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/crm/crmtest"
	"github.com/capiloop/capiloop/internal/crm/message"
	"github.com/capiloop/capiloop/internal/ledger"
)

func marked(a crm.Account, base string) crm.Account {
	a.Marks = true
	a.MarkURL = func(lead ledger.ID) string { return base + "/m/tokenOf" + lead.String() }
	return a
}

func bodyOf(t *testing.T, c *message.CRM, a crm.Account, l *ledger.Lead) (text string, buttons []any) {
	t.Helper()
	body := c.Preview(a, l)[0].Body
	var m struct {
		Text        string
		ReplyMarkup struct {
			Keyboard [][]any `json:"inline_keyboard"`
		} `json:"reply_markup"`
	}
	if json.Unmarshal(body, &m) != nil {
		return string(body), nil
	}
	if len(m.ReplyMarkup.Keyboard) > 0 {
		buttons = m.ReplyMarkup.Keyboard[0]
	}
	return m.Text, buttons
}

func TestEachLeadCarriesLinksToMarkIt(t *testing.T) {
	t.Parallel()
	const public = "https://signals.example.com"
	lead := crmtest.Lead()
	link := public + "/m/tokenOf" + lead.ID.String()
	mail, _ := bodyOf(t, message.NewEmail(), marked(mailAccount("smtp://mail.example.com"), public), lead)
	slack, _ := bodyOf(t, message.NewSlack(), marked(crmtest.Account("slack", "https://hooks.slack.com/services/T0/B0/x"), public), lead)
	telegram, buttons := bodyOf(t, message.NewTelegram(), marked(crmtest.Account("telegram", "", "chat_id", "-1"), public), lead)
	require.Contains(t, mail, "What became of it?\nGood: "+link+"?c=good\nBad: "+link+"?c=bad\nBooked: "+link+"?c=booked\nSold: "+link+"?c=sold\n")
	require.Contains(t, slack, "*What became of it?* <"+link+"?c=good|Good> · <"+link+"?c=bad|Bad>")
	require.Len(t, buttons, 4)
	require.Equal(t, map[string]any{"text": "Sold", "url": link + "?c=sold"}, buttons[3])
	require.NotContains(t, telegram, "tokenOf")

	// Telegram refuses a message with a button to such an address.
	for _, base := range []string{"http://signals.example.com", "https://localhost", "https://signals.example.com:8443"} {
		telegram, buttons = bodyOf(t, message.NewTelegram(), marked(crmtest.Account("telegram", "", "chat_id", "-1"), base), lead)
		require.Empty(t, buttons)
		require.Contains(t, telegram, "Good: "+base+"/m/tokenOf")
	}
	lead.Test = true
	mail, _ = bodyOf(t, message.NewEmail(), marked(mailAccount("smtp://mail.example.com"), public), lead)
	require.NotContains(t, mail, "tokenOf", "a test lead is of no ad")
}

func TestTheDoctorMissesThePublicAddress(t *testing.T) {
	t.Parallel()
	c := newChats(t)
	a := crmtest.Account("telegram", c.server.URL, "chat_id", "-1001")
	a.Marks = true
	checks := message.NewTelegram().Check(t.Context(), a, false)
	require.Len(t, checks, 2)
	require.True(t, checks[0].Warning)
	require.Contains(t, checks[0].Sentence, "public_url")
	require.Len(t, message.NewTelegram().Check(t.Context(), marked(a, "https://x.example"), false), 1)
}

func TestPeopleAreRemindedWithoutAName(t *testing.T) {
	t.Parallel()
	c := newChats(t)
	at := time.Date(2026, 11, 18, 11, 6, 0, 0, time.UTC)
	lead := crmtest.Lead()
	r := crm.Reminding{Day: "2026-11-30", Total: 3, Leads: []crm.OpenLead{{Lead: lead.ID, Form: "Bath", ReceivedAt: at}, {Lead: lead.ID + 64, Form: "Roof", ReceivedAt: at}}}
	for name, k := range c.kinds() {
		before := len(c.texts)
		require.IsType(t, ledger.Accepted{}, k.crm.Remind(t.Context(), marked(k.account, "https://x.example"), r), name)
		text := c.texts[before]
		require.Contains(t, text, "What became of 3 leads?", name)
		require.Contains(t, text, "https://x.example/m/tokenOf"+lead.ID.String(), name)
		require.Contains(t, text, "form Roof", name)
		require.Contains(t, text, "1 more", name)
	}
	m := message.Reminder(marked(mailAccount("smtp://mail.example.com"), "http://10.0.0.1"), r)
	require.Equal(t, "remind-7-2026-11-30", m.ID)
	require.Equal(t, "form Bath http://10.0.0.1/m/tokenOf"+lead.ID.String(), m.Fields[0].Value)
	require.Contains(t, m.Fields[0].Label, "16:06 +05")
	require.IsType(t, ledger.Hold{}, message.NewEmail().Remind(t.Context(), mailAccount("nonsense"), r))
	r.Total, r.Leads = 1, r.Leads[:1]
	require.Equal(t, "What became of a lead?", message.Reminder(marked(mailAccount(""), "https://x.example"), r).Subject)
}
