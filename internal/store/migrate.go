package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrate brings the tables up to date. One text serves both databases; its words
// in braces are replaced for the one at hand.
func (s *Store) migrate(ctx context.Context) error {
	steps, err := s.steps()
	if err != nil {
		return err
	}
	options := []goose.ProviderOption{goose.WithDisableGlobalRegistry(true), goose.WithGoMigrations(steps...)}
	gooseDialect := goose.DialectSQLite3
	if !s.alone {
		gooseDialect = goose.DialectPostgres
		locker, err := lock.NewPostgresSessionLocker()
		if err != nil {
			return fmt.Errorf("prepare the migration lock: %w", err)
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	provider, err := goose.NewProvider(gooseDialect, s.write, nil, options...)
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	current, target, err := provider.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read the database's version: %w", err)
	}
	if current > target {
		return fmt.Errorf("the database is of version %d, this program knows only up to %d: use the newer program", current, target)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("bring the database up to date: %w", err)
	}
	return nil
}

func (s *Store) steps() ([]*goose.Migration, error) {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return nil, fmt.Errorf("list the migrations: %w", err)
	}
	var steps []*goose.Migration
	for _, name := range names {
		text, err := migrations.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read migration %s: %w", name, err)
		}
		number, _, _ := strings.Cut(path.Base(name), "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("migration %s: the name must start with a number: %w", name, err)
		}
		steps = append(steps, goose.NewGoMigration(version, &goose.GoFunc{RunTx: s.step(string(text))}, nil))
	}
	return steps, nil
}

// step runs the statements of one migration in the transaction that goose gives it.
func (s *Store) step(text string) func(context.Context, *sql.Tx) error {
	return func(ctx context.Context, tx *sql.Tx) error {
		for statement := range strings.SplitSeq(withoutComments(s.dialect.words.Replace(text)), ";") {
			if statement = strings.TrimSpace(statement); statement == "" {
				continue
			}
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return errors.Join(fmt.Errorf("in %q", firstWords(statement)), err)
			}
		}
		return nil
	}
}

func withoutComments(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		code, _, _ := strings.Cut(line, "--")
		b.WriteString(strings.TrimRight(code, " \n"))
		b.WriteByte('\n')
	}
	return b.String()
}
