package capiloop_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/capiloop/capiloop"

// mayImport is the drawing of the house: which room may import which, tests aside. A room is a folder
// of internal, or one of the others named here. Every room may import itself and, but for capitest, capi.
// A package without a line fails the test: give it one, and say in the commit why it needs what it needs.
var mayImport = map[string]string{
	// Public. They stand alone, so that others can import them, and so that the stand-in for Graph
	// cannot inherit a mistake from the library it is there to check.
	"capi":          "",
	"capi/capitest": "",

	// The words, and what keeps a secret.
	"ledger": "",
	"secret": "",

	// Each knows the words and nothing of its neighbours.
	"config":   "ledger secret",
	"leadform": "ledger secret",
	"crm":      "ledger secret notify",
	"platform": "ledger secret",
	"store":    "ledger secret",
	"notify":   "ledger secret",

	// What runs in the browser, embedded.
	"tag": "",

	// The way of an event. Intake, pull and deliver meet only in the database.
	"record":  "ledger secret config platform store",
	"intake":  "ledger secret config store record leadform crm tag",
	"pull":    "ledger secret config store record leadform crm",
	"deliver": "ledger secret config store platform crm",

	// What looks at it.
	"watch":  "ledger secret config store platform report",
	"report": "ledger secret config store platform",
	"admin":  "ledger secret config store platform leadform crm notify record pull watch report",

	// The faces of admin.
	"api": "ledger admin",
	"web": "ledger admin",
	"mcp": "ledger admin",

	// The wiring, the commands, and the tests from outside.
	"app": "*",
	"cmd": "app config admin leadform ledger secret capi/capitest",
	"e2e": "capi/capitest",
}

func TestImportsPointOneWay(t *testing.T) {
	t.Parallel()
	for _, root := range []string{"capi", "cmd", "internal", "tag", "e2e"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if os.IsNotExist(err) && path == root {
				return nil // a room that is not built yet
			}
			if err != nil {
				return err
			}
			if d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules") {
				return fs.SkipDir
			}
			if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				checkImports(t, path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func checkImports(t *testing.T, path string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		t.Error(err)
		return
	}
	from := roomOf(filepath.ToSlash(filepath.Dir(path)))
	line, known := mayImport[from]
	if !known {
		t.Errorf("%s: %s has no line in mayImport", path, from)
		return
	}
	allowed := strings.Fields(line)
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		folder, ours := strings.CutPrefix(imported, module+"/")
		if !ours || line == "*" {
			continue
		}
		to := roomOf(folder)
		everyones := to == "capi" && from != "capi/capitest"
		if to != from && !everyones && !slices.Contains(allowed, to) {
			t.Errorf("%s: %s may not import %s", path, from, to)
		}
	}
}

// roomOf says which line of mayImport a folder of the module belongs to.
func roomOf(folder string) string {
	parts := strings.Split(folder, "/")
	switch {
	case parts[0] == "internal" && len(parts) > 1:
		return parts[1]
	case parts[0] == "capi" && len(parts) > 1 && parts[1] == "capitest":
		return "capi/capitest"
	default:
		return parts[0]
	}
}
