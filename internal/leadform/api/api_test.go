package api_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/leadform/api"
	"github.com/capiloop/capiloop/internal/ledger"
)

var now = time.Unix(1795000000, 0).UTC()

// good reads a lead that has nothing wrong.
func good(t *testing.T, raw string) ledger.Lead {
	t.Helper()
	l, problems := api.Decode([]byte(raw), now)
	require.Empty(t, problems)
	require.Equal(t, "api", l.Kind)
	return l
}

func TestAWholeLead(t *testing.T) {
	t.Parallel()
	l := good(t, `{"lead_id":987650000012345,"platform":"meta","form_id":"200000000000002","form_name":"Form A","ad_id":300000000000003,"adset_id":"1","campaign_id":"2","campaign_name":"C",
		"channel":"ig","organic":false,"created_at":"2026-11-18T14:06:37+03:00","email":" Ana.Lead@Example.com ","phone":"+1 202 555 0143","full_name":"Ana Example",
		"city":"Austin","state":"TX","postcode":"02050","country":"US","birthday":"1990-01-02","gender":"f","company":"Example Ltd","job_title":"Buyer","street":"1 Example Street",
		"answers":{"budget":5000,"services":["roof","gutter"],"owner":true,"nothing":null},"fbc":"fb.1.1.AbC","fbp":"fb.1.1.2","fbclid":"AbC","gclid":"G","gbraid":"B","wbraid":"W","ttclid":"T",
		"li_fat_id":"L","ctwa_clid":"C","msclkid":"M","external_id":"customer-7","consent":true,"history":true,"event_id":"tag-77","test":true,
		"page_url":"https://shop.example.com/quote","client_ip":"203.0.113.7","client_user_agent":"Mozilla/5.0"}`)
	require.Equal(t, "987650000012345", l.LeadID)
	require.Equal(t, "meta", l.Platform)
	require.Equal(t, ledger.Origin{FormID: "200000000000002", FormName: "Form A", AdID: "300000000000003", AdSetID: "1", CampaignID: "2", CampaignName: "C", Channel: "ig"}, l.Origin)
	require.Equal(t, time.Date(2026, 11, 18, 11, 6, 37, 0, time.UTC), l.CreatedAt)
	require.Equal(t, ledger.Contact{
		FullName: "Ana Example", FirstName: "Ana", LastName: "Example", Email: "Ana.Lead@Example.com", Phone: "+1 202 555 0143",
		Street: "1 Example Street", City: "Austin", State: "TX", Postcode: "02050", Country: "US", Birthday: "1990-01-02", Gender: "f", Company: "Example Ltd", JobTitle: "Buyer",
	}, l.Contact)
	require.Equal(t, ledger.Clicks{FBC: "fb.1.1.AbC", FBP: "fb.1.1.2", FBClid: "AbC", GClid: "G", GBraid: "B", WBraid: "W", TTClid: "T", LiFatID: "L", CTWAClid: "C", MSClkid: "M"}, l.Clicks)
	require.Equal(t, ledger.ConsentGranted, l.Consent)
	require.True(t, l.History)
	require.True(t, l.Test)
	require.Equal(t, "tag-77", l.EventID)
	require.Equal(t, "203.0.113.7", l.IP)
	require.Equal(t, "Mozilla/5.0", l.UserAgent)
	require.Equal(t, "https://shop.example.com/quote", l.PageURL)
	require.Empty(t, l.DedupeKey, "the lead id is its key")
	n := len(l.Answers)
	require.Equal(t, []ledger.FormAnswer{
		{Question: "budget", Values: []string{"5000"}},
		{Question: "services", Values: []string{"roof", "gutter"}},
		{Question: "owner", Values: []string{"true"}},
		{Question: "external_id", Values: []string{"customer-7"}},
	}, l.Answers[n-4:])
}

func TestLittleIsEnough(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{`{"lead_id":"x-1"}`, `{"email":"a@example.com"}`, `{"phone":79991234567}`, `{"external_id":7}`} {
		require.Equal(t, now, good(t, raw).CreatedAt)
	}
	require.Equal(t, "79991234567", good(t, `{"phone":79991234567}`).Contact.Phone)
	l := good(t, `{"first_name":"Jane","last_name":"Doe","work_email":"jane@example.com"}`)
	require.Equal(t, "Jane Doe", l.Contact.FullName)
	require.Equal(t, "jane@example.com", l.Contact.Email)
}

func TestTheSameTwiceIsOnce(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a@example.com", good(t, `{"email":"a@example.com","emailAddress":"a@example.com"}`).Contact.Email)
	require.Empty(t, good(t, `{"lead_id":"x","ad_id":0}`).Origin.AdID) // C158
}

func TestOtherSpellings(t *testing.T) { // C079, C080
	t.Parallel()
	l := good(t, `{"leadId":"x-1","firstName":"Jane","Last-Name":"Doe","emailAddress":"jane@example.com","postalCode":"10001","_fbc":"fb.1.1.x","isTest":"yes","adgroup_id":5,"phoneNumber":null}`)
	require.Equal(t, "x-1", l.LeadID)
	require.Equal(t, "Jane Doe", l.Contact.FullName)
	require.Equal(t, "jane@example.com", l.Contact.Email)
	require.Equal(t, "10001", l.Contact.Postcode)
	require.Equal(t, "fb.1.1.x", l.Clicks.FBC)
	require.Equal(t, "5", l.Origin.AdSetID)
	require.True(t, l.Test)
}

func TestLeadIDs(t *testing.T) { // C082, C083, C084, C087, C166
	t.Parallel()
	for raw, want := range map[string]string{
		`12345678901234567`: "12345678901234567", `"12345678901234567"`: "12345678901234567", `1234567890123456`: "1234567890123456",
		`"l:1234567890123456"`: "1234567890123456", `" 1234567890123456 "`: "1234567890123456", `"1234567890123456.0"`: "1234567890123456",
	} {
		require.Equal(t, want, good(t, `{"platform":"meta","lead_id":`+raw+`}`).LeadID, raw)
	}
	require.Equal(t, "meta", good(t, `{"lead_id":"l:1234567890123456"}`).Platform)
	require.Equal(t, "meta", good(t, `{"lead_id":"1234567890123456","platform":"Facebook"}`).Platform)
	for _, raw := range []string{`1.2345678901234568e+16`, `"9.8765E+14"`, `"9,8765E14"`, `"{leadgen_id}"`, `"<id>"`, `"null"`, `0`, `"abc"`, `"12"`} {
		l, problems := api.Decode([]byte(`{"platform":"meta","email":"a@example.com","lead_id":`+raw+`}`), now)
		require.Len(t, problems, 1, raw)
		require.Equal(t, "lead_id", problems[0].Field)
		require.Equal(t, capi.ProblemInvalidLeadID, problems[0].Code)
		require.Error(t, problems.Err())
		require.Empty(t, l.LeadID)
	}
	require.Equal(t, "Other-1e", good(t, `{"platform":"google","lead_id":"Other-1e"}`).LeadID)
	require.Equal(t, "100000000000001", good(t, `{"email":"a@example.com","form_id":"100000000000001"}`).Origin.FormID)
}

func TestEachBadFieldIsTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		raw, field, code string
		severity         capi.Severity
	}{
		"no JSON":            {`{"email":`, "", api.ProblemNotALead, capi.SeverityError},
		"a list":             {`[]`, "", api.ProblemNotALead, capi.SeverityError},
		"null":               {`null`, "", api.ProblemNotALead, capi.SeverityError},
		"nobody":             {`{"full_name":"Jane"}`, "", api.ProblemNoIdentity, capi.SeverityError},
		"platform":           {`{"email":"a@example.com","platform":"myspace"}`, "platform", api.ProblemUnknownPlatform, capi.SeverityError},
		"created_at":         {`{"email":"a@example.com","created_at":"yesterday"}`, "created_at", capi.ProblemInvalidTime, capi.SeverityError},
		"created_at ahead":   {`{"email":"a@example.com","created_at":1795000061}`, "created_at", capi.ProblemInFuture, capi.SeverityError},
		"consent":            {`{"email":"a@example.com","consent":"perhaps"}`, "consent", api.ProblemInvalidFlag, capi.SeverityError},
		"consent list":       {`{"email":"a@example.com","consent":[true,false]}`, "consent", api.ProblemInvalidFlag, capi.SeverityError},
		"history":            {`{"email":"a@example.com","history":"x"}`, "history", api.ProblemInvalidFlag, capi.SeverityError},
		"test":               {`{"email":"a@example.com","test":{}}`, "test", api.ProblemInvalidFlag, capi.SeverityError},
		"answers":            {`{"email":"a@example.com","answers":["a"]}`, "answers", capi.ProblemWrongType, capi.SeverityError},
		"an answer":          {`{"email":"a@example.com","answers":{"a":{"b":1}}}`, "answers", capi.ProblemWrongType, capi.SeverityWarning},
		"two e-mails":        {`{"lead_id":"x","email":["a@example.com","b@example.com"]}`, "email", capi.ProblemWrongType, capi.SeverityError},
		"object":             {`{"lead_id":"x","city":{"name":"y"}}`, "city", capi.ProblemWrongType, capi.SeverityError},
		"twice":              {`{"lead_id":"x","email":"a@example.com","Email":"b@example.com"}`, "email", capi.ProblemDuplicateField, capi.SeverityError},
		"no address":         {`{"lead_id":"x","email":"jane"}`, "email", capi.ProblemInvalidEmail, capi.SeverityWarning},
		"page_url":           {`{"lead_id":"x","page_url":"https://shop.example.com/?email=a@example.com"}`, "page_url", capi.ProblemURLCleaned, capi.SeverityWarning},
		"no page":            {`{"lead_id":"x","page_url":"a@example.com"}`, "page_url", capi.ProblemBadSourceURL, capi.SeverityWarning},
		"unknown":            {`{"lead_id":"x","emial":"a@example.com"}`, "emial", capi.ProblemUnknownField, capi.SeverityWarning},
		"unknown and nested": {`{"lead_id":"x","more":{"a":1}}`, "more", capi.ProblemUnknownField, capi.SeverityWarning},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, problems := api.Decode([]byte(c.raw), now)
			require.Len(t, problems, 1)
			p := problems[0]
			require.Equal(t, c.field, p.Field)
			require.Equal(t, c.code, p.Code)
			require.Equal(t, c.severity, p.Severity)
			require.NotEmpty(t, p.Reason)
			require.NotEmpty(t, p.Fix)
			require.NotContains(t, p.Reason+p.Fix, "a@example.com")
		})
	}
}

func TestWhatIsNotKnownIsKept(t *testing.T) {
	t.Parallel()
	l, problems := api.Decode([]byte(`{"lead_id":"x","budget":"5000"}`), now)
	require.Len(t, problems, 1)
	require.Equal(t, []ledger.FormAnswer{{Question: "budget", Values: []string{"5000"}}}, l.Answers)
	l, _ = api.Decode([]byte(`{"lead_id":"x","email":"jane"}`), now)
	require.Equal(t, "jane", l.Contact.Email)
}

func TestTimes(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]time.Time{
		`1794999997`: time.Unix(1794999997, 0), `"1794999997000"`: time.Unix(1794999997, 0), `"2026-11-18T11:06:37Z"`: time.Unix(1794999997, 0),
		`1795000030`: now, `""`: now, `0`: now,
	} {
		require.Equal(t, want.UTC(), good(t, `{"lead_id":"x","created_at":`+raw+`}`).CreatedAt, raw)
	}
}

func TestConsent(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]ledger.Consent{
		"true": ledger.ConsentGranted, "false": ledger.ConsentDenied, `"granted"`: ledger.ConsentGranted, `"denied"`: ledger.ConsentDenied, "null": ledger.ConsentAbsent, `""`: ledger.ConsentAbsent,
	} {
		require.Equal(t, want, good(t, `{"lead_id":"x","consent":`+raw+`}`).Consent, raw)
	}
}

func TestRepeatsAreKnown(t *testing.T) {
	t.Parallel()
	key := func(rest string) string { return good(t, fmt.Sprintf(`{"email":"a@example.com"%s}`, rest)).DedupeKey }
	require.Empty(t, key(""))
	require.Equal(t, key(`,"event_id":"e1"`), key(`,"event_id":"e1","city":"x"`))
	require.NotEqual(t, key(`,"event_id":"e1"`), key(`,"event_id":"e2"`))
	require.Equal(t, key(`,"event_id":"e1","submission_id":"s"`), key(`,"submission_id":"s"`))
	require.NotEqual(t, key(`,"event_id":"s"`), key(`,"submission_id":"s"`))
}

func FuzzDecode(f *testing.F) {
	for _, raw := range []string{
		`{"lead_id":"l:1234567890123456","email":"a@example.com","answers":{"a":[1,true,null]},"created_at":1.5e9}`,
		`{"phone":1e400,"consent":[],"x":{"y":[]}}`, `{"":""}`, "null",
	} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		l, problems := api.Decode(raw, now)
		for _, p := range problems {
			require.NotEmpty(t, p.Reason)
			require.NotEmpty(t, p.Fix)
			require.NotEmpty(t, p.Code)
		}
		require.False(t, l.CreatedAt.IsZero())
		require.False(t, l.CreatedAt.After(now))
	})
}
