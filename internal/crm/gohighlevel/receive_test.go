package gohighlevel_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/crm/crmtest"
	"github.com/capiloop/capiloop/internal/crm/gohighlevel"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
)

var (
	stageAt = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	wonAt   = time.Date(2026, 11, 25, 10, 0, 0, 0, time.UTC)
)

// hooked is an account that takes the fake's hooks.
func hooked(more ...string) crm.Account {
	return crmtest.Account(gohighlevel.Kind, "https://example.com", append([]string{"location_id", location, "webhook_public_key", ownKey}, more...)...)
}

func watching(fields ...string) crm.Account {
	a := hooked()
	a.Options = secret.NewOptions(map[string]string{"location_id": location, "webhook_public_key": ownKey}, map[string][]string{"watch": fields}, nil)
	return a
}

func TestReceiveReadsAnAppsHooks(t *testing.T) {
	t.Parallel()
	c := gohighlevel.New()
	move := ledger.StageChange{
		Key: "00000000-0000-4000-8000-0000000000c1", Thin: true, Records: []string{"opportunity:opExample00000000001", "contact:ctExample00000000001"}, DealID: "opExample00000000001",
		Pipeline: "plExample0000000001", Stage: "00000000-0000-4000-8000-0000000000b3", At: stageAt, Amount: "1500.5",
	}
	out := c.Receive(sign(t, sample(t, "webhook-opportunity-stage")), hooked(), stageAt.Add(time.Second))
	require.Equal(t, 200, out.Answer.Status)
	require.Equal(t, http.StatusTooManyRequests, out.Busy, "it sends again after nothing else")
	require.Equal(t, []ledger.StageChange{move}, out.Changes)

	out = c.Receive(sign(t, sample(t, "webhook-opportunity-won")), hooked(), wonAt)
	won := move
	won.Key, won.At, won.Field, won.Stage, won.Meaning = "00000000-0000-4000-8000-0000000000c2", wonAt, "status", "won", ledger.MeaningWon
	require.Equal(t, []ledger.StageChange{won}, out.Changes)

	for name, tt := range map[string]struct {
		with map[string]any
		want []string // field=stage of the changes
	}{
		"created":               {map[string]any{"type": "OpportunityCreate"}, []string{"=st"}},
		"created as won":        {map[string]any{"type": "OpportunityCreate", "status": "Won"}, []string{"=st", "status=won"}},
		"given up":              {map[string]any{"type": "OpportunityStatusUpdate", "status": "abandoned"}, []string{"status=abandoned"}},
		"opened again":          {map[string]any{"type": "OpportunityStatusUpdate"}, []string{"status=open"}},
		"another amount":        {map[string]any{"type": "OpportunityMonetaryValueUpdate"}, nil},
		"any update":            {map[string]any{"type": "OpportunityUpdate"}, nil},
		"assigned":              {map[string]any{"type": "OpportunityAssignedToUpdate"}, nil},
		"deleted":               {map[string]any{"type": "OpportunityDelete"}, nil},
		"not known":             {map[string]any{"type": "InvoicePaid"}, nil},
		"without a stage":       {map[string]any{"pipelineStageId": nil}, nil},
		"without an id":         {map[string]any{"id": ""}, nil},
		"of another location":   {map[string]any{"locationId": "locOther"}, nil},
		"with odd shapes":       {map[string]any{"tags": "a,b", "customFields": map[string]any{}, "monetaryValue": []any{}}, []string{"=st"}},
		"with an endless stage": {map[string]any{"pipelineStageId": strings.Repeat("x", 501)}, nil},
	} {
		with := map[string]any{"pipelineStageId": "st"}
		maps.Copy(with, tt.with)
		out := c.Receive(sign(t, changed(t, "webhook-opportunity-stage", with)), hooked(), stageAt)
		require.Equal(t, 200, out.Answer.Status, name)
		var got []string
		keys := map[string]bool{}
		for _, x := range out.Changes {
			got = append(got, x.Field+"="+x.Stage)
			keys[x.Key] = true
		}
		require.Equal(t, tt.want, got, name)
		require.Len(t, keys, len(got), name)
	}
}

func TestReceiveAmounts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		value any
		want  string
	}{{nil, ""}, {0, ""}, {-5, ""}, {"1e3", "1000"}, {1500.5, "1500.5"}, {"1500.50", "1500.50"}, {"much", ""}, {"0.00", ""}} {
		out := gohighlevel.New().Receive(sign(t, changed(t, "webhook-opportunity-stage", map[string]any{"monetaryValue": tt.value})), hooked(), stageAt)
		require.Equal(t, tt.want, out.Changes[0].Amount, tt.value)
	}
}

func TestReceiveWatchesFieldsOfContacts(t *testing.T) {
	t.Parallel()
	c, r := gohighlevel.New(), sign(t, sample(t, "webhook-contact-update"))
	require.Empty(t, c.Receive(r, hooked(), stageAt).Changes)
	out := c.Receive(r, watching("tags", "cfExample0000000001", "cfNone"), stageAt)
	require.Len(t, out.Changes, 2)
	require.Equal(t, ledger.StageChange{
		Key: "contact:ctExample00000000001\x00tags\x00qualified", Thin: true, Records: []string{"contact:ctExample00000000001"}, Field: "tags", Stage: "qualified", At: stageAt,
	}, out.Changes[0])
	require.Equal(t, "987650000012345", out.Changes[1].Stage)
	later := sign(t, changed(t, "webhook-contact-update", map[string]any{"timestamp": "2026-11-21T09:00:00.000Z", "webhookId": "another"}))
	require.Equal(t, out.Changes[0].Key, c.Receive(later, watching("tags"), stageAt.Add(24*time.Hour)).Changes[0].Key, "the tag was there before")
}

func TestReceiveChecksTheSignature(t *testing.T) {
	t.Parallel()
	body := []byte(strings.TrimSpace(`{"type":"OpportunityStageUpdate","locationId":"locExample0000000001","id":"opExample00000000001","assignedTo":"usExample0000000001","contactId":"ctExample00000000001","monetaryValue":1500.5,"name":"Ana Example","pipelineId":"plExample0000000001","pipelineStageId":"00000000-0000-4000-8000-0000000000b3","source":"Meta Lead Ad","status":"open","dateAdded":"2026-11-18T11:06:42.000Z","timestamp":"2026-11-20T09:00:00.000Z","webhookId":"00000000-0000-4000-8000-0000000000c1","appId":"appExample000000000001"}`))
	vector := plain(body)
	vector.Header.Set("X-GHL-Signature", "2alAqtRsLO1MQ6F12kjUhfYKiF/ItGOl6uxX4jzC2+cqI2bo1Pejlsh1WApRi4fyljiZN1r956f1eTimZPhRCQ==")
	c := gohighlevel.New()
	require.Len(t, c.Receive(vector, hooked(), stageAt).Changes, 1)
	require.Len(t, c.Receive(vector, hooked("webhook_public_key", "-----BEGIN PUBLIC KEY-----\n"+ownKey+"\n-----END PUBLIC KEY-----\n"), stageAt).Changes, 1)

	for name, tt := range map[string]struct {
		r   crm.Incoming
		a   crm.Account
		now time.Time
	}{
		"the vendor's key is the default": {sign(t, body), crmtest.Account(gohighlevel.Kind, "https://example.com", "location_id", location), stageAt},
		"a key that is none":              {sign(t, body), hooked("webhook_public_key", "none"), stageAt},
		"another body":                    {crm.Incoming{Method: http.MethodPost, Header: vector.Header, Body: append([]byte(" "), body...)}, hooked(), stageAt},
		"no base64":                       {crm.Incoming{Method: http.MethodPost, Header: http.Header{"X-Ghl-Signature": {"??"}}, Body: body}, hooked("workflow_hooks", "true"), stageAt},
		"no signature":                    {plain(body), hooked(), stageAt},
		"no signature of an app's hook":   {plain(body), hooked("workflow_hooks", "true"), stageAt},
		"the old signature":               {crm.Incoming{Method: http.MethodPost, Header: http.Header{"X-Wh-Signature": {"x"}}, Body: body}, hooked("workflow_hooks", "true"), stageAt},
		"two hours old":                   {vector, hooked(), stageAt.Add(2 * time.Hour)},
		"two hours ahead":                 {vector, hooked(), stageAt.Add(-2 * time.Hour)},
		"no timestamp":                    {sign(t, changed(t, "webhook-opportunity-stage", map[string]any{"timestamp": ""})), hooked(), stageAt},
		"a workflow where none may":       {plain(sample(t, "workflow-webhook")), hooked(), stageAt},
	} {
		out := c.Receive(tt.r, tt.a, tt.now)
		require.Equal(t, 401, out.Answer.Status, name)
		require.Empty(t, out.Changes, name)
		crmtest.QuietText(t, string(out.Answer.Body))
	}
	require.Equal(t, 400, c.Receive(sign(t, []byte("{")), hooked(), stageAt).Answer.Status)
	require.Equal(t, 405, c.Receive(crm.Incoming{Method: http.MethodGet, Header: http.Header{}}, hooked(), stageAt).Answer.Status)
}

func TestReceiveReadsAWorkflow(t *testing.T) {
	t.Parallel()
	c, a := gohighlevel.New(), hooked("workflow_hooks", "true")
	out := c.Receive(plain(sample(t, "workflow-webhook")), a, stageAt)
	require.Equal(t, 200, out.Answer.Status)
	require.Len(t, out.Changes, 2)
	stage, status := out.Changes[0], out.Changes[1]
	require.Equal(t, "Closed", stage.Stage)
	require.Equal(t, "Closed", stage.StageLabel)
	require.Equal(t, "Sales", stage.PipelineLabel)
	require.Equal(t, "status", status.Field)
	require.Equal(t, ledger.MeaningWon, status.Meaning)
	for _, x := range out.Changes {
		require.Equal(t, "987650000012345", x.LeadID)
		require.Equal(t, []string{"opportunity:opExample00000000001", "contact:ctExample00000000001"}, x.Records)
		require.Equal(t, "1500.5", x.Amount)
		require.Equal(t, "ana.lead@example.com", x.Contact.Email)
		require.Equal(t, "US", x.Contact.Country)
		require.False(t, x.Thin)
		require.True(t, x.At.IsZero(), "the moment of receipt")
		require.Equal(t, "987650000012345", x.Fields["Meta Lead ID"])
		require.NotContains(t, x.Fields, "key")
		require.NotContains(t, x.Fields, "email")
		crmtest.QuietText(t, x.Key)
	}
	require.NotEqual(t, stage.Key, status.Key)
	require.Equal(t, stage.Key, c.Receive(plain(sample(t, "workflow-webhook")), a, stageAt.Add(30*time.Second)).Changes[0].Key)
	require.NotEqual(t, stage.Key, c.Receive(plain(sample(t, "workflow-webhook")), a, stageAt.Add(time.Minute)).Changes[0].Key)

	out = c.Receive(plain(changed(t, "workflow-webhook", map[string]any{"customData": "", "pipleline_stage": nil, "pipeline_stage": "Won it", "status": "open"})), a, stageAt)
	require.Len(t, out.Changes, 1)
	require.Equal(t, "Won it", out.Changes[0].Stage)
	require.Equal(t, "987650000012345", out.Changes[0].LeadID, "by the label of the custom field")
	own := map[string]any{"Stage": "Qualified", "value": "99.50", "currency": "eur", "field": "budget", "is": "high"}
	out = c.Receive(plain(changed(t, "workflow-webhook", map[string]any{"customData": own, "status": "open"})), a, stageAt)
	require.Len(t, out.Changes, 2)
	require.Equal(t, "Qualified", out.Changes[0].Stage)
	require.Equal(t, "99.50", out.Changes[0].Amount)
	require.Equal(t, "EUR", out.Changes[0].Currency)
	require.Equal(t, "budget", out.Changes[1].Field)

	for _, body := range []string{`{}`, `[]`, `{"pipleline_stage":"Closed"}`, `{"contact_id":"ct1"}`, `{"contact_id":"ct1","pipleline_stage":"A","location":{"id":"other"}}`, `7`} {
		out := c.Receive(plain([]byte(body)), a, stageAt)
		require.Equal(t, 200, out.Answer.Status, body)
		require.Empty(t, out.Changes, body)
	}
	require.Equal(t, 400, c.Receive(plain([]byte("a=b")), a, stageAt).Answer.Status)
}

func TestAHookThatCannotBeStoredComesAgain(t *testing.T) {
	t.Parallel()
	c, full := gohighlevel.New(), 2
	tries, status := send(func() int {
		out := c.Receive(sign(t, sample(t, "webhook-opportunity-stage")), hooked(), stageAt)
		if full--; full >= 0 {
			return out.Busy
		}
		return out.Answer.Status
	})
	require.Equal(t, 3, tries)
	require.Equal(t, 200, status)
}

func FuzzReceive(f *testing.F) {
	for _, name := range []string{"webhook-opportunity-stage", "webhook-opportunity-won", "webhook-contact-update", "workflow-webhook"} {
		f.Add(sample(f, name))
	}
	c := gohighlevel.New()
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, out := range []crm.Received{c.Receive(sign(t, body), watching("tags", "cf1"), stageAt), c.Receive(plain(body), hooked("workflow_hooks", "true"), stageAt)} {
			for _, x := range out.Changes {
				require.Equal(t, 200, out.Answer.Status)
				require.NotEmpty(t, x.Stage)
			}
		}
		require.Empty(t, c.Receive(plain(body), hooked(), stageAt).Changes)
	})
}
