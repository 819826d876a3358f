package web

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/capiloop/capiloop/internal/admin"
)

// shownLeads is how many of the newest leads the book shows.
const shownLeads = 10

// leadRow is where a lead stands, on the first page.
type leadRow struct {
	*admin.Lead

	Name  string // the platform's id, or ours
	Stage string // the last one that the CRM told of; "": none
}

// leadView is the page of one lead.
type leadView struct {
	leadRow

	Sentence string
	Steps    []step
}

// leads returns the newest leads with the events of each.
func (h *Handler) leads(ctx context.Context) ([]leadRow, error) {
	newest, err := h.c.Actions.Leads(ctx, h.by, h.c.Workspace, shownLeads)
	if err != nil {
		return nil, err
	}
	list := make([]leadRow, 0, len(newest))
	for _, l := range newest {
		whole, err := h.c.Actions.Lead(ctx, h.by, h.c.Workspace, l.ID)
		var e *admin.Error
		if errors.As(err, &e) && e.Code == admin.NotFound {
			continue // it went in between
		}
		if err != nil {
			return nil, err
		}
		list = append(list, rowOf(whole))
	}
	return list, nil
}

func rowOf(l *admin.Lead) leadRow {
	r := leadRow{Lead: l, Name: l.LeadID}
	if r.Name == "" {
		r.Name = l.ID
	}
	for _, hop := range l.Hops {
		if hop.Stage != "" {
			r.Stage = hop.Stage
		}
	}
	return r
}

func (h *Handler) showLead(w http.ResponseWriter, r *http.Request) {
	l, err := h.c.Actions.Lead(r.Context(), h.by, h.c.Workspace, r.PathValue("id"))
	if err != nil {
		h.failed(w, r, err)
		return
	}
	f := h.frame(h.words.say("title.lead"))
	f.Lead = h.words.leadView(l)
	if h.c.Live {
		f.LiveURL = "/live/leads/" + l.ID
	}
	h.show(w, r, http.StatusOK, f)
}

func (h *Handler) streamLead(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	h.stream(w, r, func(ctx context.Context) (string, error) {
		l, err := h.c.Actions.Lead(ctx, h.by, h.c.Workspace, id)
		if err != nil {
			return "", err
		}
		return h.parts(frame{Lead: h.words.leadView(l)})
	})
}

// leadView puts the hops of a lead and the events made of it into one line of life.
func (w words) leadView(l *admin.Lead) *leadView {
	v := &leadView{leadRow: rowOf(l), Sentence: w.say("lead.sentence." + l.State)}
	type timed struct {
		step

		at time.Time
	}
	list := make([]timed, 0, len(l.Hops)+len(l.Events))
	for _, hop := range l.Hops {
		list = append(list, timed{w.hopStep(hop), hop.At})
	}
	for _, e := range l.Events {
		list = append(list, timed{w.toldStep(e), e.ReceivedAt})
	}
	// An id, and so the time of an event, has milliseconds only.
	slices.SortStableFunc(list, func(a, b timed) int { return a.at.Truncate(time.Millisecond).Compare(b.at.Truncate(time.Millisecond)) })
	for _, t := range list {
		v.Steps = append(v.Steps, t.step)
	}
	return v
}

func (w words) hopStep(hop admin.Hop) step {
	s := step{Kind: "step", At: &hop.At, Text: sentence(hop.Detail)}
	switch hop.What {
	case "form", "received":
		s.Head = w.say("lead.hop." + hop.What)
	case "stage":
		s.Head = w.say("lead.hop.stage", hop.Stage)
	default:
		s.Head = w.say("lead.hop.crm", hop.What)
	}
	return s
}

// toldStep is an event made of the lead, with what became of it.
func (w words) toldStep(e *admin.Event) step {
	s := step{Kind: string(e.State), Head: w.say("lead.event", e.Name), Link: "/events/" + e.ID, At: &e.ReceivedAt, State: string(e.State)}
	s.Text = w.or("reason."+string(e.Reason), e.Sentence)
	for _, d := range e.Deliveries {
		if d.SentAt != nil {
			s.More = append(s.More, w.say("lead.sent", d.Destination, d.SentAt))
		}
		if d.FBTraceID != "" {
			s.More = append(s.More, w.say("life.receipt", d.FBTraceID))
		}
		if d.Answer != nil && d.Answer.Message != "" {
			s.Said = d.Answer.Message
		}
	}
	return s
}

// sentence makes a sentence of a detail.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	first, n := utf8.DecodeRuneInString(text)
	text = string(unicode.ToUpper(first)) + text[n:]
	if strings.HasSuffix(text, ".") {
		return text
	}
	return text + "."
}
