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
	ConsentRequired         bool
	Retention               Retention
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
	return FileWorkspace{Timezone: time.UTC, Retention: Retention{Payload: DefaultPayload}}
}

// APIKeyOf is an API key that is kept in the database.
type APIKeyOf struct {
	Workspace string
	APIKey
}

// Snapshot builds the settings in force out of the file and of what the store said
// about it: the ids of workspaces (by name), the destinations (by dataset id) and
// the keys kept there. A key whose workspace is not in the file opens nothing.
func (f *File) Snapshot(resolve func(workspace string) int64, destination func(datasetID string) ledger.Destination, more []APIKeyOf) (*Snapshot, error) {
	list := make([]*Workspace, 0, len(f.Workspaces))
	for i := range f.Workspaces {
		in := &f.Workspaces[i]
		w := &Workspace{
			ID: resolve(in.Name), Name: in.Name, Country: in.Country, Currency: in.Currency, Timezone: in.Timezone,
			Keys: in.Keys, ConsentRequired: in.ConsentRequired, Retention: in.Retention,
		}
		if w.ID == 0 {
			return nil, fmt.Errorf("build the settings: workspace %s has no id in the store", in.Name)
		}
		for j := range in.Datasets {
			d := f.dataset(&in.Datasets[j])
			d.Destination = destination(d.Name)
			if d.ID == 0 || d.Workspace != w.ID {
				return nil, fmt.Errorf("build the settings: dataset %s has no id in the store, or that of another workspace", in.Datasets[j].ID)
			}
			w.Datasets = append(w.Datasets, d)
		}
		for _, key := range in.APIKeys {
			w.APIKeys = append(w.APIKeys, NewAPIKey("", key.Reveal()))
		}
		for _, k := range more {
			if k.Workspace == w.Name {
				w.APIKeys = append(w.APIKeys, k.APIKey)
			}
		}
		list = append(list, w)
	}
	s, err := NewSnapshot(list...)
	if err != nil {
		return nil, fmt.Errorf("build the settings: %w", err)
	}
	return s, nil
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
