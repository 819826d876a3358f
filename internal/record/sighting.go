package record

import (
	"crypto/sha256"
	"time"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/ledger"
)

// Sighting is an event that the tag saw the Pixel report, as it came. What is personal in
// it is kept as keyed fingerprints only.
type Sighting struct {
	Site, Number string // the tag's own number: a report that is sent again is one
	Dataset      string // the Pixel's id
	Name         string
	EventID      string
	At           time.Time
	Page         string // the whole address; its path is kept

	FBP, ExternalID, Address, Agent string

	Own, Blocked bool
}

// sightings are those of a request as they are kept. What a robot did is nobody's.
func (r *Recorder) sightings(q *Request) []ledger.Sighting {
	if len(q.Sightings) == 0 {
		return nil
	}
	list := make([]ledger.Sighting, 0, len(q.Sightings))
	for i := range q.Sightings {
		s := &q.Sightings[i]
		if r.robots.is(s.Agent) {
			continue
		}
		g := ledger.Sighting{
			ID: r.c.IDs.Next(), Workspace: q.Workspace.ID, Source: q.Source, Dataset: s.Dataset, Name: s.Name, EventID: s.EventID, At: s.At, Page: ledger.PagePath(s.Page),
			FBP: r.prints.FBP(s.FBP), External: r.prints.External(externalHash(s.ExternalID)), Visitor: r.prints.Visitor(s.Address, s.Agent),
			Own: s.Own, Blocked: s.Blocked,
		}
		sum := sha256.Sum256([]byte(s.Site + "\x00" + s.Number))
		copy(g.UID[:], sum[:])
		list = append(list, g)
	}
	return list
}

// externalHash is an external_id as payloads have it.
func externalHash(raw string) string {
	if raw == "" {
		return ""
	}
	n, _ := capi.NormaliseValue(capi.KeyExternalID, raw, capi.Locale{})
	if n.Hash != "" || len(n.Texts) == 0 {
		return n.Hash
	}
	return capi.HashText(n.Texts[0])
}
