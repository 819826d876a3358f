package ledger

import (
	"strings"
	"time"

	"github.com/capiloop/capiloop/capi"
)

// Sighting is an event that the tag saw the Pixel report in a browser. It is never
// sent: it is there to tell whether the browser's and the server's copies pair.
type Sighting struct {
	UID       [16]byte // the same for a report that comes again
	ID        ID       // of the receipt
	Workspace int64
	Source    string // name of the website's source
	Dataset   string // the Pixel's id; "": not known
	Name      string // event_name
	EventID   string // eventID; "": the Pixel got none
	At        time.Time
	Page      string // path without query

	// Keyed fingerprints by which the same person is known; 0 is none.
	FBP, External, Visitor int64

	Own     bool // the tag itself called the Pixel
	Blocked bool // the Pixel's script never ran, so that Meta has not heard of it
}

const maxPage = 500 // bytes of a path that are kept

// PagePath is the path of a page's address, without what may be personal.
func PagePath(address string) string {
	cleaned, _ := capi.CleanURL(address)
	_, rest, ok := strings.Cut(cleaned, "://")
	if !ok {
		return ""
	}
	path := "/"
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		path, _, _ = strings.Cut(rest[i:], "?")
		path, _, _ = strings.Cut(path, "#")
	}
	if len(path) > maxPage { // PostgreSQL refuses half a letter
		path = strings.ToValidUTF8(path[:maxPage], "")
	}
	return path
}
