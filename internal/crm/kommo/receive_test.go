package kommo_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/crm/crmtest"
	"github.com/capiloop/capiloop/internal/crm/kommo"
	"github.com/capiloop/capiloop/internal/ledger"
)

var hookNow = time.Unix(1795604801, 0).UTC()

func hooked(more ...string) crm.Account {
	return crmtest.Account(kommo.Kind, "https://example.kommo.com", more...)
}

func receive(body []byte) crm.Received { return kommo.New().Receive(hook(body), hooked(), hookNow) }

func TestReceiveReadsTheSamples(t *testing.T) {
	t.Parallel()
	out := receive(sample(t, "kommo-webhook-status.txt"))
	require.Equal(t, 200, out.Answer.Status)
	require.Equal(t, []ledger.StageChange{{
		Key: "7000101 142 1795604800", Thin: true, Records: []string{"lead:7000101"}, DealID: "7000101", LeadID: "987650000012345",
		Pipeline: "3000001", Stage: "142", Meaning: ledger.MeaningWon, From: "30000012", At: time.Unix(1795604800, 0).UTC(), By: "600001",
		Amount: "1500", CreatedAt: time.Unix(1795000000, 0).UTC(),
	}}, out.Changes)

	out = receive(sample(t, "kommo-webhook-add.txt"))
	require.Len(t, out.Changes, 2)
	require.Equal(t, ledger.StageChange{
		Key: "7000101 30000011 1795000000", Thin: true, Records: []string{"lead:7000101"}, DealID: "7000101", Pipeline: "3000001", Stage: "30000011",
		Meaning: ledger.MeaningOpen, At: time.Unix(1795000000, 0).UTC(), CreatedAt: time.Unix(1795000000, 0).UTC(),
	}, out.Changes[0])
	require.Equal(t, "7000102", out.Changes[1].DealID)
	require.Empty(t, out.Changes[1].Amount)
	require.True(t, out.Changes[1].At.IsZero(), "the moment of receipt")
}

func TestReceiveTellsMovesFromOtherUpdates(t *testing.T) {
	t.Parallel()
	entry := func(more ...string) map[string]string {
		e := map[string]string{"id": "7", "status_id": "12", "old_status_id": "11", "pipeline_id": "3", "old_pipeline_id": "3", "last_modified": "1795604800"}
		for i := 0; i+1 < len(more); i += 2 {
			e[more[i]] = more[i+1]
		}
		return e
	}
	for name, tt := range map[string]struct {
		body []byte
		want string // the keys
	}{
		"a move":                   {form("status", entry()), "7 12 1795604800"},
		"lost":                     {form("status", entry("status_id", "143")), "7 143 1795604800"},
		"into another pipeline":    {form("status", entry("status_id", "142", "old_status_id", "142", "pipeline_id", "4")), "7 142 1795604800"},
		"no move":                  {form("status", entry("old_status_id", "12")), ""},
		"several":                  {form("status", entry(), entry("id", "8"), entry("id", "9", "status_id", "0"), entry("id", "x")), "7 12 1795604800,8 12 1795604800"},
		"an update":                {form("update", entry("old_status_id", "")), ""},
		"an update without a move": {form("update", entry("old_status_id", "12")), ""},
		"an update with a move":    {form("update", entry()), "7 12 1795604800"},
		"update and status":        {append(append(form("update", entry()), '&'), form("status", entry())...), "7 12 1795604800"},
		"deleted":                  {form("delete", entry()), ""},
		"a contact":                {[]byte("contacts[add][0][id]=8&contacts[add][0][name]=Ana"), ""},
		"another account":          {[]byte(strings.Replace(string(form("status", entry())), "subdomain%5D=example", "subdomain%5D=other", 1)), ""},
		"broken":                   {append([]byte("%zz&;&leads[status]=1&leads[status][-1][id]=4&leads[status][a][id]=4&leads[status][0]=4&leads[status][1][id=4&"), form("status", entry())...), "7 12 1795604800"},
		"JSON":                     {[]byte(`{"leads":{"status":[{"id":"7"}]}}`), ""},
		"nothing":                  {nil, ""},
	} {
		out := receive(tt.body)
		require.Equal(t, http.StatusOK, out.Answer.Status, name)
		var keys []string
		for _, c := range out.Changes {
			keys = append(keys, c.Key)
			require.True(t, c.Thin)
		}
		require.Equal(t, tt.want, strings.Join(keys, ","), name)
	}
	r := hook(form("status", entry()))
	r.Method = http.MethodGet
	require.Empty(t, kommo.New().Receive(r, hooked(), hookNow).Changes)
	r.Method = http.MethodPost
	require.Len(t, kommo.New().Receive(r, crmtest.Account(kommo.Kind, "http://127.0.0.1:8090"), hookNow).Changes, 1)
}

func TestReceiveFindsTheLeadID(t *testing.T) {
	t.Parallel()
	at := "leads[status][0][custom_fields]"
	body := append(form("status", map[string]string{"id": "7", "status_id": "12", "old_status_id": "11"}), []byte("&"+at+"[0][id]=1&"+at+"[0][name]=Budget&"+at+"[0][values][0][value]=5&"+
		at+"[1][id]=900001&"+at+"[1][name]=Lead&"+at+"[1][values][0]=l:987650000012345")...)
	for option, want := range map[string]string{"900001": "987650000012345", "lead": "987650000012345", "Budget": "5", "none": ""} {
		out := kommo.New().Receive(hook(body), hooked("lead_id_field", option), hookNow)
		require.Equal(t, want, out.Changes[0].LeadID, option)
	}
}

func TestReceiveAmounts(t *testing.T) {
	t.Parallel()
	for price, want := range map[string]string{"": "", "0": "", "-5": "", "1500": "1500", "1500.50": "1500.50", "1e3": "1000", "much": ""} {
		out := receive(form("status", map[string]string{"id": "7", "status_id": "12", "price": price}))
		require.Equal(t, want, out.Changes[0].Amount, price)
	}
}

func FuzzReceive(f *testing.F) {
	f.Add(sample(f, "kommo-webhook-status.txt"))
	f.Add(sample(f, "kommo-webhook-add.txt"))
	f.Add(sample(f, "kommo-webhook-update.txt"))
	f.Add(form("update", map[string]string{"id": "7", "status_id": "12", "old_status_id": "11"}))
	f.Fuzz(func(t *testing.T, body []byte) {
		out, again := receive(body), receive(body)
		require.Equal(t, http.StatusOK, out.Answer.Status)
		require.Equal(t, out, again)
		told := kommo.New().Receive(hook(body), watching("", "Temperature", "900005"), hookNow).Changes
		require.GreaterOrEqual(t, len(told), len(out.Changes))
		for _, c := range told {
			require.NotEmpty(t, c.Stage)
			require.NotEmpty(t, c.Key)
			require.Len(t, c.Records, 1)
		}
	})
}
