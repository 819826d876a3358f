package crm

import "strings"

// RecordID returns the CRM's id of the first record of a kind: "9001" of "deal:9001" for
// "deal"; "" if there is none.
func RecordID(records []string, kind string) string {
	for _, r := range records {
		if id, ok := strings.CutPrefix(r, kind+":"); ok {
			return id
		}
	}
	return ""
}
