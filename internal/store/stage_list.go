package store

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/capiloop/capiloop/internal/ledger"
)

// SaveStages writes down the stages that a CRM's list has now. A stage that a rule is for,
// as mapped tells, and that was renamed or is gone opens a finding; one that is back, or
// that no rule is for any more, closes it.
func (s *Store) SaveStages(ctx context.Context, ws int64, source string, list []ledger.Stage, now time.Time, mapped func(ledger.Stage) bool) error {
	err := s.writer.do(ctx, func(ctx context.Context, tx *tx) error {
		at := ledger.Micros(now)
		for i, st := range list {
			st.Position = i
			renamed, err := saveStage(ctx, tx, ws, source, st, at, at)
			if err != nil {
				return err
			}
			if renamed != "" && mapped(st) {
				f := mappingFinding(ws, source, st, now)
				f.Evidence = ledger.StageEvidence(ledger.StageRenamed, renamed, st.Label)
				if err := raise(ctx, tx, f); err != nil {
					return err
				}
			}
		}
		return missingStages(ctx, tx, ws, source, now, mapped)
	})
	if err != nil {
		return fmt.Errorf("keep the stages of %s: %w", source, err)
	}
	return nil
}

// missingStages marks what the list had before and has no more.
func missingStages(ctx context.Context, tx *tx, ws int64, source string, now time.Time, mapped func(ledger.Stage) bool) error {
	rows, err := tx.query(ctx, `UPDATE crm_stages SET gone_at = $3 WHERE ws = $1 AND source = $2 AND listed_at > 0 AND listed_at < $3 AND gone_at = 0 RETURNING `+stageColumns,
		ws, source, ledger.Micros(now))
	gone, err := collect(rows, err, scanStage)
	if err != nil {
		return err
	}
	for _, st := range gone {
		if !mapped(st) {
			continue
		}
		f := mappingFinding(ws, source, st, now)
		f.Evidence = ledger.StageEvidence(ledger.StageGone, st.Name())
		if err := raise(ctx, tx, f); err != nil {
			return err
		}
	}
	rows, err = tx.query(ctx, `SELECT `+stageColumns+` FROM crm_stages WHERE ws = $1 AND source = $2 AND listed_at = $3`, ws, source, ledger.Micros(now))
	here, err := collect(rows, err, scanStage)
	if err != nil {
		return err
	}
	for _, st := range here {
		if mapped(st) && len(st.Labels) > 0 {
			continue // the name in the rule may still be the old one: that finding stays
		}
		if err := fix(ctx, tx, mappingFinding(ws, source, st, now)); err != nil {
			return err
		}
	}
	return nil
}

func mappingFinding(ws int64, source string, st ledger.Stage, now time.Time) ledger.Finding {
	return ledger.Finding{Workspace: ws, Kind: ledger.FindingMapping, Subject: strings.Join(slices.DeleteFunc([]string{source, st.Field, st.Pipeline, st.ID}, func(p string) bool { return p == "" }), "/"), At: now}
}

// SourceStage is a stage of one of a workspace's sources.
type SourceStage struct {
	Source string
	ledger.Stage
}

// Stages lists the stages of a workspace's sources, in each CRM's order.
func (s *Store) Stages(ctx context.Context, ws int64) ([]SourceStage, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT DISTINCT source FROM crm_stages WHERE ws = $1 ORDER BY source`, ws)
	sources, err := collect(rows, err, func(row scanner) (name string, err error) {
		err = row.Scan(&name)
		return name, err
	})
	if err != nil {
		return nil, fmt.Errorf("list the stages: %w", err)
	}
	var list []SourceStage
	for _, source := range sources {
		rows, err := s.read.QueryContext(ctx, `SELECT `+stageColumns+` FROM crm_stages WHERE ws = $1 AND source = $2 ORDER BY field, pipeline, position, stage`, ws, source)
		found, err := collect(rows, err, scanStage)
		if err != nil {
			return nil, fmt.Errorf("list the stages of %s: %w", source, err)
		}
		for _, st := range found {
			list = append(list, SourceStage{source, st})
		}
	}
	return list, nil
}

// Norm returns how many changes with an event a source tells of in an hour, by its last
// four weeks; known is false until the first of them is a week old.
func (s *Store) Norm(ctx context.Context, ws int64, source string, now time.Time) (perHour float64, known bool, err error) {
	const span, enough = 28 * 24 * time.Hour, 7 * 24 * time.Hour
	var first, n int64
	err = s.read.QueryRowContext(ctx, `SELECT COALESCE(MIN(at), 0), COUNT(*) FROM stage_changes WHERE ws = $1 AND source = $2 AND at > $3 AND at <= $4 AND effect = $5`,
		ws, source, ledger.Micros(now.Add(-span)), ledger.Micros(now), string(ledger.EffectEvent)).Scan(&first, &n)
	if err != nil {
		return 0, false, fmt.Errorf("look up how many stage changes are usual: %w", err)
	}
	since := now.Sub(ledger.FromMicros(first))
	if n == 0 || since < enough {
		return 0, false, nil
	}
	return float64(n) / since.Hours(), true, nil
}

// UsualAmount returns the median of the last amounts of an event of a workspace in a
// currency, of the last half year; known is false while there are fewer than ten.
func (s *Store) UsualAmount(ctx context.Context, ws int64, event, currency string, now time.Time) (median float64, known bool, err error) {
	const last, enough, span = 100, 10, 182 * 24 * time.Hour
	rows, err := s.read.QueryContext(ctx, `SELECT CAST(c.amount AS double precision) FROM stage_changes c JOIN fired f ON f.change = c.id AND f.lead = c.lead
		WHERE c.ws = $1 AND f.name = $2 AND c.currency = $3 AND c.amount <> '' AND c.effect = $4 AND c.id > $6 ORDER BY c.id DESC LIMIT $5`,
		ws, event, currency, string(ledger.EffectEvent), last, int64(ledger.IDAt(now.Add(-span))))
	list, err := collect(rows, err, func(row scanner) (v float64, err error) {
		err = row.Scan(&v)
		return v, err
	})
	if err != nil {
		return 0, false, fmt.Errorf("look up the usual amount: %w", err)
	}
	if len(list) < enough {
		return 0, false, nil
	}
	sort.Float64s(list)
	return list[len(list)/2], true, nil
}

// StageMove is a stage change as it stands in the ledger.
type StageMove struct {
	ID                            ledger.ID
	Source, Pipeline, Stage       string
	Field, From, By, Deal, Record string
	Amount, Currency              string
	At                            time.Time
	Effect                        ledger.Effect
}

// Moves returns the whole history of a lead, in the CRM's own order.
func (s *Store) Moves(ctx context.Context, lead ledger.ID) ([]StageMove, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT id, source, pipeline, stage, field, from_stage, moved_by, deal, record, amount, currency, at, effect
		FROM stage_changes WHERE lead = $1 ORDER BY at, id`, int64(lead.Event()))
	list, err := collect(rows, err, func(row scanner) (m StageMove, err error) {
		var at int64
		err = row.Scan(&m.ID, &m.Source, &m.Pipeline, &m.Stage, &m.Field, &m.From, &m.By, &m.Deal, &m.Record, &m.Amount, &m.Currency, &at, &m.Effect)
		m.At = ledger.FromMicros(at)
		return m, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the moves of lead %s: %w", lead, err)
	}
	return list, nil
}

// LeadEvents returns the ids of the events that were made of a lead, oldest first.
func (s *Store) LeadEvents(ctx context.Context, lead ledger.ID) ([]ledger.ID, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT event FROM fired WHERE lead = $1 AND event <> 0 ORDER BY at, event`, int64(lead.Event()))
	ids, err := collect(rows, err, scanID[ledger.ID])
	if err != nil {
		return nil, fmt.Errorf("list the events of lead %s: %w", lead, err)
	}
	return ids, nil
}
