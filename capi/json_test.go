package capi_test

import (
	"bufio"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi"
)

// sdkEvent is an event as one of Meta's SDKs writes it, with what they share.
type sdkEvent struct {
	ID     string            `json:"id"`
	Events []json.RawMessage `json:"events"`
}

// Events of Meta's SDKs go through decoding and encoding unchanged, apart from what
// is no value: nulls, empty lists and the SDKs' own shapes of the same thing.
func TestSDKEventsKeepEveryValue(t *testing.T) {
	t.Parallel()
	f, err := os.Open("testdata/sdk_events.jsonl")
	require.NoError(t, err)
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c sdkEvent
		require.NoError(t, json.Unmarshal(lines.Bytes(), &c))
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			for _, raw := range c.Events {
				var e capi.Event
				require.NoError(t, json.Unmarshal(raw, &e))
				require.Empty(t, e.Unknown)
				out, err := json.Marshal(&e)
				require.NoError(t, err)
				require.True(t, json.Valid(out))
				require.Equal(t, plain(t, raw), plain(t, out))
			}
		})
	}
	require.NoError(t, lines.Err())
}

// plain reads JSON into maps, in the one form that both sides can be compared in.
func plain(t *testing.T, raw []byte) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	var v any
	require.NoError(t, d.Decode(&v))
	return canonical("", v)
}

func canonical(key string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any)
		if key == "extinfo" { // Node writes the list as an object
			var list []any
			for _, k := range slices.SortedFunc(maps.Keys(v), func(a, b string) int { return len(a)*10 - len(b)*10 + strings.Compare(a, b) }) {
				list = append(list, v[k])
			}
			return canonical(key, list)
		}
		for k, x := range v {
			if x = canonical(k, x); x != nil {
				out[strings.TrimPrefix(k, "_")] = x
			}
		}
		if len(out) == 0 && key != "user_data" {
			return nil
		}
		return out
	case []any:
		if len(v) == 0 && key != "data_processing_options" {
			return nil
		}
		list := make([]any, len(v))
		for i := range v {
			list[i] = canonical("", v[i])
		}
		return list
	case json.Number:
		return v.String()
	case string:
		return v
	case nil:
		return nil
	}
	return v
}

func TestIdsBeyondFloatsSurvive(t *testing.T) {
	t.Parallel()
	for _, in := range []string{`12345678901234567`, `"12345678901234567"`} {
		var e capi.Event
		require.NoError(t, json.Unmarshal([]byte(`{"user_data":{"lead_id":`+in+`,"fb_login_id":9007199254740993}}`), &e))
		require.Equal(t, "12345678901234567", e.UserData.LeadID)
		out, err := json.Marshal(&e)
		require.NoError(t, err)
		require.JSONEq(t, `{"user_data":{"fb_login_id":9007199254740993,"lead_id":12345678901234567}}`, string(out))
		require.Contains(t, string(out), `"lead_id":12345678901234567`)
	}
}

func TestDecodingIsTolerantButSaysSo(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, in, out, problem string }{
		{"numbers as texts", `{"event_time":"1759270000","custom_data":{"value":"142.52","num_items":"3"}}`, `{"event_time":1759270000,"user_data":{},"custom_data":{"value":142.52,"num_items":3}}`, ""},
		{"a single value for a list", `{"user_data":{"em":"a@example.com","madid":["x"]}}`, `{"user_data":{"em":["a@example.com"],"madid":"x"}}`, ""},
		{"null is absent", `{"user_data":{"em":null,"ph":[null,""]},"custom_data":null,"app_data":null}`, `{"user_data":{}}`, ""},
		{"zero is a value", `{"user_data":{},"custom_data":{"value":0},"data_processing_options":[],"data_processing_options_country":0,"data_processing_options_state":0}`, `{"user_data":{},"custom_data":{"value":0},"data_processing_options":[],"data_processing_options_country":0,"data_processing_options_state":0}`, ""},
		{"a list inside a text", `{"custom_data":{"content_ids":"[\"sku_1\"]","contents":"[{\"id\":\"1\",\"quantity\":\"2\"}]"}}`, `{"user_data":{},"custom_data":{"content_ids":["sku_1"],"contents":[{"id":"1","quantity":2}]}}`, ""},
		{"a list for a text", `{"custom_data":{"content_category":["Shoes","Men"]}}`, `{"user_data":{},"custom_data":{"content_category":"Shoes,Men"}}`, ""},
		{"custom properties never override (C144)", `{"custom_data":{"value":1,"custom_properties":{"value":2,"colour":"red"}}}`, `{"user_data":{},"custom_data":{"value":1,"colour":"red"}}`, capi.ProblemDuplicateField},
		{"digests under Google's names (C081)", `{"user_data":{"sha256_email_address":"8c87b489ce35cf2e2f39f80e282cb2e804932a56a213983eeeb428407d43b52d","sha256_phone_number":"+1 650"}}`, `{"user_data":{"em":["8c87b489ce35cf2e2f39f80e282cb2e804932a56a213983eeeb428407d43b52d"]}}`, capi.ProblemWrongType},
		{"underscored members", `{"original_event_data":{"_event_name":"Lead","_event_time":1759270000}}`, `{"user_data":{},"original_event_data":{"event_name":"Lead","event_time":1759270000}}`, ""},
		{"an object for a text", `{"user_data":{"fbc":{"a":1}}}`, `{"user_data":{}}`, capi.ProblemWrongType},
		{"true for an e-mail", `{"user_data":{"em":[true,"a@example.com"]}}`, `{"user_data":{"em":["a@example.com"]}}`, capi.ProblemWrongType},
		{"an unknown match key", `{"user_data":{"email":"a@example.com"}}`, `{"user_data":{}}`, capi.ProblemUnknownField},
		{"an event id that looks like a number", `{"event_id":"000001"}`, `{"event_id":"000001","user_data":{}}`, ""},
		{"bad bytes", "{\"event_name\":\"Le\xffad\"}", `{"event_name":"Le�ad","user_data":{}}`, ""},
		{"escapes", `{"event_name":"a\u0022\n\u00e9\ud83d\ude00","event_source_url":"https://e.com/?a=1&b=<2>"}`, `{"event_name":"a\"\né😀","event_source_url":"https://e.com/?a=1&b=<2>","user_data":{}}`, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var e capi.Event
			require.NoError(t, e.UnmarshalJSON([]byte(c.in)))
			require.Equal(t, c.out, string(e.AppendJSON(nil)))
			codes := make(map[string]bool)
			for _, p := range e.Normalise(capi.Locale{}) {
				codes[p.Code] = true
			}
			if c.problem != "" {
				require.True(t, codes[c.problem], "%v", codes)
			}
		})
	}
}

func TestWhatCannotBeMeantIsRefusedByName(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, in, field, code string }{
		{"twice the same key", `{"event_id":"y","event_id":"z"}`, "event_id", capi.ProblemDuplicateField},
		{"twice once broken letters are mended", "{\"custom_data\":{\"a\x80\":1,\"a\x87\":2}}", "custom_data.a\uFFFD", capi.ProblemDuplicateField},
		{"twice inside user_data", `{"user_data":{"em":"a","em":"b"}}`, "user_data.em", capi.ProblemDuplicateField},
		{"user_data is a list", `{"user_data":[]}`, "user_data", capi.ProblemWrongType},
		{"custom_data is a text", `{"custom_data":"x"}`, "custom_data", capi.ProblemWrongType},
		{"time in words", `{"event_time":"yesterday"}`, "event_time", capi.ProblemInvalidTime},
		{"time as a list", `{"event_time":[1]}`, "event_time", capi.ProblemWrongType},
		{"no object", `[1]`, "event", capi.ProblemWrongType},
		{"nothing", ``, "event", capi.ProblemWrongType},
		{"cut off", `{"event_name":"Le`, "event", capi.ProblemWrongType},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var e capi.Event
			err := e.UnmarshalJSON([]byte(c.in))
			var p capi.Problem
			require.ErrorAs(t, err, &p)
			require.Equal(t, c.field, p.Field)
			require.Equal(t, c.code, p.Code)
			require.NotEmpty(t, p.Fix)
		})
	}
}

func TestEncodingIsValidWhateverAnEventHolds(t *testing.T) {
	t.Parallel()
	e := capi.Event{
		EventName: "x", UserData: capi.UserData{LeadID: "007"},
		CustomData: &capi.CustomData{Value: "NaN", Extra: map[string]json.RawMessage{"value": []byte("2"), "bad": []byte("{"), "b": []byte(` [1, 2] `)}},
	}
	require.JSONEq(t, `{"event_name":"x","user_data":{"lead_id":"007"},"custom_data":{"value":"NaN","b":[1,2]}}`, string(e.AppendJSON(nil)))
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"event_name":"Lead","event_time":1759270000,"user_data":{"em":["a@example.com"],"lead_id":12345678901234567}}`))
	f.Add([]byte(`{"custom_data":{"value":"1e5","contents":[{"id":1}],"custom_properties":{"a":null}},"app_data":{"extinfo":{"0":"a2"}}}`))
	f.Add([]byte(`{"user_data":{"em":"\ud800"},"data_processing_options":null}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var e capi.Event
		if err := e.UnmarshalJSON(raw); err != nil {
			return
		}
		out := e.AppendJSON(nil)
		if json.Valid(raw) {
			require.True(t, json.Valid(out), "%s", out)
			var again capi.Event
			require.NoError(t, again.UnmarshalJSON(out))
			require.Equal(t, string(out), string(again.AppendJSON(nil)), "encoding is stable")
		}
		_ = e.Normalise(capi.Locale{Country: "DE"})
		if json.Valid(raw) {
			require.True(t, json.Valid(e.AppendJSON(nil)))
		}
	})
}
