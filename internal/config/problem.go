package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a file.
type Problem struct {
	Line, Column int    // from 1; 0: the file as a whole
	Where        string // "workspaces[0].timezone"; "": no key
	What         string // what is the matter
	Fix          string // what would be right
}

// String writes the problem without the file's name: "9:17: where: what: fix".
func (p Problem) String() string {
	var b strings.Builder
	if p.Line > 0 {
		fmt.Fprintf(&b, "%d:%d: ", p.Line, p.Column)
	}
	if p.Where != "" {
		b.WriteString(p.Where + ": ")
	}
	b.WriteString(p.What)
	if p.Fix != "" {
		b.WriteString(": " + p.Fix)
	}
	return b.String()
}

// Error is all that is wrong with a file, in the order of its lines.
type Error struct {
	File     string
	Problems []Problem
}

// Error writes one line per problem, each beginning with the file's name, line and
// column, as editors and terminals make links of.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = e.File + ":" + p.String()
		if p.Line == 0 {
			lines[i] = e.File + ": " + p.String()
		}
	}
	return strings.Join(lines, "\n")
}

func (e *Error) sort() {
	slices.SortStableFunc(e.Problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// flaw is what a check finds in one value. What follows the value in a sentence:
// `"Asia/Almati"` + " is no time zone".
type flaw struct{ what, fix string }

// nearest returns the known word that was most likely meant, "" if none is near: one
// letter in three may be wrong, and of one or two letters every word is near.
func nearest(word string, known []string) string {
	best, least := "", min(len(word)/3, 3)+1
	for _, k := range known {
		if d := distance(strings.ToLower(word), k); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance counts the letters to add, drop, change or swap with their neighbour.
func distance(a, b string) int {
	if len(a) > 64 { // nothing known is that long
		return len(a)
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
