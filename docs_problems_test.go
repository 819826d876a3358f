package capiloop_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// saying is something that the code tells a caller about an event or a request.
type saying struct {
	code, reason, fix string
	severity          string // error or warning; "": a request that is refused as a whole
	status            string // its HTTP status
}

// sayings finds, in the source, every problem and every refusal with its texts. What
// is put together while running shows as "…".
func sayings(t *testing.T) []saying {
	t.Helper()
	f := finder{consts: map[string]string{}}
	var files []*ast.File
	for _, dir := range []string{"capi", "internal/record", "internal/intake"} {
		names, err := filepath.Glob(dir + "/*.go")
		require.NoError(t, err)
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			files = append(files, file)
		}
	}
	for _, file := range files {
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok {
				f.constants(g, f.consts)
			}
		}
	}
	for _, file := range files {
		for _, d := range file.Decls {
			f.local = map[string]string{}
			ast.Inspect(d, f.visit)
		}
	}
	slices.SortStableFunc(f.found, func(a, b saying) int {
		return strings.Compare(a.status+a.severity+a.code+a.reason, b.status+b.severity+b.code+b.reason)
	})
	return slices.Compact(f.found)
}

type finder struct {
	consts, local map[string]string
	found         []saying
}

func (f *finder) constants(g *ast.GenDecl, into map[string]string) {
	if g.Tok != token.CONST {
		return
	}
	for _, s := range g.Specs {
		v, ok := s.(*ast.ValueSpec)
		if !ok {
			continue
		}
		for i, name := range v.Names {
			if i < len(v.Values) {
				into[name.Name] = f.text(v.Values[i])
			}
		}
	}
}

func (f *finder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl:
		f.constants(n, f.local)
	case *ast.ValueSpec:
		if len(n.Names) == 1 && n.Names[0].Name == "problemTexts" {
			f.table(n.Values[0])
		}
	case *ast.CallExpr:
		f.call(n)
	case *ast.CompositeLit:
		f.literal(n)
	}
	return true
}

// table reads the map of a code's two sentences.
func (f *finder) table(e ast.Expr) {
	list, ok := e.(*ast.CompositeLit)
	if !ok {
		return
	}
	for _, element := range list.Elts {
		kv, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		if texts, ok := kv.Value.(*ast.CompositeLit); ok && len(texts.Elts) == 2 {
			f.add(saying{code: f.text(kv.Key), severity: "warning", reason: f.text(texts.Elts[0]), fix: f.text(texts.Elts[1])})
		}
	}
}

// call reads refuse(field, code, reason, fix) and warn with the same.
func (f *finder) call(c *ast.CallExpr) {
	name := ""
	switch fun := c.Fun.(type) {
	case *ast.Ident:
		name = fun.Name
	case *ast.SelectorExpr:
		name = fun.Sel.Name
	}
	args := c.Args
	severity, known := map[string]string{"refuse": "error", "warn": "warning", "add": "error or warning"}[name]
	if name == "add" && len(args) == 5 {
		args = args[1:]
	}
	if known && len(args) == 4 {
		f.add(saying{code: f.text(args[1]), severity: severity, reason: f.text(args[2]), fix: f.text(args[3])})
	}
}

// literal reads Problem{…} and wrong{…}.
func (f *finder) literal(l *ast.CompositeLit) {
	name := ""
	switch t := l.Type.(type) {
	case *ast.Ident:
		name = t.Name
	case *ast.SelectorExpr:
		name = t.Sel.Name
	}
	named := map[string]string{}
	for i, element := range l.Elts {
		if kv, ok := element.(*ast.KeyValueExpr); ok {
			named[strings.ToLower(f.key(kv.Key))] = f.text(kv.Value)
		} else if name == "wrong" {
			named[[]string{"status", "code", "message", "fix", "field"}[i]] = f.text(element)
		}
	}
	switch name {
	case "Problem":
		severity := "warning"
		if named["severity"] == "SeverityError" {
			severity = "error"
		}
		f.add(saying{code: named["code"], severity: severity, reason: named["reason"], fix: named["fix"]})
	case "wrong":
		f.add(saying{code: named["code"], status: statusCodes[named["status"]], reason: named["message"], fix: named["fix"]})
	}
}

var statusCodes = map[string]string{
	"StatusBadRequest": "400", "StatusUnauthorized": "401", "StatusNotFound": "404", "StatusMethodNotAllowed": "405", "StatusConflict": "409",
	"StatusRequestEntityTooLarge": "413", "StatusUnsupportedMediaType": "415", "StatusUnprocessableEntity": "422",
	"StatusTooManyRequests": "429", "StatusInternalServerError": "500", "StatusServiceUnavailable": "503",
}

func (f *finder) add(s saying) {
	if s.code != "" && s.code != "…" && s.reason != "" && s.reason != "…" {
		f.found = append(f.found, s)
	}
}

func (f *finder) key(e ast.Expr) string {
	if id, ok := e.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// text returns what an expression says, with "…" for what only running can tell.
func (f *finder) text(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if s, err := strconv.Unquote(e.Value); err == nil {
			return s
		}
	case *ast.BinaryExpr:
		return f.text(e.X) + f.text(e.Y)
	case *ast.Ident:
		for _, m := range []map[string]string{f.local, f.consts} {
			if s, ok := m[e.Name]; ok {
				return s
			}
		}
		if strings.HasPrefix(e.Name, "Severity") {
			return e.Name
		}
	case *ast.SelectorExpr:
		if s, ok := f.consts[e.Sel.Name]; ok {
			return s
		}
		if strings.HasPrefix(e.Sel.Name, "Status") || strings.HasPrefix(e.Sel.Name, "Severity") {
			return e.Sel.Name
		}
	case *ast.CallExpr:
		if s, ok := e.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Sprintf" {
			return strings.NewReplacer("%d", "…", "%s", "…", "%q", "…").Replace(f.text(e.Args[0]))
		}
	}
	return "…"
}

// TestSayingsAreFound keeps the finder honest: a change of how problems are written
// must not empty the page unnoticed.
func TestSayingsAreFound(t *testing.T) {
	t.Parallel()
	var codes []string
	for _, s := range sayings(t) {
		codes = append(codes, s.code)
	}
	for _, name := range []string{"capi/normalise_problem.go", "capi/validate.go", "capi/json_decode.go", "internal/record/complete.go", "internal/intake/item.go"} {
		source, err := os.ReadFile(name)
		require.NoError(t, err)
		for line := range strings.Lines(string(source)) {
			constant, value, ok := strings.Cut(line, " = \"")
			if !ok || !strings.HasPrefix(strings.TrimSpace(strings.ToLower(constant)), "problem") {
				continue
			}
			code, _, _ := strings.Cut(value, `"`)
			require.Contains(t, codes, code, "%s has a problem code for which no text was found", name)
		}
	}
}
