package admin

import (
	"context"
	"time"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/store"
)

// Source is where leads come in, or a CRM that tells what becomes of them.
type Source struct {
	Workspace   string     `json:"workspace"`
	Kind        string     `json:"kind"`
	Name        string     `json:"name"`
	CRM         bool       `json:"crm"`     // it tells of stages
	URL         string     `json:"url"`     // to be entered at the platform; "" for who may not have secrets
	Snippet     string     `json:"snippet"` // of a website with a site: for its pages; "": none
	ConnectedAt time.Time  `json:"connected_at"`
	LastSeenAt  *time.Time `json:"last_seen_at"` // null: nothing came yet
}

// Sources lists where leads come in and which CRMs tell of stages. The address is a
// secret: who has it can post leads where a platform signs nothing.
func (a *Admin) Sources(ctx context.Context, by Actor, ws string) ([]Source, error) {
	if err := allow(by, Read, "look at sources"); err != nil {
		return nil, err
	}
	workspaces := a.c.Settings.Get().Workspaces
	if ws != "" {
		w, err := a.workspace(ws)
		if err != nil {
			return nil, err
		}
		workspaces = []*config.Workspace{w}
	}
	list := []Source{}
	add := func(out Source, w *config.Workspace, id int64, webhook string) error {
		seen, err := a.c.Store.SourceSeen(ctx, w.ID, id, out.Name)
		if err != nil {
			return err
		}
		out.Workspace, out.LastSeenAt = w.Name, when(seen)
		if by.Right >= Own && a.c.URL != nil {
			out.URL = a.c.URL() + "/webhooks/" + webhook
		}
		list = append(list, out)
		return nil
	}
	for _, w := range workspaces {
		for _, s := range w.Sources {
			out := Source{Kind: s.Kind, Name: s.Name, Snippet: a.snippet(s), ConnectedAt: s.CreatedAt.UTC()}
			if err := add(out, w, s.ID, s.Webhook); err != nil {
				return nil, err
			}
		}
		for _, c := range w.CRMs {
			if _, tells := a.c.CRMs[c.Kind].(crm.StageReader); !tells {
				continue
			}
			if err := add(Source{Kind: c.Kind, Name: c.Name, CRM: true, ConnectedAt: c.CreatedAt.UTC()}, w, store.CRMSource(c.ID), c.Webhook); err != nil {
				return nil, err
			}
		}
	}
	return list, nil
}

// snippet is what the pages of a website load the tag by. It is in their source, so it is
// no secret.
func (a *Admin) snippet(s *config.Source) string {
	key := s.Options.Text(config.SiteKey)
	if key == "" || a.c.URL == nil {
		return ""
	}
	return `<script async src="` + a.c.URL() + "/t.js?site=" + key + `"></script>`
}

// Rotation is what a change of the master key did.
type Rotation struct {
	OldKey string `json:"old_key"` // ids, not the keys themselves
	NewKey string `json:"new_key"`
	In     string `json:"in"`     // where the new one is: a file, or a variable's name
	OldIn  string `json:"old_in"` // the file that keeps the old one, for backups from before; "": none
	Keys   int    `json:"keys"`   // how many keys of workspaces it wraps
}

// RotateMasterKey replaces the master key.
func (a *Admin) RotateMasterKey(ctx context.Context, by Actor) (*Rotation, error) {
	if err := allow(by, Own, "rotate the master key"); err != nil {
		return nil, err
	}
	if a.c.RotateMaster == nil {
		return nil, &Error{Code: Unavailable, Message: "The master key cannot be rotated here.", Fix: "Run capiloop rotate-key."}
	}
	r, err := a.c.RotateMaster(ctx)
	if err == nil {
		a.c.Log.Info("master key rotated", "by", by.Name, "new", r.NewKey)
	}
	return r, err
}
