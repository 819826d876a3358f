package config

import (
	"crypto/subtle"
	"iter"
)

// CRMs returns the CRMs of all workspaces.
func (s *Snapshot) CRMs() []*CRM {
	var list []*CRM
	for _, w := range s.Workspaces {
		list = append(list, w.CRMs...)
	}
	return list
}

// CRM returns a CRM by its destination's id, with its workspace; nil if there is none.
func (s *Snapshot) CRM(id int64) (*Workspace, *CRM) {
	for _, w := range s.Workspaces {
		for _, c := range w.CRMs {
			if c.ID == id {
				return w, c
			}
		}
	}
	return nil, nil
}

// CRMByWebhook returns the CRM whose address has this key; nil if there is none. The
// keys are compared as those of sources are.
func (s *Snapshot) CRMByWebhook(key string) (*Workspace, *CRM) {
	var ws *Workspace
	var found *CRM
	for _, w := range s.Workspaces {
		for _, x := range w.CRMs {
			if subtle.ConstantTimeCompare([]byte(x.Webhook), []byte(key)) == 1 && key != "" {
				ws, found = w, x
			}
		}
	}
	return ws, found
}

// SourceByWebhook returns the source whose address has this key; nil if there is
// none. The keys are compared in constant time, for they are all that some senders
// prove themselves by.
func (s *Snapshot) SourceByWebhook(key string) (*Workspace, *Source) {
	var ws *Workspace
	var source *Source
	for _, w := range s.Workspaces {
		for _, x := range w.Sources {
			if subtle.ConstantTimeCompare([]byte(x.Webhook), []byte(key)) == 1 && key != "" {
				ws, source = w, x
			}
		}
	}
	return ws, source
}

// SourceBySite returns the source of the website with this public key; nil if there is
// none.
func (s *Snapshot) SourceBySite(key string) (*Workspace, *Source) {
	found := s.bySite[key]
	return found.workspace, found.source
}

// Sites returns the sources of all websites that have a public key, in no order.
func (s *Snapshot) Sites() iter.Seq[*Source] {
	return func(yield func(*Source) bool) {
		for _, found := range s.bySite {
			if !yield(found.source) {
				return
			}
		}
	}
}
