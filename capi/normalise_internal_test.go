package capi

import (
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/cases"
	"golang.org/x/text/language"
	"pgregory.net/rapid"
)

// The short way for numbers must give what the library gives.
func TestPropertyPlainNumberEqualsTheLibrary(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.StringMatching(`\+?(1[2-9][0-9]{2}[0-9]{7}|447[0-9]{9}|7[79][0-9]{9}|33[67][0-9]{8}|91[0-9]{10}|[0-9]{10,13})`).Draw(t, "raw")
		f := facts{country: rapid.SampledFrom([]string{"", "US", "CA", "GB", "RU", "KZ", "FR", "IN", "DE", "IT"}).Draw(t, "country")}
		quick := f.plainNumber(raw)
		if quick == "" {
			t.Skip("the long way")
		}
		slow, code := f.phone(raw)
		require.Empty(t, code)
		require.Equal(t, slow, quick)
	})
}

// strings.ToLower stands for the full mapping only because it differs in İ and Σ alone.
func TestLowerIsTheFullMapping(t *testing.T) {
	t.Parallel()
	full := cases.Lower(language.Und)
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if s := string(r); unicode.IsLetter(r) || unicode.IsMark(r) {
			require.Equal(t, full.String(s), lower(s), "%U", r)
		}
	}
	require.Equal(t, "i̇stanbul", lower("İSTANBUL"))
	require.Equal(t, "οδυσσευς σα", lower("ΟΔΥΣΣΕΥΣ ΣΑ"))
}

func TestDigitsOfEveryScript(t *testing.T) {
	t.Parallel()
	for r := rune(0x80); r <= unicode.MaxRune; r++ {
		if unicode.IsDigit(r) {
			text := plainText(string(r))
			require.True(t, isDigits(text) && len(text) == 1, "%U is %q", r, text)
		}
	}
	require.Equal(t, "0123456789", plainText("٠١٢٣٤٥٦٧٨٩"))
	require.Equal(t, "0123456789", plainText("𝟎𝟏𝟐𝟑𝟒𝟓𝟔𝟕𝟖𝟗"))
}

func TestKeySetKnowsEveryKey(t *testing.T) {
	t.Parallel()
	require.Len(t, listKeys, hashedKeys)
	var u UserData
	var all KeySet
	for i, k := range keyOrder {
		require.NotEqual(t, all, all.Add(k), "%s stands twice", k)
		all = all.Add(k)
		require.Equal(t, i < hashedKeys, u.list(k) != nil)
		require.Equal(t, i >= hashedKeys, u.plain(k) != nil)
		require.True(t, slices.Contains(listKeys[:], k) || slices.Contains(plainKeys[:], k))
	}
	require.Equal(t, AllKeys, all)
	require.Len(t, keyOrder, len(listKeys)+len(plainKeys))
	require.Equal(t, "fn,ln,f5first,f5last,fi", NameKeys.String())
}

func TestTablesAreWellFormed(t *testing.T) {
	t.Parallel()
	require.Len(t, countryCodes, 250*entryLength-1)
	seen := map[string]bool{}
	for i := 0; i < len(countryCodes); i += entryLength {
		entry := strings.TrimSpace(countryCodes[i:min(i+entryLength, len(countryCodes))])
		region := language.MustParseRegion(entry[:2])
		require.Equal(t, region.ISO3(), entry[2:5])
		require.False(t, seen[entry[:2]] || seen[entry[2:5]] || seen[entry[5:]], entry)
		seen[entry[:2]], seen[entry[2:5]], seen[entry[5:]] = true, true, true
	}
	for name, code := range countryAliases {
		require.True(t, isCountry(strings.ToUpper(code)), name)
		require.Equal(t, name, nameKey(name))
	}
	for _, table := range []map[string]string{usStates, canadianProvinces} {
		for name, code := range table {
			require.Len(t, code, 2, name)
			require.Equal(t, name, fold(squeeze(name, letterRune)))
		}
	}
	for name, code := range builderCodes {
		require.Len(t, code, 2, name)
	}
	for _, names := range monthNames {
		require.Len(t, names, 12)
	}
	codes := strings.Fields(currencyCodes)
	require.True(t, slices.IsSorted(codes))
	for _, code := range codes {
		require.True(t, isCurrency(code))
	}
	require.False(t, isCurrency("DAF"), "three letters across two codes")
	for sign, code := range currencySigns {
		require.True(t, isCurrency(code), sign)
		require.Equal(t, strings.ToUpper(sign), sign)
	}
	require.Equal(t, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", emptyHashes[0])
	for code, texts := range problemTexts {
		require.NotEmpty(t, texts[0], code)
		require.NotEmpty(t, texts[1], code)
	}
}

// Every country is found by its code, number, English name and name at home.
func TestEveryCountryIsFound(t *testing.T) {
	t.Parallel()
	for i := 0; i < len(countryCodes); i += entryLength {
		want := strings.ToLower(countryCodes[i : i+2])
		for _, raw := range []string{countryCodes[i : i+2], want, countryCodes[i+2 : i+5], countryCodes[i+5 : i+8]} {
			got, ok := countryCode(raw)
			require.True(t, ok, raw)
			require.Equal(t, want, got, raw)
		}
		require.Equal(t, strings.ToUpper(want), countryOf([]string{HashText(want)}))
	}
	for raw, want := range map[string]string{
		"Казахстан": "kz", "Қазақстан": "kz", "Україна": "ua", "Türkiye": "tr", "Italia": "it", "Niederlande": "nl",
		"المغرب": "ma", "ประเทศไทย": "", "ไทย": "th", "Việt Nam": "vn", "中国": "cn", "臺灣": "", "台湾": "tw", "ישראל": "il",
		"Ελλάδα": "gr", "Suomi": "fi", "Danmark": "dk", "Norge": "no", "Česko": "cz", "Magyarország": "hu", "República Dominicana": "do",
		"Bavaria": "", "Europe": "", "EU": "", "Earth": "",
	} {
		got, _ := countryCode(raw)
		require.Equal(t, want, got, raw)
	}
}

func TestMonthNames(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]int{
		"Feb": 2, "Sept": 9, "märz": 3, "MÄRZ": 3, "août": 8, "февраля": 2, "lutego": 2, "şubat": 2, "maj": 5, "of": 0, "th": 0, "dob": 0, "t": 0,
		"dezember": 12, "Décembre": 12, "ene": 1, "ağustos": 8,
	} {
		require.Equal(t, want, monthOf(word), word)
	}
}

func TestPunycode(t *testing.T) {
	t.Parallel()
	for label, want := range map[string]string{ // the samples of RFC 3492, section 7.1
		"mnchen-3ya":                       "münchen",
		"ihqwcrb4cv8a8dqg056pqjye":         "他们为什么不说中文",
		"4dbcagdahymbxekheh6e0a7fei0b":     "למההםפשוטלאמדבריםעברית",
		"b1abfaaepdrnnbgefbadotcwatmq2g4l": "почемужеонинеговорятпорусски",
		"":                                 "", "a": "", "99999999999": "", "zzzz!": "",
	} {
		require.Equal(t, want, punycode(label), label)
	}
	require.Equal(t, "a.münchen.de", unicodeDomain("a.xn--mnchen-3ya.de"))
	require.Empty(t, unicodeDomain("xn--99999999999.de"))
}

func TestStatesFurther(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ country, raw, want string }{
		{"", "DE-BY", "by"},
		{"DE", "AU-NSW", "aunsw"}, // another country's code is no code here
		{"", "US-XX", "usxx"},
		{"", "Al-Ain", "alain"},
		{"GE", "Georgia", "georgia"},
		{"CA", "Québec", "qc"},
		{"CA", "Île-du-Prince-Édouard", "pe"},
		{"US", "W. Va.", "wv"},
		{"US", "Washington, District of Columbia", "dc"},
	} {
		f := facts{country: c.country}
		n, code := f.state(c.raw)
		require.Empty(t, code)
		require.Equal(t, c.want, n.text, c.raw)
	}
	_, code := (&facts{}).state("FR-75")
	require.Equal(t, ProblemInvalidPlace, code)
}

func TestPlainKeysFurther(t *testing.T) {
	t.Parallel()
	hash := HashText("x")
	for _, c := range []struct {
		key       Key
		raw, want string
		code      string
	}{
		{KeyMADID, "{38400000-8CF0-11BD-B23E-10B96E40000D}", "38400000-8cf0-11bd-b23e-10b96e40000d", ""},
		{KeyMADID, "384000008cf011bdb23e10b96e40000d", "38400000-8cf0-11bd-b23e-10b96e40000d", ""},
		{KeyMADID, hash, "", ProblemNotHashed},
		{KeyMADID, "abc", "", ProblemInvalidID},
		{KeyFBLoginID, " 1234567890 ", "1234567890", ""},
		{KeyFBLoginID, "jane", "", ProblemInvalidID},
		{KeyPageID, hash, "", ProblemNotHashed},
		{KeyPageID, "{{page.id}}", "", ProblemPlaceholder},
		{KeyClientUserAgent, " Mozilla/5.0 (X11) ", "Mozilla/5.0 (X11)", ""},
		{KeyClientIPAddress, "100.64.1.1", "", ProblemInvalidIP},
		{KeyClientIPAddress, "2A00:1450:4009:081D::200E.AQQCAQMC", "2a00:1450:4009:81d::200e.AQQCAQMC", ""},
		{KeyFBC, "fb.1.1554763741.abc def", "", ProblemInvalidClickID},
		{KeySubscriptionID, " \u200b", "", ""},
	} {
		n, problem := NormaliseValue(c.key, c.raw, Locale{})
		require.Equal(t, c.want, strings.Join(n.Texts, " "), c.raw)
		require.Equal(t, c.code == "", problem == nil, c.raw)
		if problem != nil {
			require.Equal(t, c.code, problem.Code)
		}
	}
}
