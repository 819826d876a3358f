package capi

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"net/url"
	"strconv"
	"time"
)

// Lead is a lead of an instant form as Graph returns it. It holds personal data:
// printed or logged it shows its ids only.
type Lead struct {
	ID             string
	Created        time.Time
	FormID         string
	AdID           string // empty for organic and test leads, as the five below
	AdName         string
	AdSetID        string
	AdSetName      string
	CampaignID     string
	CampaignName   string
	Organic        bool
	Platform       string // fb, ig
	PartnerName    string
	Fields         []LeadField
	Disclaimers    []Disclaimer
	HomeListing    string
	RetailerItemID string
	Vehicle        string
	Post           string
}

// LeadField is an answer: the name is set in the form (email, phone_number,
// full_name, or one of the advertiser's own).
type LeadField struct {
	Name   string
	Values []string
}

// Disclaimer is a consent box of a form's own disclaimer; optional boxes stand
// here and not in the fields.
type Disclaimer struct {
	Key     string
	Checked bool
}

// Field returns the first value of a field, "" if the lead does not have it.
func (l *Lead) Field(name string) string {
	for _, f := range l.Fields {
		if f.Name == name && len(f.Values) > 0 {
			return f.Values[0]
		}
	}
	return ""
}

// String shows what identifies the lead to Meta, nothing about the person.
func (l Lead) String() string {
	return fmt.Sprintf("lead %s of form %s, %d fields", l.ID, l.FormID, len(l.Fields))
}

// GoString shows the same as String.
func (l Lead) GoString() string { return l.String() }

// LogValue keeps personal data out of logs.
func (l Lead) LogValue() slog.Value { return slog.StringValue(l.String()) }

// leadTiers: ad and campaign names need permissions that reading the lead does not.
var leadTiers = []string{
	"id,created_time,ad_id,ad_name,adset_id,adset_name,campaign_id,campaign_name,form_id,field_data,is_organic,platform," +
		"partner_name,custom_disclaimer_responses,home_listing,retailer_item_id,vehicle,post",
	"id,created_time,ad_id,adset_id,campaign_id,form_id,field_data,is_organic,platform,custom_disclaimer_responses",
	"id,created_time,form_id,field_data",
}

// Lead reads one lead by the leadgen_id of its webhook. Page "Retrieving leads".
func (r *Reader) Lead(ctx context.Context, id string) (Lead, error) {
	if !isGraphID(id) {
		return Lead{}, refusedHere("the lead's id is not a number")
	}
	o, err := r.getTiers(ctx, id, url.Values{}, leadTiers)
	if err != nil {
		return Lead{}, err
	}
	return leadOf(o), nil
}

func leadOf(o fields) Lead {
	l := Lead{
		ID: o.text("id"), Created: o.time("created_time"), FormID: o.text("form_id"),
		AdID: o.text("ad_id"), AdName: o.text("ad_name"), AdSetID: o.text("adset_id"), AdSetName: o.text("adset_name"),
		CampaignID: o.text("campaign_id"), CampaignName: o.text("campaign_name"), Organic: o.flag("is_organic"),
		Platform: o.text("platform"), PartnerName: o.text("partner_name"), HomeListing: o.text("home_listing"),
		RetailerItemID: o.text("retailer_item_id"), Vehicle: o.text("vehicle"), Post: o.text("post"),
	}
	for _, f := range o.objects("field_data") {
		l.Fields = append(l.Fields, LeadField{f.text("name"), f.texts("values")})
	}
	for _, d := range o.objects("custom_disclaimer_responses") {
		l.Disclaimers = append(l.Disclaimers, Disclaimer{d.text("checkbox_key"), d.flag("is_checked")})
	}
	return l
}

// FormLeads yields the leads of a form, all of them or those created at since or
// later, in Meta's order. It ends after the first error.
func (r *Reader) FormLeads(ctx context.Context, formID string, since time.Time) iter.Seq2[Lead, error] {
	query := url.Values{"limit": {pageSize}}
	if !since.IsZero() {
		query.Set("filtering", `[{"field":"time_created","operator":"GREATER_THAN_OR_EQUAL","value":`+
			strconv.FormatInt(since.Unix(), 10)+`}]`)
	}
	return each(ctx, r, formID, "/leads", query, leadTiers, leadOf)
}

// Form is a lead form of a Page.
type Form struct {
	ID           string
	Name         string
	Status       string // ACTIVE, ARCHIVED, DELETED, DRAFT
	Locale       string
	Created      time.Time
	Leads        int // leads_count
	OrganicLeads int
	ExpiredLeads int // no longer readable
	Questions    []FormQuestion
}

// FormQuestion is a question of a form; Key is the name of its answers in
// LeadField.
type FormQuestion struct {
	Key   string
	Label string
	Type  string
}

var formTiers = []string{
	"id,name,status,locale,created_time,leads_count,organic_leads_count,expired_leads_count,questions",
	"id,name,status,locale,created_time,questions",
	"id,name,status",
}

// Forms yields the lead forms of a Page; it needs the Page's token.
func (r *Reader) Forms(ctx context.Context, pageID string) iter.Seq2[Form, error] {
	return each(ctx, r, pageID, "/leadgen_forms", url.Values{"limit": {"50"}}, formTiers, formOf)
}

func formOf(o fields) Form {
	f := Form{
		ID: o.text("id"), Name: o.text("name"), Status: o.text("status"), Locale: o.text("locale"),
		Created: o.time("created_time"), Leads: o.integer("leads_count"), OrganicLeads: o.integer("organic_leads_count"),
		ExpiredLeads: o.integer("expired_leads_count"),
	}
	for _, q := range o.objects("questions") {
		f.Questions = append(f.Questions, FormQuestion{q.text("key"), q.text("label"), q.text("type")})
	}
	return f
}

// each yields the objects of an edge in their own type.
func each[T any](
	ctx context.Context, r *Reader, id, edge string, query url.Values, tiers []string, of func(fields) T,
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		if !isGraphID(id) {
			yield(none, refusedHere("the id is not a number"))
			return
		}
		for o, err := range r.pages(ctx, id+edge, query, tiers) {
			item := none
			if err == nil {
				item = of(o)
			}
			if !yield(item, err) {
				return
			}
		}
	}
}
