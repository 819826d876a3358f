package config_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
)

// FuzzParse holds that any file is either settings that a snapshot can be made of,
// or an error with places inside of the file and without what a variable held.
func FuzzParse(f *testing.F) {
	paths, _ := filepath.Glob("testdata/*/*.yaml")
	for _, path := range append(paths, example) {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	const held = "what-a-variable-held-4711"
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := config.Parse("c.yaml", data, func(string) (string, bool) { return held, true })
		if err != nil {
			var all *config.Error
			if !errors.As(err, &all) || len(all.Problems) == 0 {
				t.Fatalf("not a list of problems: %v", err)
			}
			if strings.Contains(err.Error(), held) {
				t.Fatalf("shows what a variable held: %v", err)
			}
			lines := bytes.Count(data, []byte("\n")) + bytes.Count(data, []byte("\r")) + 1
			for _, p := range all.Problems {
				if p.Line < 0 || p.Line > lines || p.Column < 0 {
					t.Fatalf("not a place in the file: %v", p)
				}
			}
			return
		}
		// No kind is known, so every connection is a problem at a place of the file.
		if err := file.CheckOptions(nil, nil); err != nil && strings.Contains(err.Error(), held) {
			t.Fatalf("shows what a variable held: %v", err)
		}
		ids := map[string]int64{}
		number := func(name string) int64 {
			if ids[name] == 0 {
				ids[name] = int64(len(ids) + 1)
			}
			return ids[name]
		}
		var ws int64
		if _, err := file.Snapshot(config.Kept{
			Workspace: func(name string) int64 { ws = number("workspace " + name); return ws },
			Dataset: func(id string) ledger.Destination {
				return ledger.Destination{ID: number("dataset " + id), Workspace: ws, Kind: config.Meta, Name: id}
			},
			Source: func(w, name string) config.KeptSource {
				return config.KeptSource{ID: number("source " + w + "/" + name)}
			},
			CRM: func(w, name string) config.KeptCRM {
				return config.KeptCRM{Destination: ledger.Destination{ID: number("crm " + w + "/" + name), Workspace: ws, Name: name}}
			},
		}); err != nil {
			t.Fatalf("settings that are no settings: %v", err)
		}
	})
}
