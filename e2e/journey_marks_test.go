package e2e_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi/capitest"
)

const (
	plumberURL = "https://rohrfix.example.com"
	botToken   = "botTokenThatNobodyMayEverSee"
)

// plumber is a firm without a CRM: its leads come by mail and into a Telegram chat, and
// are marked by the links in there.
type plumber struct {
	*leadRig
	post   *post
	chat   *chat
	visits int
}

func newPlumber(t *testing.T, database string) *plumber {
	t.Helper()
	p := &plumber{post: newPost(t), chat: newChat(t)}
	p.leadRig = &leadRig{rig: newRig(t, setup{database: database, country: "DE", private: []string{botToken, rawName, rawAnswer, rawNumber, plumberURL + "/m/"}, lines: `    timezone: UTC
    sources:
      - {kind: meta_leads, name: forms, page_id: "` + pageID + `", page_token: "${SHOP_TOKEN}", app_secret: "${SHOP_SECRET}", verify_token: verify-me, url: "GRAPH", webhook: ` + metaHook + `}
    crms:
      - {kind: email, name: mail, url: "smtp://` + p.post.addr + `", from: leads@rohrfix.example.com, to: [owner@rohrfix.example.com]}
      - {kind: telegram, name: chat, token: ` + botToken + `, chat_id: "1001", url: "` + p.chat.url + `", allow_private: true}
    stages:
      - {stage: received, event: Lead}
      - {stage: Good, event: QualifiedLead}
      - {stage: Sold, event: Purchase, value: deal, currency: EUR}
`, graph: capitest.Options{Rules: capitest.Rules{PurchaseValue: capitest.Warn}}})}
	p.graph.AddForm(capitest.Form{ID: formID, PageID: pageID, Name: "Bath", Questions: []string{"email", "phone_number", "full_name"}})
	p.stop(t)
	file, err := os.ReadFile(p.config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(p.config, append([]byte("public_url: "+plumberURL+"\ntrusted_proxies: [127.0.0.1]\n"), file...), 0o600))
	p.start(t)
	return p
}

// A plumber's month: 30 leads, 13 good, 9 bad, 5 sold, 8 open. Nothing but a tap that was
// meant is told to Meta, and that once.
func TestJourneyPlumber(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, database string) {
		p := newPlumber(t, database)
		links := p.month(t)
		p.scanners(t, links)
		late := p.taps(t, links)
		require.Equal(t, map[string]int{"Lead": 30}, p.told(), "a mark can be taken back for ten minutes")
		p.jump(t, 11*time.Minute)
		p.eventually(t, 30*time.Second, "all marks are with Meta", func() bool { return len(p.graph.Kept(datasetA)) >= 48 })
		time.Sleep(time.Second)
		require.Equal(t, map[string]int{"Lead": 30, "QualifiedLead": 13, "Purchase": 5}, p.told())
		p.amounts(t)
		require.Contains(t, p.page(t, links[0], "undo="+late), "cannot be undone any more")
		p.reminded(t, links)
		p.old(t, links[29])
	})
}

// month lets the leads come in and returns a link to each.
func (p *plumber) month(t *testing.T) []string {
	t.Helper()
	var people []person
	for n := range 30 {
		one := somebody(n)
		if n%8 == 3 {
			one.phone = "0000000"
		}
		people = append(people, one)
		p.meta(one, p.clock.Now())
	}
	for _, one := range people {
		require.NoError(t, p.announce(t, one))
	}
	p.eventually(t, 90*time.Second, "each lead is told by mail and in the chat", func() bool { return p.post.count() >= 30 && p.chat.count() >= 30 })
	p.eventually(t, 20*time.Second, "each lead is with Meta", func() bool { return len(p.graph.Kept(datasetA)) >= 30 })
	byMail, byChat := map[string]string{}, map[string]string{}
	for _, one := range people {
		for _, text := range p.post.texts() {
			if strings.Contains(text, one.email) {
				byMail[one.id] = linkIn(t, text)
			}
		}
		for _, m := range p.chat.all() {
			if strings.Contains(m.Text, one.email) {
				require.Equal(t, []string{"Good", "Bad", "Booked", "Sold"}, m.labels())
				byChat[one.id] = m.button(0)
			}
		}
	}
	require.Len(t, byMail, 30)
	require.Len(t, byChat, 30)
	var links []string
	for n, one := range people {
		links = append(links, []string{byMail[one.id], byChat[one.id]}[n%2])
	}
	return links
}

var markLink = regexp.MustCompile(regexp.QuoteMeta(plumberURL) + `/m/[A-Za-z0-9_-]+`)

func linkIn(t *testing.T, text string) string {
	t.Helper()
	link := markLink.FindString(text)
	require.NotEmpty(t, link, text)
	return strings.TrimPrefix(link, plumberURL)
}

// scanners open every link of every message, as mail programs and chats do.
func (p *plumber) scanners(t *testing.T, links []string) {
	t.Helper()
	for _, link := range links {
		for _, path := range []string{link, link + "?c=good"} {
			for _, method := range []string{http.MethodHead, http.MethodGet} {
				status, body := p.visit(t, method, path, "")
				require.Equal(t, http.StatusOK, status)
				require.NotContains(t, body, rawDomain, "a link may be forwarded")
			}
		}
		require.NotContains(t, p.page(t, link, ""), "Marked as")
	}
}

// taps says of each lead what became of it, some twice, one by mistake. It returns a mark
// of the first lead, for later.
func (p *plumber) taps(t *testing.T, links []string) string {
	t.Helper()
	for n, link := range links[:22] {
		choice, name := "good", "Good"
		if n >= 13 {
			choice, name = "bad", "Bad"
		}
		require.Contains(t, p.page(t, link, "c="+choice), "<h1>Marked as "+name)
		if n%5 == 0 {
			require.Contains(t, p.page(t, link, "c="+choice), "<h1>Already marked as "+name)
		}
	}
	for n, amount := range []string{"1.240,50", "2000", "999.50", "2 000", ""} {
		require.Contains(t, p.page(t, links[n], "c=sold&amount=zero"), "This is no amount")
		require.Contains(t, p.page(t, links[n], url.Values{"c": {"sold"}, "amount": {amount}}.Encode()), "<h1>Marked as Sold")
	}
	p.page(t, links[29], "c=sold&amount=1")
	p.jump(t, time.Minute) // a restart on the way
	require.Contains(t, p.page(t, links[29], "undo="+p.lastMark(t, links[29])), "<h1>Undone")
	require.NotContains(t, p.page(t, links[29], ""), "Marked as")
	return p.lastMark(t, links[0])
}

// lastMark is what the page's first undo is about.
func (p *plumber) lastMark(t *testing.T, link string) string {
	t.Helper()
	m := regexp.MustCompile(`name="undo" value="([0-9a-z]+)"`).FindStringSubmatch(p.page(t, link, ""))
	if m != nil {
		return m[1]
	}
	t.Fatal("the page offers no undo")
	return ""
}

// told counts what Meta has.
func (p *plumber) told() map[string]int {
	count := map[string]int{}
	for _, e := range p.graph.Kept(datasetA) {
		count[e.EventName]++
	}
	return count
}

func (p *plumber) amounts(t *testing.T) {
	t.Helper()
	sum := 0.0
	for _, e := range p.graph.Kept(datasetA) {
		if e.EventName != "Purchase" || e.Value == "" {
			continue
		}
		value, err := e.Value.Float64()
		require.NoError(t, err)
		require.Equal(t, "EUR", e.Currency)
		sum += value
	}
	require.InDelta(t, 6240, sum, 0.001)
}

// jump starts the server anew, some time later.
func (p *plumber) jump(t *testing.T, by time.Duration) {
	t.Helper()
	p.stop(t)
	p.clock.set(1, by)
	p.start(t)
}

// reminded wants one message about the eight that nobody marked, on the third morning.
func (p *plumber) reminded(t *testing.T, links []string) {
	t.Helper()
	mails, chats := p.post.count(), p.chat.count()
	year, month, day := p.clock.Now().UTC().Date()
	p.jump(t, time.Date(year, month, day+3, 9, 1, 0, 0, time.UTC).Sub(p.clock.Now()))
	p.eventually(t, 20*time.Second, "people are reminded", func() bool { return p.post.count() > mails && p.chat.count() > chats })
	p.jump(t, 3*time.Hour)
	time.Sleep(2 * time.Second)
	require.Equal(t, mails+1, p.post.count(), "once a day")
	require.Equal(t, chats+1, p.chat.count(), "once a day")
	text := p.post.texts()[mails]
	require.Len(t, markLink.FindAllString(text, -1), 8)
	require.Len(t, markLink.FindAllString(p.chat.all()[chats].Text, -1), 8)
	require.NotContains(t, text, rawName)
	fresh := linkIn(t, text)
	require.NotContains(t, links, fresh)
	require.Contains(t, p.page(t, fresh, "c=bad"), "<h1>Marked as Bad")
}

// old wants a link of two weeks ago to be refused politely.
func (p *plumber) old(t *testing.T, link string) {
	t.Helper()
	p.jump(t, 12*24*time.Hour)
	for _, body := range []string{"", "c=good"} {
		method := http.MethodPost
		if body == "" {
			method = http.MethodGet
		}
		status, page := p.visit(t, method, link, body)
		require.Equal(t, http.StatusGone, status)
		require.Contains(t, page, "This link is too old")
	}
	status, _ := p.visit(t, http.MethodGet, link[:len(link)-2]+"AA", "")
	require.Equal(t, http.StatusNotFound, status)
	require.Equal(t, map[string]int{"Lead": 30, "QualifiedLead": 13, "Purchase": 5}, p.told())
}

// page opens a link, or sends a form of it.
func (p *plumber) page(t *testing.T, link, form string) string {
	t.Helper()
	method := http.MethodPost
	if form == "" {
		method = http.MethodGet
	}
	status, body := p.visit(t, method, link, form)
	require.Equal(t, http.StatusOK, status, body)
	return body
}

// visit asks as a browser does, without a key, from another address each time.
func (p *plumber) visit(t *testing.T, method, path, form string) (int, string) {
	t.Helper()
	p.visits++
	from := fmt.Sprintf("203.0.113.%d", p.visits%200)
	status, body := p.request(t, method, path, []byte(form), "Authorization", "", "Content-Type", "application/x-www-form-urlencoded", "X-Forwarded-For", from)
	return status, string(body)
}

// chat is Telegram.
type chat struct {
	url string
	mu  sync.Mutex
	got []chatMessage
}

type chatMessage struct {
	Text   string `json:"text"`
	Markup struct {
		Keyboard [][]struct{ Text, URL string } `json:"inline_keyboard"`
	} `json:"reply_markup"`
}

func (m chatMessage) labels() (list []string) {
	for _, b := range m.Markup.Keyboard[0] {
		list = append(list, b.Text)
	}
	return list
}

func (m chatMessage) button(n int) string {
	path, _, _ := strings.Cut(strings.TrimPrefix(m.Markup.Keyboard[0][n].URL, plumberURL), "?")
	return path
}

func newChat(t *testing.T) *chat {
	t.Helper()
	c := &chat{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m chatMessage
		if r.URL.Path != "/bot"+botToken+"/sendMessage" || json.NewDecoder(r.Body).Decode(&m) != nil || m.Text == "" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		c.got = append(c.got, m)
		c.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"ok":true,"result":{}}`)
	}))
	c.url = s.URL
	t.Cleanup(s.Close)
	return c
}

func (c *chat) all() []chatMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]chatMessage(nil), c.got...)
}

func (c *chat) count() int { return len(c.all()) }

// post is a mail server on this machine.
type post struct {
	addr string
	mu   sync.Mutex
	got  []string
}

func newPost(t *testing.T) *post {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &post{addr: l.Addr().String()}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			open.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); open.Wait() })
	return p
}

func (p *post) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	say := func(text string) { _, _ = io.WriteString(c, text+"\r\n") }
	say("220 here")
	var data strings.Builder
	within := false
	for lines := bufio.NewScanner(c); lines.Scan(); {
		switch line := lines.Text(); {
		case within && line == ".":
			within = false
			p.mu.Lock()
			p.got = append(p.got, data.String())
			p.mu.Unlock()
			data.Reset()
			say("250 taken")
		case within:
			data.WriteString(strings.TrimPrefix(line, ".") + "\r\n")
		case line == "DATA":
			within = true
			say("354 go on")
		case line == "QUIT":
			say("221 bye")
			return
		default:
			say("250 fine")
		}
	}
}

func (p *post) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.got)
}

// texts are the plain texts of the mails.
func (p *post) texts() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []string
	for _, raw := range p.got {
		list = append(list, plainOf(raw))
	}
	return list
}

func plainOf(raw string) string {
	m, err := mail.ReadMessage(strings.NewReader(raw))
	if err != nil {
		return fmt.Sprint("no mail: ", err)
	}
	_, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		return fmt.Sprint("no type: ", err)
	}
	part, err := multipart.NewReader(m.Body, params["boundary"]).NextRawPart()
	if err != nil {
		return fmt.Sprint("no part: ", err)
	}
	body, err := io.ReadAll(quotedprintable.NewReader(part))
	if err != nil {
		return fmt.Sprint("no text: ", err)
	}
	return string(body)
}
