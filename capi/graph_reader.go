package capi

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Reader reads objects of Graph: tokens, datasets, Pages, forms, leads, and the
// quality of datasets. Its errors are those of Client. It is safe for concurrent use.
type Reader struct{ g *graph }

// NewReader returns a reader. Config's Token may be that of a person, a system
// user, an app or a Page, as the call needs; with none only ServerTime works.
func NewReader(c Config) (*Reader, error) {
	g, err := newGraph(c)
	if err != nil {
		return nil, err
	}
	return &Reader{g}, nil
}

// get reads one object.
func (r *Reader) get(ctx context.Context, path string, query url.Values) (fields, error) {
	answer, err := r.g.do(ctx, call{method: http.MethodGet, path: path, query: query})
	if err != nil {
		return nil, err
	}
	o, _ := parseFields(answer.body)
	return o, nil
}

// getTiers asks for the richest list of fields first. Graph refuses the whole read
// for one field that this version, kind of object or permission does not have, and
// a lead must not be lost for the name of its ad.
func (r *Reader) getTiers(ctx context.Context, path string, query url.Values, tiers []string) (fields, error) {
	for i, names := range tiers {
		query.Set("fields", names)
		o, err := r.get(ctx, path, query)
		if err == nil || i == len(tiers)-1 || !isFieldRefusal(err) {
			return o, err
		}
	}
	return nil, nil
}

// isFieldRefusal: code 100 without a subcode is "nonexisting field"; 10 and 200 to
// 299 can be about one field only.
func isFieldRefusal(err error) bool {
	e, ok := errors.AsType[*APIError](err)
	if !ok {
		return false
	}
	return e.Code == 100 && e.Subcode == 0 || e.Code == 10 || e.Code >= 200 && e.Code <= 299
}

// pages walks an edge by its cursors. It does not follow paging.next, which is an
// address with the token in it.
func (r *Reader) pages(ctx context.Context, path string, query url.Values, tiers []string) iter.Seq2[fields, error] {
	return func(yield func(fields, error) bool) {
		query, tiers := cloneValues(query), tiers
		after := ""
		for {
			o, err := r.getTiers(ctx, path, query, tiers)
			if err != nil {
				yield(nil, err)
				return
			}
			// The fields that were granted once are asked for on all pages.
			tiers = tiers[slices.Index(tiers, query.Get("fields")):]
			for _, item := range o.objects("data") {
				if !yield(item, nil) {
					return
				}
			}
			paging := o.object("paging")
			next := paging.object("cursors").text("after")
			if next == "" || next == after || paging.text("next") == "" {
				return
			}
			after = next
			query.Set("after", after)
		}
	}
}

func cloneValues(v url.Values) url.Values {
	out := make(url.Values, len(v)+2)
	for k, list := range v {
		out[k] = slices.Clone(list)
	}
	return out
}

// ServerTime returns Meta's clock, from the Date header of an answer; any answer
// will do, so it needs no token. Compare it with the clock here: events from the
// future are refused.
func (r *Reader) ServerTime(ctx context.Context) (time.Time, error) {
	answer, err := r.g.do(ctx, call{method: http.MethodGet, path: "me", noToken: true})
	t := dateOf(answer.header)
	if !t.IsZero() {
		return t, nil
	}
	if err == nil || answer.status != 0 {
		err = &APIError{Class: ClassRetry, HTTPStatus: answer.status, Message: "the answer has no Date"}
	}
	return time.Time{}, err
}

// TokenInfo is what Meta says about an access token. Page "debug_token".
type TokenInfo struct {
	AppID       string
	Application string
	Type        string // USER, PAGE, APP, SYSTEM_USER
	Valid       bool
	UserID      string
	ProfileID   string
	IssuedAt    time.Time
	// ExpiresAt is the earlier one of the token's end and the end of its access to
	// data; zero means never.
	ExpiresAt    time.Time
	Scopes       []string
	TargetIDs    map[string][]string // granular_scopes: the objects that a scope is limited to
	ErrorCode    int                 // why it is not valid, as in Explain
	ErrorSubcode int
	ErrorMessage string
}

// DebugToken asks Meta about a token; "" means the reader's own. This is the one
// call that carries a token in its address, for Meta offers no other way: do not
// send it through a proxy that logs addresses.
func (r *Reader) DebugToken(ctx context.Context, token string) (TokenInfo, error) {
	if token == "" {
		token = r.g.keys.token
	}
	if token == "" {
		return TokenInfo{}, refusedHere("the token is missing")
	}
	o, err := r.get(ctx, "debug_token", url.Values{"input_token": {token}})
	other := newKeys(token, "")
	if err != nil {
		if e, ok := errors.AsType[*APIError](err); ok {
			other.clean(e)
		}
		return TokenInfo{}, err
	}
	o = o.object("data")
	info := TokenInfo{
		AppID: o.text("app_id"), Application: o.text("application"), Type: strings.ToUpper(o.text("type")),
		Valid: o.flag("is_valid"), UserID: o.text("user_id"), ProfileID: o.text("profile_id"),
		IssuedAt: o.time("issued_at"), ExpiresAt: o.time("expires_at"), Scopes: o.texts("scopes"),
	}
	if d := o.time("data_access_expires_at"); !d.IsZero() && (info.ExpiresAt.IsZero() || d.Before(info.ExpiresAt)) {
		info.ExpiresAt = d
	}
	for _, s := range o.objects("granular_scopes") {
		if ids := s.texts("target_ids"); len(ids) > 0 {
			if info.TargetIDs == nil {
				info.TargetIDs = make(map[string][]string)
			}
			info.TargetIDs[s.text("scope")] = ids
		}
	}
	fault := o.object("error")
	info.ErrorCode, info.ErrorSubcode = fault.integer("code"), fault.integer("subcode")
	info.ErrorMessage = r.g.keys.scrub(other.scrub(fault.text("message")))
	return info, nil
}

// Dataset is a dataset (pixel). Fields that the token may not read are zero.
type Dataset struct {
	ID                    string
	Name                  string
	Unavailable           bool // is_unavailable
	CRM                   bool // is_crm
	Consolidated          bool // is_consolidated_container: takes offline events too
	LastFired             time.Time
	ServerLastFired       time.Time // the last event by the Conversions API
	Created               time.Time
	OwnerBusiness         string // its id
	DataUse               string // data_use_setting
	FirstPartyCookie      string // first_party_cookie_status
	AutomaticMatching     bool
	MatchRate             float64   // match_rate_approx; -1 when not told
	CollectionRate        float64   // -1 when not told
	AccessEnds            time.Time // user_access_expire_time: the end of a share limited in time
	RestrictedUse         bool
	Permissions           []string
	SharableWithBusiness  bool
	SharableWithAdAccount bool
}

// datasetTiers: the first has fields that only AdsDataset knows, the last ones
// that every token may read which may read at all.
var datasetTiers = []string{
	pixelFields + ",server_last_fired_time,collection_rate,permissions,is_restricted_use," +
		"is_eligible_for_sharing_to_business,is_eligible_for_sharing_to_ad_account",
	pixelFields,
	"id,name,is_unavailable,last_fired_time",
	"id",
}

const pixelFields = "id,name,is_unavailable,is_crm,is_consolidated_container,last_fired_time,creation_time,owner_business," +
	"data_use_setting,first_party_cookie_status,enable_automatic_matching,match_rate_approx,user_access_expire_time"

// Dataset reads a dataset. A token that may send may be unable to read: an error
// here is no proof that events will be refused.
func (r *Reader) Dataset(ctx context.Context, id string) (Dataset, error) {
	if !isGraphID(id) {
		return Dataset{}, refusedHere("the dataset's id is not a number")
	}
	o, err := r.getTiers(ctx, id, url.Values{}, datasetTiers)
	if err != nil {
		return Dataset{}, err
	}
	d := Dataset{
		ID: o.text("id"), Name: o.text("name"), Unavailable: o.flag("is_unavailable"), CRM: o.flag("is_crm"),
		Consolidated: o.flag("is_consolidated_container"), LastFired: o.time("last_fired_time"),
		ServerLastFired: o.time("server_last_fired_time"), Created: o.time("creation_time"),
		OwnerBusiness: o.text("owner_business"), DataUse: o.text("data_use_setting"),
		FirstPartyCookie: o.text("first_party_cookie_status"), AutomaticMatching: o.flag("enable_automatic_matching"),
		MatchRate: -1, CollectionRate: -1, AccessEnds: o.time("user_access_expire_time"),
		RestrictedUse: o.flag("is_restricted_use"), Permissions: o.texts("permissions"),
		SharableWithBusiness:  o.flag("is_eligible_for_sharing_to_business"),
		SharableWithAdAccount: o.flag("is_eligible_for_sharing_to_ad_account"),
	}
	if n, ok := o.number("match_rate_approx"); ok {
		d.MatchRate = n
	}
	if n, ok := o.number("collection_rate"); ok {
		d.CollectionRate = n
	}
	return d, nil
}

// Page is what a Page says about leads.
type Page struct {
	ID   string
	Apps []SubscribedApp // empty: no app hears of new leads
	// Access is nil when no user was asked about or Meta did not answer.
	Access *LeadAccess
}

// SubscribedApp is an app that a Page sends webhooks to.
type SubscribedApp struct {
	ID     string
	Name   string
	Fields []string // leadgen among them: new leads are told
}

// LeadAccess is the answer to has_lead_access.
type LeadAccess struct {
	CanAccessLead     bool
	AppPermission     bool   // app_has_leads_permission
	UserPermission    bool   // user_has_leads_permission
	AccessManager     bool   // enabled_lead_access_manager: access must be granted one by one
	PageAdmin         bool   // is_page_admin
	FailureReason     string // in Meta's words
	FailureResolution string
}

// Page reads, with the Page's token, which apps hear of its leads and, if userID is
// given, whether that user (through the app, if given) may read them. Page
// "has_lead_access".
func (r *Reader) Page(ctx context.Context, pageID, userID, appID string) (Page, error) {
	if !isGraphID(pageID) || userID != "" && !isGraphID(userID) || appID != "" && !isGraphID(appID) {
		return Page{}, refusedHere("the id of the Page, the user or the app is not a number")
	}
	p := Page{ID: pageID}
	query := url.Values{"limit": {pageSize}}
	for o, err := range r.pages(ctx, pageID+"/subscribed_apps", query, []string{"id,name,subscribed_fields", "id,name"}) {
		if err != nil {
			return p, err
		}
		p.Apps = append(p.Apps, SubscribedApp{o.text("id"), o.text("name"), o.texts("subscribed_fields")})
	}
	if userID == "" {
		return p, nil
	}
	ask := "has_lead_access.user_id(" + userID + ")"
	if appID != "" {
		ask += ".app_id(" + appID + ")"
	}
	o, err := r.get(ctx, pageID, url.Values{"fields": {ask}})
	if err != nil {
		return p, err
	}
	a := o.object("has_lead_access")
	if list := o.objects("has_lead_access"); len(list) > 0 {
		a = list[0]
	}
	if a != nil {
		p.Access = &LeadAccess{
			CanAccessLead: a.flag("can_access_lead"), AppPermission: a.flag("app_has_leads_permission"),
			UserPermission: a.flag("user_has_leads_permission"), AccessManager: a.flag("enabled_lead_access_manager"),
			PageAdmin: a.flag("is_page_admin"), FailureReason: a.text("failure_reason"),
			FailureResolution: a.text("failure_resolution"),
		}
	}
	return p, nil
}

// pageSize keeps an answer far below maxAnswer.
const pageSize = "100"
