package config

import (
	"path/filepath"
	"strings"
)

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
