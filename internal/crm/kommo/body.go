package kommo

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
)

// leadIDName is the custom field for the lead id; its code is what Check gives it.
const (
	leadIDName = "Meta Lead ID"
	leadIDCode = "META_LEAD_ID"
)

// extra are the custom fields that are filled if the account has them; Kommo comes with
// FBCLID and GCLID.
var extra = map[string]string{
	"FBCLID": "fbclid", "GCLID": "gclid", "FBC": "fbc", "FBP": "fbp", "TTCLID": "ttclid", "LI_FAT_ID": "li_fat_id",
	"UTM_CAMPAIGN": "campaign_name", answersCode: "answers",
}

const (
	answersName = "Lead Answers"
	answersCode = "LEAD_ANSWERS"
)

// customField is a field as the account lists it.
type customField struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
	Code string `json:"code"`
	Type string `json:"type"`
}

// setField is a custom field of a record.
type setField struct {
	ID     int64 `json:"field_id"`
	Values []struct {
		Value any `json:"value"`
	} `json:"values"`
}

func carries(fields []setField, id int64, key string) bool {
	for _, f := range fields {
		for _, v := range f.Values {
			if f.ID == id && v.Value == any(key) {
				return true
			}
		}
	}
	return false
}

func leadIDField(a crm.Account) string {
	return cmp.Or(strings.TrimSpace(a.Options.Text("lead_id_field")), leadIDName)
}

// leadID returns the field for the lead id.
func (f fieldList) leadID(a crm.Account) (customField, bool) {
	if id, ok := number(leadIDField(a)); ok {
		return customField{ID: id}, true
	}
	if x, ok := f.named(leadIDField(a)); ok {
		return x, true
	}
	if a.Options.Text("lead_id_field") == "" {
		return f.named(leadIDCode)
	}
	return customField{}, false
}

// named finds a field by id, code or name.
func (f fieldList) named(text string) (customField, bool) {
	if id, ok := number(text); ok {
		return customField{ID: id}, true
	}
	for _, x := range f.all {
		if strings.EqualFold(x.Code, text) || strings.EqualFold(x.Name, text) {
			return x, true
		}
	}
	return customField{}, false
}

// body is the lead: whole for a create, our custom fields only for an update.
func (v *visit) body(create bool) map[string]any {
	l, o := v.lead, v.account.Options
	table := crm.Fields(v.account, extra)
	body := map[string]any{"custom_fields_values": v.leadFields(table)}
	if !create {
		return body
	}
	body["request_id"] = crm.Key(l)
	body["name"] = cmp.Or(v.value(table["name"]), v.title())
	if amount, err := strconv.ParseFloat(v.value(table["price"]), 64); err == nil && amount > 0 && amount < 1e12 {
		body["price"] = int64(math.Round(amount)) // Kommo takes whole numbers only
	}
	for _, name := range []string{"pipeline_id", "status_id"} {
		if id, ok := number(o.Text(name)); ok {
			body[name] = id
		}
	}
	embedded := map[string]any{"contacts": []any{v.contact(table)}}
	if m := v.metadata(); m != nil {
		embedded["metadata"] = m
	}
	if company := v.value("company"); company != "" {
		embedded["companies"] = []any{map[string]any{"name": company}}
	}
	tags := slices.Clone(o.List("tags"))
	if l.Test {
		tags = append(tags, "test lead")
	}
	if len(tags) > 0 {
		list := make([]any, len(tags))
		for i, tag := range tags {
			list[i] = map[string]any{"name": tag}
		}
		embedded["tags"] = list
	}
	body["_embedded"] = embedded
	return body
}

func (v *visit) value(source string) string { return crm.Value(v.account, v.lead, source) }

// title names the lead as the sample does: "Ana Example – Meta lead".
func (v *visit) title() string {
	kind := map[string]string{"meta": "Meta lead", "google": "Google lead", "tiktok": "TikTok lead", "linkedin": "LinkedIn lead"}[v.lead.Platform]
	title := cmp.Or(v.value("full_name"), v.value("company"), v.value("email"), v.value("phone"), v.lead.Origin.FormName, crm.Key(v.lead)) + " – " + cmp.Or(kind, "lead")
	if v.lead.Test {
		title = "[Test] " + title
	}
	return title
}

// leadFields are the lead's custom fields, the lead id first.
func (v *visit) leadFields(table map[string]string) []any {
	list := []any{fieldValue(v.field, crm.Key(v.lead))}
	used := []int64{v.field.ID}
	for _, target := range slices.Sorted(maps.Keys(table)) {
		text := v.value(table[target])
		if text == "" || target == "name" || target == "price" || strings.HasPrefix(target, "contact.") {
			continue
		}
		f, ok := v.fields.named(target)
		if !ok || slices.Contains(used, f.ID) {
			continue // Check tells of those the account lacks
		}
		used = append(used, f.ID)
		list = append(list, fieldValue(f, text))
	}
	return list
}

// fieldValue sets a field. A number field takes numbers, a check box truth values.
func fieldValue(f customField, text string) map[string]any {
	var value any = text
	switch f.Type {
	case "numeric", "monetary":
		if n, err := strconv.ParseFloat(text, 64); err == nil && !math.IsInf(n, 0) && !math.IsNaN(n) {
			value = n
		}
	case "checkbox":
		value = text == "true" || text == "yes" || text == "1"
	}
	return map[string]any{"field_id": f.ID, "values": []any{map[string]any{"value": value}}}
}

// contact is the person. One without a name is named by how to reach them.
func (v *visit) contact(table map[string]string) map[string]any {
	body := map[string]any{}
	for name, source := range map[string]string{"first_name": "first_name", "last_name": "last_name"} {
		if text := v.value(source); text != "" {
			body[name] = text
		}
	}
	if len(body) == 0 {
		body["first_name"] = cmp.Or(v.value("company"), v.value("email"), v.value("phone"), "Lead "+crm.Key(v.lead))
	}
	var fields []any
	add := func(code, kind, text string) {
		if text == "" {
			return
		}
		value := map[string]any{"value": text}
		if kind != "" {
			value["enum_code"] = kind
		}
		fields = append(fields, map[string]any{"field_code": code, "values": []any{value}})
	}
	add("EMAIL", "WORK", v.value("email"))
	add("PHONE", "WORK", v.value("phone"))
	add("POSITION", "", v.value("job_title"))
	for _, target := range slices.Sorted(maps.Keys(table)) {
		name, ok := strings.CutPrefix(target, "contact.")
		text := v.value(table[target])
		if !ok || text == "" {
			continue
		}
		if id, ok := number(name); ok {
			fields = append(fields, fieldValue(customField{ID: id}, text))
		} else {
			add(strings.ToUpper(name), "", text)
		}
	}
	if len(fields) > 0 {
		body["custom_fields_values"] = fields
	}
	return body
}

// metadata says by which form the lead came.
func (v *visit) metadata() map[string]any {
	l := v.lead
	if l.Origin.FormID == "" {
		return nil
	}
	name := cmp.Or(l.Origin.FormName, l.Origin.FormID)
	m := map[string]any{"category": "forms", "form_id": l.Origin.FormID, "form_name": name, "form_page": cmp.Or(l.PageURL, name)}
	if !l.CreatedAt.IsZero() {
		m["form_sent_at"] = l.CreatedAt.Unix()
	}
	if l.IP != "" && l.Consent != ledger.ConsentDenied {
		m["ip"] = l.IP
	}
	if l.PageURL != "" {
		m["referer"] = l.PageURL
	}
	return m
}
