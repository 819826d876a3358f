package config

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/capiloop/capiloop/internal/secret"
)

// Overrides are settings from the command line or the environment. What is empty
// leaves the file's word in force.
type Overrides struct {
	Listen    string
	Database  string // may hold a password
	DataDir   string // the SQLite file is DataDir/capiloop.db, unless Database is given
	PublicURL string
}

// String shows the overrides without the database's address.
func (o Overrides) String() string {
	return fmt.Sprintf("listen %q, database %s, data %q, public URL %q", o.Listen, secret.New(o.Database), o.DataDir, o.PublicURL)
}

// GoString shows the same as String.
func (o Overrides) GoString() string { return o.String() }

// LogValue keeps a password out of logs.
func (o Overrides) LogValue() slog.Value { return slog.StringValue(o.String()) }

// Apply puts overrides in the place of the file's settings. A data folder moves the
// SQLite file, also one that the file names; a PostgreSQL database stays where it
// is. The file is unchanged if there is an error, which names the flags.
func (f *File) Apply(o Overrides) error {
	next := *f
	var errs []error
	set := func(flag, text string, apply func() *flaw) {
		if text == "" {
			return
		}
		if f := apply(); f != nil {
			errs = append(errs, fmt.Errorf("--%s: the value %s: %s", flag, f.what, f.fix))
		}
	}
	set("listen", o.Listen, func() (f *flaw) { next.Listen, f = listenOf(o.Listen); return f })
	set("public-url", o.PublicURL, func() (f *flaw) { next.PublicURL, f = publicOf(o.PublicURL); return f })
	set("data", o.DataDir, func() *flaw {
		next.DataDir = filepath.Clean(o.DataDir)
		if !isPostgres(next.Database.Reveal()) {
			next.Database = secret.New(filepath.Join(o.DataDir, "capiloop.db"))
		}
		return nil
	})
	set("database", o.Database, func() (f *flaw) {
		next.Database, f = databaseOf(o.Database)
		if o.DataDir == "" {
			next.DataDir = dataDir(o.Database)
		}
		return f
	})
	if err := errors.Join(errs...); err != nil {
		return err
	}
	*f = next
	return nil
}

// dataDir is where a process whose database this is keeps its other files: beside
// the database's file, or in ./data where the database is a server.
func dataDir(database string) string {
	if isPostgres(database) {
		return "data"
	}
	return filepath.Dir(database)
}

func isPostgres(database string) bool {
	return strings.HasPrefix(database, "postgres://") || strings.HasPrefix(database, "postgresql://")
}
