package config

import (
	"fmt"
	"os"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/capiloop/capiloop/internal/ledger"
)

// LoadRules reads rules to try out: those of the workspace w in another capiloop.yaml, or
// a file that has nothing but the list under stages:, with that key or without. Of a whole
// file variables may be missing, for nothing but its rules is used.
func LoadRules(path string, env func(string) (string, bool), w *FileWorkspace) ([]ledger.Rule, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the rules: %w", err)
	}
	return ParseRules(path, data, env, w)
}

// ParseRules is LoadRules for what a file holds.
func ParseRules(name string, data []byte, env func(string) (string, bool), w *FileWorkspace) ([]ledger.Rule, error) {
	r := &reader{name: name, env: env}
	if r.env == nil {
		r.env = func(string) (string, bool) { return "", false }
	}
	body, ok := r.body(data)
	if !ok && len(r.problems) > 0 {
		return nil, r.failed()
	}
	trial := *w
	trial.Rules = nil
	v := value{r: r, node: body}
	if list, ok := body.(*ast.SequenceNode); ok {
		m := &mapping{value: v, entries: []entry{{key: "stages", at: v.at(), node: list}}}
		r.stages(m, &trial)
	} else {
		whole := false
		v.mapping(func(m *mapping) {
			if _, whole = m.get("workspaces"); !whole {
				r.stages(m, &trial)
				if _, there := m.get("stages"); !there {
					r.report(m.at(), "", flaw{"the file has no rules", "write a list of rules, or stages: with one, or a whole capiloop.yaml"})
				}
				return
			}
			for _, e := range m.entries { // another reader looks at them
				m.known = append(m.known, e.key)
			}
		})
		if whole {
			return rulesOf(name, data, r.env, w)
		}
	}
	if len(r.problems) > 0 {
		return nil, r.failed()
	}
	return trial.Rules, nil
}

// rulesOf reads a whole file and returns the rules of one of its workspaces.
func rulesOf(name string, data []byte, env func(string) (string, bool), w *FileWorkspace) ([]ledger.Rule, error) {
	f, err := Parse(name, data, func(variable string) (string, bool) {
		if v, ok := env(variable); ok {
			return v, true
		}
		return "not-set-in-this-shell-" + variable, true
	})
	if err != nil {
		return nil, err
	}
	if len(f.Workspaces) == 1 {
		return f.Workspaces[0].Rules, nil
	}
	for i := range f.Workspaces {
		if strings.EqualFold(f.Workspaces[i].Name, w.Name) {
			return f.Workspaces[i].Rules, nil
		}
	}
	return nil, fmt.Errorf("%s has no workspace %s", name, w.Name)
}

func (r *reader) failed() error {
	e := &Error{File: r.name, Problems: r.problems}
	e.sort()
	return e
}
