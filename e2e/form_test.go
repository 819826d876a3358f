package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi/capitest"
)

// formLines are a website with the tag whose leads are reported when they come in.
const formLines = `    sources:
      - {kind: website, name: web, site: tee-and-co, origins: [https://shop.example.com]}
    stages:
      - {stage: received, event: Lead}
trusted_proxies: [127.0.0.1]
`

// forms is a website whose forms reach us twice: by the tag in the page, and as a lead.
type forms struct{ *shop }

func newForms(t *testing.T, database string, speed float64) *forms {
	t.Helper()
	return &forms{&shop{rig: newRig(t, setup{database: database, speed: speed, lines: formLines})}}
}

// tag is the tag's copy of a form's event.
func (f *forms) tag(t *testing.T, id, ads string) {
	t.Helper()
	e := event{"event_name": "Lead", "event_id": id, "form": true}
	if ads == "granted" {
		e["custom_data"] = event{"content_name": "Contact"}
		e["user_data"] = event{"fbp": browserOf(id)}
	}
	n := 0
	for _, c := range id {
		n = n*31 + int(c)
	}
	f.page(t, n%0xffff, shopAgent, ads, e)
}

func browserOf(id string) string { return "fb.1.1759270000000." + strconv.Itoa(1000+len(id)) }

// lead is the lead of the form, as the site's own server brings it.
func (f *forms) lead(t *testing.T, id string, more event) {
	t.Helper()
	l := event{"event_id": id, "external_id": "form-" + id, "email": id + rawDomain, "full_name": "Jane Doe"}
	maps.Copy(l, more)
	body, err := json.Marshal(l)
	require.NoError(t, err)
	status, answer := f.request(t, http.MethodPost, "/v1/leads", body, "Content-Type", "application/json")
	require.Less(t, status, 300, "%s", answer)
}

// told is what Meta was told under an id: the keys of the one event.
func (f *forms) told(t *testing.T, id string) []string {
	t.Helper()
	var found []capitest.Received
	for _, e := range f.graph.Kept(datasetA) {
		if e.EventID == id {
			found = append(found, e)
		}
	}
	if len(found) == 0 {
		return nil
	}
	require.Len(t, found, 1, id)
	return found[0].Keys
}

var (
	ofBoth = []string{"client_ip_address", "client_user_agent", "em", "external_id", "fbp"}
	ofTag  = []string{"client_ip_address", "client_user_agent", "fbp"}
	ofLead = []string{"em", "external_id"}
)

// One form is one Lead for Meta, with what the browser and what the form says, whichever
// copy comes first; a copy that is late changes nothing, and a refusal by either holds.
func TestOneFormOneLead(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, database string) {
		f := newForms(t, database, 4)
		const yes, no = "granted", "denied"
		f.tag(t, "late-lead", yes)
		f.lead(t, "late-tag", nil)
		f.tag(t, "no-lead", yes)
		f.eventually(t, 20*time.Second, "who waits in vain goes", func() bool { return len(f.graph.Kept(datasetA)) == 3 })
		f.lead(t, "late-lead", nil)
		f.tag(t, "late-tag", yes)

		f.tag(t, "tag-first", yes)
		f.lead(t, "tag-first", nil)
		f.lead(t, "lead-first", nil)
		began := f.clock.Now()
		f.tag(t, "lead-first", yes)
		for range 3 {
			f.tag(t, "repeated", yes)
			f.lead(t, "repeated", nil)
		}
		f.eventually(t, 5*time.Second, "both copies are there", func() bool { return f.told(t, "lead-first") != nil && f.told(t, "repeated") != nil })
		require.Less(t, f.clock.Now().Sub(began), 10*time.Second, "what is complete waits no longer")

		f.tag(t, "refused-tag-first", no)
		f.lead(t, "refused-tag-first", nil)
		f.lead(t, "refused-lead-first", nil)
		f.tag(t, "refused-lead-first", no)
		f.tag(t, "refused-in-the-form", yes)
		f.lead(t, "refused-in-the-form", event{"consent": "denied"})
		f.tag(t, "stays", yes)
		f.lead(t, "stays", event{"gclid": "of-another-platform", "platform": "google"})
		f.drained(t, 40*time.Second)

		for id, want := range map[string][]string{
			"tag-first": ofBoth, "lead-first": ofBoth, "repeated": ofBoth, "stays": ofBoth,
			"no-lead": ofTag, "late-lead": ofTag, "late-tag": ofLead,
			"refused-tag-first": nil, "refused-lead-first": nil, "refused-in-the-form": nil,
		} {
			got := slices.Sorted(slices.Values(f.told(t, id)))
			require.Equal(t, want, got, id)
		}
		require.Empty(t, f.graph.SecondIDs())
		b := f.book(t, datasetA)
		require.EqualValues(t, 7, b.Sent)
		require.EqualValues(t, 3, b.by("skipped", "no_consent"))
		require.EqualValues(t, 10, b.Received)
		require.Empty(t, f.findings(t, "duplicate_conflict", "open"), "two copies of one form are no two people")
	})
}

// A kill between the two copies loses neither.
func TestAKillBetweenTheTagAndItsLead(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"tag", "lead"} {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			onEach(t, func(t *testing.T, database string) {
				f := newForms(t, database, 1)
				for _, copied := range map[string][]string{"tag": {"tag", "lead"}, "lead": {"lead", "tag"}}[first] {
					if copied == "tag" {
						f.tag(t, "a", "granted")
					} else {
						f.lead(t, "a", nil)
					}
					if copied == first {
						f.kill()
						f.start(t)
					}
				}
				f.drained(t, 20*time.Second)
				require.Equal(t, ofBoth, slices.Sorted(slices.Values(f.told(t, "a"))))
				require.Empty(t, f.graph.SecondIDs())
				require.EqualValues(t, 1, f.book(t, datasetA).Sent)
			})
		})
	}
}

// One plug-in of the shop sends 45.00 as 4500: that waits for a person (J5).
func TestAPlugInThatSendsCents(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, database string) {
		s := newShop(t, database)
		buy := func(n int, value string) {
			s.page(t, n, shopAgent, "granted", event{"event_name": "Purchase", "event_id": fmt.Sprintf("order-%d", n), "custom_data": event{
				"value": json.Number(value), "currency": "EUR", "contents": []event{{"id": "tee", "quantity": 1}},
			}})
		}
		for n := range 5 {
			buy(n, "45.00")
		}
		s.kill()
		if database == "postgres" { // it gives a dead node's lane to the next after 90 seconds
			s.clock.set(1, 91*time.Second)
		}
		s.start(t)
		buy(5, "4500")
		buy(6, "44.90")
		s.eventually(t, 20*time.Second, "all but one are sent", func() bool { return len(s.graph.Kept(datasetA)) == 6 })
		require.EqualValues(t, 1, s.book(t, datasetA).by("held", "value_outlier"))
		require.Len(t, s.findings(t, "guard", "open"), 1)
		require.Zero(t, s.run(t, "retry", "--drop", "--reason", "value_outlier").code)
		s.drained(t, 10*time.Second)
		require.Len(t, s.graph.Kept(datasetA), 6)
		require.Empty(t, s.findings(t, "guard", "open"))
	})
}
