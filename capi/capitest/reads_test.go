package capitest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi/capitest"
)

func get(tb testing.TB, g http.Handler, target string, into any) answer {
	tb.Helper()
	a := call(tb, g, "GET", target, "")
	if into != nil {
		require.Equal(tb, 200, a.Status, a.Body)
		require.NoError(tb, json.Unmarshal([]byte(a.Body), into))
	}
	return a
}

func TestDebugToken(t *testing.T) {
	t.Parallel()
	g, _ := newGraph(func(o *capitest.Options) {
		o.Tokens = map[string]capitest.Token{
			"token": {AppID: "77"}, "soon": {Expires: time.Unix(now+60, 0), DataAccessExpires: time.Unix(now+30, 0), Scopes: []string{"ads_read"}},
			"old": {Expires: time.Unix(now-60, 0)},
		}
	})
	type info struct {
		Data struct {
			AppID  string   `json:"app_id"`
			Valid  bool     `json:"is_valid"`
			Ends   int64    `json:"expires_at"`
			Access int64    `json:"data_access_expires_at"`
			Scopes []string `json:"scopes"`
			Error  struct{ Code, Subcode int }
		}
	}
	read := func(token string) (i info) {
		get(t, g, "/v26.0/debug_token?input_token="+token, &i)
		return i
	}
	require.Equal(t, "77", read("token").Data.AppID)
	require.True(t, read("token").Data.Valid)
	require.Contains(t, read("token").Data.Scopes, "leads_retrieval")
	require.EqualValues(t, now+60, read("soon").Data.Ends)
	require.EqualValues(t, now+30, read("soon").Data.Access)
	require.Equal(t, []string{"ads_read"}, read("soon").Data.Scopes)
	require.False(t, read("old").Data.Valid)
	require.Equal(t, 463, read("old").Data.Error.Subcode)
	require.Equal(t, 190, read("unknown").Data.Error.Code)
}

func TestDatasetReads(t *testing.T) {
	t.Parallel()
	g, _ := newGraph(func(o *capitest.Options) {
		o.Datasets = map[string]capitest.Dataset{
			dataset: {Name: "Shop", AccessExpires: time.Unix(now+3600, 0)},
			"2":     {NotConsolidated: true, IsCRM: true, Quality: []capitest.Quality{{EventName: "Lead", Score: 7.2, Keys: map[string]float64{"email": 100}}}},
		}
	})
	fields := "id,name,is_unavailable,is_crm,is_consolidated_container,last_fired_time,creation_time,owner_business,data_use_setting," +
		"first_party_cookie_status,enable_automatic_matching,match_rate_approx,user_access_expire_time,server_last_fired_time,collection_rate," +
		"permissions,is_restricted_use,is_eligible_for_sharing_to_business,is_eligible_for_sharing_to_ad_account"
	var d map[string]any
	get(t, g, "/v26.0/"+dataset+"?fields="+fields, &d)
	require.Equal(t, "Shop", d["name"])
	require.Equal(t, true, d["is_consolidated_container"])
	require.Equal(t, time.Unix(now+3600, 0).UTC().Format("2006-01-02T15:04:05-0700"), d["user_access_expire_time"])
	require.NotContains(t, d, "last_fired_time")
	require.Equal(t, 200, post(t, g, website("Lead", "1")).Status)
	get(t, g, "/v26.0/"+dataset+"?fields=last_fired_time,server_last_fired_time", &d)
	require.NotEmpty(t, d["server_last_fired_time"])

	get(t, g, "/2?fields=is_crm,is_consolidated_container", &d)
	require.Equal(t, false, d["is_consolidated_container"])
	require.Contains(t, get(t, g, "/2?fields=nonsense", nil).Error.Message, "nonexisting field")
	require.Equal(t, "100/33", get(t, g, "/3", nil).code())
	require.Contains(t, get(t, g, "/3", nil).Error.Message, "Unsupported get request. Object with ID '3'")

	var q struct {
		Web []struct {
			Name    string `json:"event_name"`
			Quality struct {
				Score float64 `json:"composite_score"`
				Keys  []struct {
					Identifier string
					Coverage   struct{ Percentage float64 }
				} `json:"match_key_feedback"`
			} `json:"event_match_quality"`
		}
	}
	const web = "&fields=" + "web%7Bevent_name,event_match_quality%7Bcomposite_score%7D%7D"
	get(t, g, "/v26.0/dataset_quality?dataset_id=2"+web, &q)
	require.InDelta(t, 7.2, q.Web[0].Quality.Score, 0)
	get(t, g, "/v26.0/dataset_quality?dataset_id="+dataset+web, &q)
	require.Equal(t, "Lead", q.Web[0].Name)
	require.Equal(t, "email", q.Web[0].Quality.Keys[0].Identifier)
	require.Equal(t, "100/0", get(t, g, "/v26.0/dataset_quality?dataset_id=2", nil).code())
}

func TestUnknownNodes(t *testing.T) {
	t.Parallel()
	g, _ := newGraph()
	require.Equal(t, 200, get(t, g, "/v26.0/sandbox?fields=id,name", nil).Status, "the gateway's built-in dataset")
	require.Equal(t, 200, get(t, g, "/v26.0/"+dataset+"?fields=id,name", nil).Status)
	require.Equal(t, "100/33", get(t, g, "/v26.0/nobody", nil).code())
	require.Equal(t, "100/33", get(t, g, "/v26.0/1234567890123456?fields=field_data", nil).code(), "a lead that is gone")
}

type leadList struct {
	Data []struct {
		ID      string
		Created string `json:"created_time"`
		Fields  []capitest.Field
	}
	Paging struct {
		Cursors        struct{ Before, After string }
		Next, Previous string
	}
}

func TestLeadReads(t *testing.T) {
	t.Parallel()
	g, _ := newGraph(func(o *capitest.Options) {
		o.Pages = map[string]capitest.Page{"10": {}, "11": {AppLacksAccess: true}, "12": {}}
	})
	g.AddForm(capitest.Form{ID: "500", PageID: "10", Name: "Trial lesson", Questions: []string{"email"}})
	g.AddForm(capitest.Form{ID: "501", PageID: "11"})
	var ids []string
	for i := range 60 {
		ids = append(ids, g.AddLead(capitest.Lead{FormID: "500", AdID: "9", Created: time.Unix(now-int64(i/2), 0), Fields: []capitest.Field{{Name: "email", Values: []string{"a@example.com"}}}}))
	}
	var lead map[string]any
	get(t, g, "/v26.0/"+ids[0]+"?fields=id,created_time,ad_id,form_id,field_data,is_organic,platform,partner_name", &lead)
	require.Equal(t, time.Unix(now, 0).UTC().Format("2006-01-02T15:04:05+0000"), lead["created_time"])
	require.Equal(t, "9", lead["ad_id"])
	require.Equal(t, false, lead["is_organic"])
	require.NotContains(t, lead, "partner_name")

	// Every lead once, newest first, over all pages, although one more comes in between.
	seen := map[string]bool{}
	var pages int
	for next := "/v26.0/500/leads?limit=25"; next != ""; pages++ {
		var l leadList
		get(t, g, next, &l)
		for _, d := range l.Data {
			require.False(t, seen[d.ID])
			seen[d.ID] = true
		}
		if next = l.Paging.Next; next != "" {
			u, err := url.Parse(next)
			require.NoError(t, err)
			next = u.RequestURI()
		}
		g.AddLead(capitest.Lead{FormID: "500", Created: time.Unix(now+10, 0)})
	}
	require.Equal(t, 3, pages)
	require.Len(t, seen, 60)

	filtered := func(op string, value int64) int {
		var l leadList
		get(t, g, "/500/leads?limit=500&filtering="+url.QueryEscape(fmt.Sprintf(`[{"field":"time_created","operator":"%s","value":%d}]`, op, value)), &l)
		return len(l.Data)
	}
	require.Equal(t, 3, filtered("GREATER_THAN", now))
	require.Equal(t, 5, filtered("GREATER_THAN_OR_EQUAL", now))
	require.Equal(t, 58, filtered("LESS_THAN", now))
	require.Equal(t, "100/0", get(t, g, "/500/leads?filtering=x", nil).code())
	require.Equal(t, "100/0", get(t, g, "/500/leads?after=x", nil).code())

	var byAd leadList
	get(t, g, "/9/leads", &byAd)
	require.Len(t, byAd.Data, 25)
	var before leadList
	get(t, g, "/9/leads?limit=5&before="+byAd.Paging.Cursors.After, &before)
	require.Len(t, before.Data, 5)
	require.Equal(t, byAd.Data[19].ID, before.Data[0].ID)

	require.Equal(t, "200/0", get(t, g, "/501/leads", nil).code(), "Leads Access Manager")
	require.Equal(t, "100/33", get(t, g, "/777/leads", nil).code())

	require.Equal(t, 200, call(t, g, "DELETE", "/"+ids[0], "").Status)
	require.Equal(t, "100/33", get(t, g, "/"+ids[0]+"?fields=field_data", nil).code())
	require.Equal(t, "100/33", call(t, g, "DELETE", "/"+ids[0], "").code())

	var forms struct {
		Data []struct {
			ID, Name, Status string
			Leads            int `json:"leads_count"`
		}
	}
	get(t, g, "/10/leadgen_forms?fields=id,name,status,leads_count,questions", &forms)
	require.Len(t, forms.Data, 1)
	require.Equal(t, "Trial lesson", forms.Data[0].Name)
	require.Equal(t, 62, forms.Data[0].Leads)
}

func TestTestLeads(t *testing.T) {
	t.Parallel()
	g, _ := newGraph()
	g.AddForm(capitest.Form{ID: "500", PageID: "10", Questions: []string{"email"}})
	made := call(t, g, "POST", "/500/test_leads", ``)
	require.Equal(t, 200, made.Status, made.Body)
	require.Equal(t, "100/0", call(t, g, "POST", "/500/test_leads", ``).code(), "one at a time")
	var l leadList
	get(t, g, "/500/test_leads", &l)
	require.Len(t, l.Data, 1)
	require.Equal(t, 200, call(t, g, "DELETE", "/"+l.Data[0].ID, "").Status)
	require.Equal(t, 200, call(t, g, "POST", "/500/test_leads", `{"field_data":[{"name":"email","values":["x@example.com"]}]}`).Status)
	require.Equal(t, "100/33", call(t, g, "POST", "/501/test_leads", ``).code())
}

func TestPageReads(t *testing.T) {
	t.Parallel()
	g, _ := newGraph(func(o *capitest.Options) {
		o.Pages = map[string]capitest.Page{"10": {Name: "School"}, "11": {AppLacksAccess: true}}
	})
	var subs struct{ Data []any }
	get(t, g, "/v26.0/10/subscribed_apps", &subs)
	require.Empty(t, subs.Data)
	require.Equal(t, "100/0", call(t, g, "POST", "/v26.0/10/subscribed_apps", "").code())
	require.JSONEq(t, `{"success":true}`, call(t, g, "POST", "/v26.0/10/subscribed_apps?subscribed_fields=leadgen", "").Body)
	get(t, g, "/v26.0/10/subscribed_apps", &subs)
	require.Len(t, subs.Data, 1)

	var p struct {
		Access struct {
			Can    bool   `json:"can_access_lead"`
			Reason string `json:"failure_reason"`
		} `json:"has_lead_access"`
	}
	get(t, g, "/v26.0/10?fields=has_lead_access.user_id(1).app_id(2)", &p)
	require.True(t, p.Access.Can)
	get(t, g, "/v26.0/11?fields=has_lead_access", &p)
	require.False(t, p.Access.Can)
	require.NotEmpty(t, p.Access.Reason)
	require.Equal(t, "100/33", get(t, g, "/v26.0/12/subscribed_apps", nil).code())

	var accounts struct {
		Data []struct {
			ID    string
			Token string `json:"access_token"`
		}
	}
	get(t, g, "/v26.0/me/accounts?fields=id,access_token", &accounts)
	require.Len(t, accounts.Data, 2)
	require.Equal(t, 404, get(t, g, "/v26.0/a/b/c", nil).Status)
	require.Equal(t, 404, call(t, g, "POST", "/v26.0/1000/instruments", "").Status, "crash reports of Meta's SDKs")
}

func TestLeadWebhook(t *testing.T) {
	t.Parallel()
	g, _ := newGraph()
	got := make(chan [2]string, 1)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var b strings.Builder
		_ = r.Write(&b)
		_, body, _ := strings.Cut(b.String(), "\r\n\r\n")
		got <- [2]string{r.Header.Get("X-Hub-Signature-256"), body}
	}))
	defer hook.Close()
	a := call(t, g, "POST", "/_sandbox/lead", `{"form_id":"500","page_id":"10","ad_id":"9","created_time":1795999000,"webhook":"`+hook.URL+`","app_secret":"s"}`)
	require.Equal(t, 201, a.Status, a.Body)
	var made struct {
		ID        string
		Delivered bool
	}
	require.NoError(t, json.Unmarshal([]byte(a.Body), &made))
	require.True(t, made.Delivered)
	sent := <-got
	require.Equal(t, capitest.Sign("s", []byte(sent[1])), sent[0])
	require.Contains(t, sent[1], `"leadgen_id":"`+made.ID+`"`)
	require.Contains(t, sent[1], `"created_time":1795999000`)
	require.Contains(t, sent[1], `"field":"leadgen"`)
	require.Equal(t, 200, get(t, g, "/"+made.ID+"?fields=field_data,form_id", nil).Status)

	require.Equal(t, 400, call(t, g, "POST", "/_sandbox/lead", `{"id":"5"}`).Status)
	a = call(t, g, "POST", "/_sandbox/lead", `{"webhook":"http://127.0.0.1:1/"}`)
	require.Contains(t, a.Body, `"delivered":false`)
}
