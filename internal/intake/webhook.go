package intake

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/leadform/website"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/record"
	"github.com/capiloop/capiloop/internal/store"
)

// LeadRecorder writes leads down.
type LeadRecorder interface {
	Lead(ctx context.Context, ws *config.Workspace, l *ledger.Lead) (record.LeadResult, error)
	LeadOnce(ctx context.Context, ws *config.Workspace, l *ledger.Lead, key string, body [32]byte) (record.LeadResult, error)
	Consent(ctx context.Context, ws *config.Workspace, d record.Decision) (record.ConsentResult, error)
}

// Inbox keeps notices of leads that are read later.
type Inbox interface {
	AddNotices(ctx context.Context, notices []store.Notice) (int, error)
	Raise(ctx context.Context, f ledger.Finding) error
}

const webhookPrefix = "/webhooks/"

// webhook takes a request on the own address of a source or CRM: its kind verifies and
// reads it, what it brought is written down, and only then it is answered.
func (h *Handler) webhook(ctx context.Context, c *call) reply {
	settings, key := h.c.Settings.Get(), strings.TrimPrefix(c.URL.Path, webhookPrefix)
	ws, source := settings.SourceByWebhook(key)
	owner, told := settings.CRMByWebhook(key)
	reader, tells := h.stageReader(told)
	if (source == nil || h.c.Forms[source.Kind] == nil) && !tells {
		return wrong{http.StatusNotFound, "no_such_source", "there is no lead source or CRM at this address", "copy the address from: capiloop sources", ""}.reply()
	}
	if c.Method != http.MethodGet && c.Method != http.MethodPost && c.Method != http.MethodOptions {
		a := wrongMethod().reply()
		a.allow = "GET, POST"
		return a
	}
	body, e := readBody(c)
	if e != nil {
		return e.reply()
	}
	if tells {
		return h.stageHook(ctx, c, owner, told, reader, body)
	}
	return h.leadHook(ctx, c, ws, source, body)
}

// leadHook takes a request on a source's address.
func (h *Handler) leadHook(ctx context.Context, c *call, ws *config.Workspace, source *config.Source, body []byte) reply {
	c.workspace, c.source = ws, source.Name
	got := h.c.Forms[source.Kind].Receive(leadform.Request{
		Method: c.Method, URL: h.publicURL(c), Query: c.URL.Query(), Header: c.Header, Body: body, Peer: c.peer,
	}, formSource(ws, source), h.c.Clock.Now())
	if len(got.Leads) > 0 && source.Kind == website.Name && !h.floods.allow(source.ID, c.peer, 1, h.c.Clock.Now()) {
		a := wrongFlood().reply()
		a.headers = got.Answer.Headers // or the page could not read the answer
		return a
	}
	if err := h.keep(ctx, c, ws, source, &got); err != nil {
		a := h.notRecorded(ctx, c, err).reply()
		if got.Busy != 0 {
			a.status = got.Busy
		}
		a.headers = got.Answer.Headers
		return a
	}
	return reply{
		status: got.Answer.Status, body: got.Answer.Body, contentType: cmp.Or(got.Answer.ContentType, "text/plain; charset=utf-8"),
		location: got.Answer.Location, headers: got.Answer.Headers,
	}
}

// publicURL is the address as the sender called it, which some sign.
func (h *Handler) publicURL(c *call) string {
	if h.c.PublicURL != "" {
		return h.c.PublicURL + c.URL.RequestURI()
	}
	return "http://" + c.Host + c.URL.RequestURI()
}

func formSource(ws *config.Workspace, s *config.Source) leadform.Source {
	return leadform.Source{
		ID: s.ID, Workspace: ws.ID, Kind: s.Kind, Name: s.Name, Country: ws.Country, CreatedAt: s.CreatedAt, Options: s.Options,
	}
}

// keep writes down what a request brought.
func (h *Handler) keep(ctx context.Context, c *call, ws *config.Workspace, source *config.Source, got *leadform.Received) error {
	for i := range got.Leads {
		l := &got.Leads[i]
		l.Source, l.Kind = source.Name, source.Kind
		done, err := h.c.Leads.Lead(ctx, ws, l)
		if err != nil {
			return err
		}
		c.tally.lead(done)
	}
	if len(got.Notices) == 0 {
		return nil
	}
	now := h.c.Clock.Now()
	notices := make([]store.Notice, 0, len(got.Notices))
	for _, n := range got.Notices {
		w, s := h.owner(ws, source, n.Owner)
		if s == nil {
			f := ledger.Finding{Workspace: ws.ID, Kind: ledger.FindingUnknownPage, Subject: n.Owner, At: now}
			if err := h.c.Inbox.Raise(ctx, f); err != nil {
				return err
			}
			continue
		}
		notices = append(notices, store.Notice{
			ID: h.c.IDs.Next(), Workspace: w.ID, Source: s.ID, Key: n.Key, Deleted: n.Deleted, Body: n.Body, At: now,
		})
	}
	if len(notices) == 0 {
		return nil
	}
	fresh, err := h.c.Inbox.AddNotices(ctx, notices)
	c.tally.accepted += fresh
	c.tally.duplicates += len(notices) - fresh
	return err
}

// owner finds the source that a notice belongs to. A Meta app has one address for all
// its pages: the source of the address has verified the request, and each change goes
// to the source of its page, in any workspace with the same app secret.
func (h *Handler) owner(ws *config.Workspace, source *config.Source, page string) (*config.Workspace, *config.Source) {
	if page == "" || source.Options.Text("page_id") == page {
		return ws, source
	}
	for _, w := range h.c.Settings.Get().Workspaces {
		for _, s := range w.Sources {
			if s.Kind == source.Kind && s.Options.Text("page_id") == page && s.Options.Secret("app_secret").Equal(source.Options.Secret("app_secret")) {
				return w, s
			}
		}
	}
	return nil, nil
}
