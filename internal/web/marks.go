package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/capiloop/capiloop/internal/admin"
	"github.com/capiloop/capiloop/internal/ledger"
)

// MarksConfig is what the pages of one-tap links work with.
type MarksConfig struct {
	Actions admin.MarkActions
	// Address tells who is calling, for the limit.
	Address func(r *http.Request) netip.Addr
	Log     *slog.Logger // nil: nothing is logged
}

// Marks serves /m/{token}: the page on which a person says what became of a lead. There
// is no login, for the link is the right. Looking changes nothing, so that programs which
// open every link of a mail do no harm; only a form that a person sends does.
type Marks struct {
	c      MarksConfig
	words  words
	page   *template.Template
	style  template.CSS
	policy string
	limits limits
	mux    *http.ServeMux
}

// NewMarks returns the handler. It fails only if the program was put together wrongly.
func NewMarks(c MarksConfig) (*Marks, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	m := &Marks{c: c, mux: http.NewServeMux(), limits: limits{list: make(map[netip.Addr]*rate.Limiter)}}
	var err error
	if m.words, err = loadWords("en"); err != nil {
		return nil, err
	}
	if m.page, err = template.New("mark.html").Funcs(m.words.funcs()).ParseFS(pageFiles, "page/mark.html"); err != nil {
		return nil, fmt.Errorf("read the page of marks: %w", err)
	}
	style, err := staticFiles.ReadFile("static/mark.css")
	if err != nil {
		return nil, fmt.Errorf("read the page of marks: %w", err)
	}
	sum := sha256.Sum256(style)
	m.style = template.CSS(style) //nolint:gosec // a file of ours
	m.policy = "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; img-src data:; " +
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	m.mux.HandleFunc("GET /m/{token}", m.look)
	m.mux.HandleFunc("POST /m/{token}", m.act)
	m.mux.HandleFunc("/m/", func(w http.ResponseWriter, _ *http.Request) { m.problem(w, http.StatusNotFound) })
	return m, nil
}

// ServeHTTP serves a page.
func (m *Marks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Security-Policy", m.policy)
	head.Set("X-Frame-Options", "DENY")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("X-Robots-Tag", "noindex, nofollow")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cache-Control", "no-store")
	if !m.limits.allow(m.c.Address(r)) {
		head.Set("Retry-After", "60")
		m.problem(w, http.StatusTooManyRequests)
		return
	}
	m.mux.ServeHTTP(w, r)
}

// markPage is one page.
type markPage struct {
	Style    template.CSS
	Head     string
	Lead     string
	Note     string
	Bad      bool
	Text     []string
	Undo     *markUndo
	Marks    []markUndo
	First    *markChoice
	Rest     []markChoice
	RestHead string
	Other    string // address of the page with all choices; a proxy may put it under a path
}

// markUndo is a mark that was made; ID is "" where it cannot be taken back.
type markUndo struct{ ID, Name, Text string }

// markChoice is a form with one button.
type markChoice struct {
	Choice        ledger.Choice
	Label         string
	Main          bool
	Money         string // the label of the amount; "": none is asked for
	Amount, Wrong string
}

func (m *Marks) look(w http.ResponseWriter, r *http.Request) {
	v, err := m.c.Actions.MarkView(r.Context(), r.PathValue("token"))
	if err != nil {
		m.failed(w, r, err)
		return
	}
	m.show(w, http.StatusOK, m.choose(v, ledger.Choice(r.URL.Query().Get("c"))))
}

const maxMarkBody = 4 << 10

func (m *Marks) act(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxMarkBody)
	if err := r.ParseForm(); err != nil {
		m.problem(w, http.StatusNotFound)
		return
	}
	var done *admin.Marked
	var err error
	if id := r.PostForm.Get("undo"); id != "" {
		done, err = m.c.Actions.UndoMark(r.Context(), r.PathValue("token"), id)
	} else {
		done, err = m.c.Actions.Mark(r.Context(), r.PathValue("token"), ledger.Choice(r.PostForm.Get("c")), r.PostForm.Get("amount"))
	}
	if err != nil {
		m.failed(w, r, err)
		return
	}
	m.show(w, http.StatusOK, m.outcome(done))
}

// choose is the page with the choices; the preselected one comes first.
func (m *Marks) choose(v *admin.MarkView, first ledger.Choice) *markPage {
	p := &markPage{Head: m.words.say("mark.head"), Lead: m.lead(v)}
	for _, k := range v.Marks {
		u := m.marked(k)
		if k.Choice == first {
			p.Note = m.words.say("mark.already", m.what(k))
		}
		p.Marks = append(p.Marks, u)
	}
	left := make([]markChoice, 0, len(ledger.Choices()))
	for _, c := range ledger.Choices() {
		if has(v, c) {
			continue
		}
		choice := m.choice(v, c)
		if c == first {
			choice.Main, choice.Label = true, m.words.say("mark.as", choice.Label)
			p.First, p.Head, p.RestHead = &choice, m.words.say("mark.sure", m.words.say("mark.choice."+string(c))), m.words.say("mark.or")
			continue
		}
		left = append(left, choice)
	}
	p.Rest = left
	if p.RestHead == "" && len(v.Marks) > 0 && len(left) > 0 {
		p.RestHead = m.words.say("mark.further")
	}
	return p
}

func has(v *admin.MarkView, c ledger.Choice) bool {
	for _, k := range v.Marks {
		if k.Choice == c {
			return true
		}
	}
	return false
}

func (m *Marks) choice(v *admin.MarkView, c ledger.Choice) markChoice {
	choice := markChoice{Choice: c, Label: m.words.say("mark.choice." + string(c))}
	if c == ledger.ChoiceSold && v.Currency != "" {
		choice.Money = m.words.say("mark.amount", v.Currency)
	}
	return choice
}

// outcome is the page after something was done.
func (m *Marks) outcome(d *admin.Marked) *markPage {
	if d.Outcome == admin.MarkBadMoney {
		p := m.choose(d.MarkView, d.Mark.Choice)
		if p.First != nil {
			p.First.Amount, p.First.Wrong = d.Mark.Amount, m.words.say("mark.amount.wrong")
		}
		return p
	}
	p := &markPage{Lead: m.lead(d.MarkView), Other: "?"}
	p.Head = m.words.say("mark."+string(d.Outcome)+".head", m.what(d.Mark))
	p.Text = []string{m.words.say("mark." + string(d.Outcome) + ".text")}
	switch {
	case d.Mark.ID == "" || d.Outcome == admin.MarkUndone || d.Outcome == admin.MarkTooLate:
	case d.Mark.UndoUntil.IsZero():
		p.Text = append(p.Text, m.words.say("mark.fixed"))
	default:
		u := m.marked(d.Mark)
		p.Undo = &u
		p.Text = append(p.Text, m.words.say("mark.until", d.Mark.UndoUntil.Format(m.words["mark.clock"])))
	}
	return p
}

// marked says what a lead is marked as.
func (m *Marks) marked(k admin.Mark) markUndo {
	u := markUndo{Text: m.words.say("mark.marked", m.what(k), k.At.Format(m.words["mark.moment"]))}
	if !k.UndoUntil.IsZero() {
		u.ID, u.Name = k.ID, m.words.say("mark.undo.name", m.what(k))
	}
	return u
}

// what names a mark with its amount: "Sold, 1,240.50 EUR".
func (m *Marks) what(k admin.Mark) string {
	if k.Choice == "" {
		return ""
	}
	name := m.words.say("mark.choice." + string(k.Choice))
	if k.Amount == "" {
		return name
	}
	return m.words.say("mark.worth", name, m.money(k.Amount), k.Currency)
}

// money writes a decimal number as people do.
func (m *Marks) money(amount string) string {
	whole, cents, _ := strings.Cut(amount, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + m.words["number.group"] + whole[i:]
	}
	if cents == "" {
		return whole
	}
	return whole + m.words["number.point"] + cents + strings.Repeat("0", max(2-len(cents), 0))
}

func (m *Marks) lead(v *admin.MarkView) string {
	return m.words.say("mark.lead", v.ReceivedAt.Format(m.words["mark.moment"]), v.Form)
}

func (m *Marks) failed(w http.ResponseWriter, r *http.Request, err error) {
	if e, ok := errors.AsType[*admin.Error](err); ok {
		switch e.Code {
		case admin.Gone:
			m.problem(w, http.StatusGone)
		default:
			m.problem(w, http.StatusNotFound)
		}
		return
	}
	if r.Context().Err() == nil {
		m.c.Log.Error("a mark failed", "error", err)
	}
	w.Header().Set("Retry-After", "5")
	m.problem(w, http.StatusServiceUnavailable)
}

func (m *Marks) problem(w http.ResponseWriter, status int) {
	key := fmt.Sprintf("mark.%d.", status)
	m.show(w, status, &markPage{Head: m.words.say(key + "head"), Text: []string{m.words.say(key + "text")}})
}

func (m *Marks) show(w http.ResponseWriter, status int, p *markPage) {
	var b bytes.Buffer
	p.Style = m.style
	if err := m.page.Execute(&b, p); err != nil {
		m.c.Log.Error("a page could not be made", "page", "mark", "error", err)
		http.Error(w, m.words.say("mark.503.head"), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the reader went away
}

// An address may open this many pages at once and then one a second: enough for an office
// that shares one.
const (
	marksAtOnce   = 60
	maxMarkCaller = 4096
)

// limits slows down who tries links.
type limits struct {
	mu   sync.Mutex
	list map[netip.Addr]*rate.Limiter
}

func (l *limits) allow(addr netip.Addr) bool {
	if addr.Is6() { // whoever has one address of a network has all of them
		if p, err := addr.Prefix(64); err == nil {
			addr = p.Addr()
		}
	}
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.list[addr]
	if one == nil {
		if len(l.list) >= maxMarkCaller { // who is forgotten begins anew
			clear(l.list)
		}
		one = rate.NewLimiter(1, marksAtOnce)
		l.list[addr] = one
	}
	return one.AllowN(now, 1)
}
