package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

var (
	usualTable = newTable("usual", "content:bigint ws:bigint day:bigint paid:bytea",
		"ON CONFLICT (content) DO UPDATE SET day = excluded.day, paid = excluded.paid")
	usualNames     = newTable("usual", "content:bigint ws:bigint day:bigint paid:bytea", "ON CONFLICT (content) DO NOTHING")
	usualHeldTable = newTable("usual_held", "event:bigint ws:bigint content:bigint paid:bytea", "ON CONFLICT (event) DO NOTHING")
)

const (
	// UsualAge is how long a content is known that nobody buys any more.
	UsualAge = 90 * 24 * time.Hour
	// maxContents is how many contents of a workspace are known; whoever sends ever new
	// ones makes none of those unknown that are bought in earnest.
	maxContents = 20_000
)

func dayOf(t time.Time) int64 { return t.Unix() / (24 * 60 * 60) }

// guardPrices holds the purchases of a group whose price is far above what is usual, and
// learns from the others. It looks at the tables and not at anything in memory, so that
// neither a restart nor a second node makes it forget. What it changes it copies: the
// group may be tried again, and is judged anew then.
func (s *Store) guardPrices(ctx context.Context, tx *tx, fresh []pair) error {
	first := slices.IndexFunc(fresh, pair.priced)
	if first < 0 {
		return nil
	}
	u := usuals{s: s, at: fresh[first].event.ID.Time(), owner: make(map[int64]int64)}
	for _, p := range fresh[first:] {
		if p.priced() {
			u.owner[p.event.Price.Content] = p.event.Workspace
		}
	}
	if err := u.load(ctx, tx); err != nil {
		return err
	}
	var held [][]any
	for i := first; i < len(fresh); {
		end := i + 1
		for end < len(fresh) && fresh[end].event == fresh[i].event {
			end++
		}
		e, list := fresh[i].event, fresh[i:end]
		i = end
		switch {
		case !slices.ContainsFunc(list, pair.priced):
		case u.known[e.Price.Content].Outlier(e.Price.Paid.Value):
			holdPrice(list)
			held = append(held, []any{int64(e.ID), e.Workspace, e.Price.Content, ledger.Usual{e.Price.Paid}.Pack()})
		case slices.ContainsFunc(list, func(p pair) bool { return p.priced() && p.delivery.Envelope.TestCode == "" }):
			u.learn(e.Price)
		}
	}
	if err := u.save(ctx, tx); err != nil {
		return err
	}
	return s.dialect.bulk(ctx, tx, usualHeldTable, held)
}

// priced tells whether the guard looks at a delivery: what goes nowhere it neither holds
// nor learns from.
func (p pair) priced() bool { return p.event.Price != nil && !p.delivery.State.Final() }

// holdPrice holds the deliveries of an event for a person to look at.
func holdPrice(list []pair) {
	for i := range list {
		if p := &list[i]; p.priced() {
			held := *p.delivery
			held.State, held.Reason = ledger.Held, ledger.ValueOutlier
			p.delivery, p.recorded.Held = &held, held.Reason
		}
	}
}

// usuals are the contents that a transaction looks at.
type usuals struct {
	s       *Store
	at      time.Time
	owner   map[int64]int64 // the workspace of each content
	known   map[int64]ledger.Usual
	learned map[int64]bool
}

// load reads what is usual. On PostgreSQL the rows are locked, so that two nodes never
// learn past each other; for that they must be there, and in one order.
func (u *usuals) load(ctx context.Context, tx *tx) error {
	contents := slices.Sorted(maps.Keys(u.owner))
	ids := make([]ledger.ID, len(contents))
	rows := make([][]any, len(contents))
	for i, c := range contents {
		ids[i], rows[i] = ledger.ID(c), []any{c, u.owner[c], dayOf(u.at), []byte{}}
	}
	if err := u.s.dialect.bulk(ctx, tx, usualNames, rows); err != nil {
		return err
	}
	u.known, u.learned = make(map[int64]ledger.Usual, len(contents)), make(map[int64]bool)
	found, err := tx.query(ctx, `SELECT content, paid FROM usual WHERE content IN `+u.s.dialect.idList+` ORDER BY content`+u.s.dialect.lock, idListArg(ids))
	_, err = collect(found, err, func(row scanner) (content int64, err error) {
		var paid []byte
		err = row.Scan(&content, &paid)
		u.known[content] = ledger.UnpackUsual(paid)
		return content, err
	})
	if err != nil {
		return fmt.Errorf("look up what is usual: %w", err)
	}
	return nil
}

func (u *usuals) learn(p *ledger.Price) {
	if list, changed := u.known[p.Content].With(p.Paid); changed {
		u.known[p.Content], u.learned[p.Content] = list, true
	}
}

// save writes each content that something was learned of once.
func (u *usuals) save(ctx context.Context, tx *tx) error {
	rows := make([][]any, 0, len(u.learned))
	for _, c := range slices.Sorted(maps.Keys(u.learned)) {
		rows = append(rows, []any{c, u.owner[c], dayOf(u.at), u.known[c].Pack()})
	}
	return u.s.dialect.bulk(ctx, tx, usualTable, rows)
}

// learnReleased learns from what a person has released: it is usual from now on.
func (s *Store) learnReleased(ctx context.Context, tx *tx, rows []ledger.Row) error {
	var events []ledger.ID
	for _, r := range rows {
		if r.Held == ledger.ValueOutlier {
			events = append(events, r.ID.Event())
		}
	}
	if len(events) == 0 {
		return nil
	}
	u := usuals{s: s, at: s.clock.Now(), owner: make(map[int64]int64)}
	found, err := tx.query(ctx, `DELETE FROM usual_held WHERE event IN `+s.dialect.idList+` RETURNING ws, content, paid`, idListArg(events))
	prices, err := collect(found, err, func(row scanner) (p ledger.Price, err error) {
		var ws int64
		var paid []byte
		err = row.Scan(&ws, &p.Content, &paid)
		u.owner[p.Content] = ws
		if list := ledger.UnpackUsual(paid); len(list) > 0 {
			p.Paid = list[0]
		}
		return p, err
	})
	if err != nil {
		return fmt.Errorf("look up what was released: %w", err)
	}
	if len(prices) == 0 { // it came by a CRM
		return nil
	}
	if err := u.load(ctx, tx); err != nil {
		return err
	}
	for i := range prices {
		u.learn(&prices[i])
	}
	return u.save(ctx, tx)
}

// forgetUsual removes the contents that nobody bought for long, and of a workspace that
// has too many those first that never became known.
func (s *Store) forgetUsual(ctx context.Context, now time.Time) error {
	rows, err := s.read.QueryContext(ctx, `SELECT id FROM workspaces`)
	list, err := collect(rows, err, scanID[int64])
	if err != nil {
		return fmt.Errorf("forget what was usual: %w", err)
	}
	for _, ws := range list {
		if err := s.shrinkUsual(ctx, ws, now); err != nil {
			return fmt.Errorf("forget what was usual: %w", err)
		}
	}
	return nil
}

func (s *Store) shrinkUsual(ctx context.Context, ws int64, now time.Time) error {
	old, all := dayOf(now.Add(-UsualAge)), dayOf(now)+2
	for left := int64(tidyRows); left == tidyRows; {
		err := s.writer.do(ctx, func(ctx context.Context, tx *tx) (err error) {
			left, err = dropUsual(ctx, tx, ws, old, tidyRows)
			return err
		})
		if err != nil {
			return err
		}
	}
	for tooMany := int64(1); tooMany > 0; {
		err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
			if err := tx.row(ctx, `SELECT COUNT(*) FROM usual WHERE ws = $1`, []any{ws}, &tooMany); err != nil {
				return err
			}
			tooMany -= maxContents
			_, err := dropUsual(ctx, tx, ws, all, max(0, min(tooMany, tidyRows)))
			return err
		})
		if err != nil {
			return err
		}
	}
	return s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		_, err := tx.exec(ctx, `DELETE FROM usual_held WHERE ws = $1 AND event < $2`, ws, int64(ledger.IDAt(now.Add(-UsualAge))))
		return err
	})
}

// dropUsual removes contents that were bought before a day only, and returns how many.
func dropUsual(ctx context.Context, tx *tx, ws, before, most int64) (int64, error) {
	res, err := tx.exec(ctx, `DELETE FROM usual WHERE content IN (SELECT content FROM usual WHERE ws = $1 AND day < $2
		ORDER BY CASE WHEN LENGTH(paid) < $3 THEN 0 ELSE 1 END, day, content LIMIT $4)`, ws, before, ledger.UsualKnownSize, most)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}
