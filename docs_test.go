package capiloop_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"
)

// pages are all Markdown files of the repository, by path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && (name == "testdata" || name == "node_modules" || path != "." && strings.HasPrefix(name, ".")) {
			return fs.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(name, ".md") {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			found[filepath.ToSlash(path)] = string(text)
		}
		return nil
	}))
	return found
}

// block is a fenced or indented piece of code of a page.
type block struct{ language, text string }

// blocks takes a page apart; prose is what is left, with its inline code.
func blocks(page string) (list []block, prose string) {
	var text strings.Builder
	var code *block
	fenced := false
	for line := range strings.Lines(page) {
		fence, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		indented := strings.HasPrefix(line, "    ")
		switch {
		case isFence && !fenced:
			list = append(list, block{language: strings.TrimSpace(fence)})
			code, fenced = &list[len(list)-1], true
		case isFence:
			code, fenced = nil, false
		case fenced:
			code.text += line
		case indented:
			if code == nil {
				list = append(list, block{language: "indented"})
				code = &list[len(list)-1]
			}
			code.text += strings.TrimPrefix(line, "    ")
		default:
			code = nil
			text.WriteString(line)
		}
	}
	return list, text.String()
}

var linkPattern = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestLinksOfThePagesResolve(t *testing.T) {
	t.Parallel()
	all := pages(t)
	for path, page := range all {
		_, prose := blocks(page)
		for _, m := range linkPattern.FindAllStringSubmatch(prose, -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			file := path
			if target != "" {
				file = filepath.ToSlash(filepath.Join(filepath.Dir(path), target))
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s, which is not there", path, m[1])
				continue
			}
			if text, isPage := all[file]; isPage && anchor != "" && !slices.Contains(anchors(text), anchor) {
				t.Errorf("%s links to %s, which has no such heading", path, m[1])
			}
		}
	}
}

// anchors are the names that GitHub gives to the headings of a page.
func anchors(page string) []string {
	var list []string
	for line := range strings.Lines(page) {
		if title := strings.TrimLeft(line, "#"); title != line && strings.HasPrefix(title, " ") {
			title = strings.ToLower(strings.TrimSpace(title))
			title = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(title, "")
			list = append(list, strings.ReplaceAll(title, " ", "-"))
		}
	}
	return list
}

func TestCodeInThePagesIsValid(t *testing.T) {
	t.Parallel()
	for path, page := range pages(t) {
		list, _ := blocks(page)
		for _, b := range list {
			var v any
			switch b.language {
			case "json":
				require.NoError(t, json.Unmarshal([]byte(b.text), &v), "%s: %s", path, b.text)
			case "yaml":
				require.NoError(t, yaml.Unmarshal([]byte(b.text), &v), "%s: %s", path, b.text)
			}
		}
	}
}

// The pages stand alone: nobody else has our notes.
func TestThePagesStandAlone(t *testing.T) {
	t.Parallel()
	for path, page := range pages(t) {
		for _, private := range []string{"/work/", "../shared", "design.md", "style.md"} {
			require.NotContains(t, page, private, path)
		}
	}
}

var (
	commandPattern = regexp.MustCompile(`(?:^|[\s(;&|/])capiloop ([a-z][a-z-]*)([^\n]*)`)
	inlinePattern  = regexp.MustCompile("`(?:[A-Z_]+=\\S+ )?(capiloop [^`]+)`")
	flagPattern    = regexp.MustCompile(`(?:^|\s)(--[a-z][a-z-]*)`)
)

// TestCommandsInThePagesExist asks the built binary for the help of each command
// that a page shows, and looks for each flag in it.
func TestCommandsInThePagesExist(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the binary")
	}
	binary := filepath.Join(t.TempDir(), "capiloop")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./cmd/capiloop").CombinedOutput()
	require.NoError(t, err, string(out))
	help := map[string]string{}
	for path, page := range pages(t) {
		for _, line := range commands(page) {
			for _, m := range commandPattern.FindAllStringSubmatch(line, -1) {
				name, rest := m[1], m[2]
				if help[name] == "" {
					text, err := exec.CommandContext(t.Context(), binary, name, "--help").CombinedOutput()
					require.NoError(t, err, "%s: there is no command %s: %s", path, name, line)
					require.Contains(t, string(text), "capiloop "+name, "%s: there is no command %s: %s", path, name, line)
					help[name] = string(text)
				}
				rest, _, _ = strings.Cut(rest, " #")
				if sub := subcommand(help[name], rest); sub != "" {
					name += " " + sub
					if help[name] == "" {
						text, err := exec.CommandContext(t.Context(), binary, append(strings.Fields(name), "--help")...).CombinedOutput()
						require.NoError(t, err, string(text))
						help[name] = string(text)
					}
				}
				for _, f := range flagPattern.FindAllStringSubmatch(rest, -1) {
					require.Regexp(t, f[1]+`\b[^-]`, help[name], "%s: capiloop %s has no flag %s", path, name, f[1])
				}
			}
		}
	}
	require.Greater(t, len(help), 5)
}

// subcommand returns the first word of what follows a command, if the command's help has
// it as one of its own commands.
func subcommand(help, rest string) string {
	_, list, ok := strings.Cut(help, "Available Commands:")
	words := strings.Fields(rest)
	if !ok || len(words) == 0 {
		return ""
	}
	list, _, _ = strings.Cut(list, "\n\n")
	for line := range strings.Lines(list) {
		if f := strings.Fields(line); len(f) > 0 && f[0] == words[0] {
			return words[0]
		}
	}
	return ""
}

// commands are the lines of a page that show a command of ours.
func commands(page string) []string {
	var lines []string
	list, prose := blocks(page)
	for _, b := range list {
		switch b.language {
		case "sh", "indented", "ini", "yaml":
			for line := range strings.Lines(strings.ReplaceAll(b.text, "\\\n", " ")) {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
	}
	for _, m := range inlinePattern.FindAllStringSubmatch(prose, -1) {
		lines = append(lines, m[1])
	}
	return lines
}

var metricPattern = regexp.MustCompile(`"(capiloop_[a-z_]+)", Help`)

func TestEveryMetricIsInThePages(t *testing.T) {
	t.Parallel()
	var inCode []string
	for _, pattern := range []string{"internal/*/*.go", "internal/*/*/*.go"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			source, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, m := range metricPattern.FindAllStringSubmatch(string(source), -1) {
				inCode = append(inCode, m[1])
			}
		}
	}
	page, err := os.ReadFile("docs/operations.md")
	require.NoError(t, err)
	var inPage []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(capiloop_[a-z_]+)`").FindAllStringSubmatch(string(page), -1) {
		inPage = append(inPage, m[1])
	}
	slices.Sort(inCode)
	slices.Sort(inPage)
	require.NotEmpty(t, inCode)
	require.Equal(t, inCode, inPage, "the list of metrics in docs/operations.md and the code differ")
}
