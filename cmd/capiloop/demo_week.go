package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/capiloop/capiloop/capi/capitest"
)

const (
	// demoWeek is a little more than a week, so that the guard knows what is usual.
	demoWeek  = 176 * time.Hour
	demoLeads = 150
	demoForm  = "200000000000001"
	demoPage  = "100000000000001"
	demoIDs   = 1_200_000_000_000_000 // Meta's ids of leads begin here
	demoPrice = 185_000               // tenge, for category B
)

// What goes wrong in the week, by the number of the lead.
const (
	demoEarly     = 25  // its stage is said to lie before it
	demoTest      = 40  // somebody tried the form
	demoWithdrawn = 55  // takes consent back before the trial lesson
	demoDeleted   = 70  // is deleted at Meta
	demoTypo      = 132 // the contract has three zeros too many
	demoSigned    = 120 // nothing does
)

// The people of the demo are invented; their addresses lie under example.com
// (RFC 2606) and their numbers are not given out.
var demoNames = []string{"Aigerim", "Daniyar", "Madina", "Yerlan", "Asel", "Timur", "Zhanna", "Nurlan", "Dana", "Ruslan"}

// demoLead is a person who fills in a form.
type demoLead struct {
	n        int
	id       string
	platform string
	created  time.Time
}

func newDemoLead(n int, created time.Time) demoLead {
	l := demoLead{n: n, id: strconv.Itoa(demoIDs + n), platform: "meta", created: created.Truncate(time.Second)}
	if n%15 == 11 {
		l.platform = "google"
	}
	return l
}

func (l demoLead) name() string {
	if l.n == demoTest {
		return "Test Test"
	}
	return fmt.Sprintf("%s No. %d", demoNames[l.n%len(demoNames)], l.n)
}

func (l demoLead) email() string { return fmt.Sprintf(" lead.%s@Example.com ", l.id) }

// phone is another one for each lead, for who shares it is one person.
func (l demoLead) phone() string {
	last := l.id[len(l.id)-5:]
	return "8 (701) 55" + last[:1] + "-" + last[1:3] + "-" + last[3:]
}

// happening is something of the week, at its time.
type happening struct {
	at time.Time
	do func(context.Context) error
}

// replay lets the week pass: it puts the clock to each happening, and waits until what
// comes of it is done, as it would be within seconds.
func (d *demo) replay(ctx context.Context, now time.Time) error {
	for _, h := range d.week(now) {
		d.hand.Set(h.at)
		if err := h.do(ctx); err != nil {
			return err
		}
		if _, err := d.settled(ctx); err != nil {
			return err
		}
	}
	d.hand.Release()
	return nil
}

// week returns what happens until now, in its order.
func (d *demo) week(now time.Time) []happening {
	var list []happening
	add := func(at time.Time, do func(context.Context) error) { list = append(list, happening{at, do}) }
	for n := range demoLeads {
		l := newDemoLead(n, now.Add(-demoWeek+time.Duration(n)*demoWeek/demoLeads))
		add(l.created.Add(2*time.Second), func(ctx context.Context) error { return d.enquire(ctx, l) })
		for _, s := range d.course(l) {
			add(l.created.Add(s.after), s.do)
		}
		if n%12 == 5 {
			add(l.created.Add(-time.Minute), func(ctx context.Context) error { return d.visit(ctx, n) })
		}
	}
	add(now.Add(-90*time.Minute), d.bulkEdit)
	list = slices.DeleteFunc(list, func(h happening) bool { return h.at.After(now) })
	slices.SortStableFunc(list, func(a, b happening) int { return a.at.Compare(b.at) })
	return list
}

// enquire lets a person fill in a form, and waits until the CRM has the lead. Meta's
// webhook says only that there is one; Google's form comes by a program.
func (d *demo) enquire(ctx context.Context, l demoLead) error {
	d.counted.leads++
	if l.platform == "google" {
		err := d.postOwn(ctx, "/v1/leads", map[string]any{
			"lead_id": l.id, "platform": l.platform, "created_at": l.created.Unix(), "full_name": l.name(), "email": l.email(), "phone": l.phone(), "consent": true,
		})
		if err != nil {
			return err
		}
		return d.arrived(ctx, l.id)
	}
	d.graph.AddLead(capitest.Lead{
		ID: l.id, FormID: demoForm, PageID: demoPage, Created: l.created, AdID: "120200000000000001", AdName: "Free trial lesson",
		CampaignID: "120200000000000003", CampaignName: "Category B, winter",
		Fields: []capitest.Field{{Name: "full_name", Values: []string{l.name()}}, {Name: "email", Values: []string{l.email()}}, {Name: "phone_number", Values: []string{l.phone()}}},
	})
	tries := 1
	if l.n%40 == 0 {
		tries = 2 // the webhook comes twice
	}
	for range tries {
		status, err := d.graph.DeliverLeads(ctx, d.hooks["forms"], d.appSecret, l.id)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("the address of Meta's forms answered %d", status)
		}
		if err != nil {
			return err
		}
	}
	return d.arrived(ctx, l.id)
}

// step is something that happens to a lead in the CRM.
type step struct {
	after time.Duration // since the form
	do    func(context.Context) error
}

// course is what the manager does with a lead of the week: a third is qualified, a
// twelfth signs, a third is lost, and the rest is not decided yet.
func (d *demo) course(l demoLead) []step {
	to := func(after time.Duration, stage string) step {
		m := move{Lead: l.id, Platform: l.platform, Stage: stage, OccurredAt: l.created.Add(after).UTC().Format(time.RFC3339)}
		if stage == "Contract" {
			m.Value, m.Currency = demoPrice+l.n%5*10_000, "KZT"
			if l.n == demoTypo {
				m.Value *= 1000
			}
		}
		if l.n == demoEarly && stage == "Qualified" { // the CRM's clock is wrong
			m.OccurredAt = l.created.Add(-time.Hour).UTC().Format(time.RFC3339)
		}
		return step{after, func(ctx context.Context) error { return d.tell(ctx, m) }}
	}
	list := []step{to(10*time.Second, "New"), to(time.Duration(4+l.n%25)*time.Minute, "Contacted")}
	qualified := to(2*time.Hour, "Qualified")
	switch {
	case l.n == demoEarly:
		list = append(list, qualified)
	case l.n == demoWithdrawn:
		list = append(list, step{time.Hour, func(ctx context.Context) error {
			return d.postOwn(ctx, "/v1/consent", map[string]any{"email": l.email(), "granted": false})
		}}, qualified)
	case l.n == demoDeleted:
		list = append(list, step{time.Hour, func(context.Context) error { d.graph.DeleteLead(l.id); return nil }}, qualified)
	case l.n%3 == 0:
		list = append(list, qualified)
	case l.n%3 == 2:
		list = append(list, to(26*time.Hour, "Lost"))
	}
	if l.n%30 == 6 { // dragged back and forth
		list = append(list, to(3*time.Hour, "Contacted"), to(4*time.Hour, "Qualified"))
	}
	if l.n%12 == 0 {
		list = append(list, to(5*time.Hour, "Contract"))
	}
	return list
}

// bulkEdit drags a whole column of cards at once: more than the guard lets pass unasked.
func (d *demo) bulkEdit(ctx context.Context) error {
	cards := d.crm.in("Contacted")
	moves := make([]move, 0, len(cards))
	for i, c := range cards[:min(40, len(cards))] {
		at := d.clock.Now().Add(time.Duration(i-60) * time.Second)
		moves = append(moves, move{Lead: c.lead, Platform: c.platform, Stage: "Qualified", OccurredAt: at.UTC().Format(time.RFC3339)})
	}
	return d.tell(ctx, moves...)
}

// event is one event as a caller writes it.
type event map[string]any

// visit reports a page view of the website; some senders repeat themselves.
func (d *demo) visit(ctx context.Context, n int) error {
	at := d.clock.Now()
	e := event{
		"event_name": "ViewContent", "event_time": at.Unix(), "event_id": fmt.Sprintf("view-%04d", n), "action_source": "website",
		"event_source_url": "https://avto-start.example.com/category-b?utm_source=ig&email=a%40example.com",
		"user_data": event{
			"client_user_agent": "Mozilla/5.0 (Linux; Android 14) AppleWebKit/537.36 Chrome/128.0 Mobile Safari/537.36",
			"client_ip_address": fmt.Sprintf("203.0.113.%d", n%200+1), "fbp": fmt.Sprintf("fb.1.%d.%d", at.UnixMilli(), 1000000000+n),
		},
	}
	if n%24 == 5 {
		return d.postOwn(ctx, "/v1/events", event{"data": []event{e, e}})
	}
	return d.postOwn(ctx, "/v1/events", e)
}

// slips sends what the door turns away, holds or mends.
func (d *demo) slips(ctx context.Context) error {
	now := d.clock.Now()
	user := func(email string) event { return event{"em": email, "client_user_agent": "Mozilla/5.0"} }
	base := func(id, name string, at time.Time, u event) event {
		return event{
			"event_name": name, "event_time": at.Unix(), "event_id": id, "action_source": "website",
			"event_source_url": "https://avto-start.example.com/", "user_data": u,
		}
	}
	ahead := base("clock-ahead", "Contact", now.Add(11*time.Minute), user("clock@example.com"))
	refused := base("no-consent", "Contact", now, user("private@example.com"))
	refused["consent"] = "denied"
	var lines []byte
	for _, e := range []event{
		base("too-old", "Contact", now.Add(-9*24*time.Hour), user("old@example.com")),
		base("no-value", "Purchase", now, user("buyer@example.com")),
		base("nobody", "Contact", now, event{"client_user_agent": "Mozilla/5.0"}),
		base("bad-email", "Contact", now, event{"em": "not an address", "ph": "+77015559999"}),
		ahead, refused,
	} {
		b, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("write the demo's events: %w", err)
		}
		lines = append(append(lines, b...), '\n')
	}
	file := filepath.Join(d.data, "slips.jsonl")
	if err := os.WriteFile(file, lines, 0o600); err != nil {
		return fmt.Errorf("write the demo's events: %w", err)
	}
	return d.sendSlips(ctx, file)
}
