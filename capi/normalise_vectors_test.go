package capi_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi"
)

// vector is one row of testdata/normalise.jsonl: a value, and what becomes of it by
// Meta's documentation (confidence doc), by Meta's code where the documentation is
// silent (meta-code), or by our own judgement.
type vector struct {
	ID      string          `json:"id"`
	Key     capi.Key        `json:"key"`
	Input   json.RawMessage `json:"input"`
	Context struct {
		DefaultCountry string          `json:"default_country"`
		DateOrder      string          `json:"date_order"`
		Now            json.RawMessage `json:"now"`
		NowMS          int64           `json:"now_ms"`
	} `json:"context"`
	Rule       string          `json:"rule"`
	Normalised json.RawMessage `json:"recommended_normalised"`
	Hash       json.RawMessage `json:"recommended_hash"`
	Alternates []struct {
		Normalised, Hash string
	} `json:"alternates"`
}

// Every row is followed, the judgements too.
func TestNormaliseValueFollowsTheVectors(t *testing.T) {
	t.Parallel()
	rows := 0
	for _, v := range readLines[vector](t, "testdata/normalise.jsonl") {
		rows++
		t.Run(v.ID, func(t *testing.T) {
			t.Parallel()
			switch v.Key {
			case "currency":
				checkCurrency(t, v)
			case "event_time":
				checkEventTime(t, v)
			default:
				checkValue(t, v)
			}
		})
	}
	require.Equal(t, 992, rows)
}

func checkValue(t *testing.T, v vector) {
	t.Helper()
	var texts, hashes, alternates []string
	for _, raw := range decoded(t, v.Input) {
		n, problem := capi.NormaliseValue(v.Key, raw, v.locale(t))
		if n.Empty() && strings.TrimSpace(raw) != "" {
			require.NotNil(t, problem, "a value was left out without a word")
		}
		require.NotContains(t, n.Hashes(), capi.HashText(""), "the hash of nothing")
		for _, text := range n.Texts {
			texts = appendNew(texts, text)
			hashes = appendNew(hashes, capi.HashText(text))
		}
		if n.Hash != "" {
			hashes = appendNew(hashes, n.Hash)
		}
		alternates = append(alternates, n.Alternates...)
	}
	require.Equal(t, stringsOf(t, v.Normalised), texts)
	if want := stringsOf(t, v.Hash); len(want) > 0 || len(texts) == 0 {
		require.Equal(t, want, hashes)
	}
	if v.Input[0] != '"' { // the rows of lists and numbers name no alternates
		return
	}
	var want []string
	for _, a := range v.Alternates {
		want = append(want, a.Normalised)
		require.Equal(t, a.Hash, capi.HashText(a.Normalised))
	}
	require.Equal(t, want, alternates)
}

func checkCurrency(t *testing.T, v vector) {
	t.Helper()
	var got []string
	if v.Input[0] != '[' { // a list is no currency; decoding leaves it out
		for _, raw := range decoded(t, v.Input) {
			code, problem := capi.NormaliseCurrency(raw)
			require.Equal(t, code == "", problem != nil)
			if code != "" {
				got = append(got, code)
			}
		}
	}
	require.Equal(t, stringsOf(t, v.Normalised), got)
}

// checkEventTime checks the reading of times; too old and too new are told apart later,
// by Validate, so for them it is the number that counts.
func checkEventTime(t *testing.T, v vector) {
	t.Helper()
	now := time.Unix(v.locale(t).Now.Unix(), 0)
	for _, raw := range decoded(t, v.Input) {
		seconds, given, problem := capi.NormaliseTime(raw, now)
		switch {
		case v.Rule == "T-too-old", v.Rule == "T-future":
			require.True(t, given)
			require.JSONEq(t, string(v.Input), number(seconds))
		case string(v.Normalised) == "null":
			require.False(t, given)
			require.Equal(t, raw != "0", problem != nil)
		default:
			require.True(t, given)
			require.Nil(t, problem)
			require.JSONEq(t, string(v.Normalised), number(seconds))
		}
	}
}

func number(n int64) string { return json.Number(mustJSON(n)).String() }

func mustJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func (v *vector) locale(t *testing.T) capi.Locale {
	t.Helper()
	l := capi.Locale{
		Country: v.Context.DefaultCountry, DateOrder: v.Context.DateOrder,
		Now: time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC),
	}
	switch now := string(v.Context.Now); {
	case v.Context.NowMS > 0:
		l.Now = time.UnixMilli(v.Context.NowMS)
	case strings.HasPrefix(now, `"`):
		require.NoError(t, json.Unmarshal(v.Context.Now, &l.Now))
	case now != "":
		var seconds int64
		require.NoError(t, json.Unmarshal(v.Context.Now, &seconds))
		l.Now = time.Unix(seconds, 0)
	}
	return l
}

// decoded turns a JSON value into the texts that decoding an event makes of it:
// numbers keep their digits; null, true and objects become nothing.
func decoded(t *testing.T, raw json.RawMessage) []string {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	require.NoError(t, d.Decode(&v))
	return textsOf(v)
}

func textsOf(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case json.Number:
		return []string{v.String()}
	case []any:
		var texts []string
		for _, member := range v {
			texts = append(texts, textsOf(member)...)
		}
		return texts
	}
	return nil
}

// stringsOf reads null, a text, a number or a list of texts.
func stringsOf(t *testing.T, raw json.RawMessage) []string {
	t.Helper()
	if len(raw) == 0 {
		return nil
	}
	return decoded(t, raw)
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

func readLines[T any](t *testing.T, path string) []T {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	var rows []T
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var row T
		require.NoError(t, json.Unmarshal(lines.Bytes(), &row))
		rows = append(rows, row)
	}
	require.NoError(t, lines.Err())
	return rows
}
