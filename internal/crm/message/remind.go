package message

import (
	"context"
	"strconv"
	"strings"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/notify"
)

var _ crm.Reminder = (*CRM)(nil)

// Remind asks people about leads that nobody has marked.
func (c *CRM) Remind(ctx context.Context, a crm.Account, r crm.Reminding) ledger.Outcome {
	channel, err := c.channel(a)
	if err != nil {
		return ledger.Hold{Reason: ledger.AddressGone, Answer: ledger.Answer{Message: err.Error()}}
	}
	return scrubbed(channel.Send(ctx, Reminder(a, r)), crm.Private(a, nil))
}

// Reminder writes the message: a line with a fresh link for each lead.
func Reminder(a crm.Account, r crm.Reminding) notify.Message {
	m := notify.Message{
		ID: "remind-" + strconv.FormatInt(a.ID, 10) + "-" + r.Day, Subject: "What became of " + strconv.Itoa(r.Total) + " leads?",
		Text: "Nobody has marked them yet. A tap for each, good or bad, and the ads learn whom to look for.",
	}
	if r.Total == 1 {
		m.Subject, m.Text = "What became of a lead?", "Nobody has marked it yet. A tap, good or bad, and the ads learn whom to look for."
	}
	for _, l := range r.Leads {
		f := notify.Field{Label: came(a, l.ReceivedAt), Value: "form " + l.Form, Link: a.MarkURL(l.Lead)}
		if !strings.HasPrefix(f.Link, "https:") { // no channel makes a link of it
			f.Value, f.Link = f.Value+" "+f.Link, ""
		}
		m.Fields = append(m.Fields, f)
	}
	if more := r.Total - len(r.Leads); more > 0 {
		m.Fields = append(m.Fields, notify.Field{Label: "And", Value: strconv.Itoa(more) + " more, by the links in their own messages"})
	}
	return m
}
