package capi

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func readerFor(t *testing.T, s *httptest.Server) *Reader {
	t.Helper()
	r, err := NewReader(Config{BaseURL: s.URL, Token: testToken, AppSecret: testSecret, Version: "v25.0", HTTPClient: s.Client()})
	require.NoError(t, err)
	return r
}

// answers gives each answer in turn and checks nothing.
func answers(t *testing.T, texts ...string) *httptest.Server {
	t.Helper()
	var n atomic.Int32
	return graphServer(t, func(w http.ResponseWriter, _ *http.Request) {
		text := texts[min(int(n.Add(1))-1, len(texts)-1)]
		if strings.HasPrefix(text, `{"error"`) {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = io.WriteString(w, text)
	})
}

func TestReaderRequest(t *testing.T) {
	t.Parallel()
	var got *http.Request
	s := graphServer(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		_, _ = io.WriteString(w, `{"id":"123"}`)
	})
	_, err := readerFor(t, s).Dataset(t.Context(), "123")
	require.NoError(t, err)
	require.Equal(t, "/v25.0/123", got.URL.Path)
	require.Equal(t, "Bearer "+testToken, got.Header.Get("Authorization"))
	require.Equal(t, newKeys(testToken, testSecret).proof, got.URL.Query().Get("appsecret_proof"))
	require.Contains(t, got.URL.Query().Get("fields"), "user_access_expire_time")
	require.NotContains(t, got.URL.String(), "SYNTHETICTOKEN")
}

func TestDebugToken(t *testing.T) {
	t.Parallel()
	s := answers(t, `{"data":{"app_id":"9","application":"App","type":"system_user","is_valid":true,"expires_at":0,
		"data_access_expires_at":1790000000,"issued_at":1750000000,"scopes":["ads_read","leads_retrieval"],"user_id":"77",
		"granular_scopes":[{"scope":"leads_retrieval","target_ids":["555"]},{"scope":"ads_read"}]}}`,
		`{"data":{"is_valid":false,"expires_at":1700000000,"data_access_expires_at":1790000000,
		"error":{"code":190,"subcode":463,"message":"expired `+testToken+`"}}}`)
	r := readerFor(t, s)
	info, err := r.DebugToken(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, TokenInfo{
		AppID: "9", Application: "App", Type: "SYSTEM_USER", Valid: true, UserID: "77",
		IssuedAt: time.Unix(1750000000, 0).UTC(), ExpiresAt: time.Unix(1790000000, 0).UTC(),
		Scopes: []string{"ads_read", "leads_retrieval"}, TargetIDs: map[string][]string{"leads_retrieval": {"555"}},
	}, info)
	info, err = r.DebugToken(t.Context(), "another")
	require.NoError(t, err)
	require.False(t, info.Valid)
	require.Equal(t, time.Unix(1700000000, 0).UTC(), info.ExpiresAt)
	require.Equal(t, []int{190, 463}, []int{info.ErrorCode, info.ErrorSubcode})
	requireNoSecret(t, shown(t, info))
}

func TestDebugTokenHidesTheTokenAskedAbout(t *testing.T) {
	t.Parallel()
	s := answers(t, `{"error":{"code":190,"message":"bad OTHERPERSONSTOKEN"}}`)
	_, err := readerFor(t, s).DebugToken(t.Context(), "OTHERPERSONSTOKEN")
	require.Error(t, err)
	require.NotContains(t, shown(t, err), "OTHERPERSONSTOKEN")
	s.Close()
	_, err = readerFor(t, s).DebugToken(t.Context(), "OTHERPERSONSTOKEN")
	require.Error(t, err)
	require.NotContains(t, shown(t, err), "OTHERPERSONSTOKEN")
}

func TestDatasetFallsBackToFewerFields(t *testing.T) {
	t.Parallel()
	refusal := `{"error":{"code":100,"message":"(#100) Tried accessing nonexisting field (collection_rate)"}}`
	s := answers(t, refusal, refusal, `{"id":123,"name":"D","is_unavailable":"false","last_fired_time":"2026-11-30T20:00:00+0000"}`)
	d, err := readerFor(t, s).Dataset(t.Context(), "123")
	require.NoError(t, err)
	require.Equal(t, Dataset{
		ID: "123", Name: "D", LastFired: time.Date(2026, 11, 30, 20, 0, 0, 0, time.UTC), MatchRate: -1, CollectionRate: -1,
	}, d)
}

func TestDatasetFields(t *testing.T) {
	t.Parallel()
	s := answers(t, `{"id":"123","is_crm":"1","is_consolidated_container":true,"owner_business":{"id":"8","name":"B"},
		"match_rate_approx":62,"collection_rate":"0.5","user_access_expire_time":"2027-01-01T00:00:00+0000",
		"permissions":["UPLOAD"],"enable_automatic_matching":true,"creation_time":"rubbish","server_last_fired_time":1790000000}`)
	d, err := readerFor(t, s).Dataset(t.Context(), "123")
	require.NoError(t, err)
	require.True(t, d.CRM)
	require.True(t, d.Consolidated)
	require.Equal(t, "8", d.OwnerBusiness)
	require.InDelta(t, 62, d.MatchRate, 0)
	require.InDelta(t, 0.5, d.CollectionRate, 0)
	require.Equal(t, time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), d.AccessEnds)
	require.Equal(t, []string{"UPLOAD"}, d.Permissions)
	require.True(t, d.Created.IsZero())
	require.Equal(t, int64(1790000000), d.ServerLastFired.Unix())
}

func TestReaderErrorsAreClassified(t *testing.T) {
	t.Parallel()
	s := answers(t, `{"error":{"code":100,"error_subcode":33,"type":"GraphMethodException"}}`)
	_, err := readerFor(t, s).Dataset(t.Context(), "123")
	var e *APIError
	require.ErrorAs(t, err, &e)
	require.Equal(t, ClassAccess, e.Class)
	_, err = readerFor(t, s).Dataset(t.Context(), "../me")
	require.ErrorAs(t, err, &e)
	require.Equal(t, ClassAccess, e.Class)
}

func TestPage(t *testing.T) {
	t.Parallel()
	s := answers(t, `{"data":[{"id":9,"name":"App","subscribed_fields":["leadgen"]}]}`,
		`{"has_lead_access":{"app_has_leads_permission":true,"user_has_leads_permission":"true","can_access_lead":"false",
		"enabled_lead_access_manager":1,"is_page_admin":false,"failure_reason":"why","failure_resolution":"how"},"id":"555"}`,
		`{"data":[]}`)
	r := readerFor(t, s)
	p, err := r.Page(t.Context(), "555", "7", "9")
	require.NoError(t, err)
	require.Equal(t, Page{
		ID: "555", Apps: []SubscribedApp{{"9", "App", []string{"leadgen"}}},
		Access: &LeadAccess{AppPermission: true, UserPermission: true, AccessManager: true, FailureReason: "why", FailureResolution: "how"},
	}, p)
	p, err = r.Page(t.Context(), "555", "", "")
	require.NoError(t, err)
	require.Equal(t, Page{ID: "555"}, p)
	_, err = r.Page(t.Context(), "555", "7)", "")
	require.Error(t, err)
}

const leadJSON = `{"created_time":"2026-11-28T08:49:14+0000","id":12345678901234567,"ad_id":"1","campaign_name":"C",
	"form_id":"42","is_organic":"false","platform":"fb","post":{"id":"p1"},"vehicle":{"make":"x"},
	"field_data":[{"name":"email","values":["jane@example.com"]},{"name":"options","values":["a",2]},{"name":"none"}],
	"custom_disclaimer_responses":[{"checkbox_key":"news","is_checked":"1"},{"checkbox_key":"sms","is_checked":""}]}`

func TestLead(t *testing.T) {
	t.Parallel()
	l, err := readerFor(t, answers(t, `{"error":{"code":200,"message":"ad_name needs ads_management"}}`, leadJSON)).Lead(t.Context(), "12345678901234567")
	require.NoError(t, err)
	require.Equal(t, Lead{
		ID: "12345678901234567", Created: time.Date(2026, 11, 28, 8, 49, 14, 0, time.UTC), FormID: "42", AdID: "1",
		CampaignName: "C", Platform: "fb", Post: "p1", Vehicle: `{"make":"x"}`,
		Fields:      []LeadField{{"email", []string{"jane@example.com"}}, {"options", []string{"a", "2"}}, {"none", nil}},
		Disclaimers: []Disclaimer{{"news", true}, {"sms", false}},
	}, l)
	require.Equal(t, "jane@example.com", l.Field("email"))
	require.Empty(t, l.Field("none"))
	require.Equal(t, "lead 12345678901234567 of form 42, 3 fields", l.String())
	require.NotContains(t, fmt.Sprintf("%v %+v %#v %s", l, l, &l, l.LogValue()), "jane")
}

func TestFormLeadsWalksAllPages(t *testing.T) {
	t.Parallel()
	var asked []string
	s := graphServer(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		asked = append(asked, q.Get("after"))
		if r.URL.Path != "/v25.0/42/leads" || q.Get("limit") != "100" ||
			q.Get("filtering") != `[{"field":"time_created","operator":"GREATER_THAN_OR_EQUAL","value":1790000000}]` {
			t.Errorf("asked for %s", r.URL)
		}
		page := map[string]string{
			"":  `{"data":[{"id":"1"},{"id":"2"}],"paging":{"cursors":{"before":"a","after":"b"},"next":"https://elsewhere.example/?access_token=x"}}`,
			"b": `{"data":[{"id":"3"}],"paging":{"cursors":{"before":"b","after":"c"},"next":"n"}}`,
			"c": `{"data":[],"paging":{"cursors":{"after":"d"}}}`,
		}[q.Get("after")]
		_, _ = io.WriteString(w, page)
	})
	leads := readerFor(t, s).FormLeads(t.Context(), "42", time.Unix(1790000000, 0))
	for range 2 { // a sequence can be walked again
		asked = nil
		var ids []string
		for l, err := range leads {
			require.NoError(t, err)
			ids = append(ids, l.ID)
		}
		require.Equal(t, []string{"1", "2", "3"}, ids)
		require.Equal(t, []string{"", "b", "c"}, asked)
	}
	asked = nil
	for _, err := range leads {
		require.NoError(t, err)
		break
	}
	require.Len(t, asked, 1)
}

func TestPagingEndsAtAnErrorAndAtACircle(t *testing.T) {
	t.Parallel()
	circle := `{"data":[{"id":"1"}],"paging":{"cursors":{"after":"same"},"next":"n"}}`
	n := 0
	for _, err := range readerFor(t, answers(t, circle)).FormLeads(t.Context(), "42", time.Time{}) {
		require.NoError(t, err)
		n++
	}
	require.Equal(t, 2, n)
	var last error
	for _, err := range readerFor(t, answers(t, circle, `{"error":{"code":190}}`)).FormLeads(t.Context(), "42", time.Time{}) {
		last = err
	}
	require.Error(t, last)
	for _, err := range readerFor(t, answers(t, circle)).FormLeads(t.Context(), "x", time.Time{}) {
		require.Error(t, err)
	}
}

func TestForms(t *testing.T) {
	t.Parallel()
	s := answers(t, `{"data":[{"id":"42","name":"F","status":"ACTIVE","locale":"ru_RU","leads_count":"7","organic_leads_count":1,
		"expired_leads_count":2.0,"questions":[{"key":"email","label":"Mail","type":"EMAIL"}],"created_time":"2026-01-02T00:00:00+0100"}]}`)
	for f, err := range readerFor(t, s).Forms(t.Context(), "555") {
		require.NoError(t, err)
		require.Equal(t, Form{
			ID: "42", Name: "F", Status: "ACTIVE", Locale: "ru_RU", Leads: 7, OrganicLeads: 1, ExpiredLeads: 2,
			Questions: []FormQuestion{{"email", "Mail", "EMAIL"}}, Created: time.Date(2026, 1, 1, 23, 0, 0, 0, time.UTC),
		}, f)
	}
}

func TestDatasetQuality(t *testing.T) {
	t.Parallel()
	s := answers(t, `{"web":[{"event_name":"Purchase","event_match_quality":{"composite_score":7.2,
		"match_key_feedback":[{"identifier":"email","coverage":{"percentage":100},"potential_aly_acr_increase":{"percentage":58.96}}],
		"diagnostics":[{"name":"n","solution":"s","percentage":"12","affected_event_count":3,"total_event_count":"25"}]},
		"event_coverage":{"percentage":34.1,"goal_percentage":75},"dedup_key_feedback":[{"dedupe_key":"event_id",
		"server_events_with_dedupe_key":{"percentage":99}}],"data_freshness":{"upload_frequency":"real_time"},"acr":{"percentage":3}},
		{"event_name":"Lead","event_match_quality":null}, "odd"]}`, `{"web":{"data":[{"event_name":"X"}]}}`, `{}`)
	r := readerFor(t, s)
	list, err := r.DatasetQuality(t.Context(), "123", "agent")
	require.NoError(t, err)
	require.Len(t, list, 2)
	q := list[0]
	require.InDelta(t, 7.2, *q.Score, 0)
	require.InDelta(t, 100, *q.MatchKeys[0].Coverage, 0)
	require.InDelta(t, 58.96, *q.MatchKeys[0].PotentialIncrease, 0)
	require.InDelta(t, 12, *q.Diagnostics[0].Percentage, 0)
	require.Equal(t, 25, q.Diagnostics[0].TotalEvents)
	require.InDelta(t, 75, *q.CoverageGoal, 0)
	require.Equal(t, "event_id", q.DedupeKeys[0].Key)
	require.InDelta(t, 99, *q.DedupeKeys[0].Server, 0)
	require.Nil(t, q.DedupeKeys[0].Browser)
	require.InDelta(t, 3, *q.AdditionalReported, 0)
	require.Nil(t, list[1].Score)
	list, err = r.DatasetQuality(t.Context(), "123", "")
	require.NoError(t, err)
	require.Equal(t, "X", list[0].EventName)
	list, err = r.DatasetQuality(t.Context(), "123", "")
	require.NoError(t, err)
	require.Empty(t, list)
}

func TestServerTime(t *testing.T) {
	t.Parallel()
	s := graphServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" || r.URL.RawQuery != "" {
			t.Error("the token went along")
		}
		w.Header().Set("Date", "Mon, 30 Nov 2026 20:00:00 GMT")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":{"code":2500}}`)
	})
	at, err := readerFor(t, s).ServerTime(t.Context())
	require.NoError(t, err)
	require.Equal(t, time.Date(2026, 11, 30, 20, 0, 0, 0, time.UTC), at)
	s.Close()
	_, err = readerFor(t, s).ServerTime(t.Context())
	require.Error(t, err)
	none := graphServer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Date"] = nil
		_, _ = io.WriteString(w, `{}`)
	})
	_, err = readerFor(t, none).ServerTime(t.Context())
	require.ErrorContains(t, err, "no Date")
}

func TestFieldsAreTolerant(t *testing.T) {
	t.Parallel()
	o, ok := parseFields([]byte(`{"t":true,"s":"true","one":"1","n":1,"no":"0","null":null,"list":["a",1,null],"single":"x",
		"big":12345678901234567890,"f":3.0,"o":{"x":1}}`))
	require.True(t, ok)
	for _, name := range []string{"t", "s", "one", "n"} {
		require.True(t, o.flag(name), name)
	}
	for _, name := range []string{"no", "null", "missing", "list", "o"} {
		require.False(t, o.flag(name), name)
	}
	require.Equal(t, []string{"a", "1", ""}, o.texts("list"))
	require.Equal(t, []string{"x"}, o.texts("single"))
	require.Nil(t, o.texts("null"))
	require.Equal(t, "12345678901234567890", o.text("big"))
	require.Zero(t, o.integer("big"))
	require.Equal(t, 3, o.integer("f"))
	require.Equal(t, `{"x":1}`, o.text("o"))
	require.True(t, fields{"x": json.RawMessage(`"2026-11-30"`)}.time("x").IsZero())
}
