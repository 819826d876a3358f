package notify

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/wneessen/go-mail"

	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
)

// submission and implicit are the ports of mail submission: the first begins in the
// open and turns to TLS, the second begins in TLS.
const (
	submission = 587
	implicit   = 465
)

// MailConfig says by which server mail goes, from whom to whom.
type MailConfig struct {
	Host     string
	Port     int // 0 is 587; 465 begins in TLS, all others must offer STARTTLS
	User     string
	Password secret.Secret
	From     string // "Name <address>" or an address
	To       []string

	TLS     *tls.Config // nil: the system's roots
	Timeout time.Duration
	// Dial connects to the server; nil: the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Mail is a mail server.
type Mail struct {
	config MailConfig
}

// NewMail returns the channel. Without TLS no mail leaves, unless the server is on
// this machine.
func NewMail(c MailConfig) *Mail {
	if c.Port == 0 {
		c.Port = submission
	}
	c.Timeout = cmp.Or(c.Timeout, timeout)
	if c.Dial == nil {
		c.Dial = (&net.Dialer{}).DialContext
	}
	return &Mail{config: c}
}

// Send hands the message to the server. All recipients get it or none.
func (c *Mail) Send(ctx context.Context, m Message) ledger.Outcome {
	msg, err := c.message(m)
	if err != nil {
		return ledger.Hold{Reason: ledger.PermissionMissing, Answer: ledger.Answer{Message: err.Error()}}
	}
	return c.talk(ctx, m, func(client *mail.Client) error {
		err := client.Send(msg)
		if msg.IsDelivered() { // what went wrong after that is of no interest
			return nil
		}
		return err
	})
}

// Check goes as far as the password.
func (c *Mail) Check(ctx context.Context) ledger.Outcome {
	if _, err := c.message(Message{}); err != nil {
		return ledger.Hold{Reason: ledger.PermissionMissing, Answer: ledger.Answer{Message: err.Error()}}
	}
	return c.talk(ctx, Message{}, func(*mail.Client) error { return nil })
}

// Preview shows the mail's head and its plain body.
func (c *Mail) Preview(m Message) Request {
	head := "From: " + line(c.config.From, 500) + "\nTo: " + line(strings.Join(c.config.To, ", "), 2000) + "\nSubject: " + line(m.Subject, 150) + "\n\n"
	return Request{Method: "SMTP", URL: "smtp://" + net.JoinHostPort(c.config.Host, strconv.Itoa(c.config.Port)), Body: []byte(head + plain(m))}
}

// talk connects, does something and hangs up.
func (c *Mail) talk(ctx context.Context, m Message, do func(*mail.Client) error) ledger.Outcome {
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	client, err := c.client(ctx)
	if err != nil {
		return ledger.Hold{Reason: ledger.PermissionMissing, Answer: ledger.Answer{Message: "the mail server's settings cannot work: " + line(err.Error(), 200)}}
	}
	if err := client.DialWithContext(ctx); err != nil {
		return c.outcome(err, m)
	}
	defer func() { _ = client.Close() }()
	if err := do(client); err != nil {
		return c.outcome(err, m)
	}
	return ledger.Accepted{}
}

// client is made anew for each message. Its connection ends with the context, also
// in the middle of a word.
func (c *Mail) client(ctx context.Context) (*mail.Client, error) {
	begin := c.config.TLS.Clone()
	if begin == nil {
		begin = &tls.Config{}
	}
	begin.MinVersion = tls.VersionTLS12
	begin.ServerName = cmp.Or(begin.ServerName, c.config.Host)
	dial := func(ctx2 context.Context, network, address string) (net.Conn, error) {
		conn, err := c.config.Dial(ctx2, network, address)
		if err != nil {
			return nil, err
		}
		context.AfterFunc(ctx, func() { _ = conn.Close() })
		if c.config.Port != implicit {
			return conn, nil
		}
		over := tls.Client(conn, begin)
		return over, over.HandshakeContext(ctx2)
	}
	options := []mail.Option{
		mail.WithPort(c.config.Port), mail.WithTimeout(c.config.Timeout), mail.WithDialContextFunc(dial),
		mail.WithTLSConfig(begin), mail.WithTLSPolicy(mail.TLSMandatory), mail.WithoutNoop(),
	}
	switch {
	case c.config.Port == implicit:
		options = append(options, mail.WithSSL())
	case loopback(c.config.Host):
		options = append(options, mail.WithTLSPolicy(mail.NoTLS))
	}
	if c.config.User != "" {
		options = append(options, mail.WithUsername(c.config.User), mail.WithPassword(c.config.Password.Reveal()),
			mail.WithOpportunisticSMTPAuth(mail.SMTPAuthPlain, mail.SMTPAuthLogin, mail.SMTPAuthSCRAMSHA256, mail.SMTPAuthCramMD5))
	}
	return mail.NewClient(c.config.Host, options...)
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// errAddress says which setting is wrong.
var (
	errFrom = errors.New("the sender (from) is no mail address")
	errTo   = errors.New("a recipient (to) is no mail address")
	errNone = errors.New("there is no recipient (to)")
)

// message writes the mail. Everything in its head is one line; an address with a line
// break is refused.
func (c *Mail) message(m Message) (*mail.Msg, error) {
	msg := mail.NewMsg(mail.WithNoDefaultUserAgent())
	if broken(c.config.From) || msg.From(c.config.From) != nil {
		return nil, errFrom
	}
	if len(c.config.To) == 0 {
		return nil, errNone
	}
	if slices.ContainsFunc(c.config.To, broken) || msg.To(c.config.To...) != nil {
		return nil, errTo
	}
	msg.Subject(line(m.Subject, 150))
	msg.SetDate()
	if m.ID != "" {
		msg.SetMessageIDWithValue(idOf(m.ID) + "@capiloop.invalid")
	}
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.SetBodyString(mail.TypeTextPlain, plain(m))
	msg.AddAlternativeString(mail.TypeTextHTML, page(m))
	return msg, nil
}

func broken(address string) bool { return strings.ContainsFunc(address, unicode.IsControl) }

// idOf keeps the characters that a Message-ID may have.
func idOf(id string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '.' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, id)
}

// page is the body as HTML, where a phone is one tap away.
func page(m Message) string {
	var b strings.Builder
	b.WriteString("<!doctype html><html><body>\n")
	if m.Text != "" {
		b.WriteString("<p>" + strings.ReplaceAll(html(m.Text), "\n", "<br>\n") + "</p>\n")
	}
	if len(m.Fields) > 0 {
		b.WriteString("<table>\n")
	}
	for _, f := range m.Fields {
		value := strings.ReplaceAll(html(f.Value), "\n", "<br>\n")
		if f.Link != "" {
			value = `<a href="` + html(f.Link) + `">` + value + "</a>"
		}
		b.WriteString(`<tr><td valign="top"><b>` + html(f.Label) + "</b></td><td>" + value + "</td></tr>\n")
	}
	if len(m.Fields) > 0 {
		b.WriteString("</table>\n")
	}
	if len(m.Answers) > 0 {
		b.WriteString("<p>" + html(m.Ask) + "</p>\n<p>")
		for _, a := range m.Answers {
			b.WriteString(`<a href="` + html(a.URL) + `" style="display:inline-block;margin:0 8px 8px 0;padding:12px 20px;border:1px solid #1f5fbf;border-radius:6px;font-weight:bold;text-decoration:none">` + html(a.Label) + "</a>\n")
		}
		b.WriteString("</p>\n")
	}
	b.WriteString("</body></html>\n")
	return b.String()
}

// outcome classes an error: by what the server said, else by how far the mail came.
func (c *Mail) outcome(err error, m Message) ledger.Outcome {
	words, _, _ := strings.Cut(err.Error(), ", affected recipient(s)")
	words, _, _ = strings.Cut(words, ", affected message ID")
	a := ledger.Answer{Message: scrub(words, m, c.config.Password.Reveal())}
	send, sending := errors.AsType[*mail.SendError](err)
	if sending {
		a.Status = send.ErrorCode()
	} else if said, ok := errors.AsType[*textproto.Error](err); ok {
		a.Status = said.Code
	}
	switch {
	case a.Status == 0 && sending && send.Reason == mail.ErrSMTPDataClose:
		return ledger.Lost{Answer: a} // the whole mail is there, the answer is not
	case a.Status == 0 && setting(err):
		return ledger.Hold{Answer: a, Reason: ledger.PermissionMissing}
	case a.Status < 500:
		return ledger.RetryAt{Answer: a, Reason: ledger.Backlog}
	case a.Status == 530 || a.Status == 534 || a.Status == 535 || a.Status == 538:
		return ledger.Hold{Answer: a, Reason: ledger.TokenInvalid}
	case sending && (send.Reason == mail.ErrSMTPData || send.Reason == mail.ErrSMTPDataClose):
		return ledger.Refusal{Answer: a} // it read the mail and does not want this one
	}
	return ledger.Hold{Answer: a, Reason: ledger.PermissionMissing}
}

// setting tells whether only a person can help: no TLS, a certificate of somebody
// else, no way to log in.
func setting(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	text := err.Error()
	return strings.Contains(text, "does not support STARTTLS") || strings.Contains(text, "SMTP AUTH") && !strings.Contains(text, "SMTP AUTH failed") ||
		errors.Is(err, mail.ErrNoSupportedAuthDiscovered)
}
