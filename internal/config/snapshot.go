package config

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
)

// Sandbox is the id of the built-in dataset: its events go to the stand-in for
// Graph inside the process, and it needs no token.
const Sandbox = "sandbox"

// SiteKey is the setting of a source that has the public key of its website.
const SiteKey = "site"

// Meta is the kind of destination that a dataset is.
const Meta = "meta"

// Workspace is one business whose data is kept apart.
type Workspace struct {
	ID              int64
	Name            string
	Country         string         // ISO 3166 alpha-2, the default for phones; "": none
	Currency        string         // ISO 4217; "": none
	Timezone        *time.Location // for days and weeks in reports
	Keys            capi.KeySet    // the personal keys that may leave; 0: as the builder or caller gives them
	ConsentRequired bool           // no event leaves without a word that the person agreed
	Datasets        []*Dataset
	APIKeys         []APIKey
	Retention       Retention

	Sources     []*Source
	CRMs        []*CRM
	MergeWindow time.Duration // the same person by two sources within it is one lead
	Ring        *secret.Ring  // the workspace's keys, for what is sealed

	Rules []ledger.Rule // which stage is reported as which event
	Guard ledger.Guard
}

// Source is where leads come in.
type Source struct {
	ID        int64
	Workspace int64
	Kind      string // of package leadform: meta_leads, google_leads, website …
	Name      string
	Webhook   string // the secret part of its address /webhooks/{key}
	Options   secret.Options
	CreatedAt time.Time // leads from before are history
}

// CRM is where leads go.
type CRM struct {
	ledger.Destination        // Kind is one of package crm: webhook, hubspot …
	Webhook            string // the secret part of its address /webhooks/{key}
	Options            secret.Options
	TestLeads          bool          // test leads are delivered too, marked
	Poll               time.Duration // between two looks at its stages; 0: never
}

// Retention is how long what is personal is kept.
type Retention struct {
	Payload time.Duration // what was sent, counted from its last change
	Contact time.Duration // who a lead is, counted from its receipt
}

// APIKey is a key by which a machine writes into a workspace. The key itself is not
// kept, so that nobody can read it out of a running server.
type APIKey struct {
	Name string   // what the book calls the source of events that came with it
	Hash [32]byte // SHA-256 of the key
	Hint string   // its last characters, by which a person knows it
}

// NewAPIKey returns the entry for a key. An empty name becomes "api-" and the hint.
func NewAPIKey(name, key string) APIKey {
	k := APIKey{Name: name, Hash: sha256.Sum256([]byte(key)), Hint: secret.New(key).Last4()}
	if k.Name == "" {
		k.Name = "api-" + k.Hint
	}
	return k
}

// Dataset is a destination with all that is needed to reach it.
type Dataset struct {
	ledger.Destination
	Token, AppSecret secret.Secret
	TestEventCode    string // "": none
	APIVersion       string // of Graph, "v26.0"
	URL              string // base address of Graph; "" for the sandbox, which is inside the process
}

// IsSandbox tells whether the dataset is the built-in one.
func (d *Dataset) IsSandbox() bool { return d.Name == Sandbox }

// Snapshot is all settings at one moment. It never changes: who holds one sees the
// same settings until it asks for another.
type Snapshot struct {
	Workspaces []*Workspace

	byName   map[string]*Workspace
	byID     map[int64]*Workspace
	datasets []*Dataset
	byDest   map[int64]*Dataset
	byKey    map[[32]byte]access
	bySite   map[string]site
}

// site is a website's source by its public key.
type site struct {
	workspace *Workspace
	source    *Source
}

// access is what an API key opens.
type access struct {
	workspace *Workspace
	key       *APIKey
}

// NewSnapshot puts workspaces together and indexes them. It refuses what would make
// an answer depend on the order: a name, an id, a dataset or a key that stands twice.
// The workspaces belong to the snapshot from then on and must not be changed.
func NewSnapshot(workspaces ...*Workspace) (*Snapshot, error) {
	s := &Snapshot{
		Workspaces: workspaces,
		byName:     make(map[string]*Workspace),
		byID:       make(map[int64]*Workspace),
		byDest:     make(map[int64]*Dataset),
		byKey:      make(map[[32]byte]access),
		bySite:     make(map[string]site),
	}
	names := make(map[string]bool)
	for _, w := range workspaces {
		if s.byName[w.Name] != nil || s.byID[w.ID] != nil {
			return nil, fmt.Errorf("workspace %s (%d) stands twice in the settings", w.Name, w.ID)
		}
		s.byName[w.Name], s.byID[w.ID] = w, w
		if w.Timezone == nil {
			w.Timezone = time.UTC
		}
		for _, d := range w.Datasets {
			if names[d.Name] || s.byDest[d.ID] != nil {
				return nil, fmt.Errorf("dataset %s (%d) stands twice in the settings", d.Name, d.ID)
			}
			names[d.Name], s.byDest[d.ID] = true, d
			s.datasets = append(s.datasets, d)
		}
		for _, x := range w.Sources {
			key := x.Options.Text(SiteKey)
			if key == "" {
				continue
			}
			if other, ok := s.bySite[key]; ok {
				return nil, fmt.Errorf("the site of source %s of workspace %s is also that of source %s of workspace %s", x.Name, w.Name, other.source.Name, other.workspace.Name)
			}
			s.bySite[key] = site{w, x}
		}
		for i := range w.APIKeys {
			k := &w.APIKeys[i]
			if other, ok := s.byKey[k.Hash]; ok {
				return nil, fmt.Errorf("API key %s of workspace %s is also key %s of workspace %s", k.Name, w.Name, other.key.Name, other.workspace.Name)
			}
			s.byKey[k.Hash] = access{workspace: w, key: k}
		}
	}
	return s, nil
}

// Workspace returns the workspace of that name, nil if there is none.
func (s *Snapshot) Workspace(name string) *Workspace { return s.byName[name] }

// WorkspaceByID returns the workspace with that id, nil if there is none.
func (s *Snapshot) WorkspaceByID(id int64) *Workspace { return s.byID[id] }

// Destination returns the dataset with that destination id, nil if there is none.
func (s *Snapshot) Destination(id int64) *Dataset { return s.byDest[id] }

// Dataset returns a workspace's dataset by Meta's id, nil if it is not of this
// workspace.
func (s *Snapshot) Dataset(ws *Workspace, datasetID string) *Dataset {
	for _, d := range ws.Datasets {
		if d.Name == datasetID {
			return d
		}
	}
	return nil
}

// Datasets returns the datasets of all workspaces, in the order of the settings.
func (s *Snapshot) Datasets() []*Dataset { return s.datasets }

// Authenticate returns the workspace that a key opens, and the key's entry. Keys are
// found by their hash, so that the time it takes tells nothing about a key.
func (s *Snapshot) Authenticate(key string) (*Workspace, *APIKey, bool) {
	hash := sha256.Sum256([]byte(key))
	a, ok := s.byKey[hash]
	if !ok || subtle.ConstantTimeCompare(hash[:], a.key.Hash[:]) != 1 {
		return nil, nil, false
	}
	return a.workspace, a.key, true
}

// Live holds the snapshot that is in force. Reading it costs one atomic load.
type Live struct{ now atomic.Pointer[Snapshot] }

// NewLive returns a holder of s.
func NewLive(s *Snapshot) *Live {
	l := &Live{}
	l.Set(s)
	return l
}

// Get returns the snapshot in force. Ask once per piece of work: two calls may give
// two answers.
func (l *Live) Get() *Snapshot { return l.now.Load() }

// Set puts another snapshot in force, for all who ask from now on.
func (l *Live) Set(s *Snapshot) { l.now.Store(s) }
