package store

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/capiloop/capiloop/internal/ledger"
)

// Opener opens a payload that was sealed under its lead's key.
type Opener func(ws int64, lead, delivery ledger.ID, wrapped, sealed []byte) ([]byte, error)

// UseOpener tells the store how payloads of leads are opened. It is called once, before
// anything is delivered; without it sealed payloads stay closed.
func (s *Store) UseOpener(open Opener) { s.open = open }

// sealedMark begins a payload that is sealed; one that is not begins with a brace.
const sealedMark = 1

// SealedPayload is what is kept of a payload that is sealed under a lead's key: whoever
// destroys the key has destroyed the payload, in every backup too.
func SealedPayload(lead ledger.ID, sealed []byte) []byte {
	b := append(make([]byte, 0, 9+len(sealed)), sealedMark)
	b = binary.BigEndian.AppendUint64(b, uint64(lead)) //nolint:gosec // ids are never negative
	return append(b, sealed...)
}

// splitPayload is the reverse of SealedPayload; false for a payload that is not sealed.
func splitPayload(b []byte) (lead ledger.ID, sealed []byte, ok bool) {
	if len(b) < 9 || b[0] != sealedMark {
		return 0, nil, false
	}
	return ledger.ID(binary.BigEndian.Uint64(b[1:9])), b[9:], true //nolint:gosec // made of an id
}

// sealedPayload is one to be opened, in its place.
type sealedPayload struct {
	ws       int64
	lead, id ledger.ID
	sealed   []byte
	put      func(plain []byte)
}

// openPayloads opens what is sealed. What cannot be opened, for its lead was erased, stays
// as an empty object: a destination refuses that, and the others go on.
func (s *Store) openPayloads(ctx context.Context, list []sealedPayload) error {
	if len(list) == 0 || s.open == nil {
		return nil
	}
	leads := make([]ledger.ID, len(list))
	for i, p := range list {
		leads[i] = p.lead
	}
	query := `SELECT lead, wrapped FROM lead_secrets WHERE lead IN ` + s.dialect.idList //nolint:gosec // a constant of forks.go
	keys := make(map[ledger.ID][]byte)
	rows, err := s.read.QueryContext(ctx, query, idListArg(leads))
	_, err = collect(rows, err, func(row scanner) (lead ledger.ID, err error) {
		var wrapped []byte
		err = row.Scan(&lead, &wrapped)
		keys[lead] = wrapped
		return lead, err
	})
	if err != nil {
		return fmt.Errorf("read the keys of payloads: %w", err)
	}
	for _, p := range list {
		plain := []byte("{}")
		if wrapped := keys[p.lead]; wrapped != nil {
			if plain, err = s.open(p.ws, p.lead, p.id, wrapped, p.sealed); err != nil {
				s.log.Error("a payload cannot be opened", "lead", p.lead.String(), "error", err)
				plain = []byte("{}")
			}
		}
		p.put(plain)
	}
	return nil
}
