package capi_test

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi"
)

func ExampleEvent_Normalise() {
	e := capi.Event{
		EventName: "Lead",
		UserData: capi.UserData{
			Email: []string{" Jane.Doe@Example.com"},
			Phone: []string{"(650) 555-0142"},
			Zip:   []string{"n/a"},
		},
	}
	problems := e.Normalise(capi.Locale{Country: "US"})
	fmt.Println(e.UserData.Email[0] == capi.HashText("jane.doe@example.com"))
	fmt.Println(e.UserData.Phone[0] == capi.HashText("16505550142"))
	fmt.Println(e.UserData.Keys())
	fmt.Println(problems)
	// Output:
	// true
	// true
	// em,ph
	// user_data.zp: a placeholder stands where the value belongs; it was left out
}

func ExampleNormaliseValue() {
	n, _ := capi.NormaliseValue(capi.KeyCity, "São Paulo", capi.Locale{})
	fmt.Println(n.Texts, n.Alternates)
	// Output: [sãopaulo] [saopaulo sopaulo]
}

func ExampleHashText() {
	fmt.Println(capi.HashText("john_smith@gmail.com"))
	// Output: 62a14e44f765419d10fea99367361a727c12365e2520f32218d505ed9aa0f62f
}

func ExampleCleanURL() {
	fmt.Println(capi.CleanURL("https://example.com/thanks?email=jane%40example.com&fbclid=AbC"))
	// Output: https://example.com/thanks?fbclid=AbC [email]
}

func TestHashTextOfNothingIsNothing(t *testing.T) {
	t.Parallel()
	require.Empty(t, capi.HashText(""))
	require.Equal(t, "6915771be1c5aa0c886870b6951b03d7eafc121fea0e80a5ea83beb7c449f4ec", capi.HashText("mary"))
}

func TestIsHash(t *testing.T) {
	t.Parallel()
	hash := capi.HashText("mary")
	for s, want := range map[string]bool{
		hash: true, strings.ToUpper(hash): true, hash + ".BA": true, hash + ".AQQCAQMC": true, strings.ToUpper(hash) + ".A_-b0cDE": true,
		"": false, hash[1:]: false, hash + "a": false, hash + ".": false, hash + ".B": false, hash + ".BAA": false, hash + ".AQQCAQM!": false,
		hash + "_BA": false, "g" + hash[1:]: false, hash[:32]: false, " " + hash[1:]: false,
	} {
		require.Equal(t, want, capi.IsHash(s), s)
	}
}

func TestHashesThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	hash := capi.HashText("mary")
	for raw, code := range map[string]string{
		hash[:63]: capi.ProblemDamagedHash, hash + "0": capi.ProblemDamagedHash, hash[:40]: capi.ProblemDamagedHash,
		hash + hash:           capi.ProblemDamagedHash,
		hash[:32]:             capi.ProblemUnsupportedHash,
		capi.HashText("null"): capi.ProblemHashOfNothing,
		"E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855.BA": capi.ProblemHashOfNothing,
	} {
		e := capi.Event{EventName: "Lead", UserData: capi.UserData{Email: []string{raw}, FBP: "fb.1.1750000000000.1"}}
		require.Equal(t, []string{code}, codesOf(e.Normalise(capi.Locale{})), raw)
		require.Empty(t, e.UserData.Email)
	}
	id := capi.Event{EventName: "Lead", UserData: capi.UserData{ExternalID: []string{"550E8400E29B41D4A716446655440000"}}}
	require.Len(t, id.Normalise(capi.Locale{}), 1)
	require.Equal(t, []string{"550e8400e29b41d4a716446655440000"}, id.UserData.ExternalID, "an id of 32 digits goes as it is, as in the browser")
}

func TestHashInBase64(t *testing.T) {
	t.Parallel()
	hash := capi.HashText("mary")
	sum, err := hex.DecodeString(hash)
	require.NoError(t, err)
	for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		n, problem := capi.NormaliseValue(capi.KeyFirstName, e.EncodeToString(sum), capi.Locale{})
		require.Nil(t, problem)
		require.Equal(t, hash, n.Hash)
	}
	n, _ := capi.NormaliseValue(capi.KeyExternalID, base64.StdEncoding.EncodeToString(sum), capi.Locale{})
	require.Empty(t, n.Hash, "an id may look like anything")
}

func TestKeySet(t *testing.T) {
	t.Parallel()
	set, err := capi.ParseKeySet("fbc, em,ph")
	require.NoError(t, err)
	require.Equal(t, "em,ph,fbc", set.String())
	require.True(t, set.Has(capi.KeyEmail))
	require.False(t, set.Has(capi.KeyFBP))
	require.False(t, set.Has("email"))
	_, err = capi.ParseKeySet("em,email")
	require.ErrorContains(t, err, `"email"`)
	all, err := capi.ParseKeySet(capi.AllKeys.String())
	require.NoError(t, err)
	require.Equal(t, capi.AllKeys, all)
	none, err := capi.ParseKeySet("")
	require.NoError(t, err)
	require.Empty(t, none.String())
}

func TestKeep(t *testing.T) {
	t.Parallel()
	u := plainPerson()
	require.Equal(t, "em,ph,fn,ln,ge,db,ct,st,zp,country,external_id,client_ip_address,client_user_agent,fbc,fbp", u.Keys().String())
	u.Keep(capi.AllKeys &^ capi.NameKeys)
	require.Empty(t, u.FirstName)
	require.Empty(t, u.LastName)
	u.Keep(capi.KeySet(0).Add(capi.KeyEmail).Add(capi.KeyFBC))
	require.Equal(t, "em,fbc", u.Keys().String())
	require.Empty(t, u.ClientIPAddress)
}

func TestNormalisePhoneFurther(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ country, raw, want, code string }{
		{"KZ", "8 (701) 234-56-78", "77012345678", ""},
		{"KZ", "+7 701 234 56 78", "77012345678", ""},
		{"RU", "8 912 345-67-89", "79123456789", ""},
		{"US", "4915123456789", "4915123456789", ""},
		{"DE", "030/901820", "4930901820", ""},
		{"", "+39 (0)6 698 12345", "390669812345", ""},
		{"", "+44 020 7946 0958", "442079460958", ""},
		{"", "1.65055E+10", "", capi.ProblemInvalidPhone},
		{"", "07911123456", "7911123456", capi.ProblemNoCountryCode},
		{"", "+999123456789", "", capi.ProblemInvalidPhone},
		{"Atlantis", "+16505550142", "16505550142", ""},
		{"United Kingdom", "07700 900123", "447700900123", ""},
	} {
		n, problem := capi.NormaliseValue(capi.KeyPhone, c.raw, capi.Locale{Country: c.country})
		require.Equal(t, c.want, strings.Join(n.Texts, " "), c.raw)
		if c.code == "" {
			require.Nil(t, problem, c.raw)
			continue
		}
		require.NotNil(t, problem, c.raw)
		require.Equal(t, c.code, problem.Code)
	}
}

func TestNormaliseDateFurther(t *testing.T) {
	t.Parallel()
	l := capi.Locale{Now: time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC)}
	for raw, want := range map[string]string{
		"2026-10-01": "20261001", "2026-10-02": "", "29.02.2023": "", "97-02-16": "19970216", "1997 Feb 16": "19970216",
		"16 февраля 1997 г.": "19970216", "03041997": "19970304", "3/3/97": "19970303", "2/16/197": "", "1/2/3": "", "31/12/26": "19261231",
	} {
		n, _ := capi.NormaliseValue(capi.KeyBirthDate, raw, l)
		require.Equal(t, want, strings.Join(n.Texts, " "), raw)
	}
	l.DateOrder = "YMD"
	n, _ := capi.NormaliseValue(capi.KeyBirthDate, "01-02-03", l)
	require.Equal(t, []string{"20010203"}, n.Texts)
}

func TestNormaliseTimeFurther(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_759_276_800, 0)
	for raw, want := range map[string]int64{
		"1759270000000000000": 1_759_270_000, "1759270000000": 1_759_270_000, "1759270000\n": 1_759_270_000,
		"2025-09-30T22:06:40+0000": 1_759_270_000, "": 0, "0": 0, "null": 0,
	} {
		for _, n := range []time.Time{now, {}} {
			seconds, given, problem := capi.NormaliseTime(raw, n)
			require.Nil(t, problem, raw)
			require.Equal(t, want, seconds, raw)
			require.Equal(t, want > 0, given)
		}
	}
	for _, raw := range []string{"-5", "abc", "99999999999999999999", "2025-13-01", "1e9", "0.5"} {
		_, given, problem := capi.NormaliseTime(raw, now)
		require.NotNil(t, problem, raw)
		require.False(t, given)
		require.Equal(t, capi.ProblemInvalidTime, problem.Code)
	}
}

func TestClickIDGetsTheEventsTime(t *testing.T) {
	t.Parallel()
	e := capi.Event{EventName: "Lead", EventTime: 1_750_000_000, UserData: capi.UserData{FBC: "IwAR2F4-dbP0l7Mn1IawQQ"}}
	require.Empty(t, e.Normalise(capi.Locale{Now: time.Unix(1_760_000_000, 0)}))
	require.Equal(t, "fb.1.1750000000000.IwAR2F4-dbP0l7Mn1IawQQ", e.UserData.FBC)
}

// The tables are shared by all goroutines; run with -race.
func TestNormaliseConcurrently(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for _, raw := range []string{"İstanbul", "Österreich", "Москва", "03-6384-9000"} {
				for _, key := range listKeys {
					_, _ = capi.NormaliseValue(key, raw, capi.Locale{Country: "JP"})
				}
			}
		})
	}
	wg.Wait()
}

// Spain has no trunk zero, and people type one all the same.
func TestATrunkZeroFromHabit(t *testing.T) {
	t.Parallel()
	for _, typed := range []string{"0612 345 678", "612345678", "+34 612 345 678", "0034612345678"} {
		got, problem := capi.NormaliseValue(capi.KeyPhone, typed, capi.Locale{Country: "ES"})
		require.Nil(t, problem, typed)
		require.Equal(t, []string{"34612345678"}, got.Texts, typed)
	}
}
