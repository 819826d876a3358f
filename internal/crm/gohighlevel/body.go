package gohighlevel

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
)

// standard are the contact's own fields; every other target is a custom field.
var standard = []string{
	"firstName", "lastName", "name", "email", "phone", "address1", "city", "state", "postalCode", "country", "companyName", "website", "source",
	"dateOfBirth", "gender", "timezone",
}

// defaults say where each contact field comes from.
var defaults = map[string]string{
	"firstName": "first_name", "lastName": "last_name", "email": "email", "phone": "phone",
	"address1": "street", "city": "city", "state": "state", "postalCode": "postcode", "country": "country", "companyName": "company",
}

// custom are the custom fields that are filled if the location has them, with the lead
// field and the name under which Check creates them. The lead id's key can be set.
var custom = []struct{ key, source, name, kind string }{
	{"fbclid", "fbclid", "fbclid", "TEXT"},
	{"fbc", "fbc", "fbc", "TEXT"},
	{"fbp", "fbp", "fbp", "TEXT"},
	{"gclid", "gclid", "gclid", "TEXT"},
	{"ttclid", "ttclid", "ttclid", "TEXT"},
	{"li_fat_id", "li_fat_id", "li fat id", "TEXT"},
	{"lead_answers", "answers", "Lead Answers", "LARGE_TEXT"},
}

// sources name where a contact came from, by the lead's platform.
var sources = map[string]string{"meta": "Meta Lead Ad", "google": "Google Lead Form", "tiktok": "TikTok Lead Form", "linkedin": "LinkedIn Lead Form"}

func leadIDField(a crm.Account) string {
	return cmp.Or(bare(a.Options.Text("lead_id_field")), "meta_lead_id")
}

// bare takes off the model that the API puts before a key.
func bare(key string) string { return strings.TrimPrefix(key, "contact.") }

// table is what goes where, the account's own settings included.
func table(a crm.Account) map[string]string {
	all := maps.Clone(defaults)
	all[leadIDField(a)] = "id"
	for _, f := range custom {
		all[f.key] = f.source
	}
	return crm.Fields(a, all)
}

// contact is the body of an upsert (with the location) or of an update (without). It has
// no tags: they would replace those the contact has.
func contact(a crm.Account, l *ledger.Lead, upsert bool) map[string]any {
	body := map[string]any{}
	if upsert {
		body["locationId"] = a.Options.Text("location_id")
	}
	values := crm.Values(a, l, table(a))
	var fields []map[string]string
	for _, target := range slices.Sorted(maps.Keys(values)) {
		value := values[target]
		switch {
		case target == "monetaryValue":
		case slices.Contains(standard, target):
			if value = fit(a, l, target, value); value != "" {
				body[target] = value
			}
		case strings.HasPrefix(target, "id:"):
			fields = append(fields, map[string]string{"id": target[3:], "field_value": value})
		default:
			fields = append(fields, map[string]string{"key": bare(target), "field_value": value})
		}
	}
	if body["source"] == nil && upsert { // an update leaves the first source
		body["source"] = source(l)
	}
	if len(fields) > 0 {
		body["customFields"] = fields
	}
	return body
}

// fit leaves out what the API would refuse the whole contact for. The answers field still
// has it as it was typed.
func fit(a crm.Account, l *ledger.Lead, target, value string) string {
	switch target {
	case "phone":
		if !strings.HasPrefix(value, "+") {
			return ""
		}
	case "email":
		if n, _ := capi.NormaliseValue(capi.KeyEmail, value, capi.Locale{}); len(n.Texts) == 0 {
			return ""
		}
	case "country":
		n, _ := capi.NormaliseValue(capi.KeyCountry, value, capi.Locale{Country: a.Country})
		if len(n.Texts) == 0 || len(n.Texts[0]) != 2 {
			return ""
		}
		return strings.ToUpper(n.Texts[0])
	case "source":
		if l.Test {
			return value + " (test)"
		}
	}
	return value
}

func source(l *ledger.Lead) string {
	name := cmp.Or(sources[l.Platform], l.Source, "Lead")
	if l.Test {
		name += " (test)"
	}
	return name
}

// lookUp is the path that finds a contact by e-mail, else by phone; "" if there is
// neither.
func lookUp(a crm.Account, l *ledger.Lead) string {
	c := contact(a, l, true)
	q := url.Values{"locationId": {a.Options.Text("location_id")}}
	if email, ok := c["email"].(string); ok {
		q.Set("email", email)
	} else if phone, ok := c["phone"].(string); ok {
		q.Set("number", phone)
	} else {
		return ""
	}
	return "/contacts/search/duplicate?" + q.Encode()
}

func wantsDeal(a crm.Account) bool {
	return a.Options.Text("pipeline_id") != "" && a.Options.Text("stage_id") != ""
}

func deal(a crm.Account, l *ledger.Lead, contactID string) map[string]any {
	value := func(source string) string { return crm.Value(a, l, source) }
	body := map[string]any{
		"locationId": a.Options.Text("location_id"), "pipelineId": a.Options.Text("pipeline_id"), "pipelineStageId": a.Options.Text("stage_id"),
		"contactId": contactID, "status": "open",
		"name": cmp.Or(value("full_name"), value("company"), value("email"), value("phone"), "Lead "+crm.Key(l)),
	}
	if amount, err := strconv.ParseFloat(value(crm.Fields(a, nil)["monetaryValue"]), 64); err == nil && amount > 0 && amount < 1e12 {
		body["monetaryValue"] = amount
	}
	return body
}

func tags(a crm.Account, l *ledger.Lead) []string {
	list := slices.Clone(a.Options.List("tags"))
	if l.Test {
		list = append(list, "test lead")
	}
	return list
}
