package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

// FileSource is a lead source as the configuration file declares it.
type FileSource struct {
	Kind, Name string
	Webhook    string // the secret part of its address; "": one is made, once
}

// FileCRM is a CRM as the configuration file declares it.
type FileCRM struct {
	Kind, Name string
	Webhook    string // the secret part of its address; "": one is made, once
}

// CRM is what is kept of a CRM.
type CRM struct {
	ledger.Destination
	Webhook string
}

// Source is what is kept of a lead source.
type Source struct {
	ID        int64
	Webhook   string
	CreatedAt time.Time // the connection; leads from before are history
}

// webhookBytes is how random the address of a source or CRM is.
const webhookBytes = 32

func newWebhook() string {
	var b [webhookBytes]byte
	_, _ = rand.Read(b[:]) // never fails, by its documentation
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// freeWebhooks gives a new address to whoever has one that the file gives to another
// source or CRM: one that is archived, or one that gets its own in a moment.
func freeWebhooks(ctx context.Context, tx *tx, file []FileWorkspace) error {
	for _, w := range file {
		for _, src := range w.Sources {
			if err := freeWebhook(ctx, tx, src.Webhook, w.Name, src.Name, "", ""); err != nil {
				return fmt.Errorf("source %s: %w", src.Name, err)
			}
		}
		for _, c := range w.CRMs {
			if err := freeWebhook(ctx, tx, c.Webhook, "", "", c.Kind, destinationName(w.Name, c.Name)); err != nil {
				return fmt.Errorf("CRM %s: %w", c.Name, err)
			}
		}
	}
	return nil
}

// freeWebhook takes an address from all but one source, or one CRM.
func freeWebhook(ctx context.Context, tx *tx, webhook, ws, source, kind, crm string) error {
	if webhook == "" {
		return nil
	}
	if _, err := tx.exec(ctx, `UPDATE sources SET webhook = $1 WHERE webhook = $2 AND NOT (name = $3 AND ws IN (SELECT id FROM workspaces WHERE name = $4))`,
		newWebhook(), webhook, source, ws); err != nil {
		return err
	}
	_, err := tx.exec(ctx, `UPDATE destinations SET webhook = $1 WHERE webhook = $2 AND NOT (kind = $3 AND name = $4)`, newWebhook(), webhook, kind, crm)
	return err
}

func applySource(ctx context.Context, tx *tx, ws int64, f FileSource, now int64) (Source, error) {
	var kind string
	err := tx.row(ctx, `SELECT kind FROM sources WHERE ws = $1 AND name = $2`, []any{ws, f.Name}, &kind)
	if err == nil && kind != f.Kind {
		return Source{}, fmt.Errorf("source %s was of kind %s before: a source stays of its kind, for its leads are known by it; give the new one another name", f.Name, kind)
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return Source{}, fmt.Errorf("source %s: %w", f.Name, err)
	}
	var out Source
	var created int64
	made := f.Webhook
	if made == "" {
		made = newWebhook()
	}
	err = tx.row(ctx, `INSERT INTO sources (id, ws, kind, name, origin, webhook, created_at, archived_at)
		VALUES ((SELECT COALESCE(MAX(id), 0) + 1 FROM sources), $1, $2, $3, 'file', $4, $5, 0)
		ON CONFLICT (ws, name) DO UPDATE SET archived_at = 0, origin = 'file', webhook = CASE WHEN $6 = '' THEN sources.webhook ELSE excluded.webhook END
		RETURNING id, webhook, created_at`, []any{ws, f.Kind, f.Name, made, now, f.Webhook}, &out.ID, &out.Webhook, &created)
	if err != nil {
		return Source{}, fmt.Errorf("source %s: %w", f.Name, err)
	}
	out.CreatedAt = ledger.FromMicros(created)
	return out, nil
}

func applyCRM(ctx context.Context, tx *tx, id int64, ws string, f FileCRM, now int64) (CRM, error) {
	d, err := applyDestination(ctx, tx, id, FileDestination{Kind: f.Kind, Name: destinationName(ws, f.Name), Live: true}, now)
	if err != nil {
		return CRM{}, err
	}
	d.Name = f.Name
	out := CRM{Destination: d}
	err = tx.row(ctx, `UPDATE destinations SET webhook = CASE WHEN $2 <> '' THEN $3 WHEN webhook = '' THEN $4 ELSE webhook END WHERE id = $1 RETURNING webhook`,
		[]any{d.ID, f.Webhook, f.Webhook, newWebhook()}, &out.Webhook)
	if err != nil {
		return CRM{}, fmt.Errorf("address of CRM %s: %w", f.Name, err)
	}
	return out, nil
}

// SourceSeen returns when a source, or a CRM as CRMSource, last brought a lead or a stage
// change, or word of one; the zero time if it never did.
func (s *Store) SourceSeen(ctx context.Context, ws, source int64, name string) (time.Time, error) {
	var at, lead, change int64
	err := s.read.QueryRowContext(ctx, `SELECT COALESCE((SELECT MAX(at) FROM inbox WHERE source = $1), 0),
		COALESCE((SELECT id FROM leads WHERE ws = $2 AND source = $3 ORDER BY id DESC LIMIT 1), 0),
		COALESCE((SELECT id FROM stage_changes WHERE ws = $2 AND source = $3 ORDER BY at DESC LIMIT 1), 0)`, source, ws, name).Scan(&at, &lead, &change)
	if err != nil {
		return time.Time{}, fmt.Errorf("look when source %s was last heard of: %w", name, err)
	}
	seen := ledger.FromMicros(at)
	for _, id := range []int64{lead, change} {
		if t := ledger.ID(id).Time(); id != 0 && t.After(seen) {
			seen = t
		}
	}
	return seen, nil
}

// destinationName is what a CRM is called among the destinations: two workspaces may
// both call theirs "crm", and a destination's name stands once.
func destinationName(ws, crm string) string { return ws + "/" + crm }

// plainName is a destination's name without the workspace, which stands before that
// of a CRM; a dataset's id has no slash.
func plainName(name string) string {
	if _, plain, ok := strings.Cut(name, "/"); ok {
		return plain
	}
	return name
}
