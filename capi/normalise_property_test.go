package capi_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/capiloop/capiloop/capi"
)

var listKeys = []capi.Key{
	capi.KeyEmail, capi.KeyPhone, capi.KeyFirstName, capi.KeyLastName, capi.KeyGender, capi.KeyBirthDate, capi.KeyCity,
	capi.KeyState, capi.KeyZip, capi.KeyCountry, capi.KeyExternalID, capi.KeyFirst5Name, capi.KeyFirst5Last,
	capi.KeyFirstInitial, capi.KeyBirthDay, capi.KeyBirthMonth, capi.KeyBirthYear,
}

var plainKeys = []capi.Key{
	capi.KeyClientIPAddress, capi.KeyClientUserAgent, capi.KeyFBC, capi.KeyFBP, capi.KeySubscriptionID, capi.KeyFBLoginID,
	capi.KeyLeadID, capi.KeyAnonID, capi.KeyMADID, capi.KeyPageID, capi.KeyPageScopedUserID, capi.KeyCTWAClid,
	capi.KeyIGAccountID, capi.KeyIGSID, capi.KeyIGBusinessID, capi.KeyWABusinessID, capi.KeyAppUserID,
}

// values draws what people and programs write: words of many scripts, numbers with
// signs, dates, addresses, hashes.
func values() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.String(),
		rapid.StringMatching(`[+(]?[0-9()./ -]{5,18}( x[0-9]{1,3})?`),
		rapid.StringMatching(`[A-Za-z0-9.+_-]{1,12}@[a-z0-9-]{1,8}(\.[a-z]{2,5}){1,2}`),
		rapid.StringMatching(`[0-9]{1,4}[-./ ][0-9]{1,2}[-./ ][0-9]{1,4}`),
		rapid.StringMatching(`(Dr\. )?[A-ZÀ-ÿ][a-zà-ÿ'’-]{0,8}( [A-Z][a-z]{1,6})?( Jr\.)?`),
		rapid.StringMatching(`[\p{Greek}\p{Arabic}\p{Devanagari}\p{Hangul}\x{200c}\x{200d} ́.]{1,8}`),
		rapid.StringMatching(`[0-9a-fA-F]{64}(\.[A-Za-z0-9_-]{2}|\.[A-Za-z0-9_-]{8})?`),
		rapid.StringMatching(`[0-9a-f]{31,66}`),
		rapid.StringMatching(`fb\.[0-9]\.[0-9]{10,13}\.[A-Za-z0-9_-]{1,30}`),
		rapid.StringMatching(`[A-Z]{1,2}-?[0-9]{3,5}(-[0-9]{3,4})?`),
		rapid.SampledFrom([]string{"null", "undefined", "N/A", "(not set)", "0", "İSTANBUL", "ΟΔΥΣΣΕΥΣ", "UK", "Washington, D.C.", "♀", "🇩🇪"}),
	)
}

func locales() *rapid.Generator[capi.Locale] {
	return rapid.Custom(func(t *rapid.T) capi.Locale {
		return capi.Locale{
			Country:   rapid.SampledFrom([]string{"", "US", "gb", "DE", "IT", "MX", "AR", "KZ", "JP", "AU", "LV"}).Draw(t, "country"),
			DateOrder: rapid.SampledFrom([]string{"", "mdy", "dmy", "ymd"}).Draw(t, "order"),
			Now:       time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC),
		}
	})
}

func TestPropertyNormalisedTextsStayAsTheyAre(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SampledFrom(append(listKeys, plainKeys...)).Draw(t, "key")
		raw, l := values().Draw(t, "raw"), locales().Draw(t, "locale")
		n, _ := capi.NormaliseValue(key, raw, l)
		for _, text := range n.Texts {
			require.NotEmpty(t, text)
			require.True(t, utf8.ValidString(text) || key == capi.KeyClientUserAgent || !utf8.ValidString(raw))
			if key == capi.KeyPhone && l.Country != "" { // with a country +1 (201) … can be one's own number too
				text = "+" + text
			}
			if strings.EqualFold(text, "null") || strings.EqualFold(text, "nan") || capi.IsHash(text) { // the surname Null
				continue
			}
			again, _ := capi.NormaliseValue(key, text, l)
			require.Equal(t, []string{strings.TrimPrefix(text, "+")}, withoutPlus(again.Texts), "from %q", raw)
		}
	})
}

func withoutPlus(texts []string) []string {
	for i := range texts {
		texts[i] = strings.TrimPrefix(texts[i], "+")
	}
	return texts
}

func TestPropertyHashesAreKept(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SampledFrom(listKeys).Draw(t, "key")
		hash := capi.HashText(rapid.StringMatching(`[a-z]{4,12}[0-9]{3}`).Draw(t, "text"))
		suffix := rapid.SampledFrom([]string{"", ".BA", ".AQQCAQMC"}).Draw(t, "appendix")
		raw := hash + suffix
		if rapid.Bool().Draw(t, "capitals") {
			raw = strings.ToUpper(hash) + suffix
		}
		n, problem := capi.NormaliseValue(key, " "+raw+"\n", capi.Locale{})
		require.Nil(t, problem)
		require.Equal(t, capi.Normalised{Hash: hash + suffix}, n)
	})
}

func TestPropertyEventNormalisedTwice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var e capi.Event
		e.EventName = "Lead"
		u := &e.UserData
		lists := []*[]string{
			&u.Email, &u.Phone, &u.FirstName, &u.LastName, &u.Gender, &u.BirthDate, &u.City, &u.State, &u.Zip,
			&u.Country, &u.ExternalID, &u.First5Name, &u.FirstInitial,
		}
		for _, list := range lists {
			*list = rapid.SliceOfN(values(), 0, 3).Draw(t, "values")
		}
		u.FBC, u.ClientIPAddress = values().Draw(t, "fbc"), values().Draw(t, "ip")
		l := locales().Draw(t, "locale")
		_ = e.Normalise(l)
		for _, list := range lists {
			for _, hash := range *list {
				require.True(t, capi.IsHash(hash) || len(hash) == 32, hash)
				require.NotEqual(t, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", hash)
			}
		}
		once := e.UserData
		require.Empty(t, hashProblems(e.Normalise(l)))
		require.Equal(t, once, e.UserData)
	})
}

// hashProblems leaves out the warning about an external_id that may be an MD5 hash.
func hashProblems(problems capi.Problems) capi.Problems {
	var rest capi.Problems
	for _, p := range problems {
		if p.Code != capi.ProblemUnsupportedHash {
			rest = append(rest, p)
		}
	}
	return rest
}

func TestPropertyProblemsHoldNoValues(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		raw := "zq" + rapid.StringMatching(`[0-9@#]{6,40}`).Draw(t, "raw") + "qz"
		for _, key := range append(listKeys, plainKeys...) {
			if _, problem := capi.NormaliseValue(key, raw, capi.Locale{}); problem != nil {
				require.NotContains(t, problem.Error()+problem.Fix+problem.Code, raw)
				require.NotEmpty(t, problem.Reason)
				require.NotEmpty(t, problem.Fix)
				require.Equal(t, "user_data."+string(key), problem.Field)
			}
		}
	})
}

func FuzzNormalise(f *testing.F) {
	for _, seed := range []string{"", "Jane@Example.com", "+44 (0)20 7946 0958", "Île-de-France", "16. Februar 1997", "fb.1.1554763741205.a", "\xff\x00"} {
		f.Add(seed, "US")
	}
	f.Fuzz(func(t *testing.T, raw, country string) {
		l := capi.Locale{Country: country, Now: time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)}
		for _, key := range append(listKeys, plainKeys...) {
			n, _ := capi.NormaliseValue(key, raw, l)
			for _, text := range n.Texts {
				require.NotEmpty(t, text)
			}
			for _, hash := range n.Hashes() {
				require.NotEqual(t, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", hash)
			}
		}
		e := capi.Event{EventName: raw, EventSourceURL: raw, CustomData: &capi.CustomData{Value: raw, Currency: raw, NumItems: raw}}
		_ = e.Normalise(l)
		seconds, given, problem := capi.NormaliseTime(raw, l.Now)
		require.False(t, given && problem != nil)
		require.Equal(t, given, seconds > 0)
	})
}
