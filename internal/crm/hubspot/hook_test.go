package hubspot_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/crm/crmtest"
	"github.com/capiloop/capiloop/internal/crm/hubspot"
	"github.com/capiloop/capiloop/internal/ledger"
)

const hookURL = "https://leads.example.com/hooks/hubspot/8f3c"

var (
	hookTime = time.UnixMilli(1795000000000).UTC()
	sender   = crmtest.HubSpotSender{Secret: "hubspot-client-secret-0001", URL: hookURL}
)

func hooked(more ...string) crm.Account {
	return crmtest.Account("hubspot", "", append([]string{"webhook_secret", sender.Secret}, more...)...)
}

// receive gives a body that is signed as an app of HubSpot signs it.
func receive(a crm.Account, body []byte) crm.Received {
	return hubspot.New().Receive(sender.Sign(hookTime, body).Incoming(), a, hookTime)
}

func refused(t *testing.T, got crm.Received) {
	t.Helper()
	require.Equal(t, http.StatusUnauthorized, got.Answer.Status)
	require.Empty(t, got.Changes)
	require.Empty(t, got.Merges)
	crmtest.QuietText(t, string(got.Answer.Body))
}

func TestSignatures(t *testing.T) {
	t.Parallel()
	var vectors []struct {
		Name, Version, Secret, Method, URI, Timestamp, Body string
		Header                                              map[string]string
	}
	require.NoError(t, json.Unmarshal(sample(t, "signatures"), &vectors))
	require.Len(t, vectors, 6)
	for _, v := range vectors {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			in := crm.Incoming{Method: "POST", URL: v.URI, Header: http.Header{}, Body: []byte(v.Body)}
			for name, value := range v.Header {
				in.Header.Set(name, value)
			}
			now := hookTime
			if ms, err := strconv.ParseInt(v.Timestamp, 10, 64); err == nil {
				now = time.UnixMilli(ms)
			}
			a := crmtest.Account("hubspot", "", "client_secret", v.Secret)
			try := func(change func(in *crm.Incoming), a crm.Account, now time.Time) crm.Received {
				again := in
				again.Header, again.Body = in.Header.Clone(), bytes.Clone(in.Body)
				change(&again)
				return hubspot.New().Receive(again, a, now)
			}
			same := func(*crm.Incoming) {}
			want := http.StatusOK
			if strings.HasPrefix(v.Name, "hubspot v3 vendor") {
				want = http.StatusBadRequest // its quotes are single ones
			}
			require.Equal(t, want, try(same, a, now).Answer.Status)
			refused(t, try(same, crmtest.Account("hubspot", ""), now))
			refused(t, try(same, crmtest.Account("hubspot", "", "client_secret", v.Secret+"x"), now))
			refused(t, try(same, crmtest.Account("hubspot", "", "client_secret", v.Secret, "webhook_secret", "made-up-other-one"), now))
			for i := range in.Body {
				refused(t, try(func(in *crm.Incoming) { in.Body[i] ^= 1 }, a, now))
			}
			for name := range v.Header {
				refused(t, try(func(in *crm.Incoming) { in.Header.Del(name) }, a, now))
				refused(t, try(func(in *crm.Incoming) { in.Header.Set(name, "x"+in.Header.Get(name)) }, a, now))
			}
			if v.Version == "v1" {
				return
			}
			refused(t, try(func(in *crm.Incoming) { in.URL += "x" }, a, now))
			if v.Version == "v3" {
				require.Equal(t, want, try(same, a, now.Add(5*time.Minute)).Answer.Status)
				require.Equal(t, want, try(same, a, now.Add(-5*time.Minute)).Answer.Status)
				refused(t, try(same, a, now.Add(5*time.Minute+time.Millisecond)))
				refused(t, try(same, a, now.Add(-5*time.Minute-time.Millisecond)))
			}
		})
	}
	require.Equal(t, http.StatusMethodNotAllowed, hubspot.New().Receive(crm.Incoming{Method: "GET"}, hooked(), hookTime).Answer.Status)
	in := sender.SignWorkflow([]byte(`{}`)).Incoming()
	in.Header.Set("X-HubSpot-Signature-Version", "v4")
	refused(t, hubspot.New().Receive(in, hooked(), hookTime))
}

// A signature of version 1 can be carried on without the secret, by padding that is no JSON.
func TestPaddedBodyBringsNothing(t *testing.T) {
	t.Parallel()
	body := append(sample(t, "hubspot-webhook-dealstage"), 0x80, 0, 0, 0, ']')
	got := receive(hooked(), body)
	require.Equal(t, http.StatusBadRequest, got.Answer.Status)
	require.Empty(t, got.Changes)
}

func TestSamples(t *testing.T) {
	t.Parallel()
	at := func(ms int64) time.Time { return time.UnixMilli(1795000000000 + ms).UTC() }
	for name, want := range map[string][]ledger.StageChange{
		"hubspot-webhook-dealstage": {
			{Key: "4000001/deal.propertyChange/9001/dealstage/qualifiedtobuy/1795000001000", Stage: "qualifiedtobuy", At: at(1000)},
			{Key: "4000001/deal.propertyChange/9001/dealstage/closedwon/1795000005000", Stage: "closedwon", At: at(5000)},
		},
		"hubspot-webhook-lifecycle": {
			{Key: "4000001/contact.propertyChange/51/lifecyclestage/salesqualifiedlead/1795000009000", Field: "lifecyclestage", Stage: "salesqualifiedlead", At: at(9000)},
			{Key: "4000001/contact.propertyChange/51/lifecyclestage/128370099/1795000020000", Field: "lifecyclestage", Stage: "128370099", At: at(20000)},
		},
		"hubspot-webhook-object-format": {
			{Key: "4000001/deal.propertyChange/9001/dealstage/contractsent/1795000030000", Stage: "contractsent", At: at(30000)},
		},
	} {
		for i := range want {
			want[i].Thin, want[i].By, want[i].Records, want[i].DealID = true, "9999", []string{"deal:9001"}, "9001"
			if want[i].Field != "" {
				want[i].Records, want[i].DealID = []string{"contact:51"}, ""
			}
		}
		got := receive(hooked(), sample(t, name))
		require.Equal(t, crm.Received{Changes: want, Answer: crm.Answer{Status: 200, Body: []byte{}}}, got, name)
	}

	in := sender.SignWorkflow(sample(t, "hubspot-workflow-webhook")).Incoming()
	got := hubspot.New().Receive(in, hooked(), hookTime)
	require.Equal(t, []ledger.StageChange{{
		Key: "4000001/workflow/ap-4000001-0001/9001/dealstage/closedwon/", Thin: true, Records: []string{"deal:9001"}, DealID: "9001", Stage: "closedwon", Amount: "1500.50",
	}}, got.Changes)
}

func TestEvents(t *testing.T) {
	t.Parallel()
	const deal, contact = `"portalId":4000001,"appId":7,"objectId":9001,"occurredAt":1795000001000,"subscriptionType":"deal.propertyChange","propertyName":"dealstage"`,
		`"portalId":4000001,"appId":7,"objectId":51,"occurredAt":1795000001000,"subscriptionType":"contact.propertyChange"`
	for name, c := range map[string]struct {
		body string
		want string // field:stage of each change
	}{
		"cleared":          {`[{` + deal + `,"propertyValue":""}]`, ""},
		"null":             {`[{` + deal + `,"propertyValue":null}]`, ""},
		"number as value":  {`[{` + deal + `,"propertyValue":128370012}]`, ":128370012"},
		"texts as ids":     {`[{"portalId":"4000001","objectId":"9001","occurredAt":"1795000001000","subscriptionType":"deal.propertyChange","propertyName":"dealstage","propertyValue":"a"}]`, ":a"},
		"one bad between":  {`[1,null,{` + deal + `,"propertyValue":"a"},"x",{"mergedObjectIds":7,` + deal + `,"propertyValue":"b"},{` + deal + `,"propertyValue":"c"}]`, ":a :c"},
		"same eventId":     {`[{"eventId":1,` + deal + `,"propertyValue":"a"},{"eventId":1,` + deal + `,"propertyValue":"b"}]`, ":a :b"},
		"twice":            {`[{"attemptNumber":0,` + deal + `,"propertyValue":"a"},{"attemptNumber":1,` + deal + `,"propertyValue":"a"}]`, ":a"},
		"created":          {`[{"portalId":4000001,"objectId":9001,"occurredAt":1,"subscriptionType":"deal.creation"}]`, ":"},
		"created, newer":   {`[{"portalId":4000001,"objectId":9001,"occurredAt":1,"subscriptionType":"object.creation","objectTypeId":"0-3"}]`, ":"},
		"contact created":  {`[{"portalId":4000001,"objectId":51,"occurredAt":1,"subscriptionType":"contact.creation"}]`, ""},
		"lead status":      {`[{` + contact + `,"propertyName":"hs_lead_status","propertyValue":"OPEN_DEAL"}]`, "hs_lead_status:OPEN_DEAL"},
		"own property":     {`[{` + contact + `,"propertyName":"tour","propertyValue":"booked"}]`, "tour:booked"},
		"echo":             {`[{` + contact + `,"propertyName":"tour","propertyValue":"booked","changeSource":"INTEGRATION","sourceId":"7"}]`, ""},
		"another's":        {`[{` + contact + `,"propertyName":"tour","propertyValue":"booked","changeSource":"INTEGRATION","sourceId":"8"}]`, "tour:booked"},
		"we create":        {`[{` + contact + `,"propertyName":"lifecyclestage","propertyValue":"lead","changeSource":"INTEGRATION","sourceId":"7"}]`, "lifecyclestage:lead"},
		"who it is":        {`[{` + contact + `,"propertyName":"work_email","propertyValue":"ana.lead@example.com"},{` + contact + `,"propertyName":"company","propertyValue":"x"}]`, ""},
		"sensitive":        {`[{` + contact + `,"propertyName":"tour","propertyValue":"x","isSensitive":true}]`, ""},
		"long":             {`[{` + contact + `,"propertyName":"tour","propertyValue":"` + strings.Repeat("x", 201) + `"}]`, ""},
		"other object":     {`[{"portalId":4000001,"objectId":1,"occurredAt":1,"subscriptionType":"object.propertyChange","objectTypeId":"0-2","propertyName":"dealstage","propertyValue":"x"},{"subscriptionType":"company.creation","objectId":1}]`, ""},
		"no id":            {`[{"subscriptionType":"deal.propertyChange","propertyName":"dealstage","propertyValue":"x","objectId":"../1"},{"subscriptionType":"deal.creation"}]`, ""},
		"another account":  {`[{"portalId":5,"objectId":1,"occurredAt":1,"subscriptionType":"deal.propertyChange","propertyName":"dealstage","propertyValue":"x"}]`, ""},
		"deleted":          {`[{` + strings.Replace(deal, "propertyChange", "deletion", 1) + `}]`, ""},
		"nothing":          {`[]`, ""},
		"no event":         {`"x"`, ""},
		"workflow contact": {`{"objectId":51,"objectType":"CONTACT","lifecyclestage":"customer","hs_lead_status":""}`, "lifecyclestage:customer"},
		"workflow, all":    {`{"vid":51,"portal-id":4000001,"properties":{"lifecyclestage":{"value":"lead"},"hs_lead_status":{"value":"NEW"}}}`, "lifecyclestage:lead hs_lead_status:NEW"},
		"workflow, untold": {`{"hs_object_id":"9001","dealstage":128370012}`, ":128370012"},
		"workflow, ticket": {`{"objectId":1,"objectType":"TICKET","dealstage":"x"}`, ""},
		"workflow, other":  {`{"objectId":1,"portalId":5,"dealstage":"x"}`, ""},
		"workflow, no id":  {`{"objectType":"DEAL","dealstage":"x"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := receive(hooked("portal_id", "4000001"), []byte(c.body))
			require.Equal(t, http.StatusOK, got.Answer.Status)
			var list []string
			for _, x := range got.Changes {
				require.True(t, x.Thin)
				require.NotEmpty(t, x.Key)
				list = append(list, x.Field+":"+x.Stage)
			}
			require.Equal(t, c.want, strings.Join(list, " "))
		})
	}
}

func TestMerges(t *testing.T) {
	t.Parallel()
	got := receive(hooked(), []byte(`[
		{"portalId":4000001,"occurredAt":1795000001000,"subscriptionType":"contact.merge","objectId":51,"primaryObjectId":51,"mergedObjectIds":[52,53],"newObjectId":51},
		{"portalId":4000001,"occurredAt":1795000001000,"subscriptionType":"object.merge","objectTypeId":"0-1","primaryObjectId":54,"mergedObjectIds":["55"],"newObjectId":60},
		{"subscriptionType":"contact.merge","primaryObjectId":54,"mergedObjectIds":[]},
		{"subscriptionType":"contact.merge","mergedObjectIds":[1]},
		{"subscriptionType":"company.merge","primaryObjectId":54,"mergedObjectIds":[1]}
	]`))
	at := time.UnixMilli(1795000001000).UTC()
	require.Equal(t, []ledger.Merge{
		{Kept: "contact:51", Merged: []string{"contact:52", "contact:53"}, At: at},
		{Kept: "contact:60", Merged: []string{"contact:54", "contact:55"}, At: at},
	}, got.Merges)
	require.Empty(t, got.Changes)
}

// What HubSpot makes of 300 moves, shuffled and each of them twice, are 300 moves.
func TestSenderShufflesAndRepeats(t *testing.T) {
	t.Parallel()
	var events []map[string]any
	for i := range 300 {
		events = append(events, sender.DealStage(9000+int64(i/3), strconv.Itoa(i%3), hookTime.Add(time.Duration(i)*time.Second)))
	}
	keys := map[string]int{}
	for _, hook := range sender.Requests(hookTime, events...) {
		got := hubspot.New().Receive(hook.Incoming(), hooked(), hookTime.Add(time.Second))
		require.Equal(t, http.StatusOK, got.Answer.Status)
		for _, c := range got.Changes {
			keys[c.Key]++
		}
	}
	require.Len(t, keys, 300)
}

func FuzzReceive(f *testing.F) {
	for _, name := range []string{"hubspot-webhook-dealstage", "hubspot-webhook-lifecycle", "hubspot-webhook-object-format", "hubspot-workflow-webhook"} {
		f.Add(sample(f, name))
	}
	f.Add([]byte(`[{"subscriptionType":"contact.merge","primaryObjectId":1,"mergedObjectIds":[2,{}],"newObjectId":3}]`))
	f.Add([]byte(`{"vid":1,"properties":{"lifecyclestage":{"value":["x"]}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got := receive(hooked(), body)
		require.Contains(t, []int{200, 400}, got.Answer.Status)
		for _, c := range got.Changes {
			require.Regexp(t, `^(deal|contact):[0-9]{1,20}$`, c.Records[0])
			require.NotEmpty(t, c.Key)
			require.Regexp(t, `^[-+0-9.]*$`, c.Amount)
		}
		in := sender.Sign(hookTime, body).Incoming()
		in.Header.Set("X-HubSpot-Request-Timestamp", "1795000000001")
		refused(t, hubspot.New().Receive(in, hooked(), hookTime))
	})
}
