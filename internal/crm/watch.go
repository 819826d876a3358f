package crm

import (
	"slices"
	"strings"
)

const watch = "watch"

// WatchOption is the setting that lists the fields whose values are told like stages. What
// no rule can ask for is not told, for most fields of a CRM say who somebody is.
func WatchOption(help string) Option { return Option{Name: watch, Type: List, Help: help} }

// Watches tells whether a kind tells only of fields that its accounts list.
func Watches(kind CRM) bool {
	return slices.ContainsFunc(kind.Options(), func(o Option) bool { return o.Name == watch })
}

// Watched lists those fields as the account names them, each once; id:900003 stands for 900003.
func Watched(a Account) []string {
	var list []string
	for _, field := range a.Options.List(watch) {
		if field = strings.TrimPrefix(strings.TrimSpace(field), "id:"); field != "" && !slices.Contains(list, field) {
			list = append(list, field)
		}
	}
	return list
}
