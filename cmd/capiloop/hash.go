package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/capiloop/capiloop/capi"
)

func newHash() *cobra.Command {
	var country string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "hash KEY VALUE [KEY VALUE]…",
		Short: "Show how a match key is normalised and hashed",
		Long: `Shows what leaves for a match key: the value as Meta wants it, and its hash.
Compare it with what another system sends. Nothing is stored or sent.

Keys: em ph fn ln ge db ct st zp country external_id, and the plain ones (fbc, fbp, lead_id …).`,
		Example: "  capiloop hash em ' Jane@Example.com ' ph '8 701 234 56 78' --country KZ",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 || len(args)%2 != 0 {
				return wrongUsage("hash takes pairs of key and value. Example: capiloop hash em jane@example.com")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			lines, bad := hashAll(args, country)
			if asJSON {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				if err := enc.Encode(lines); err != nil {
					return err
				}
			} else {
				w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
				for _, l := range lines {
					fmt.Fprintf(w, "%s\t%s\t%s\n", l.Key, strings.Join(l.Normalised, ", "), strings.Join(l.Sent, "\n\t\t"))
					if l.Problem != "" {
						fmt.Fprintf(w, "\t%s\t%s\n", l.Problem, l.Fix)
					}
				}
				if err := w.Flush(); err != nil {
					return err
				}
			}
			if bad {
				return errFound
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&country, "country", "", "default country for phones, postcodes and states (ISO 3166-1, such as KZ)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// hashLine is the answer for one key.
type hashLine struct {
	Key        string   `json:"key"`
	Normalised []string `json:"normalised"`
	Sent       []string `json:"sent"`
	Problem    string   `json:"problem,omitempty"`
	Fix        string   `json:"fix,omitempty"`
}

func hashAll(args []string, country string) (lines []hashLine, bad bool) {
	for i := 0; i < len(args); i += 2 {
		key := capi.Key(args[i])
		l := hashLine{Key: args[i], Normalised: []string{}, Sent: []string{}}
		if _, err := capi.ParseKeySet(args[i]); err != nil {
			l.Problem, l.Fix = "Meta knows no match key of this name", "use em, ph, fn, ln, ge, db, ct, st, zp, country, external_id …"
			lines, bad = append(lines, l), true
			continue
		}
		n, p := capi.NormaliseValue(key, args[i+1], capi.Locale{Country: country})
		l.Normalised = append(append(l.Normalised, n.Texts...), n.Alternates...)
		l.Sent = append(l.Sent, n.Hashes()...)
		if !key.Hashed() {
			l.Sent = append([]string{}, n.Texts...)
		}
		if p != nil {
			l.Problem, l.Fix = p.Reason, p.Fix
		}
		if n.Empty() {
			bad = true
		}
		lines = append(lines, l)
	}
	return lines, bad
}
