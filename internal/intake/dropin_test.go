package intake_test

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/ledger"
)

// requireGraphError checks that an answer is an error as Graph has them.
func requireGraphError(tb testing.TB, a answer, status, code, subcode int) {
	tb.Helper()
	require.Equal(tb, status, a.Code, a.Body.String())
	require.EqualValues(tb, code, a.at("error", "code"), a.Body.String())
	if subcode == 0 {
		require.Nil(tb, a.at("error", "error_subcode"), a.Body.String())
	} else {
		require.EqualValues(tb, subcode, a.at("error", "error_subcode"), a.Body.String())
	}
	for _, member := range []string{"message", "type", "fbtrace_id", "error_user_title", "error_user_msg"} {
		require.NotEmpty(tb, a.at("error", member), member)
	}
	require.Len(tb, a.at("error", "fbtrace_id"), 23)
}

func TestTheDropInRefusesAsGraphDoes(t *testing.T) {
	t.Parallel()
	event := func(changes ...string) string {
		return `{"data":[` + strings.NewReplacer(changes...).Replace(lead("a")) + `]}`
	}
	const keys = `{"em":"jane@example.com","client_user_agent":"Mozilla/5.0"}`
	for _, c := range []struct {
		name, body    string
		code, subcode int
	}{
		{"no data", `{}`, 100, 0},
		{"data is null", `{"data":null}`, 100, 0},
		{"data is an object", `{"data":{}}`, 100, 0},
		{"data is empty", `{"data":[]}`, 100, 0},
		{"data is a word", `{"data":"x"}`, 100, 0},
		{"data twice", `{"data":[],"data":[]}`, 100, 0},
		{"an event is a number", `{"data":[1]}`, 100, 0},
		{"an event is a word", `{"data":["Lead"]}`, 100, 0},
		{"an event is null", `{"data":[null]}`, 100, 0},
		{"not JSON", `{"data":[`, 100, 0},
		{"a list", `[]`, 100, 0},
		{"1001 events", `{"data":[` + strings.Repeat("{},", 1000) + `{}]}`, 100, 0},
		{"test code is an object", `{"test_event_code":{},"data":[` + lead("a") + `]}`, 100, 0},
		{"consent cannot be read", event(`"event_id"`, `"consent":"?","event_id"`), 100, 0},
		{"no name", event(`"event_name":"Lead",`, ""), 100, 0},
		{"time is a word", event("1759270000", `"soon"`), 100, 0},
		{"too old", event("1759270000", "1758000000"), 100, 2804003},
		{"a Purchase without value", event(`"Lead"`, `"Purchase"`), 100, 2804009},
		{"no match key", event(keys, "{}"), 100, 2804050},
		{"too broad", event(keys, `{"ct":"Paris"}`), 100, 2804050},
		{"app event without extinfo", event(`"website"`, `"app"`), 100, 2804043},
		{"messaging with a wrong name", event(`"website"`, `"business_messaging"`), 100, 2804066},
		{"messaging without a click", event(`"website"`, `"business_messaging"`, `"Lead"`, `"LeadSubmitted"`), 100, 2804087},
		{"unknown action_source", event(`"website"`, `"carrier_pigeon"`), 100, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := open(t)
			requireGraphError(t, d.graph(t, c.body), http.StatusBadRequest, c.code, c.subcode)
			require.Zero(t, d.book(t).Received)
		})
	}
}

func TestTheDropInTakesAllOrNothing(t *testing.T) {
	t.Parallel()
	d := open(t)
	a := d.graph(t, `{"data":[`+lead("a")+`,{"event_name":"Lead","event_time":1759270000,"action_source":"other"}]}`)
	requireGraphError(t, a, http.StatusBadRequest, 100, 2804050)
	require.Contains(t, a.at("error", "error_user_msg"), "data[1].user_data", "it says which event")
	b := d.book(t)
	require.Zero(t, b.Received)
	require.EqualValues(t, 1, b.Beside[ledger.Rejected])

	a = d.graph(t, `{"data":[`+lead("a")+`,`+lead("b")+`,`+lead("a")+`]}`)
	require.Equal(t, http.StatusOK, a.Code)
	require.EqualValues(t, 3, a.at("events_received"), "duplicates count as received")
	b = d.book(t)
	require.EqualValues(t, 2, b.Received)
	require.EqualValues(t, 1, b.Beside[ledger.Duplicate])
}

func TestTokensAndDatasetsOfTheDropIn(t *testing.T) {
	t.Parallel()
	d := open(t)
	body := func(extra string) string { return `{` + extra + `"data":[` + lead("a") + `]}` }
	send := func(target, body string, headers ...string) answer {
		return d.do(t, http.MethodPost, target, strings.NewReader(body), append(headers, "Content-Type", "application/json")...)
	}
	const path = "/v26.0/" + datasetOne + "/events"
	requireGraphError(t, send(path, body("")), 401, 104, 0)
	requireGraphError(t, send(path+"?access_token=wrong", body("")), 401, 190, 0)
	requireGraphError(t, send(path, body(`"access_token":"wrong",`)), 401, 190, 0)
	requireGraphError(t, send(path, body(""), "Authorization", "Bearer wrong"), 401, 190, 0)
	requireGraphError(t, send(path, body(`"access_token":{},`)), 401, 104, 0)
	requireGraphError(t, send(path, body(`"accessKey":"`+keyOne+`",`)), 401, 104, 0)
	for _, other := range []string{datasetTwo, "999", "x", "%3Cscript%3E"} {
		a := send("/v26.0/"+other+"/events?access_token="+keyOne, body(""))
		requireGraphError(t, a, 400, 100, 33)
		require.Equal(t, "GraphMethodException", a.at("error", "type"))
	}
	require.Zero(t, d.book(t).Received)

	for n, a := range []answer{
		send(path+"?access_token="+keyOne, body("")),
		send(path, body(`"access_token":"`+keyOne+`",`)),
		send(path, body(""), "Authorization", "bearer "+keyOne),
		send("/"+datasetOne+"/events?access_token="+keyOne+"&appsecret_proof=0123", body("")),
		send("/v999.1/"+datasetOne+"/events?access_token="+keyOne, body(`"id":"1","partner_agent":null,"what":{"is":["this"]},`)),
	} {
		require.Equal(t, http.StatusOK, a.Code, "%d: %s", n, a.Body.String())
	}
	require.EqualValues(t, 1, d.book(t).Received)

	require.Equal(t, http.StatusAccepted, send("/capi/"+datasetOne+"/events", body(`"accessKey":"`+keyOne+`",`)).Code)
	requireGraphError(t, send("/capi/"+datasetOne+"/events", body(`"accessKey":"wrong",`)), 401, 190, 0)
	requireGraphError(t, send("/capi/"+datasetTwo+"/events", body(`"accessKey":"`+keyOne+`",`)), 400, 100, 33)
}

func TestFormsOfTheDropIn(t *testing.T) {
	t.Parallel()
	data := `[` + lead("a") + `,` + strconv.Quote(lead("b")) + `]`
	many := func(fields ...string) (string, string) {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		for i := 0; i < len(fields); i += 2 {
			require.NoError(t, w.WriteField(fields[i], fields[i+1]))
		}
		require.NoError(t, w.Close())
		return w.FormDataContentType(), b.String()
	}
	kind, whole := many("access_token", keyOne, "data", data, "test_event_code", "TEST7")
	twiceKind, twice := many("access_token", keyOne, "data", data, "data", data)
	form := url.Values{"access_token": {keyOne}, "data": {data}, "test_event_code": {"TEST7"}}.Encode()
	for _, c := range []struct {
		name, kind, body string
		status           int
	}{
		{"form", "application/x-www-form-urlencoded", form, 200},
		{"form without a type", "", form, 200},
		{"form as text", "text/plain", form, 200},
		{"JSON without a type", "", `{"access_token":"` + keyOne + `","test_event_code":"TEST7","data":` + data + `}`, 200},
		{"JSON with the list as text", "application/json", `{"access_token":"` + keyOne + `","test_event_code":"TEST7","data":` + strconv.Quote(data) + `}`, 200},
		{"multipart", kind, whole, 200},
		{"multipart cut off", kind, whole[:len(whole)-60], 400},
		{"multipart, data twice", twiceKind, twice, 400},
		{"multipart without a boundary", "multipart/form-data", whole, 400},
		{"multipart with another boundary", "multipart/form-data; boundary=x", whole, 400},
		{"form with a broken percent", "application/x-www-form-urlencoded", form + "&x=%zz", 400},
		{"form, data twice", "application/x-www-form-urlencoded", form + "&data=[]", 400},
		{"form with Latin 1", "application/x-www-form-urlencoded", "access_token=" + keyOne + "&data=%5B%7B%22event_name%22%3A%22%E9%22%7D%5D", 400},
		{"101 fields", "application/x-www-form-urlencoded", manyFields(), 400},
		{"XML", "application/xml", "<a/>", 415},
		{"empty", "application/json", "", 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := open(t)
			a := d.do(t, http.MethodPost, "/v26.0/"+datasetOne+"/events", strings.NewReader(c.body), "Content-Type", c.kind)
			require.Equal(t, c.status, a.Code, a.Body.String())
			if c.status != http.StatusOK {
				requireGraphError(t, a, c.status, 100, 0)
				return
			}
			require.EqualValues(t, 2, a.at("events_received"))
			batch := d.claim(t)
			require.Equal(t, "TEST7", batch.Envelope.TestCode, "the caller's test code goes before the dataset's")
		})
	}
}

func manyFields() string {
	var b strings.Builder
	for i := range 101 {
		b.WriteString("f" + strconv.Itoa(i) + "=1&")
	}
	return b.String()
}

func TestConsentHoldsInTheDropInToo(t *testing.T) {
	t.Parallel()
	d := open(t)
	require.Equal(t, http.StatusOK, d.graph(t, `{"data":[`+lead("a", `,"consent":{"ad_user_data":"denied"}`)+`]}`).Code)
	require.EqualValues(t, 1, d.book(t).By[ledger.Skipped][ledger.NoConsent])
}

func TestAnEventOfTheFutureIsHeldNotRefused(t *testing.T) {
	t.Parallel()
	d := open(t)
	require.Equal(t, http.StatusOK, d.graph(t, strings.Replace(`{"data":[`+lead("a")+`]}`, "1759270000", "1759280000", 1)).Code)
	require.EqualValues(t, 1, d.book(t).By[ledger.Held][ledger.ClockAhead])
}

func TestWhatCrashReportersAskForIsNotFound(t *testing.T) {
	t.Parallel()
	d := open(t)
	for _, c := range [][2]string{
		{http.MethodGet, "/v26.0/debug_token?access_token=SECRET1&input_token=SECRET2&fields=app_id"},
		{http.MethodPost, "/v26.0/1234/instruments?access_token=SECRET1"},
		{http.MethodGet, "/debug_token?input_token=SECRET2"},
		{http.MethodPost, "/1234/instruments"},
	} {
		requireGraphError(t, d.do(t, c[0], c[1], nil), http.StatusNotFound, 2500, 0)
	}
	require.NotContains(t, d.log.String(), "SECRET")
}
