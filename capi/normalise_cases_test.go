package capi_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi"
)

// nothing: the key must be left out.
var nothing = []string{}

// personCase is a fault that others had in public, as an event that must come out right.
type personCase struct {
	name     string
	locale   capi.Locale
	userData string              // JSON, as a sender writes it
	want     map[string][]string // by key, the normalised texts whose hashes come first; nothing: left out
	codes    []string            // problems, when they matter
}

var (
	us, gb, dmy = capi.Locale{Country: "US"}, capi.Locale{Country: "GB"}, capi.Locale{DateOrder: "DMY"}
	jane        = capi.HashText("jane@example.com")
)

// personCases are others' faults; the numbers are those of our collection of public
// bug reports.
var personCases = []personCase{
	{name: "C001 plus sign kept", userData: `{"ph":"+16505550142"}`, want: map[string][]string{"ph": {"16505550142"}}},
	{name: "C004 00 prefix", userData: `{"ph":"0044 7700 900123"}`, want: map[string][]string{"ph": {"447700900123"}}},
	{name: "C005 trunk zero", userData: `{"ph":"+44 (0)7700 900123"}`, want: map[string][]string{"ph": {"447700900123"}}},
	{
		name: "C008 the event's country goes first", locale: capi.Locale{Country: "DE"},
		userData: `{"ph":"07700 900123","country":"GB"}`, want: map[string][]string{"ph": {"447700900123"}, "country": {"gb"}},
	},
	{
		name: "C008 also when it came hashed", locale: capi.Locale{Country: "DE"},
		userData: `{"ph":"07700 900123","country":"` + capi.HashText("gb") + `"}`, want: map[string][]string{"ph": {"447700900123"}},
	},
	{
		name:     "C009 extension",
		userData: `{"ph":["+1 650 555 0142 ext. 23","+1-650-555-0142x23","tel:+1-650-555-0142;ext=9"]}`,
		want:     map[string][]string{"ph": {"16505550142"}},
	},
	{name: "C011 zeros", userData: `{"ph":"+0000000000"}`, want: map[string][]string{"ph": nothing}, codes: []string{capi.ProblemPlaceholder}},
	{name: "C012 fifteen digits", userData: `{"ph":"+439990000000012"}`, want: map[string][]string{"ph": {"439990000000012"}}},
	{name: "C013 prefixes", userData: `{"ph":["tel:+16505550142","p:+16505550142"]}`, want: map[string][]string{"ph": {"16505550142"}}},
	{
		name: "C014 dots and no-break characters", userData: `{"ph":["1.650.555.0142","+1\u00a0650\u00a0555\u20110142"]}`,
		want: map[string][]string{"ph": {"16505550142"}},
	},
	{name: "C015 other digits", userData: `{"ph":["٠٠٤٤٧٧٠٠٩٠٠١٢٣","＋４４７７００９００１２３"]}`, want: map[string][]string{"ph": {"447700900123"}}},
	{name: "C017 two numbers", userData: `{"ph":"16505550142 / 16505550143"}`, want: map[string][]string{"ph": {"16505550142", "16505550143"}}},
	{name: "C018 placeholders", userData: `{"ph":["unknown","-","0","n/a","1-800-FLOWERS"]}`, want: map[string][]string{"ph": nothing}},
	{name: "C018 in America", locale: us, userData: `{"ph":["unknown","-","0","n/a","1-800-FLOWERS"]}`, want: map[string][]string{"ph": nothing}},
	{name: "C019 case and blanks", userData: `{"em":"  Jane.DOE@Example.COM\r\n"}`, want: map[string][]string{"em": {"jane.doe@example.com"}}},
	{name: "C020 blank inside", userData: `{"em":"jane. doe@example.com"}`, want: map[string][]string{"em": {"jane.doe@example.com"}}},
	{
		name:     "C021 invisible characters",
		userData: `{"em":["jane@example.com\u200b","\ufeffjane@example.com","jane@exam\u00adple.com"]}`,
		want:     map[string][]string{"em": {"jane@example.com"}},
	},
	{
		name: "C022 letters beyond ASCII", userData: `{"em":"jané@example.com","ph":"+16505550142"}`,
		want: map[string][]string{"em": {"jané@example.com"}, "ph": {"16505550142"}},
	},
	{
		name: "C023 one bad key costs only itself", userData: `{"em":"not-an-email","ph":"+16505550142"}`,
		want: map[string][]string{"em": nothing, "ph": {"16505550142"}}, codes: []string{capi.ProblemInvalidEmail},
	},
	{name: "C025 all members bad", userData: `{"em":["","not-an-email"],"ph":[]}`, want: map[string][]string{"em": nothing, "ph": nothing}},
	{
		name:     "C026 wrapped addresses",
		userData: `{"em":["mailto:jane@example.com","Jane Doe <jane@example.com>","&lt;jane@example.com&gt;"]}`,
		want:     map[string][]string{"em": {"jane@example.com"}},
	},
	{
		name: "C027 two addresses, trailing signs", userData: `{"em":["jane@example.com;joe@example.com","jane@example.com.","jane@example.com,"]}`,
		want: map[string][]string{"em": {"jane@example.com", "joe@example.com"}},
	},
	{name: "C028 dots and tag stay", userData: `{"em":"j.a.n.e+fb@example.com"}`, want: map[string][]string{"em": {"j.a.n.e+fb@example.com"}}},
	{
		name: "C029 placeholder words", userData: `{"em":"null","fn":"undefined","ln":"N/A","external_id":"null"}`,
		want: map[string][]string{"em": nothing, "fn": nothing, "ln": nothing, "external_id": nothing},
	},
	{
		name: "C029 and their hashes", userData: `{"em":"` + capi.HashText("null") + `","fn":"` + capi.HashText("undefined") + `"}`,
		want: map[string][]string{"em": nothing, "fn": nothing}, codes: []string{capi.ProblemHashOfNothing, capi.ProblemHashOfNothing},
	},
	{name: "C030 blank in a name", userData: `{"fn":"Mary Ann"}`, want: map[string][]string{"fn": {"maryann"}}},
	{name: "C031 accents in capitals", userData: `{"fn":"ÉMILIE","ln":"MÜLLER"}`, want: map[string][]string{"fn": {"émilie"}, "ln": {"müller"}}},
	{name: "C032 the page's examples", userData: `{"fn":["Valéry","정","Mary"]}`, want: map[string][]string{"fn": {"valéry", "정", "mary"}}},
	{name: "C033 apostrophes", userData: `{"ln":["O'Brien","O’Brien","OʼBrien"]}`, want: map[string][]string{"ln": {"obrien"}}},
	{name: "C034 decomposed letters", userData: `{"fn":["Zo\u00eb","Zoe\u0308"]}`, want: map[string][]string{"fn": {"zoë"}}},
	{name: "C035 HTML escapes", userData: `{"ln":["O&#039;Brien","O&apos;Brien"]}`, want: map[string][]string{"ln": {"obrien"}}},
	{name: "C037 final sigma", userData: `{"ln":"ΟΔΥΣΣΕΥΣ"}`, want: map[string][]string{"ln": {"οδυσσευς"}}},
	{name: "C040 number as name", userData: `{"fn":12345,"em":"jane@example.com"}`, want: map[string][]string{"fn": nothing, "em": {"jane@example.com"}}},
	{name: "C044 accented city", userData: `{"ct":"São Paulo"}`, want: map[string][]string{"ct": {"sãopaulo", "saopaulo", "sopaulo"}}},
	{name: "C045 digits as city", userData: `{"ct":"1770"}`, want: map[string][]string{"ct": nothing}},
	{name: "C046 Japanese city", userData: `{"ct":"東京"}`, want: map[string][]string{"ct": {"東京"}}},
	{name: "C047 state's name", userData: `{"st":["California","    California.   ","CA"]}`, want: map[string][]string{"st": {"ca"}}},
	{name: "C050 ISO 3166-2", userData: `{"st":["US-CA","CA-ON"]}`, want: map[string][]string{"st": {"ca", "on"}}},
	{
		name: "C051 hashed place", userData: `{"st":"` + capi.HashText("ca") + `","country":"` + capi.HashText("us") + `"}`,
		want: map[string][]string{"st": {"ca"}, "country": {"us"}},
	},
	{name: "C052 ZIP+4", userData: `{"zp":["94035-1234","94035 1234","940351234"],"country":"US"}`, want: map[string][]string{"zp": {"94035"}}},
	{name: "C054 Brazil", userData: `{"zp":"01310-100","country":"BR"}`, want: map[string][]string{"zp": {"01310100"}}},
	{name: "C054 Poland", userData: `{"zp":"00-950","country":"PL"}`, want: map[string][]string{"zp": {"00950"}}},
	{name: "C054 Japan", userData: `{"zp":"110-0001","country":"JP"}`, want: map[string][]string{"zp": {"1100001"}}},
	{name: "C054 Portugal", userData: `{"zp":"1234-567","country":"PT"}`, want: map[string][]string{"zp": {"1234567"}}},
	{name: "C055 postcode as number", userData: `{"zp":[94035,2134],"country":"US"}`, want: map[string][]string{"zp": {"94035", "02134"}}},
	{name: "C056 country's name", userData: `{"country":["United States","USA","U.S.","us "]}`, want: map[string][]string{"country": {"us"}}},
	{
		name: "C058 three letters", userData: `{"country":["AUT","SWE","CHN","EST","UKR","UAE"]}`,
		want: map[string][]string{"country": {"at", "se", "cn", "ee", "ua", "ae"}},
	},
	{
		name: "C059 own language", userData: `{"country":["Österreich","Schweiz","Sverige","Deutschland"]}`,
		want: map[string][]string{"country": {"at", "ch", "se", "de"}},
	},
	{name: "C061 month first", userData: `{"db":"05/04/1990"}`, want: map[string][]string{"db": {"19900504"}}},
	{name: "C061 day first", locale: dmy, userData: `{"db":"05/04/1990"}`, want: map[string][]string{"db": {"19900405"}}},
	// 16021997 and 02/16/97 are left out in the report; we can tell what they mean.
	{name: "C062 impossible dates", userData: `{"db":["1997-02-31","0001-01-01","1800-01-01"]}`, want: map[string][]string{"db": nothing}},
	{name: "C063 zone", userData: `{"db":"1997-02-16T00:00:00+02:00"}`, want: map[string][]string{"db": {"19970216"}}},
	{name: "C064 genders", userData: `{"ge":["Female","M","Male ","other","prefer not to say"]}`, want: map[string][]string{"ge": {"f", "m"}}},
	{name: "C066 hash in capitals", userData: `{"em":["8C87B489CE35CF2E2F39F80E282CB2E804932A56A213983EEEB428407D43B52D","  ` + jane + `\n"]}`, want: map[string][]string{"em": {"jane@example.com"}}},
	{
		name: "C067 MD5", userData: `{"em":"9e26471d35a78862c17e467d87cddedf"}`,
		want: map[string][]string{"em": nothing}, codes: []string{capi.ProblemUnsupportedHash},
	},
	{
		name: "C068 nothing", userData: `{"em":"","ph":"   ","fn":null,"ln":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}`,
		want: map[string][]string{"em": nothing, "ph": nothing, "fn": nothing, "ln": nothing}, codes: []string{capi.ProblemHashOfNothing},
	},
	{
		name: "C069 hash of nothing beside an id", userData: `{"em":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","external_id":"u-1"}`,
		want: map[string][]string{"em": nothing, "external_id": {"u-1"}},
	},
	{name: "C071 id as number", userData: `{"external_id":123}`, want: map[string][]string{"external_id": {"123"}}},
	{name: "C072 several ids", userData: `{"external_id":["u-1","u-2","U-1"]}`, want: map[string][]string{"external_id": {"u-1", "u-2"}}},
	{name: "C073 browser and server", userData: `{"external_id":["User 123"," user123 "]}`, want: map[string][]string{"external_id": {"user123"}}},
	{name: "C077 null in a list", userData: `{"em":["jane@example.com"],"ph":[null]}`, want: map[string][]string{"em": {"jane@example.com"}, "ph": nothing}},
	{name: "national number", locale: gb, userData: `{"ph":"020 7946 0958"}`, want: map[string][]string{"ph": {"442079460958"}}},
}

func TestNormaliseOthersFaults(t *testing.T) {
	t.Parallel()
	for _, c := range personCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var e capi.Event
			require.NoError(t, json.Unmarshal([]byte(`{"event_name":"Lead","user_data":`+c.userData+`}`), &e))
			c.locale.Now = time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
			problems := e.Normalise(c.locale)
			lists := listsOf(&e.UserData)
			for key, texts := range c.want {
				got := lists[key]
				if len(texts) == 0 {
					require.Empty(t, got, key)
					require.False(t, e.UserData.Keys().Has(capi.Key(key)))
					continue
				}
				var want []string
				for _, text := range texts {
					want = append(want, capi.HashText(text))
				}
				require.GreaterOrEqual(t, len(got), len(want), key)
				require.Equal(t, want, got[:len(want)], key)
			}
			if c.codes != nil {
				require.Equal(t, c.codes, codesOf(problems))
			}
			require.NoError(t, problems.Err())
		})
	}
}

func listsOf(u *capi.UserData) map[string][]string {
	return map[string][]string{
		"em": u.Email, "ph": u.Phone, "fn": u.FirstName, "ln": u.LastName, "ge": u.Gender, "db": u.BirthDate,
		"ct": u.City, "st": u.State, "zp": u.Zip, "country": u.Country, "external_id": u.ExternalID,
		"f5first": u.First5Name, "f5last": u.First5Last, "fi": u.FirstInitial,
		"dobd": u.BirthDay, "dobm": u.BirthMonth, "doby": u.BirthYear,
	}
}

func codesOf(problems capi.Problems) []string {
	var codes []string
	for _, p := range problems {
		codes = append(codes, p.Code)
	}
	return codes
}

func TestNormaliseLeavesPlainKeysPlain(t *testing.T) { // C076, C078
	t.Parallel()
	hash := "8c87b489ce35cf2e2f39f80e282cb2e804932a56a213983eeeb428407d43b52d.AQQCAQMC"
	e := capi.Event{EventName: "Lead", UserData: capi.UserData{
		Email: []string{hash},
		FBC:   "fb.1.1750000000000.AbC", FBP: "fb.1.1750000000000.1234567890.AQQCAQMC",
		ClientIPAddress: "203.0.113.7", ClientUserAgent: "Mozilla/5.0", LeadID: "1234567890123456",
	}}
	want := e.UserData
	require.Empty(t, e.Normalise(capi.Locale{}))
	require.Equal(t, want, e.UserData)
}

func TestNormaliseAmounts(t *testing.T) { // C131, C137, C139, C141
	t.Parallel()
	for raw, want := range map[string]string{
		"19.90": "19.9", " 45 ": "45", "0": "0", "0.20": "0.2", "1.78": "1.78", "": "", "-5.50": "-5.5", "007": "7", ".5": "0.5",
		"1.5e3": "1500", "12345e-2": "123.45", "1E-3": "0.001", "-0.0": "0", "142.52": "142.52", "12345678901234567890.05": "12345678901234567890.05",
		"NaN": "", "Infinity": "", "-Inf": "", "0x1p4": "", "1_000": "", "1,000": "", "1.000,50": "", "12 000": "", "e5": "", "1e": "", "1e+-5": "", ".": "", "1e999": "",
	} {
		e := capi.Event{EventName: "Lead", CustomData: &capi.CustomData{Value: raw, Contents: []capi.Content{{ItemPrice: raw, Quantity: "2"}}}}
		problems := e.Normalise(capi.Locale{})
		require.Equal(t, want, e.CustomData.Value, raw)
		require.Equal(t, want, e.CustomData.Contents[0].ItemPrice, raw)
		require.Equal(t, "2", e.CustomData.Contents[0].Quantity)
		if want == "" && raw != "" {
			require.Equal(t, []string{capi.ProblemInvalidValue, capi.ProblemInvalidValue}, codesOf(problems), raw)
		} else {
			require.Empty(t, problems, raw)
		}
	}
}

func TestNormaliseCurrencyOfAnEvent(t *testing.T) { // C133, C134, C135
	t.Parallel()
	for _, c := range []struct {
		event, currency         string
		wantValue, wantCurrency string
		codes                   []string
	}{
		{"Lead", "usd", "10", "USD", nil},
		{"Lead", " eur ", "10", "EUR", nil},
		{"Lead", "Gbp", "10", "GBP", nil},
		{"Lead", "", "10", "", nil}, // never made up
		{"QualifiedLead", "XBT", "", "", []string{capi.ProblemUnknownCurrency, capi.ProblemNoCurrency}},
		{"Purchase", "XBT", "10", "", []string{capi.ProblemUnknownCurrency}},
	} {
		e := capi.Event{EventName: c.event, CustomData: &capi.CustomData{Value: "10", Currency: c.currency}}
		require.Equal(t, c.codes, codesOf(e.Normalise(capi.Locale{})))
		require.Equal(t, c.wantValue, e.CustomData.Value)
		require.Equal(t, c.wantCurrency, e.CustomData.Currency)
	}
}

func TestNormaliseEventName(t *testing.T) { // C205
	t.Parallel()
	for raw, want := range map[string]string{
		"AddToWishList": "AddToWishlist", "purchase": "Purchase", "lead ": "Lead", "Lead": "Lead", " Lead": "Lead",
		"Qualified lead": "Qualified lead", "LEADS": "LEADS",
	} {
		e := capi.Event{EventName: raw}
		problems := e.Normalise(capi.Locale{})
		require.Equal(t, want, e.EventName)
		require.Equal(t, raw == "AddToWishList" || raw == "purchase" || raw == "lead ", len(problems) == 1, raw)
	}
	stage := capi.Event{EventName: "lead", CustomData: &capi.CustomData{EventSource: "crm"}}
	require.Empty(t, stage.Normalise(capi.Locale{}))
	require.Equal(t, "lead", stage.EventName, "the stages of a CRM keep their names")
}

func TestNormaliseUnescapesNames(t *testing.T) { // C035
	t.Parallel()
	e := capi.Event{EventName: "Lead", CustomData: &capi.CustomData{ContentName: "Bed &amp; Bath"}}
	require.Empty(t, e.Normalise(capi.Locale{}))
	require.Equal(t, "Bed & Bath", e.CustomData.ContentName)
}

func TestCleanURL(t *testing.T) { // C117
	t.Parallel()
	for _, c := range []struct {
		raw, want string
		removed   []string
	}{
		{
			"https://example.com/thanks?first_name=Jane&last_name=Doe&email=jane%40example.com&fbclid=AbC&utm_source=x",
			"https://example.com/thanks?fbclid=AbC&utm_source=x",
			[]string{"first_name", "last_name", "email"},
		},
		{"https://example.com/?q=a+b&page=2#top", "https://example.com/?q=a+b&page=2#top", nil},
		{"https://example.com/?q=jane%40example.com", "https://example.com/", []string{"q"}},
		{"https://example.com/?q=jane%2540example.com&b", "https://example.com/?b", []string{"q"}},
		{"https://example.com/?customer%5Bemail%5D=x&customer[phone]=1&a[]=2", "https://example.com/?a[]=2", []string{"customer[email]", "customer[phone]"}},
		{"https://jane:secret@example.com/a", "https://example.com/a", []string{"user"}},
		{"https://example.com/u/jane@example.com/edit?x=1", "https://example.com/u/-/edit?x=1", []string{"path"}},
		{"https://medium.com/@jane/story", "https://medium.com/@jane/story", nil},
		{"https://example.com/#/thanks?email=a&x=1", "https://example.com/#/thanks?x=1", []string{"email"}},
		{"https://example.com/#access_token=abc", "https://example.com/", []string{"access_token"}},
		{"https://example.com/?utm_campaign=em&utm_content=phone", "https://example.com/?utm_campaign=em&utm_content=phone", nil},
		{"https://example.com/?lat=52.5&lng=13.4&Longitude=1&utm_term=flat", "https://example.com/?utm_term=flat", []string{"lat", "lng", "Longitude"}},
		{"https://example.com/?who=+491701234567&b=%2B49%20170%201234567&c=tel:%2B49(170)1234567&d=1", "https://example.com/?d=1", []string{"who", "b", "c"}},
		{"https://example.com/?order=1234567890&q=+1&t=2026-01-02&fbclid=+491701234567", "https://example.com/?order=1234567890&q=+1&t=2026-01-02&fbclid=+491701234567", nil},
		{"", "", nil},
		{"not a url", "not a url", nil},
	} {
		cleaned, removed := capi.CleanURL(c.raw)
		require.Equal(t, c.want, cleaned)
		require.Equal(t, c.removed, removed, c.raw)
		again, more := capi.CleanURL(cleaned)
		require.Equal(t, cleaned, again)
		require.Empty(t, more)
	}
	e := capi.Event{EventName: "Lead", EventSourceURL: "https://example.com/?email=a", ReferrerURL: "https://example.com/?tel=1&x=1"}
	require.Equal(t, []string{capi.ProblemURLCleaned, capi.ProblemURLCleaned}, codesOf(e.Normalise(capi.Locale{})))
	require.Equal(t, "https://example.com/?x=1", e.ReferrerURL)
}
