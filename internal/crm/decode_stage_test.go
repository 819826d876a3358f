package crm_test

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
)

var stageNow = time.Unix(1795000000, 0).UTC()

func sample(tb testing.TB, name string) []byte {
	tb.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(tb, err)
	return raw
}

// codes writes problems as field:code, with ! where it is an error.
func codes(problems capi.Problems) string {
	list := make([]string, 0, len(problems))
	for _, p := range problems {
		mark := ""
		if p.Severity == capi.SeverityError {
			mark = "!"
		}
		list = append(list, p.Field+":"+p.Code+mark)
	}
	return strings.Join(list, " ")
}

func TestDecodeStageReadsAWholeChange(t *testing.T) {
	t.Parallel()
	c, problems := crm.DecodeStage([]byte(`{"lead_id":987650000012345,"platform":"facebook","email":" Ana.Lead@Example.com ","phone":"p:+1 202 555 0143","external_id":"customer-7",
		"first_name":"Ana","last_name":"Example","postcode":"20500","stage":"won-1","stage_label":"Closed Won","pipeline":3,"pipeline_label":"Sales","from":"neg","meaning":"WON",
		"occurred_at":"2026-11-18T14:06:37.25+03:00","created_at":1794900000,"value":1500.50,"currency":"usd","deal_id":9001,"record_id":"lead:5","contact_id":51,
		"changed_by":"u1","history":true,"test":"yes","fields":{"Budget":5000,"services":["roof","gutter"],"owner":true,"none":null},"event_id":"ev-1"}`), stageNow)
	require.Empty(t, problems)
	require.Len(t, c.Key, 64)
	c.Key = ""
	require.Equal(t, ledger.StageChange{
		LeadID: "987650000012345", Platform: "meta", Records: []string{"deal:9001", "lead:5", "contact:51"},
		Contact:    ledger.Contact{FullName: "Ana Example", FirstName: "Ana", LastName: "Example", Email: "Ana.Lead@Example.com", Phone: "+1 202 555 0143", Postcode: "20500"},
		ExternalID: "customer-7", CreatedAt: time.Unix(1794900000, 0).UTC(),
		Pipeline: "3", PipelineLabel: "Sales", Stage: "won-1", StageLabel: "Closed Won", Meaning: ledger.MeaningWon, From: "neg",
		At: time.Date(2026, 11, 18, 11, 6, 37, 250e6, time.UTC), By: "u1", DealID: "9001", Amount: "1500.5", Currency: "USD",
		Fields: map[string]string{"Budget": "5000", "services": "roof, gutter", "owner": "true"}, History: true, Test: true,
	}, c)
}

func TestTheSamplesOfOneChangeAreTheSame(t *testing.T) {
	t.Parallel()
	nested, problems := crm.DecodeStage(sample(t, "generic-stage-change.json"), stageNow)
	require.Equal(t, "crm:unknown_field", codes(problems))
	require.Equal(t, time.Date(2026, 11, 25, 9, 59, 58, 0, time.UTC), nested.At, "changed_at, not the moment of sending")
	require.Equal(t, []string{"record:deal-77"}, nested.Records)
	require.Equal(t, "Negotiation", nested.From)

	flat, problems := crm.DecodeStageIn(sample(t, "generic-stage-change-flat.json"), time.FixedZone("", 3*3600), nil, stageNow)
	require.Empty(t, problems)
	require.Equal(t, time.Date(2026, 11, 25, 7, 0, 0, 0, time.UTC), flat.At)
	_, problems = crm.DecodeStage(sample(t, "generic-stage-change-flat.json"), stageNow)
	require.Equal(t, "date:time_zone_missing", codes(problems))

	form, err := url.ParseQuery(string(sample(t, "generic-stage-change.txt")))
	require.NoError(t, err)
	row := map[string]string{}
	for name := range form {
		row[name] = form.Get(name)
	}
	line, problems := crm.StageFromRow(row, nil, nil, stageNow)
	require.Empty(t, problems)
	require.True(t, line.At.IsZero())
	for _, c := range []ledger.StageChange{nested, flat, line} {
		require.Equal(t, "987650000012345", c.LeadID)
		require.Equal(t, "Closed Won", c.Stage)
		require.Equal(t, "1500.5", c.Amount)
		require.Equal(t, "USD", c.Currency)
	}
	require.Equal(t, "+12025550143", flat.Contact.Phone)
	require.Equal(t, "meta", flat.Platform)
}

func TestDecodeStageNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"email":"a@example.com","stage":"x","a":1}`: "a:unknown_field", `[]`: ":not_a_stage_change!", ``: ":not_a_stage_change!", `{"stage":`: ":not_a_stage_change!",
		`{}`:                                    "stage:stage_missing! :no_identity!",
		`{"stage":"x"}`:                         ":no_identity!",
		`{"stage":"x","email":"null"}`:          ":no_identity!",
		`{"email":"a@example.com"}`:             "stage:stage_missing!",
		`{"stage":["a","b"],"deal_id":1}`:       "stage:wrong_type!",
		`{"stage":{"id":1},"record_id":1}`:      "stage:wrong_type!",
		`{"stage":"x","deal_id":{}}`:            "deal_id:wrong_type!",
		`{"stage":"x","stage":"y","deal_id":1}`: "stage:duplicate_field!",
		`{"stage":"x","stage":"x","deal_id":1,"address":{"city":"A"}}`: "address:unknown_field",
		`{"stage":"x","lead_id":"9.8765E+14"}`:                         "lead_id:invalid_lead_id!",
		`{"stage":"x","lead_id":"{{lead_id}}"}`:                        "lead_id:invalid_lead_id!",
		`{"stage":"x","lead_id":"abc","platform":"meta"}`:              "lead_id:invalid_lead_id!",
		`{"stage":"x","lead_id":"1","platform":"bing"}`:                "platform:unknown_platform!",
		`{"stage":"x","deal_id":1,"meaning":"maybe"}`:                  "meaning:unknown_meaning!",
		`{"stage":"x","deal_id":1,"test":"perhaps"}`:                   "test:invalid_flag!",
		`{"stage":"x","deal_id":1,"fields":[1]}`:                       "fields:wrong_type!",
		`{"stage":"x","deal_id":1,"fields":{"a":{}}}`:                  "fields:wrong_type",
		`{"stage":"x","records":{"a":1}}`:                              "records:wrong_type! :no_identity!",
		`{"stage":"x","email":"nobody"}`:                               "email:invalid_email",
		`{"stage":"x","deal_id":1,"consent":false}`:                    "consent:consent_not_a_stage!",
		`{"stage":"x","deal_id":1,"consent":"granted"}`:                "consent:consent_not_a_stage",
		`{"stage":"x","deal_id":1,"occurred_at":"yesterday"}`:          "occurred_at:invalid_time!",
		`{"stage":"x","deal_id":1,"occurred_at":"25/11/2026"}`:         "occurred_at:invalid_time!",
		`{"stage":"x","deal_id":1,"occurred_at":"03/04/2026"}`:         "occurred_at:date_ambiguous!",
		`{"stage":"x","deal_id":1,"occurred_at":45987.5}`:              "occurred_at:invalid_time!",
		`{"stage":"x","deal_id":1,"currency":"dollars"}`:               "currency:unknown_currency!",
		`{"stage":"x","deal_id":1,"value":"100 kr"}`:                   "value:unknown_currency!",
		`{"stage":"x","deal_id":1,"value":"€5","currency":"USD"}`:      "value:unknown_currency!",
		`{"stage":"x","deal_id":1,"value":5,"amount":6}`:               "value:duplicate_field!",
		`{"stage":"` + strings.Repeat("x", 501) + `","deal_id":1}`:     "stage:too_long!",
	} {
		_, problems := crm.DecodeStage([]byte(raw), stageNow)
		require.Equal(t, want, codes(problems), raw)
		for _, p := range problems {
			require.NotEmpty(t, p.Reason)
			require.NotContains(t, p.Reason+p.Fix, "nobody")
		}
	}
}

func TestDecodeStageReadsAFieldThatReachedAValue(t *testing.T) {
	t.Parallel()
	for raw, amount := range map[string]string{
		`{"field":"hs_lead_status","value":"CONNECTED","deal_id":1}`:                        "",
		`{"field":"hs_lead_status","value":"CONNECTED","amount":5,"deal_id":1}`:             "5",
		`{"field":"hs_lead_status","is":"CONNECTED","value":"7.5","deal_id":1}`:             "7.5",
		`{"field":"hs_lead_status","stage":"CONNECTED","value":"7.5","deal_id":"deal:abc"}`: "7.5",
	} {
		c, problems := crm.DecodeStage([]byte(raw), stageNow)
		require.Empty(t, problems, raw)
		require.Equal(t, "hs_lead_status", c.Field)
		require.Equal(t, "CONNECTED", c.Stage)
		require.Equal(t, amount, c.Amount, raw)
	}
}

func TestAmountsArePlainDecimals(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][2]string{ // in JSON, in a table
		"1500.50": {"1500.5", "1500.5"}, "0": {"0", "0"}, "1e3": {"1000", "1000"}, "007.10": {"7.1", "7.1"}, ".5": {"0.5", "0.5"}, "5.": {"5", "5"},
		"1,500.50": {"1500.5", "1500.5"}, "1,500,000": {"1500000", "1500000"}, "1.500.000": {"1500000", "1500000"}, "1'500.50": {"1500.5", "1500.5"},
		"1.500,50": {"invalid_value", "1500.5"}, "1500,50": {"invalid_value", "1500.5"}, "1 500,50": {"invalid_value", "1500.5"}, "0,5": {"invalid_value", "0.5"},
		"1,500": {"amount_ambiguous", "amount_ambiguous"}, "1.500": {"1.5", "amount_ambiguous"}, "1,50.5": {"invalid_value", "invalid_value"}, "1,2,3": {"invalid_value", "invalid_value"},
		"$1,500.50": {"1500.5", "1500.5"}, "1500.5 USD": {"1500.5", "1500.5"}, "-5": {"negative_value", "negative_value"}, "-": {"", ""}, "n/a": {"", ""},
		"1e999999999": {"invalid_value", "invalid_value"}, "many": {"invalid_value", "invalid_value"}, "0x10": {"invalid_value", "invalid_value"}, "1_000": {"invalid_value", "invalid_value"},
		"12345678901234567890123456789012345678901234567": {"invalid_value", "invalid_value"}, "1.2.3": {"invalid_value", "invalid_value"},
	} {
		raw, err := json.Marshal(map[string]string{"stage": "x", "deal_id": "1", "value": in})
		require.NoError(t, err)
		c, problems := crm.DecodeStage(raw, stageNow)
		row, more := crm.StageFromRow(map[string]string{"Stage": "x", "Deal ID": "1", "Value": in}, time.UTC, nil, stageNow)
		got := [2]string{c.Amount, row.Amount}
		for i, p := range []capi.Problems{problems, more} {
			if len(p) > 0 {
				got[i] = p[0].Code
			}
		}
		require.Equal(t, want, got, in)
	}
	c, problems := crm.DecodeStage([]byte(`{"stage":"x","deal_id":1,"value":"1500 €"}`), stageNow)
	require.Empty(t, problems)
	require.Equal(t, "EUR", c.Currency)
}

func TestMomentsInEachUnit(t *testing.T) {
	t.Parallel()
	want := time.Unix(1795000000, 0).UTC()
	for _, in := range []string{
		`1795000000`, `"1795000000"`, `1795000000000`, `"1795000000000"`, `1795000000.0`, `1795000000000000`, `1795000000000000000`,
		`"2026-11-18T11:06:40Z"`, `"2026-11-18T14:06:40+03:00"`, `"2026-11-18T14:06:40+0300"`, `"2026-11-18 14:06:40 +03:00"`, `"Wed, 18 Nov 2026 11:06:40 GMT"`,
	} {
		c, problems := crm.DecodeStage([]byte(`{"stage":"x","deal_id":1,"occurred_at":`+in+`}`), stageNow)
		require.Empty(t, problems, in)
		require.Equal(t, want, c.At, in)
	}
	c, problems := crm.DecodeStage([]byte(`{"stage":"x","deal_id":1,"occurred_at":1795000000250}`), stageNow)
	require.Empty(t, problems)
	require.Equal(t, want.Add(250*time.Millisecond), c.At)
	c, problems = crm.DecodeStage([]byte(`{"stage":"x","deal_id":1,"occurred_at":1795086400}`), stageNow)
	require.Empty(t, problems, "what lies ahead is held when it is recorded")
	require.Equal(t, want.Add(24*time.Hour), c.At)
	dayFirst := true
	c, problems = crm.DecodeStageIn([]byte(`{"stage":"x","deal_id":1,"occurred_at":"03/04/2026 10:00"}`), time.UTC, &dayFirst, stageNow)
	require.Empty(t, problems)
	require.Equal(t, time.Date(2026, 4, 3, 10, 0, 0, 0, time.UTC), c.At)
	c, problems = crm.DecodeStage([]byte(`{"stage":"x","deal_id":1,"occurred_at":0}`), stageNow)
	require.Empty(t, problems)
	require.True(t, c.At.IsZero())
}

func TestKeysTellRepeatsFromMoves(t *testing.T) {
	t.Parallel()
	key := func(raw string, now time.Time) string {
		c, problems := crm.DecodeStage([]byte(raw), now)
		require.Empty(t, problems, raw)
		require.NotContains(t, c.Key, "example")
		return c.Key
	}
	at := func(raw string) string { return key(raw, stageNow) }
	require.Equal(t, at(`{"event_id":"e","stage":"A","deal_id":1}`), key(`{"event_id":"e","stage":"A","deal_id":1,"value":3}`, stageNow.Add(time.Hour)))
	require.NotEqual(t, at(`{"event_id":"e","stage":"A","deal_id":1}`), at(`{"event_id":"f","stage":"A","deal_id":1}`))
	require.NotEqual(t, at(`{"key":"password","stage":"A","deal_id":1}`), at(`{"key":"password","stage":"B","deal_id":1}`), "a key that never changes swallows nothing")
	require.NotEqual(t, at(`{"key":"password","stage":"A","deal_id":1}`), at(`{"key":"password","stage":"A","deal_id":2}`))
	require.NotEqual(t, at(`{"stage":"A","email":"a@example.com"}`), at(`{"stage":"A","email":"b@example.com"}`), "two people in one second")
	require.Equal(t, at(`{"stage":"A","email":"a@example.com"}`), key(`{"stage":"A","email":"A@example.com"}`, stageNow.Add(10*time.Second)))
	require.NotEqual(t, at(`{"stage":"A","email":"a@example.com"}`), key(`{"stage":"A","email":"a@example.com"}`, stageNow.Add(time.Hour)))
	require.Equal(t, at(`{"stage":"A","deal_id":1,"occurred_at":1795000000}`), key(`{"stage":"A","deal_id":1,"occurred_at":1795000000000}`, stageNow.Add(time.Hour)))
}

func FuzzDecodeStage(f *testing.F) {
	for _, name := range []string{"generic-stage-change.json", "generic-stage-change-flat.json"} {
		f.Add(sample(f, name))
	}
	f.Add([]byte(`{"field":"a","value":1e3,"fields":{"b":[1,true]},"records":["deal:1"],"occurred_at":"03/04/2026","amount":"1.500,50"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, problems := crm.DecodeStage(raw, stageNow)
		again, _ := crm.DecodeStage(raw, stageNow)
		require.Equal(t, c, again)
		checkStage(t, c, problems)
	})
}

// checkStage holds for whatever is read without an error.
func checkStage(t *testing.T, c ledger.StageChange, problems capi.Problems) {
	t.Helper()
	for _, p := range problems {
		require.NotEmpty(t, p.Code)
		if p.Severity == capi.SeverityError {
			return
		}
	}
	require.NotEmpty(t, c.Stage)
	require.Len(t, c.Key, 64)
	require.True(t, c.LeadID != "" || c.ExternalID != "" || len(c.Records) > 0 || c.Contact != (ledger.Contact{}))
	require.Empty(t, strings.Trim(c.Amount, "0123456789."))
	if c.Currency != "" {
		require.Len(t, c.Currency, 3)
	}
	if !c.At.IsZero() {
		require.Greater(t, c.At.Year(), 1999)
	}
}
