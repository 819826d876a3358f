package crm

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/ledger"
)

// stageFields are the fields of a stage change.
var stageFields = map[string]bool{
	"lead_id": true, "platform": true, "external_id": true, "record_id": true, "deal_id": true, "contact_id": true, "created_at": true,
	"full_name": true, "first_name": true, "last_name": true, "email": true, "phone": true, "work_email": true, "work_phone": true,
	"street": true, "city": true, "state": true, "postcode": true, "country": true, "birthday": true, "gender": true, "company": true, "job_title": true,
	"stage": true, "status": true, "stage_label": true, "pipeline": true, "pipeline_label": true, "field": true, "is": true, "meaning": true, "from": true,
	"occurred_at": true, "date": true, "time": true, "changed_by": true,
	"value": true, "amount": true, "currency": true, "event_id": true, "key": true, "id": true, "history": true, "test": true, "consent": true,
}

// stageAliases are other names of the fields.
var stageAliases = map[string]string{
	"leadgen_id": "lead_id", "meta_lead_id": "lead_id", "facebook_lead_id": "lead_id", "fb_lead_id": "lead_id",
	"opportunity_id": "deal_id", "record": "record_id", "client_id": "external_id", "customer_id": "external_id", "user_id": "external_id",
	"created_time": "created_at", "created": "created_at", "date_created": "created_at", "create_date": "created_at", "lead_created_at": "created_at",

	"name": "full_name", "contact_name": "full_name", "customer_name": "full_name", "lead_name": "full_name",
	"email_address": "email", "e_mail": "email", "mail": "email", "contact_email": "email",
	"phone_number": "phone", "mobile": "phone", "mobile_phone": "phone", "telephone": "phone", "tel": "phone", "contact_phone": "phone",
	"street_address": "street", "address": "street", "region": "state", "province": "state",
	"zip": "postcode", "zip_code": "postcode", "post_code": "postcode", "postal_code": "postcode",
	"date_of_birth": "birthday", "dob": "birthday", "company_name": "company",

	"stage_id": "stage", "new_stage": "stage", "deal_stage": "stage", "pipeline_stage": "stage", "pipleline_stage": "stage", "lead_stage": "stage", "current_stage": "stage",
	"lead_status": "status", "deal_status": "status", "stage_name": "stage_label", "pipeline_id": "pipeline", "pipeline_name": "pipeline_label",
	"previous_stage": "from", "old_stage": "from", "from_stage": "from", "modified_by": "changed_by",
	"changed_at": "occurred_at", "moved_at": "occurred_at", "stage_changed_at": "occurred_at", "event_time": "occurred_at", "change_date": "occurred_at", "date_changed": "occurred_at",
	"stage_change_date": "occurred_at", "timestamp": "date", "date_time": "date", "datetime": "date",
	"price": "amount", "deal_value": "amount", "deal_amount": "amount", "lead_value": "amount", "monetary_value": "amount", "revenue": "amount",
	"currency_code": "currency", "is_test": "test", "is_history": "history", "change_id": "event_id", "webhook_id": "event_id",
}

// stageField is the field that a name says; a name that says none stays.
func stageField(name string) string {
	name = snake(name)
	if as, ok := stageAliases[name]; ok {
		return as
	}
	return name
}

// who reads whose change it is.
func (d *stageDecoder) who() {
	c, v := &d.change, d.values
	c.ExternalID, c.DealID = v["external_id"], v["deal_id"]
	d.platform()
	d.leadID()
	records := c.Records
	c.Records = nil
	d.record("deal", c.DealID)
	if _, id, ok := strings.Cut(c.DealID, ":"); ok {
		c.DealID = id
	}
	for _, r := range records {
		d.record("record", r)
	}
	d.record("record", v["record_id"])
	d.record("contact", v["contact_id"])
	phone := func(s string) string { return strings.TrimSpace(strings.TrimPrefix(s, "p:")) }
	c.Contact = ledger.Contact{
		FullName: v["full_name"], FirstName: v["first_name"], LastName: v["last_name"], Email: v["email"], Phone: phone(v["phone"]),
		WorkEmail: v["work_email"], WorkPhone: phone(v["work_phone"]), Street: v["street"], City: v["city"], State: v["state"],
		Postcode: strings.TrimPrefix(v["postcode"], "z:"), Country: v["country"], Birthday: v["birthday"], Gender: v["gender"], Company: v["company"], JobTitle: v["job_title"],
	}
	if c.Contact.FullName == "" {
		c.Contact.FullName = words(c.Contact.FirstName + " " + c.Contact.LastName)
	}
	for _, field := range []string{"email", "work_email"} {
		if _, p := capi.NormaliseValue(capi.KeyEmail, v[field], capi.Locale{}); v[field] != "" && p != nil {
			d.warn(field, p.Code, "it is not an e-mail address; no ad platform can match it", p.Fix)
		}
	}
	k := c.Contact
	if firstOf(c.LeadID, c.ExternalID, k.Email, k.Phone, k.WorkEmail, k.WorkPhone) == "" && len(c.Records) == 0 && !d.refused("lead_id", "email", "phone", "record_id", "deal_id", "external_id") {
		d.fail("", ProblemNoPerson, "nothing says whose change it is", "send at least one of lead_id, email, phone, external_id, record_id, deal_id")
	}
}

func (d *stageDecoder) platform() {
	switch p := strings.ToLower(d.values["platform"]); p {
	case "":
	case "meta", "google", "tiktok", "linkedin":
		d.change.Platform = p
	case "facebook", "instagram", "fb", "ig":
		d.change.Platform = "meta"
	default:
		if d.table { // a column of that name may be anything
			d.keep(d.names["platform"], d.values["platform"])
			return
		}
		d.fail("platform", ProblemUnknownPlatform, "it is no ad platform that is known here", "send meta, google, tiktok or linkedin; leave it out where no ad is behind the lead")
	}
}

// leadID takes off what tables and exports put around an id, and refuses what is none.
func (d *stageDecoder) leadID() {
	id := d.values["lead_id"]
	if rest, ok := strings.CutPrefix(id, "l:"); ok && isDigits(rest) {
		if id = rest; d.change.Platform == "" {
			d.change.Platform = "meta"
		}
	}
	if whole, ok := strings.CutSuffix(id, ".0"); ok && isDigits(whole) {
		id = whole
	}
	reason := ""
	switch {
	case id == "":
		return
	case isRounded(id):
		reason = "it is a number in scientific notation, whose last digits are lost"
	case isPlaceholder(id):
		reason = "it is a placeholder of a template, not an id"
	case d.change.Platform == "meta" && (!isDigits(id) || len(id) < 10 || len(id) > 20):
		reason = "a lead id of Meta's has 15 to 17 digits"
	}
	if reason != "" {
		d.values["lead_id"] = ""
		d.fail("lead_id", capi.ProblemInvalidLeadID, reason, "send the lead id as text, with all its digits")
		return
	}
	d.change.LeadID = id
}

func isDigits(s string) bool { return s != "" && digits(s) == s }

func isRounded(s string) bool {
	mantissa, exponent, ok := strings.Cut(strings.ToLower(s), "e")
	return ok && isDigits(strings.NewReplacer(".", "", ",", "").Replace(mantissa)) && isDigits(strings.TrimPrefix(exponent, "+"))
}

// isPlaceholder knows what stands for nothing.
func isPlaceholder(s string) bool {
	if strings.ContainsAny(s, "{}<>") {
		return true
	}
	switch strings.ToLower(s) {
	case "null", "undefined", "none", "n/a", "nan", "0":
		return true
	}
	return false
}

// cleanStage trims a text and takes out what no database keeps.
func cleanStage(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, ""), "\x00", "")
	return norm.NFC.String(strings.TrimSpace(s))
}

// stageMember is one member of an object, in its order.
type stageMember struct {
	name  string
	value json.RawMessage
}

var errNoObject = errors.New("it is not a JSON object")

func stageMembers(raw []byte) ([]stageMember, error) {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || raw[0] != '{' || !json.Valid(raw) {
		return nil, errNoObject
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if _, err := d.Token(); err != nil {
		return nil, errNoObject
	}
	var members []stageMember
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, errNoObject
		}
		m := stageMember{}
		m.name, _ = name.(string)
		if err := d.Decode(&m.value); err != nil {
			return nil, errNoObject
		}
		members = append(members, m)
	}
	return members, nil
}

// stageTexts reads a text, a number with all its digits, true or false, or a list of these.
func stageTexts(raw json.RawMessage) (values []string, ok bool) {
	if len(raw) == 0 || raw[0] == '{' {
		return nil, false
	}
	if raw[0] != '[' {
		value, ok := stageText(raw)
		return []string{value}, ok
	}
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		return nil, false
	}
	for _, item := range items {
		value, ok := stageText(item)
		if !ok {
			return nil, false
		}
		values = append(values, value)
	}
	return values, true
}

func stageText(raw json.RawMessage) (value string, ok bool) {
	switch raw[0] {
	case '"':
		return value, json.Unmarshal(raw, &value) == nil
	case '{', '[':
		return "", false
	case 'n':
		return "", true
	}
	return string(raw), true
}

// snake writes leadId, Lead-ID and "Lead ID" as lead_id.
func snake(name string) string {
	var b strings.Builder
	lower, gap := false, false
	for _, r := range strings.TrimSpace(name) {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) {
			gap, lower = true, false
			continue
		}
		if (gap || lower && unicode.IsUpper(r)) && b.Len() > 0 {
			b.WriteByte('_')
		}
		gap, lower = false, unicode.IsLower(r) || unicode.IsDigit(r)
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
