package notify_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"math/big"
	"mime"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/notify"
	"github.com/capiloop/capiloop/internal/secret"
)

const password = "not-a-password-1"

// server is a small mail server: it keeps what it took and answers to a verb what the
// test wants. "" hangs up instead.
type server struct {
	addr    string
	roots   *x509.CertPool
	tls     *tls.Config
	starts  bool
	answers map[string]string

	mu    sync.Mutex
	mails []string
	lines []string
}

func newServer(t *testing.T, starts bool, answers map[string]string) *server {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"mail.example.com"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	require.NoError(t, err)
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	s := &server{starts: starts, answers: answers, roots: x509.NewCertPool()}
	s.roots.AddCert(parsed)
	s.tls = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.addr = l.Addr().String()
	var open sync.WaitGroup
	open.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			open.Go(func() { s.serve(c) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); open.Wait() })
	return s
}

func (s *server) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	r := bufio.NewReader(c)
	say := func(text string) { _, _ = c.Write([]byte(text + "\r\n")) }
	say("220 mail.example.com ready")
	secure := false
	for {
		text, err := r.ReadString('\n')
		if err != nil {
			return
		}
		s.mu.Lock()
		s.lines = append(s.lines, strings.TrimSpace(text))
		s.mu.Unlock()
		verb := strings.ToUpper(strings.TrimSpace(strings.SplitN(text, " ", 2)[0]))
		if verb == "MAIL" || verb == "RCPT" {
			verb = strings.ToUpper(strings.SplitN(text, ":", 2)[0])
		}
		if answer, ok := s.answers[verb]; ok {
			if answer == "" {
				return
			}
			say(answer)
			continue
		}
		switch verb {
		case "EHLO":
			say("250-mail.example.com")
			if s.starts && !secure {
				say("250-STARTTLS")
			}
			say("250 AUTH PLAIN LOGIN")
		case "STARTTLS":
			say("220 go on")
			over := tls.Server(c, s.tls)
			if over.Handshake() != nil {
				return
			}
			c, r, secure = over, bufio.NewReader(over), true
		case "AUTH":
			want := base64.StdEncoding.EncodeToString([]byte("\x00desk\x00" + password))
			if !strings.Contains(text, want) {
				say("535 5.7.8 wrong password " + want)
				continue
			}
			say("235 welcome")
		case "DATA":
			say("354 go on")
			if !s.data(r, say) {
				return
			}
		case "QUIT":
			say("221 bye")
			return
		default:
			say("250 fine")
		}
	}
}

func (s *server) data(r *bufio.Reader, say func(string)) bool {
	var b strings.Builder
	for {
		text, err := r.ReadString('\n')
		if err != nil {
			return false
		}
		if text == ".\r\n" {
			break
		}
		b.WriteString(text)
	}
	answer, ok := s.answers["."]
	if !ok {
		answer = "250 taken"
	}
	if strings.HasPrefix(answer, "2") || answer == "" {
		s.mu.Lock()
		s.mails = append(s.mails, b.String())
		s.mu.Unlock()
	}
	if answer == "" {
		return false
	}
	say(answer)
	return true
}

func (s *server) taken() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.mails...)
}

func (s *server) port(t *testing.T) int {
	t.Helper()
	_, text, err := net.SplitHostPort(s.addr)
	require.NoError(t, err)
	port, err := strconv.Atoi(text)
	require.NoError(t, err)
	return port
}

// far is a server with a name, so that TLS is a must; near is one on this machine.
func far(t *testing.T, s *server) notify.MailConfig {
	t.Helper()
	return notify.MailConfig{
		Host: "mail.example.com", Port: s.port(t), User: "desk", Password: secret.New(password),
		From: "Leads <leads@example.com>", To: []string{"sales@example.com", "Boss <boss@example.com>"},
		TLS: &tls.Config{RootCAs: s.roots}, Dial: dialTo(s.addr),
	}
}

var lead = notify.Message{
	ID: "lead-17", Subject: "New lead: Zoë Example",
	Fields: []notify.Field{
		{Label: "Name", Value: "Zoë Example"},
		{Label: "Phone", Value: "+12025550143", Link: "tel:+12025550143"},
		{Label: "What <do> you want?", Value: "A & B\n.\nlast"},
	},
}

func TestMailGoesOverTLSToAllRecipients(t *testing.T) {
	t.Parallel()
	s := newServer(t, true, nil)
	require.IsType(t, ledger.Accepted{}, notify.NewMail(far(t, s)).Send(t.Context(), lead))
	mails := s.taken()
	require.Len(t, mails, 1)
	require.Contains(t, mails[0], "Message-ID: <lead-17@capiloop.invalid>")
	require.Contains(t, mails[0], "Auto-Submitted: auto-generated")
	require.Contains(t, mails[0], "tel:+12025550143")
	require.Contains(t, mails[0], "What &lt;do&gt; you want?")
	require.Contains(t, s.lines, "RCPT TO:<sales@example.com>")
	require.Contains(t, s.lines, "RCPT TO:<boss@example.com>")
	require.NotContains(t, mails[0], "go-mail")
}

func TestMailOnThisMachineNeedsNoTLS(t *testing.T) {
	t.Parallel()
	s := newServer(t, true, nil)
	c := far(t, s)
	c.Host, c.Dial, c.TLS = "127.0.0.1", nil, nil
	require.IsType(t, ledger.Accepted{}, notify.NewMail(c).Send(t.Context(), lead))
	require.NotContains(t, s.lines, "STARTTLS")
	c.Host = "localhost"
	require.IsType(t, ledger.Accepted{}, notify.NewMail(c).Check(t.Context()))
	require.Len(t, s.taken(), 1)
}

func TestNothingLeavesWithoutTLS(t *testing.T) {
	t.Parallel()
	s := newServer(t, false, nil)
	o := notify.NewMail(far(t, s)).Send(t.Context(), lead)
	require.IsType(t, ledger.Hold{}, o)
	require.Contains(t, ledger.AnswerOf(o).Message, "STARTTLS")
	for _, l := range s.lines {
		require.NotContains(t, l, "AUTH")
		require.NotContains(t, l, "RCPT")
	}
}

func TestMailRefusesACertificateOfSomebodyElse(t *testing.T) {
	t.Parallel()
	s := newServer(t, true, nil)
	c := far(t, s)
	c.TLS = nil
	require.IsType(t, ledger.Hold{}, notify.NewMail(c).Send(t.Context(), lead))
	require.Empty(t, s.taken())
}

func TestNoHeaderCanBeSmuggledIn(t *testing.T) {
	t.Parallel()
	s := newServer(t, true, nil)
	m := lead
	m.ID = "a>\r\nBcc: x@example.com"
	m.Subject = "Ana\r\nBcc: thief@example.com\r\n\r\nhello\x00\u2028there"
	require.IsType(t, ledger.Accepted{}, notify.NewMail(far(t, s)).Send(t.Context(), m))
	head, _, _ := strings.Cut(s.taken()[0], "\r\n\r\n")
	require.NotContains(t, head, "\r\nBcc")
	_, subject, _ := strings.Cut(strings.ReplaceAll(head, "\r\n ", " "), "Subject: ")
	subject, _, _ = strings.Cut(subject, "\r\n")
	subject, err := new(mime.WordDecoder).DecodeHeader(subject)
	require.NoError(t, err)
	require.Equal(t, "Ana Bcc: thief@example.com hello there", subject)

	for _, wrong := range []func(*notify.MailConfig){
		func(c *notify.MailConfig) { c.From = "a@example.com\r\nBcc: b@example.com" },
		func(c *notify.MailConfig) { c.To = []string{"a@example.com\nBcc: b@example.com"} },
		func(c *notify.MailConfig) { c.To = nil },
		func(c *notify.MailConfig) { c.From = "nobody" },
		func(c *notify.MailConfig) { c.To = []string{"nobody"} },
	} {
		c := far(t, s)
		wrong(&c)
		require.IsType(t, ledger.Hold{}, notify.NewMail(c).Send(t.Context(), lead))
		require.IsType(t, ledger.Hold{}, notify.NewMail(c).Check(t.Context()))
	}
	require.Len(t, s.taken(), 1)
}

func TestMailClassesWhatTheServerSays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		verb, answer string
		want         ledger.Outcome
		taken        int
	}{
		"greylisted":                 {"RCPT TO", "450 4.2.0 later", ledger.RetryAt{}, 0},
		"recipient unknown":          {"RCPT TO", "550 5.1.1 no such user", ledger.Hold{}, 0},
		"sender refused":             {"MAIL FROM", "553 5.7.1 not yours", ledger.Hold{}, 0},
		"password needed":            {"MAIL FROM", "530 5.7.0 log in first", ledger.Hold{}, 0},
		"shutting down":              {"MAIL FROM", "421 4.3.2 bye", ledger.RetryAt{}, 0},
		"spam":                       {".", "554 5.7.1 looks like spam from Zoë Example", ledger.Refusal{}, 0},
		"full":                       {".", "452 4.3.1 disk full", ledger.RetryAt{}, 0},
		"hangs up at the start":      {"EHLO", "", ledger.RetryAt{}, 0},
		"hangs up before the mail":   {"DATA", "", ledger.RetryAt{}, 0},
		"hangs up after the mail":    {".", "", ledger.Lost{}, 1},
		"hangs up after taking it":   {"RSET", "", ledger.Accepted{}, 1},
		"trouble after taking it":    {"RSET", "500 what", ledger.Accepted{}, 1},
		"server without a log-in":    {"EHLO", "250 mail.example.com", ledger.Hold{}, 0},
		"log-in out of order":        {"AUTH", "454 4.7.0 later", ledger.RetryAt{}, 0},
		"log-in refused":             {"AUTH", "535 5.7.8 no", ledger.Hold{}, 0},
		"log-in refused with secret": {"AUTH", "535 5.7.8 no: " + password, ledger.Hold{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, true, map[string]string{c.verb: c.answer})
			o := notify.NewMail(far(t, s)).Send(t.Context(), lead)
			require.IsType(t, c.want, o, ledger.AnswerOf(o).Message)
			require.Len(t, s.taken(), c.taken)
			require.NotContains(t, ledger.AnswerOf(o).Message, password)
			require.NotContains(t, ledger.AnswerOf(o).Message, "Zoë")
			require.NotContains(t, ledger.AnswerOf(o).Message, "@example.com")
		})
	}
}

func TestMailEndsWithItsTime(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts and says nothing
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	c := far(t, &server{addr: l.Addr().String()})
	c.Timeout = 200 * time.Millisecond
	require.IsType(t, ledger.RetryAt{}, notify.NewMail(c).Send(t.Context(), lead))
	c.Dial = dialTo("127.0.0.1:1")
	require.IsType(t, ledger.RetryAt{}, notify.NewMail(c).Send(t.Context(), lead))
}

func TestMailPreview(t *testing.T) {
	t.Parallel()
	r := notify.NewMail(notify.MailConfig{Host: "mail.example.com", From: "a@example.com", To: []string{"b@example.com"}, Password: secret.New(password)}).Preview(lead)
	require.Equal(t, "smtp://mail.example.com:587", r.URL)
	require.Equal(t, "From: a@example.com\nTo: b@example.com\nSubject: New lead: Zoë Example\n\n"+
		"Name: Zoë Example\nPhone: +12025550143 <tel:+12025550143>\nWhat <do> you want?: A & B\n.\nlast\n", string(r.Body))
}
