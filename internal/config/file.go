package config

import (
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
)

// Defaults of what a file need not say.
const (
	DefaultListen   = "127.0.0.1:8080"
	DefaultDatabase = "data/capiloop.db"
	DefaultPayload  = 30 * day // retention
	DefaultContact  = 30 * day
	DefaultMerge    = time.Hour
	DefaultPoll     = 15 * time.Minute
)

// File is the typed form of capiloop.yaml.
type File struct {
	Listen         string
	PublicURL      string        // without a slash at the end; "": none
	Database       secret.Secret // a file's path or a postgres:// URL, which may hold a password
	DataDir        string        // where the process keeps what is not in the database
	Graph          Graph
	TrustedProxies []netip.Prefix
	Log            Log
	Workspaces     []FileWorkspace

	// Warnings are what is most likely a slip; the file holds all the same.
	Warnings []Problem `json:"-"`
}

// Graph is where Meta is reached, for all datasets that do not say otherwise.
type Graph struct{ URL, Version string }

// Log is how the server writes its log.
type Log struct {
	Format string // "text" or "json"
	Level  slog.Level
}

// FileWorkspace is a workspace as the file declares it.
type FileWorkspace struct {
	Name, Country, Currency string
	Keys                    capi.KeySet
	Timezone                *time.Location
	APIKeys                 []secret.Secret
	Datasets                []FileDataset
	Sources                 []FileSource
	CRMs                    []FileCRM
	ConsentRequired         bool
	MergeWindow             time.Duration
	Retention               Retention
	Rules                   []ledger.Rule
	Guard                   ledger.Guard
}

// FileDataset is a dataset as the file declares it; APIVersion and URL are empty
// where the file's graph settings hold.
type FileDataset struct {
	ID                             string // Meta's id, or Sandbox
	Live                           bool
	Token, AppSecret               secret.Secret
	TestEventCode, APIVersion, URL string
}

// Default returns the settings without a file: one workspace with the sandbox, and
// no API key (who starts the server makes one).
func Default() *File {
	main := newWorkspace()
	main.Name = "main"
	main.Datasets = []FileDataset{{ID: Sandbox, Live: true}}
	return &File{
		Listen:     DefaultListen,
		Database:   secret.New(DefaultDatabase),
		DataDir:    dataDir(DefaultDatabase),
		Graph:      Graph{URL: capi.DefaultBaseURL, Version: capi.DefaultVersion},
		Log:        Log{Format: "text", Level: slog.LevelInfo},
		Workspaces: []FileWorkspace{main},
	}
}

func newWorkspace() FileWorkspace {
	return FileWorkspace{
		Timezone: time.UTC, MergeWindow: DefaultMerge, Retention: Retention{Payload: DefaultPayload, Contact: DefaultContact},
		Guard: ledger.DefaultGuard(),
	}
}

// APIKeyOf is an API key that is kept in the database.
type APIKeyOf struct {
	Workspace string
	APIKey
}

// Kept is what the store says about a file: the ids that it gave, and what it keeps
// besides. Each function is asked for what the file has; an id of 0 is an error.
type Kept struct {
	Workspace func(name string) int64
	Dataset   func(id string) ledger.Destination
	Source    func(workspace, name string) KeptSource // nil: there are none
	CRM       func(workspace, name string) KeptCRM    // nil: there are none
	Ring      func(workspace int64) *secret.Ring      // nil: nothing will be sealed
	APIKeys   []APIKeyOf                              // one whose workspace is not in the file opens nothing
}

// KeptSource is what the store keeps of a source.
type KeptSource struct {
	ID        int64
	Webhook   string
	CreatedAt time.Time
}

// KeptCRM is what the store keeps of a CRM.
type KeptCRM struct {
	ledger.Destination
	Webhook string
}

// Snapshot builds the settings in force out of the file and of what the store says
// about it.
func (f *File) Snapshot(k Kept) (*Snapshot, error) {
	list := make([]*Workspace, 0, len(f.Workspaces))
	for i := range f.Workspaces {
		w, err := f.workspace(&f.Workspaces[i], &k)
		if err != nil {
			return nil, fmt.Errorf("build the settings: %w", err)
		}
		list = append(list, w)
	}
	s, err := NewSnapshot(list...)
	if err != nil {
		return nil, fmt.Errorf("build the settings: %w", err)
	}
	return s, nil
}

func (f *File) workspace(in *FileWorkspace, k *Kept) (*Workspace, error) {
	w := &Workspace{
		ID: k.Workspace(in.Name), Name: in.Name, Country: in.Country, Currency: in.Currency, Timezone: in.Timezone,
		Keys: in.Keys, ConsentRequired: in.ConsentRequired, MergeWindow: in.MergeWindow, Retention: in.Retention,
		Rules: in.Rules, Guard: in.Guard,
	}
	if w.ID == 0 {
		return nil, fmt.Errorf("workspace %s has no id in the store", in.Name)
	}
	if k.Ring != nil {
		w.Ring = k.Ring(w.ID)
	}
	for j := range in.Datasets {
		d := f.dataset(&in.Datasets[j])
		d.Destination = k.Dataset(d.Name)
		if d.ID == 0 || d.Workspace != w.ID {
			return nil, fmt.Errorf("dataset %s has no id in the store, or that of another workspace", in.Datasets[j].ID)
		}
		w.Datasets = append(w.Datasets, d)
	}
	for _, s := range in.Sources {
		kept := k.Source(in.Name, s.Name)
		if kept.ID == 0 {
			return nil, fmt.Errorf("source %s of workspace %s has no id in the store", s.Name, in.Name)
		}
		w.Sources = append(w.Sources, &Source{
			ID: kept.ID, Workspace: w.ID, Kind: s.Kind, Name: s.Name, Webhook: kept.Webhook, Options: s.Options, CreatedAt: kept.CreatedAt,
		})
	}
	for _, c := range in.CRMs {
		d := k.CRM(in.Name, c.Name)
		if d.ID == 0 || d.Workspace != w.ID {
			return nil, fmt.Errorf("CRM %s of workspace %s has no id in the store, or that of another workspace", c.Name, in.Name)
		}
		w.CRMs = append(w.CRMs, &CRM{Destination: d.Destination, Webhook: d.Webhook, Options: c.Options, TestLeads: c.TestLeads, Poll: c.Poll})
	}
	for _, key := range in.APIKeys {
		w.APIKeys = append(w.APIKeys, NewAPIKey("", key.Reveal()))
	}
	for _, key := range k.APIKeys {
		if key.Workspace == w.Name {
			w.APIKeys = append(w.APIKeys, key.APIKey)
		}
	}
	return w, nil
}

// dataset fills in what the file says once for all datasets.
func (f *File) dataset(in *FileDataset) *Dataset {
	d := &Dataset{
		Destination: ledger.Destination{Kind: Meta, Name: in.ID, Live: in.Live},
		Token:       in.Token, AppSecret: in.AppSecret, TestEventCode: in.TestEventCode,
		APIVersion: in.APIVersion, URL: in.URL,
	}
	if d.APIVersion == "" {
		d.APIVersion = f.Graph.Version
	}
	if d.URL == "" && !d.IsSandbox() {
		d.URL = f.Graph.URL
	}
	return d
}
