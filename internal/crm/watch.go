package crm

import (
	"slices"
	"strings"
)

const watch = "watch"

// WatchOption is the setting that lists the fields whose values are told like stages. What
// no rule can ask for is not told, for most fields of a CRM say who somebody is.
func WatchOption(help string) Option { return Option{Name: watch, Type: List, Help: help} }

// Watched lists those fields as the account names them, each once.
func Watched(a Account) []string {
	var list []string
	for _, field := range a.Options.List(watch) {
		if field = strings.TrimSpace(field); field != "" && !slices.Contains(list, field) {
			list = append(list, field)
		}
	}
	return list
}
