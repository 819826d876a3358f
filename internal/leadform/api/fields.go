package api

import (
	"github.com/capiloop/capiloop/internal/leadform"
)

// aliases are other names of the fields, by name in lower case with underscores.
var aliases = map[string]string{
	"leadgen_id": "lead_id", "created_time": "created_at", "_fbc": "fbc", "_fbp": "fbp", "gcl_id": "gclid",
	"ad_group_id": "adset_id", "adgroup_id": "adset_id", "ad_group_name": "adset_name", "adgroup_name": "adset_name",
	"is_organic": "organic", "is_test": "test", "client_ip_address": "client_ip", "ip": "client_ip", "user_agent": "client_user_agent",
	"event_source_url": "page_url",

	"name": "full_name", "email_address": "email", "phone_number": "phone", "zip": "postcode", "zip_code": "postcode", "post_code": "postcode", "postal_code": "postcode",
	"street_address": "street", "address": "street", "date_of_birth": "birthday", "dob": "birthday", "region": "state", "province": "state",
	"company_name": "company",
}

// special are the fields that are checked before they are kept.
var special = map[string]bool{"lead_id": true, "platform": true, "created_at": true, "page_url": true}

// canonical is the standard field of a person that a name says.
func canonical(name string) leadform.Canonical {
	switch c := leadform.Canonical(name); c {
	case leadform.FullName, leadform.FirstName, leadform.LastName, leadform.Email, leadform.WorkEmail, leadform.Phone, leadform.WorkPhone,
		leadform.Street, leadform.City, leadform.State, leadform.Postcode, leadform.Country, leadform.Birthday, leadform.Gender,
		leadform.Company, leadform.JobTitle:
		return c
	default:
		return leadform.Custom
	}
}

// place is where a field goes that is kept as it is; nil is none.
func (d *decoder) place(name string) *string {
	o, c := &d.lead.Origin, &d.lead.Clicks
	return map[string]*string{
		"form_id": &o.FormID, "form_name": &o.FormName, "ad_id": &o.AdID, "ad_name": &o.AdName, "adset_id": &o.AdSetID, "adset_name": &o.AdSetName,
		"campaign_id": &o.CampaignID, "campaign_name": &o.CampaignName, "channel": &o.Channel,
		"fbc": &c.FBC, "fbp": &c.FBP, "fbclid": &c.FBClid, "gclid": &c.GClid, "gbraid": &c.GBraid, "wbraid": &c.WBraid,
		"ttclid": &c.TTClid, "li_fat_id": &c.LiFatID, "ctwa_clid": &c.CTWAClid, "msclkid": &c.MSClkid,
		"event_id": &d.lead.EventID, "client_ip": &d.lead.IP, "client_user_agent": &d.lead.UserAgent,
		ExternalID: &d.external, "submission_id": &d.repeats,
	}[name]
}
