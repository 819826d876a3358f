package record_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/platform"
	"github.com/capiloop/capiloop/internal/platform/meta"
	"github.com/capiloop/capiloop/internal/record"
	"github.com/capiloop/capiloop/internal/secret"
	"github.com/capiloop/capiloop/internal/store"
)

// formDesk is a desk whose website has the tag and whose leads are reported at receipt.
type formDesk struct{ *crmDesk }

func newFormDesk(t *testing.T, database func() string) *formDesk {
	t.Helper()
	d := &formDesk{newCRMDesk(t, database, onReceipt, onQualified)}
	d.ws.Sources = []*config.Source{{Kind: "website", Name: "web", Options: secret.NewOptions(map[string]string{"site": "shop-1"}, nil, nil)}}
	return d
}

const visitorsFBP = "fb.1.1759270000000.77"

func tagCopy(id string, change func(i *record.Item)) record.Item {
	i := record.Item{
		Form: true, Consent: ledger.Decision{Consent: ledger.ConsentGranted, By: "tcf"},
		Event: &capi.Event{
			EventName: "Lead", EventID: id, EventTime: time.Now().Unix() - 2, ActionSource: capi.ActionSourceWebsite, EventSourceURL: "https://shop.example.com/contact",
			UserData: capi.UserData{ClientIPAddress: "203.0.113.7", ClientUserAgent: "Mozilla/5.0 (X11) Firefox/140", FBP: visitorsFBP},
		},
	}
	if change != nil {
		change(&i)
	}
	return i
}

func formLead(id string, change func(l *ledger.Lead)) *ledger.Lead {
	l := &ledger.Lead{Source: "api", Kind: "api", EventID: id, CreatedAt: time.Now(), Contact: ledger.Contact{Email: id + "@example.com", FullName: "Jane Doe"}}
	if change != nil {
		change(l)
	}
	return l
}

func (d *formDesk) form(t *testing.T, l *ledger.Lead) ledger.ID {
	t.Helper()
	done, err := d.Lead(t.Context(), d.ws, l)
	require.NoError(t, err)
	return done.ID
}

// the is the one delivery under an event id, with its payload.
func (d *formDesk) the(t *testing.T, id string) (*store.EventView, store.DeliveryView, map[string]any) {
	t.Helper()
	list, err := d.store.Latest(t.Context(), d.ws.ID, 1000)
	require.NoError(t, err)
	var found *store.EventView
	for _, v := range list {
		if v.EventID == id {
			require.Nil(t, found, "twice: %s", id)
			found = v
		}
	}
	require.NotNil(t, found, id)
	require.Len(t, found.Deliveries, 1)
	p := map[string]any{}
	if raw := found.Deliveries[0].Payload; raw != nil {
		require.NoError(t, json.Unmarshal(raw, &p))
	}
	return found, found.Deliveries[0], p
}

// both tells whether a payload has what each of the copies knows.
func both(p map[string]any) bool {
	u, _ := p["user_data"].(map[string]any)
	return u["em"] != nil && u["fbp"] != nil && u["client_user_agent"] != nil && u["client_ip_address"] != nil
}

func inEitherOrder(t *testing.T, test func(t *testing.T, d *formDesk, tag func(i record.Item), lead func(l *ledger.Lead) ledger.ID, swap bool)) {
	t.Helper()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		for _, swap := range []bool{false, true} {
			d := newFormDesk(t, database)
			test(t, d, func(i record.Item) { d.one(t, i) }, func(l *ledger.Lead) ledger.ID { return d.form(t, l) }, swap)
		}
	})
}

func TestBothCopiesAreOneEvent(t *testing.T) {
	t.Parallel()
	inEitherOrder(t, func(t *testing.T, d *formDesk, tag func(i record.Item), lead func(l *ledger.Lead) ledger.ID, swap bool) {
		t.Helper()
		d.ws.Rules[0].Value, d.ws.Rules[0].Amount = ledger.ValueFixed, "70"
		copied := tagCopy("e", func(i *record.Item) {
			zero := 0
			i.Event.CustomData = &capi.CustomData{ContentName: "Contact", Value: "5", Currency: "EUR"}
			i.Event.DataProcessingOptions, i.Event.DataProcessingOptionsCountry, i.Event.DataProcessingOptionsState = []string{"LDU"}, &zero, &zero
		})
		var id ledger.ID
		if swap {
			id = lead(formLead("e", nil))
			tag(copied)
		} else {
			tag(copied)
			id = lead(formLead("e", nil))
		}
		v, delivery, p := d.the(t, "e")
		require.True(t, both(p))
		require.Equal(t, "website", p["action_source"])
		require.Equal(t, "https://shop.example.com/contact", p["event_source_url"])
		require.Equal(t, []any{"LDU"}, p["data_processing_options"])
		require.Equal(t, map[string]any{"content_name": "Contact", "value": 70.0, "currency": "KZT"}, p["custom_data"], "the rule's value goes before the page's")
		require.Equal(t, ledger.Waiting, delivery.State)
		require.True(t, delivery.DueAt.IsZero(), "it goes at once")
		require.Equal(t, v.Time.Unix(), int64(p["event_time"].(float64)))
		events, err := d.store.LeadEvents(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, []ledger.ID{v.ID}, events)
		book, err := d.store.Book(t.Context(), store.BookQuery{Workspace: d.ws.ID})
		require.NoError(t, err)
		require.EqualValues(t, 1, book.Received)
		require.Zero(t, book.Unexplained())

		// The browser's ids go with what the CRM says later.
		moved := d.move(t, ledger.StageChange{Lead: id, Stage: "Qualified"})
		_, later := d.only(t, moved)
		require.Contains(t, string(later.Payload), visitorsFBP)

		// It is the lead's: who is forgotten takes the event along.
		require.NoError(t, d.store.EraseLead(t.Context(), d.ws.ID, id, time.Now()))
		_, delivery, _ = d.the(t, "e")
		require.Equal(t, ledger.Skipped, delivery.State)
		require.Empty(t, delivery.Payload)
	})
}

func TestEitherRefusalHolds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tag  func(i *record.Item)
		lead func(l *ledger.Lead)
	}{
		"on the page": {func(i *record.Item) {
			i.Consent, i.Unsent = ledger.Decision{Consent: ledger.ConsentDenied, By: "tcf"}, ledger.NoConsent
		}, nil},
		"in the form": {nil, func(l *ledger.Lead) { l.Consent = ledger.ConsentDenied }},
		"on the page, though the form agrees": {func(i *record.Item) {
			i.Consent, i.Unsent = ledger.Decision{Consent: ledger.ConsentDenied, By: "tcf"}, ledger.NoConsent
		}, func(l *ledger.Lead) { l.Consent = ledger.ConsentGranted }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inEitherOrder(t, func(t *testing.T, d *formDesk, tag func(i record.Item), lead func(l *ledger.Lead) ledger.ID, swap bool) {
				t.Helper()
				if swap {
					lead(formLead("e", c.lead))
					tag(tagCopy("e", c.tag))
				} else {
					tag(tagCopy("e", c.tag))
					lead(formLead("e", c.lead))
				}
				list, err := d.store.Latest(t.Context(), d.ws.ID, 10)
				require.NoError(t, err)
				for _, v := range list {
					require.Equal(t, ledger.NoConsent, v.Deliveries[0].Reason)
					require.Empty(t, v.Deliveries[0].Payload)
				}
				book, err := d.store.Book(t.Context(), store.BookQuery{Workspace: d.ws.ID})
				require.NoError(t, err)
				require.Zero(t, book.Unexplained())
				require.Zero(t, book.Total(ledger.Waiting))
			})
		})
	}
}

func TestWithdrawnConsentHoldsForWhatWasJoined(t *testing.T) {
	t.Parallel()
	inEitherOrder(t, func(t *testing.T, d *formDesk, tag func(i record.Item), lead func(l *ledger.Lead) ledger.ID, swap bool) {
		t.Helper()
		if swap {
			lead(formLead("e", nil))
		}
		tag(tagCopy("e", nil))
		if !swap {
			lead(formLead("e", nil))
		}
		done, err := d.Consent(t.Context(), d.ws, record.Decision{Email: "e@example.com"})
		require.NoError(t, err)
		require.Equal(t, 1, done.Events)
		_, delivery, _ := d.the(t, "e")
		require.Equal(t, ledger.NoConsent, delivery.Reason)
		require.Empty(t, delivery.Payload)
	})
}

// What was claimed is on its way, whatever comes then.
func TestWhatWasClaimedIsNeverChanged(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		d := newFormDesk(t, database)
		claim := func(at time.Time) *ledger.Batch {
			b, _, err := d.store.Claim(t.Context(), store.ClaimRequest{
				Destination: d.ws.Datasets[0].ID, Node: "n", Batch: ledger.NewIDs(1, time.Now).Next(), Now: at, Lease: time.Minute, MaxRows: 10, MaxBytes: 1 << 20,
			})
			require.NoError(t, err)
			return b
		}
		d.one(t, tagCopy("tag", nil))
		d.form(t, formLead("lead", nil))
		require.Nil(t, claim(time.Now()), "both wait")
		batch := claim(time.Now().Add(11 * time.Second))
		require.Len(t, batch.Rows, 2)
		d.form(t, formLead("tag", nil))
		d.one(t, tagCopy("lead", nil))
		d.one(t, tagCopy("lead", func(i *record.Item) {
			i.Consent, i.Unsent = ledger.Decision{Consent: ledger.ConsentDenied}, ledger.NoConsent
		}))
		for _, row := range batch.Rows {
			v, err := d.store.Event(t.Context(), d.ws.ID, row.ID.Event())
			require.NoError(t, err)
			require.Equal(t, string(row.Payload), string(v.Deliveries[0].Payload))
			require.Equal(t, ledger.Waiting, v.Deliveries[0].State)
		}
	})
}

func TestWhatIsNotJoined(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		desk func(d *formDesk)
		tag  func(i *record.Item)
		lead func(l *ledger.Lead)
		due  bool // the tag's copy waits for nothing
	}{
		"another e-mail":   {tag: func(i *record.Item) { i.Event.UserData.Email = []string{"other@example.com"} }},
		"another browser":  {lead: func(l *ledger.Lead) { l.Clicks.FBP = "fb.1.1759270000000.78" }},
		"a test":           {lead: func(l *ledger.Lead) { l.Test = true }},
		"history":          {lead: func(l *ledger.Lead) { l.History = true }},
		"called Test":      {lead: func(l *ledger.Lead) { l.Contact.FullName = "Test" }},
		"another event id": {lead: func(l *ledger.Lead) { l.EventID = "f" }},
		"no word of the form where consent is required": {desk: func(d *formDesk) { d.ws.ConsentRequired = true }},
		"no rule":   {desk: func(d *formDesk) { d.ws.Rules = d.ws.Rules[1:] }, due: true},
		"no form":   {tag: func(i *record.Item) { i.Form = false }, due: true},
		"no tag":    {desk: func(d *formDesk) { d.ws.Sources = nil }},
		"other ads": {lead: func(l *ledger.Lead) { l.Platform = "google" }, tag: func(i *record.Item) { i.Event.UserData.FBP = "" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, database func() string) {
				t.Helper()
				d := newFormDesk(t, database)
				if c.desk != nil {
					c.desk(d)
				}
				res := d.one(t, tagCopy("e", c.tag))
				before, _, _ := d.the(t, "e")
				d.form(t, formLead("e", c.lead))
				v, err := d.store.Event(t.Context(), d.ws.ID, res.ID)
				require.NoError(t, err)
				require.Equal(t, before, v, "the tag's copy goes as it is")
				require.Equal(t, c.due, v.Deliveries[0].DueAt.IsZero())
			})
		})
	}
}

// A lead of a website that no click id names goes nowhere; the tag's copy tells whose it is.
func TestTheTagTellsWhereALeadCameFrom(t *testing.T) {
	t.Parallel()
	inEitherOrder(t, func(t *testing.T, d *formDesk, tag func(i record.Item), lead func(l *ledger.Lead) ledger.ID, swap bool) {
		t.Helper()
		ofSite := func(l *ledger.Lead) { l.Kind, l.Source = "website", "web" }
		var id ledger.ID
		if swap {
			id = lead(formLead("e", ofSite))
			tag(tagCopy("e", nil))
		} else {
			tag(tagCopy("e", nil))
			id = lead(formLead("e", ofSite))
		}
		events, err := d.store.LeadEvents(t.Context(), id)
		require.NoError(t, err)
		require.Len(t, events, 1)
		v, err := d.store.Event(t.Context(), d.ws.ID, events[0])
		require.NoError(t, err)
		var p map[string]any
		require.NoError(t, json.Unmarshal(v.Deliveries[0].Payload, &p))
		require.True(t, both(p))
		require.Equal(t, ledger.Waiting, v.Deliveries[0].State)
	})
}

// Both copies of many forms come at once, on two nodes where there are two, each of them
// more than once.
func TestCopiesThatComeAtOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database func() string) {
		t.Helper()
		where := database()
		d := newFormDesk(t, func() string { return where })
		nodes := []*record.Recorder{d.Recorder, d.Recorder}
		if strings.HasPrefix(where, "postgres") {
			other, err := store.Open(t.Context(), store.Config{Database: where})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, other.Close()) })
			nodes[1] = record.New(record.Config{
				Store: other, Platforms: map[string]platform.Platform{"meta": meta.New(meta.Config{})}, IDs: ledger.NewIDs(other.Node(), time.Now), Fingerprint: []byte("k"),
			})
		}
		const people = 40
		var wg sync.WaitGroup
		for n := range people {
			id := fmt.Sprintf("e%d", n)
			for i := range 4 {
				wg.Go(func() {
					if i < 2 {
						out, err := nodes[(n+i)%2].Record(t.Context(), record.Request{Workspace: d.ws, Source: "web", Items: []record.Item{tagCopy(id, nil)}})
						if err != nil || out.Results[0].Rejected != nil {
							t.Error(err, out)
						}
						return
					}
					if _, err := nodes[(n+i)%2].Lead(t.Context(), d.ws, formLead(id, func(l *ledger.Lead) { l.DedupeKey = id })); err != nil {
						t.Error(err)
					}
				})
			}
		}
		wg.Wait()
		for n := range people {
			_, delivery, p := d.the(t, fmt.Sprintf("e%d", n))
			require.True(t, both(p), "%s", delivery.Payload)
			require.True(t, delivery.DueAt.IsZero())
		}
		book, err := d.store.Book(t.Context(), store.BookQuery{Workspace: d.ws.ID})
		require.NoError(t, err)
		require.EqualValues(t, people, book.Received)
		require.Zero(t, book.Unexplained())
	})
}
