package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// demoPause is the time between two leads once the week is through.
const demoPause = 6 * time.Second

// sendSlips sends a file as capiloop send does, and tells how many were turned away.
func (d *demo) sendSlips(ctx context.Context, file string) error {
	s := sender{url: d.base, key: demoKey, batch: 50, client: d.client, out: io.Discard, errOut: io.Discard}
	if err := s.sendFile(ctx, file, nil); err != nil && !errors.Is(err, errFound) {
		return err
	}
	fmt.Fprintf(d.out, "  %d people filled in a form, the CRM moved their cards %d times, and %d events were turned away with a reason.\n",
		d.counted.leads, d.counted.moves, s.rejected)
	return nil
}

// goOn lets a new lead come every few seconds, and the manager move some before it, until
// somebody stops it.
func (d *demo) goOn(ctx context.Context) {
	for leads := []demoLead{}; d.clock.Sleep(ctx, demoPause) == nil; {
		l := newDemoLead(demoLeads+len(leads), d.clock.Now())
		l.id = strconv.FormatInt(demoIDs+l.created.Unix(), 10) // another one in the next run over the same data
		leads = append(leads, l)
		err := d.enquire(ctx, l)
		err = errors.Join(err, d.tell(ctx, d.nextMoves(leads)...))
		if err != nil && ctx.Err() == nil { // who plays with the sandbox's faults has this; it goes on
			fmt.Fprintf(d.errOut, "%v\n", err)
		}
	}
}

// nextMoves are those that follow on a lead that has just come in. In ten minutes fewer of
// them make an event than the guard would ask about.
func (d *demo) nextMoves(leads []demoLead) []move {
	var moves []move
	at := d.clock.Now().UTC().Format(time.RFC3339Nano)
	to := func(back int, stage string) {
		l := leads[len(leads)-1-back]
		m := move{Lead: l.id, Platform: l.platform, Stage: stage, OccurredAt: at}
		if stage == "Contract" {
			m.Value, m.Currency = demoPrice, "KZT"
		}
		moves = append(moves, m)
	}
	last := len(leads) - 1
	to(0, "New")
	if last >= 1 {
		to(1, "Contacted")
	}
	switch n := last - 2; {
	case n < 0:
	case n%7 == 0:
		to(2, "Qualified")
	case n%7 > 4:
		to(2, "Lost")
	}
	if n := last - 4; n >= 0 && n%28 == 0 {
		to(4, "Contract")
	}
	return moves
}
