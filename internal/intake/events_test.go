package intake_test

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/ledger"
)

func TestOneEventIsTakenAndAnsweredWithItsState(t *testing.T) {
	t.Parallel()
	d := open(t)
	a := d.post(t, lead("e-1"))
	require.Equal(t, http.StatusAccepted, a.Code, a.Body.String())
	require.EqualValues(t, 1, a.at("accepted"))
	require.EqualValues(t, 0, a.at("duplicates"))
	require.Equal(t, []any{}, a.at("rejected"))
	require.Equal(t, "e-1", a.at("events", 0, "event_id"))
	require.Equal(t, "Lead", a.at("events", 0, "event_name"))
	require.Equal(t, "waiting", a.at("events", 0, "state"))
	require.Equal(t, "Accepted.", a.at("events", 0, "sentence"))
	require.Equal(t, false, a.at("events", 0, "duplicate"))
	require.Equal(t, []any{}, a.at("events", 0, "warnings"))
	id, err := ledger.ParseID(a.at("events", 0, "id").(string))
	require.NoError(t, err)
	require.Equal(t, "/v1/events/"+id.String(), a.at("events", 0, "url"))

	v, err := d.store.Event(t.Context(), d.one.ID, id)
	require.NoError(t, err)
	require.Equal(t, "shop", v.Source)
	require.NotContains(t, string(v.Deliveries[0].Payload), "jane@example.com")

	again := d.post(t, lead("e-1"))
	require.Equal(t, http.StatusAccepted, again.Code)
	require.EqualValues(t, 0, again.at("accepted"))
	require.EqualValues(t, 1, again.at("duplicates"))
	require.Equal(t, id.String(), again.at("events", 0, "id"), "a duplicate has the first one's id")
	require.Equal(t, true, again.at("events", 0, "duplicate"))
	require.Nil(t, again.at("events", 0, "state"), "what became of the first is asked for by its id")
	require.EqualValues(t, 1, d.book(t).Received)

	other := d.post(t, strings.ReplaceAll(lead("e-1"), "jane@", "joe@"))
	require.Equal(t, []string{"duplicate_conflict"}, other.codes("events", 0, "warnings"))
}

func TestSeveralEventsInEachShape(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"object with data":      `{"data":[` + lead("a") + `,` + lead("b") + `]}`,
		"bare list":             `[` + lead("a") + "\n,\n" + lead("b") + `]`,
		"with a byte mark":      "\uFEFF {\"data\":[" + lead("a") + "," + lead("b") + "]}\n",
		"with fields of Graph":  `{"access_token":"x","partner_agent":"me","upload_id":null,"data":[` + lead("a") + `,` + lead("b") + `]}`,
		"escapes in the keys":   `{"d\u0061ta":[` + lead("a") + `,` + lead("b") + `]}`,
		"white space every way": "{ \"data\" :\t[ " + lead("a") + " , " + lead("b") + " ] }",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := open(t).post(t, body)
			require.Equal(t, http.StatusAccepted, a.Code, a.Body.String())
			require.EqualValues(t, 2, a.at("accepted"))
			require.Equal(t, "b", a.at("events", 1, "event_id"))
			require.EqualValues(t, 1, a.at("events", 1, "index"))
		})
	}
}

func TestGoodEventsAreTakenBesideBadOnes(t *testing.T) {
	t.Parallel()
	d := open(t)
	a := d.post(t, `[`+lead("a")+`,{"event_name":"Lead","event_time":1759270000,"action_source":"other"},7,"x",`+lead("b", `,"event_id":"c"`)+`,`+lead("d")+`]`)
	require.Equal(t, http.StatusAccepted, a.Code, a.Body.String())
	require.EqualValues(t, 2, a.at("accepted"))
	require.Equal(t, []string{"no_match_key", "wrong_type", "wrong_type", "duplicate_field"}, a.codes("rejected"))
	require.EqualValues(t, 1, a.at("rejected", 0, "index"))
	require.Equal(t, "user_data", a.at("rejected", 0, "field"))
	require.NotEmpty(t, a.at("rejected", 0, "reason"))
	require.NotEmpty(t, a.at("rejected", 0, "fix"))
	require.Equal(t, "event_id", a.at("rejected", 3, "field"))
	require.EqualValues(t, 5, a.at("events", 1, "index"))
	b := d.book(t)
	require.EqualValues(t, 2, b.Received)
	require.EqualValues(t, 4, b.Beside[ledger.Rejected])

	a = d.post(t, `{"event_name":"","event_time":1759270000}`)
	require.Equal(t, http.StatusUnprocessableEntity, a.Code)
	require.Equal(t, "event_name_missing", a.at("error", "code"))
	require.Equal(t, "event_name", a.at("error", "field"))
	require.Equal(t, "event_name_missing", a.at("rejected", 0, "code"))
	require.NotEmpty(t, a.codes("rejected", 0, "more"), "all that is wrong is told at once")

	a = d.post(t, `[{},{}]`)
	require.Equal(t, http.StatusUnprocessableEntity, a.Code)
	require.Equal(t, "none_taken", a.at("error", "code"))
	require.Len(t, a.at("rejected"), 2)
}

// readable are members of our own, each with what becomes of the event.
func TestMembersOfOurOwn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, member string
		status       int
		state        string // of the event
		code         string // of the warning or the error
	}{
		{"consent true", `"consent":true`, 202, "waiting", ""},
		{"consent granted", `"consent":"granted"`, 202, "waiting", ""},
		{"consent null", `"consent":null`, 202, "waiting", ""},
		{"consent false", `"consent":false`, 202, "skipped", ""},
		{"consent denied", `"consent":"Denied"`, 202, "skipped", ""},
		{"C222: denied by purpose", `"consent":{"ad_user_data":"denied"}`, 202, "skipped", ""},
		{"one purpose denied", `"consent":{"ad_user_data":"granted","ad_personalization":"denied"}`, 202, "skipped", ""},
		{"denied first", `"consent":{"ad_user_data":"denied","ad_storage":"granted"}`, 202, "skipped", ""},
		{"only statistics denied", `"consent":{"ad_user_data":"granted","analytics_storage":"denied"}`, 202, "waiting", ""},
		{"no purpose", `"consent":{}`, 202, "waiting", ""},
		{"consent that cannot be read", `"consent":"perhaps"`, 422, "", "invalid_consent"},
		{"consent that is a list", `"consent":["denied"]`, 422, "", "invalid_consent"},
		{"purpose that cannot be read", `"consent":{"ad_user_data":"?"}`, 422, "", "invalid_consent"},
		{"consent in capitals", `"Consent":false`, 422, "", "unknown_field"},
		{"consent twice", `"consent":true,"consent":false`, 422, "", "duplicate_field"},
		{"dataset", `"dataset":"` + datasetOne + `"`, 202, "waiting", ""},
		{"dataset as a number", `"dataset":` + datasetOne, 202, "waiting", ""},
		{"another workspace's dataset", `"dataset":"` + datasetTwo + `"`, 422, "", "unknown_dataset"},
		{"dataset that is an object", `"dataset":{}`, 422, "", "invalid_dataset"},
		{"test code", `"test_event_code":"TEST1"`, 202, "waiting", ""},
		{"test code that is none", `"test_event_code":[1]`, 422, "", "invalid_test_event_code"},
		{"C206: other case", `"EVENT_ID":"z"`, 202, "waiting", "unknown_field"},
		{"camel case", `"eventSourceUrl":"z"`, 202, "waiting", "unknown_field"},
		{"unknown", `"colour":"red"`, 202, "waiting", "unknown_field"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := open(t).post(t, lead("y", ",", c.member))
			require.Equal(t, c.status, a.Code, a.Body.String())
			if c.status != http.StatusAccepted {
				require.Equal(t, c.code, a.at("error", "code"))
				require.NotEmpty(t, a.at("error", "fix"))
				return
			}
			require.Equal(t, c.state, a.at("events", 0, "state"))
			require.Equal(t, "y", a.at("events", 0, "event_id"), "a name in capitals never wins")
			if c.state == "skipped" {
				require.Equal(t, "no_consent", a.at("events", 0, "reason"))
			}
			if c.code != "" {
				require.Equal(t, []string{c.code}, a.codes("events", 0, "warnings"))
			}
		})
	}
}

func TestMembersOfTheWholeRequest(t *testing.T) {
	t.Parallel()
	d := open(t)
	a := d.post(t, `{"consent":false,"test_event_code":"TEST9","colour":"red","data":[`+lead("a")+`,`+lead("b", `,"consent":true`)+`]}`)
	require.Equal(t, http.StatusAccepted, a.Code, a.Body.String())
	require.Equal(t, "skipped", a.at("events", 0, "state"), "a refusal holds for all that do not say otherwise")
	require.Equal(t, "waiting", a.at("events", 1, "state"))
	require.Equal(t, []string{"unknown_field"}, a.codes("warnings"))

	for _, body := range []string{
		`{"Consent":false,"data":[` + lead("c") + `]}`,
		`{"consent":"?","data":[` + lead("c") + `]}`,
		`{"data":[` + lead("c") + `],"data":[]}`,
	} {
		a := d.post(t, body)
		require.Equal(t, http.StatusUnprocessableEntity, a.Code, body)
		require.NotEmpty(t, a.at("error", "field"))
	}
}

func TestBodiesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	d := open(t)
	utf16Body := func(order func(hi, lo byte) []byte) string {
		b := order(0xFE, 0xFF)
		for _, u := range utf16.Encode([]rune(lead("x"))) {
			b = append(b, order(byte(u>>8), byte(u))...)
		}
		return string(b)
	}
	for _, c := range []struct {
		name, body string
		status     int
		code       string
		says       string
	}{
		{"empty", "", 400, "empty_body", "empty"},
		{"white space", " \n ", 400, "empty_body", "empty"},
		{"a byte mark alone", "\uFEFF", 400, "empty_body", "empty"},
		{"a word", "hello", 400, "invalid_json", "line 1, column 1"},
		{"cut off", `{"event_name":"Lead",`, 400, "invalid_json", "ends too early"},
		{"comma at the end", "{\"event_name\":\"Lead\",\n}", 400, "invalid_json", "line 2, column 1"},
		{"single quotes", `{'event_name':'Lead'}`, 400, "invalid_json", "double quotes"},
		{"names without quotes", `{event_name:"Lead"}`, 400, "invalid_json", "double quotes"},
		{"NaN", `{"value":NaN}`, 400, "invalid_json", "no NaN"},
		{"True", `{"opt_out":True}`, 400, "invalid_json", "small letters"},
		{"comment", "{// hi\n}", 400, "invalid_json", "no comments"},
		{"two objects", `{"event_name":"Lead"}{"event_name":"Lead"}`, 400, "invalid_json", "one list"},
		{"lines of JSON", "{\"event_name\":\"Lead\"}\n{\"event_name\":\"Lead\"}", 400, "invalid_json", "line 2, column 1"},
		{"columns are characters", `{"é":"ü" x`, 400, "invalid_json", "column 10"},
		{"a form", "event_name=Lead", 400, "invalid_json", "this is a form"},
		{"XML", "<event/>", 400, "invalid_json", "this is XML"},
		{"a tab in a text", "{\"event_name\":\"a\tb\"}", 400, "invalid_json", `\t`},
		{"a number", "7", 422, "wrong_type", "a number"},
		{"a text", `"Lead"`, 422, "wrong_type", "a text"},
		{"null", "null", 422, "wrong_type", "null"},
		{"no events", `{"data":[]}`, 422, "no_events", "no event"},
		{"empty list", `[]`, 422, "no_events", "no event"},
		{"data is an object", `{"data":{}}`, 422, "wrong_type", "an object"},
		{"data is null", `{"data":null}`, 422, "wrong_type", "null"},
		{"data is a text", `{"data":"[]"}`, 422, "wrong_type", "a text"},
		{"empty object", `{}`, 422, "event_name_missing", "no name"},
		{"latin 1", "{\"event_name\":\"Caf\xe9\"}", 400, "not_utf8", "line 1, column 19"},
		{"UTF-16, big end first", utf16Body(func(hi, lo byte) []byte { return []byte{hi, lo} }), 400, "not_utf8", "UTF-16"},
		{"UTF-16, little end first", utf16Body(func(hi, lo byte) []byte { return []byte{lo, hi} }), 400, "not_utf8", "UTF-16"},
		{"UTF-16 without a mark", utf16Body(func(hi, lo byte) []byte { return []byte{lo, hi} })[2:], 400, "not_utf8", "UTF-16"},
		{"user_data is a list", `{"event_name":"Lead","user_data":[]}`, 422, "wrong_type", "want an object"},
		{"time is an object", `{"event_name":"Lead","event_time":{}}`, 422, "wrong_type", "an object"},
		{"time is a word", `{"event_name":"Lead","event_time":"soon"}`, 422, "invalid_time", ""},
		{"deep", strings.Repeat("[", 20000) + strings.Repeat("]", 20000), 400, "invalid_json", "depth"},
		{"1001 events", "[" + strings.Repeat("{},", 1000) + "{}]", 413, "too_many_events", "1000"},
		{"one large event", lead("big", `,"custom_data":{"x":"`, strings.Repeat("x", 1<<20), `"}`), 413, "too_large", "1 MiB"},
		{"a large batch", `[` + lead("big", `,"custom_data":{"x":"`, strings.Repeat("x", 8<<20), `"}`) + `]`, 413, "too_large", "8 MiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := d.post(t, c.body)
			require.Equal(t, c.status, a.Code, a.Body.String())
			require.Equal(t, c.code, a.at("error", "code"))
			require.NotEmpty(t, a.at("error", "message"))
			require.NotEmpty(t, a.at("error", "fix"))
			said := a.at("error", "message").(string) + "; " + a.at("error", "fix").(string)
			require.Contains(t, said, c.says)
			require.Less(t, a.Body.Len(), 4096)
		})
	}
	require.Empty(t, d.views(t), "nothing of all that was taken")
}

func TestContentTypesAndPackedBodies(t *testing.T) {
	t.Parallel()
	pack := func(s string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, err := z.Write([]byte(s))
		require.NoError(t, err)
		require.NoError(t, z.Close())
		return b.String()
	}
	for _, c := range []struct {
		name, kind, encoding, body string
		status                     int
		code                       string
	}{
		{"none", "", "", lead("a"), 202, ""},
		{"plain text", "text/plain;charset=UTF-8", "", lead("a"), 202, ""},
		{"capitals", "Application/JSON; Charset=utf-8", "", lead("a"), 202, ""},
		{"cloud events and such", "application/vnd.example+json", "", lead("a"), 202, ""},
		{"broken parameters", "application/json; charset", "", lead("a"), 202, ""},
		{"form", "application/x-www-form-urlencoded", "", lead("a"), 415, "unsupported_media_type"},
		{"multipart", "multipart/form-data; boundary=x", "", lead("a"), 415, "unsupported_media_type"},
		{"XML", "application/xml", "", "<a/>", 415, "unsupported_media_type"},
		{"gzip", "application/json", "gzip", pack(lead("a")), 202, ""},
		{"identity", "application/json", "identity", lead("a"), 202, ""},
		{"not gzip", "application/json", "gzip", lead("a"), 400, "body_unreadable"},
		{"gzip cut off", "application/json", "gzip", pack(lead("a"))[:60], 400, "body_unreadable"},
		{"gzip that swells", "application/json", "gzip", pack(strings.Repeat(" ", 9<<20)), 413, "too_large"},
		{"brotli", "application/json", "br", "x", 415, "unsupported_encoding"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := open(t).post(t, c.body, "Content-Type", c.kind, "Content-Encoding", c.encoding)
			require.Equal(t, c.status, a.Code, a.Body.String())
			if c.code != "" {
				require.Equal(t, c.code, a.at("error", "code"))
			}
		})
	}
}

func TestMethodsAndRoutes(t *testing.T) {
	t.Parallel()
	d := open(t)
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete, http.MethodOptions} {
		for _, path := range []string{"/v1/events", "/v26.0/" + datasetOne + "/events", "/" + datasetOne + "/events", "/capi/" + datasetOne + "/events"} {
			a := d.do(t, method, path, nil, "Authorization", "Bearer "+keyOne)
			require.Equal(t, http.StatusMethodNotAllowed, a.Code, path)
			require.Equal(t, "POST", a.Header().Get("Allow"))
			require.Empty(t, a.Header().Get("Access-Control-Allow-Origin"))
		}
	}
	for path, near := range map[string]string{
		"/v1/event": "/v1/events", "/v1/events/": "/v1/events", "/v2/events": "/v1/events", "/capi/1/event": "/capi/{dataset}/events",
		"/" + strings.Repeat("x", 5000): "/",
	} {
		a := d.do(t, http.MethodPost, path, nil)
		require.Equal(t, http.StatusNotFound, a.Code, path)
		require.Equal(t, "no_such_route", a.at("error", "code"))
		require.Contains(t, a.at("error", "fix"), near)
	}
}
