package capiloop_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	maxFileLines     = 600
	maxFunctionLines = 80
)

// mayBeLonger lists the files that may be longer than maxFileLines, and how long each may be. Only tables
// of facts belong here. The list may only shrink: a number that is higher than needed fails the test too.
var mayBeLonger = map[string]int{}

func TestFilesAndFunctionsStayShort(t *testing.T) {
	t.Parallel()
	fileSet := token.NewFileSet()
	seen := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if name == "testdata" || name == "node_modules" || (path != "." && strings.HasPrefix(name, ".")) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		file, err := parser.ParseFile(fileSet, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			return nil // reported; the other files are worth a look too
		}
		if ast.IsGenerated(file) {
			return nil
		}
		path = filepath.ToSlash(path)
		seen[path] = true
		checkFileLength(t, path, fileSet.File(file.FileStart).LineCount())
		checkFunctionLengths(t, fileSet, file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for path := range mayBeLonger {
		if !seen[path] {
			t.Errorf("%s is gone: take it out of mayBeLonger", path)
		}
	}
}

func checkFileLength(t *testing.T, path string, lines int) {
	t.Helper()
	limit, listed := mayBeLonger[path]
	switch {
	case !listed && lines > maxFileLines:
		t.Errorf("%s has %d lines, more than %d: one concept per file", path, lines, maxFileLines)
	case listed && lines > limit:
		t.Errorf("%s has %d lines and may have %d", path, lines, limit)
	case listed && lines <= maxFileLines:
		t.Errorf("%s has %d lines and no longer needs its line in mayBeLonger", path, lines)
	case listed && lines < limit:
		t.Errorf("%s has %d lines: lower its number in mayBeLonger from %d", path, lines, limit)
	}
}

func checkFunctionLengths(t *testing.T, fileSet *token.FileSet, file *ast.File) {
	t.Helper()
	for _, decl := range file.Decls {
		function, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		first, last := fileSet.Position(function.Pos()), fileSet.Position(function.End())
		if lines := last.Line - first.Line + 1; lines > maxFunctionLines {
			t.Errorf("%s:%d: %s has %d lines, more than %d", filepath.ToSlash(first.Filename), first.Line, function.Name.Name, lines, maxFunctionLines)
		}
	}
}

// AGENTS.md is read whole at the start of every piece of work, so it must stay short.
func TestAgentsPageStaysShort(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("AGENTS.md")
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(page), "\n"); lines > 120 {
		t.Errorf("AGENTS.md has %d lines, more than 120", lines)
	}
}
