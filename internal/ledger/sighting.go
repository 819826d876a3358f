package ledger

import "time"

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
