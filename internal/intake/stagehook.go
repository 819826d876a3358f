package intake

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/store"
)

// stageReader returns what reads the hooks of a CRM.
func (h *Handler) stageReader(c *config.CRM) (crm.StageReader, bool) {
	if c == nil {
		return nil, false
	}
	reader, tells := h.c.CRMs[c.Kind].(crm.StageReader)
	return reader, tells
}

// stageHook takes a request on a CRM's address.
func (h *Handler) stageHook(ctx context.Context, c *call, ws *config.Workspace, told *config.CRM, reader crm.StageReader, body []byte) reply {
	c.workspace, c.source = ws, told.Name
	got := reader.Receive(crm.Incoming{
		Method: c.Method, URL: h.publicURL(c), Query: c.URL.Query(), Header: c.Header, Body: body,
	}, h.c.Account(ctx, ws, told), h.c.Clock.Now())
	if err := h.keepMoves(ctx, c, ws, told, &got); err != nil {
		a := h.notRecorded(ctx, c, err).reply()
		a.status = cmp.Or(got.Busy, a.status)
		return a
	}
	return reply{
		status: cmp.Or(got.Answer.Status, http.StatusOK), body: got.Answer.Body, contentType: cmp.Or(got.Answer.ContentType, "text/plain; charset=utf-8"),
	}
}

// keepMoves writes down what a CRM told. Merges go first: a move that came with one may
// be of a record that exists only since. A thin change waits in the inbox until the CRM
// was asked whose it is.
func (h *Handler) keepMoves(ctx context.Context, c *call, ws *config.Workspace, told *config.CRM, got *crm.Received) error {
	for _, m := range got.Merges {
		if err := h.c.Stages.Merge(ctx, ws, told.ID, m); err != nil {
			return err
		}
	}
	var whole []ledger.StageChange
	var thin []store.Notice
	for i := range got.Changes {
		change := &got.Changes[i]
		if !change.Thin {
			whole = append(whole, *change)
			continue
		}
		n, err := h.stageNotice(ws, told, change)
		if err != nil {
			return err
		}
		thin = append(thin, n)
	}
	if len(thin) > 0 {
		fresh, err := h.c.Inbox.AddNotices(ctx, thin)
		c.tally.accepted += fresh
		c.tally.duplicates += len(thin) - fresh
		if err != nil {
			return err
		}
	}
	if len(whole) == 0 {
		return nil
	}
	done, err := h.c.Stages.Stages(ctx, ws, told.Name, told.Kind, told.ID, whole)
	c.tally.stages(done)
	return err
}

// stageNotice makes the notice of a thin change. It holds ids only.
func (h *Handler) stageNotice(ws *config.Workspace, told *config.CRM, change *ledger.StageChange) (store.Notice, error) {
	now := h.c.Clock.Now()
	identity := change.Identity()
	if change.At.IsZero() { // it happened about now, not when the CRM will have been asked
		change.Key, change.At = identity, now
	}
	body, err := json.Marshal(change)
	if err != nil {
		return store.Notice{}, fmt.Errorf("write a stage change as JSON: %w", err)
	}
	sum := sha256.Sum256([]byte(identity))
	return store.Notice{
		ID: h.c.IDs.Next(), Workspace: ws.ID, Source: store.CRMSource(told.ID), Key: "stage:" + hex.EncodeToString(sum[:]), Body: body, At: now,
	}, nil
}
