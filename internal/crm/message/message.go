// Package message is for firms without a CRM: it writes each lead as a message to
// people, by mail (kind "email"), into a Slack channel ("slack") or a Telegram chat
// ("telegram").
//
// A message cannot be found again or changed, so there is no update and no look before
// the sending. A lead with a record from an earlier delivery counts as told. After Lost the
// repeat may show the lead twice; by mail both carry one Message-ID, by which most
// mailboxes show one.
package message

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/notify"
)

// The kinds.
const (
	Email    = "email"
	Slack    = "slack"
	Telegram = "telegram"
)

// Marks is the option that switches the links on or off by which a lead is marked.
const Marks = "marks"

// CRM is one of the three kinds.
type CRM struct {
	kind   string
	caller *crm.Caller
}

// NewEmail returns kind "email".
func NewEmail() *CRM { return &CRM{Email, nil} }

// NewSlack returns kind "slack".
func NewSlack() *CRM { return &CRM{Slack, crm.NewCaller()} }

// NewTelegram returns kind "telegram".
func NewTelegram() *CRM { return &CRM{Telegram, crm.NewCaller()} }

// Options lists the settings.
func (c *CRM) Options() []crm.Option {
	zone := crm.Option{Name: "timezone", Help: "zone of the times in the message, such as Asia/Almaty; UTC if not given"}
	private := crm.Option{Name: "allow_private", Help: "true lets url lead into a private network"}
	marks := crm.Option{Name: Marks, Help: "true puts links into each message by which people mark the lead: good, bad, booked, sold; if not given, as soon as a rule under stages is for one of these; needs public_url"}
	switch c.kind {
	case Email:
		return []crm.Option{
			{Name: "url", Required: true, Help: "mail server as smtp://mail.example.com:587 (STARTTLS) or smtps://mail.example.com:465"},
			{Name: "user", Help: "user name at the mail server"},
			{Name: "password", Type: crm.SecretText, Help: "password at the mail server"},
			{Name: "from", Required: true, Help: "sender: Leads <leads@example.com>"},
			{Name: "to", Type: crm.List, Required: true, Help: "addresses of those who get each lead"},
			zone, marks,
		}
	case Slack:
		return []crm.Option{
			{Name: "url", Type: crm.SecretText, Required: true, Help: "address of an incoming webhook of the Slack channel"},
			zone, marks, private,
		}
	}
	return []crm.Option{
		{Name: "token", Type: crm.SecretText, Required: true, Help: "token of the bot, from @BotFather"},
		{Name: "chat_id", Required: true, Help: "chat that the bot writes to; a group's number begins with -"},
		{Name: "url", Help: "base address of the Bot API, if it is not Telegram's own"},
		zone, marks, private,
	}
}

// Deliver tells people of the lead, once.
func (c *CRM) Deliver(ctx context.Context, a crm.Account, l *ledger.Lead, known []string) crm.Delivered {
	if len(known) > 0 {
		return crm.Delivered{Outcome: ledger.Accepted{Answer: ledger.Answer{Message: "the message went out before"}}, Records: known}
	}
	channel, err := c.channel(a)
	if err != nil {
		return crm.Delivered{Outcome: ledger.Hold{Reason: ledger.AddressGone, Answer: ledger.Answer{Message: err.Error()}}}
	}
	m := Message(a, l)
	d := crm.Delivered{Outcome: scrubbed(channel.Send(ctx, m), crm.Private(a, l)), Sent: channel.Preview(m).Body}
	if _, ok := d.Outcome.(ledger.Accepted); ok {
		d.Records = []string{c.kind + ":" + l.ID.String()}
	}
	return d
}

// Preview shows the message.
func (c *CRM) Preview(a crm.Account, l *ledger.Lead) []crm.Call {
	channel, err := c.channel(a)
	if err != nil {
		return nil
	}
	r := channel.Preview(Message(a, l))
	return []crm.Call{{Method: r.Method, URL: r.URL, Body: r.Body}}
}

// Check asks whether a message would pass; it sends none.
func (c *CRM) Check(ctx context.Context, a crm.Account, _ bool) []crm.Check {
	channel, err := c.channel(a)
	if err != nil {
		return []crm.Check{{Name: "settings", Sentence: "The settings cannot work: " + err.Error() + ".", NextStep: "Correct the setting."}}
	}
	var checks []crm.Check
	if zone := a.Options.Text("timezone"); zone != "" && !zoneKnown(zone) {
		checks = append(checks, crm.Check{
			Name: "timezone", Warning: true, Sentence: "There is no time zone " + zone + "; times are in UTC.",
			NextStep: "Use a name such as Europe/Paris.",
		})
	}
	if a.Marks && a.MarkURL == nil {
		checks = append(checks, crm.Check{
			Name: "marks", Warning: true, Sentence: "Messages carry no links to mark a lead by: nobody could open them, for public_url is not set.",
			NextStep: "Set public_url to the address by which this server is reached from outside, or marks: false for this connection.",
		})
	}
	o := scrubbed(channel.Check(ctx), crm.Private(a, nil))
	what := map[string][2]string{
		Email:    {"The mail server takes mail from us.", "Look at url, user and password, and at the mail server's log."},
		Slack:    {"The Slack webhook lives.", "Make a new incoming webhook in Slack and put its address into url."},
		Telegram: {"The bot sees the chat.", "Put the bot into the chat, and look at token and chat_id."},
	}[c.kind]
	if _, ok := o.(ledger.Accepted); ok {
		return append(checks, crm.Check{Name: "access", OK: true, Sentence: what[0]})
	}
	said := ledger.AnswerOf(o)
	return append(checks, crm.Check{Name: "access", Sentence: "No message would pass: " + cmp.Or(said.Message, "status "+strconv.Itoa(said.Status)) + ".", NextStep: what[1]})
}

// Pace is one message at a time. Telegram takes 20 a minute in a group.
func (c *CRM) Pace(a crm.Account) (parallel int, perSecond float64) {
	if c.kind == Telegram && strings.HasPrefix(a.Options.Text("chat_id"), "-") {
		return 1, 20.0 / 60
	}
	return 1, 1
}

func (c *CRM) channel(a crm.Account) (notify.Channel, error) {
	o := a.Options
	carrier := transport{c.caller, o.Is("allow_private")}
	if at := o.Text("url"); c.kind != Email && at != "" && !strings.HasPrefix(at, "https://") && !carrier.private {
		return nil, errors.New("url does not begin with https://")
	}
	switch c.kind {
	case Email:
		host, port, err := server(o.Text("url"))
		if err != nil {
			return nil, err
		}
		return notify.NewMail(notify.MailConfig{
			Host: host, Port: port, User: o.Text("user"), Password: o.Secret("password"), From: o.Text("from"), To: o.List("to"),
		}), nil
	case Slack:
		return notify.NewSlack(notify.SlackConfig{URL: o.Secret("url"), Transport: carrier}), nil
	}
	return notify.NewTelegram(notify.TelegramConfig{URL: o.Text("url"), Token: o.Secret("token"), ChatID: o.Text("chat_id"), Transport: carrier}), nil
}

// server reads smtp://host:port.
func server(address string) (host string, port int, err error) {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || u.User != nil || u.Scheme != "smtp" && u.Scheme != "smtps" {
		return "", 0, errors.New("url is not of the form smtp://mail.example.com:587 (user and password are settings of their own)")
	}
	if u.Port() != "" {
		port, err = strconv.Atoi(u.Port())
	} else if u.Scheme == "smtps" {
		port = 465
	}
	if u.Scheme == "smtps" && port != 465 {
		err = errors.New("smtps:// goes to port 465; other ports use smtp:// with STARTTLS")
	}
	return u.Hostname(), port, err
}

// scrubbed takes what is private out of the outcome's message.
func scrubbed(o ledger.Outcome, hide []string) ledger.Outcome {
	a := ledger.AnswerOf(o)
	a.Message = crm.Scrub(a.Message, hide)
	return ledger.WithAnswer(o, a)
}
