package leadform

import (
	"encoding/json"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/capiloop/capiloop/internal/ledger"
)

// Canonical is a standard field of a lead, whatever a platform calls it.
type Canonical string

// The standard fields. Those from JobFunction on have no place in ledger.Contact:
// they are kept as answers only, national ids so that nothing forwards them by itself.
const (
	Custom    Canonical = "" // a question of the form's own
	FullName  Canonical = "full_name"
	FirstName Canonical = "first_name"
	LastName  Canonical = "last_name"
	Email     Canonical = "email"
	WorkEmail Canonical = "work_email"
	Phone     Canonical = "phone"
	WorkPhone Canonical = "work_phone"
	Street    Canonical = "street"
	City      Canonical = "city"
	State     Canonical = "state"
	Postcode  Canonical = "postcode"
	Country   Canonical = "country"
	Birthday  Canonical = "birthday"
	Gender    Canonical = "gender"
	Company   Canonical = "company"
	JobTitle  Canonical = "job_title"

	JobFunction  Canonical = "job_function"
	Seniority    Canonical = "seniority"
	Industry     Canonical = "industry"
	CompanySize  Canonical = "company_size"
	Relationship Canonical = "relationship"
	Military     Canonical = "military"
	NationalID   Canonical = "national_id"
)

// Assign keeps an answer under the form's own name of the question and sets the
// standard field that it answers, if it is one. An answer without a value is left
// out. Call Complete after the last one.
func Assign(l *ledger.Lead, c Canonical, a ledger.FormAnswer) {
	a.Question, a.Label = Clean(a.Question), Clean(a.Label)
	values := make([]string, 0, len(a.Values))
	for _, v := range a.Values {
		if v = Clean(v); v != "" {
			values = append(values, v)
		}
	}
	if a.Values = values; len(values) == 0 {
		return
	}
	a.Private = a.Private || c == NationalID
	l.Answers = append(l.Answers, a)
	Set(l, c, values...)
}

// Set sets a standard field to the first value that is not empty, trimmed and in
// NFC, otherwise as it came. The first that sets a field wins.
func Set(l *ledger.Lead, c Canonical, values ...string) {
	place := placeOf(&l.Contact, c)
	if place == nil || *place != "" {
		return
	}
	for _, v := range values {
		if v = Clean(v); v != "" {
			*place = v
			return
		}
	}
}

func placeOf(k *ledger.Contact, c Canonical) *string {
	return map[Canonical]*string{
		FullName: &k.FullName, FirstName: &k.FirstName, LastName: &k.LastName,
		Email: &k.Email, WorkEmail: &k.WorkEmail, Phone: &k.Phone, WorkPhone: &k.WorkPhone,
		Street: &k.Street, City: &k.City, State: &k.State, Postcode: &k.Postcode, Country: &k.Country,
		Birthday: &k.Birthday, Gender: &k.Gender, Company: &k.Company, JobTitle: &k.JobTitle,
	}[c]
}

// Complete fills what follows from other fields: the e-mail and the phone from
// those at work where there are no others, the full name from first and last, and
// these from the full name where only that is known. CRMs demand a last name, so the
// last word of two or more is taken for it and the rest for the first name; a single
// word is a first name. That is a guess, so FullName stays what the person wrote.
func Complete(l *ledger.Lead) {
	k := &l.Contact
	if k.Email == "" {
		k.Email = k.WorkEmail
	}
	if k.Phone == "" {
		k.Phone = k.WorkPhone
	}
	if k.FullName == "" {
		k.FullName = strings.TrimSpace(k.FirstName + " " + k.LastName)
		return
	}
	if k.FirstName != "" || k.LastName != "" {
		return
	}
	words := strings.Fields(k.FullName)
	last := len(words) - 1
	if last < 1 {
		k.FirstName = k.FullName
		return
	}
	k.FirstName, k.LastName = strings.Join(words[:last], " "), words[last]
}

// Clean trims a text and brings it into NFC; NUL and broken UTF-8, which no
// database takes, are taken out.
func Clean(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, ""), "\x00", "")
	return norm.NFC.String(strings.TrimSpace(s))
}

// SetClick keeps a click id that came in a hidden field or an address's parameter,
// unchanged but for the spaces around it, and tells whether the name is one. The
// first that sets it wins.
func SetClick(l *ledger.Lead, name, value string) bool {
	c := &l.Clicks
	place := map[string]*string{
		"fbc": &c.FBC, "fbp": &c.FBP, "fbclid": &c.FBClid, "gclid": &c.GClid, "gcl_id": &c.GClid, "gbraid": &c.GBraid, "wbraid": &c.WBraid,
		"ttclid": &c.TTClid, "li_fat_id": &c.LiFatID, "ctwa_clid": &c.CTWAClid, "msclkid": &c.MSClkid,
	}[strings.TrimPrefix(strings.ToLower(strings.TrimSpace(name)), "_")]
	if place == nil {
		return false
	}
	if *place == "" {
		*place = Clean(value)
	}
	return true
}

// Ident is an id in JSON that some senders write as a number and others as a text.
// It is kept as text, digit by digit; anything else reads as none.
type Ident string

// UnmarshalJSON takes a text or a whole number.
func (i *Ident) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		*i = Ident(Clean(text))
		return nil
	}
	*i = ""
	if len(raw) > 0 && strings.Trim(string(raw), "0123456789") == "" {
		*i = Ident(raw)
	}
	return nil
}

// IsDummy tells whether a value is what Meta's testing tool fills a form with.
func IsDummy(value string) bool {
	return strings.HasPrefix(strings.ToLower(strings.TrimSpace(value)), "<test lead: dummy data for ")
}

// MetaType is the standard field of a question's type in Meta's forms.
func MetaType(name string) Canonical {
	name = strings.ToUpper(strings.TrimSpace(name))
	if nationalID(name) {
		return NationalID
	}
	return metaTypes[name]
}

// MetaKey is the standard field that Meta's own key of a question says, for leads
// whose form cannot be read and for exported files. Localised forms have other keys.
func MetaKey(name string) Canonical {
	name = strings.ToUpper(strings.TrimSpace(name))
	switch name {
	case "PHONE_NUMBER":
		return Phone
	case "ZIP_CODE":
		return Postcode
	case "DATE_OF_BIRTH":
		return Birthday
	case "MARITAL_STATUS":
		return Relationship
	}
	return MetaType(name)
}

// GoogleColumn is the standard field of a column_id of a Google lead form.
func GoogleColumn(name string) Canonical {
	name = strings.ToUpper(strings.TrimSpace(name))
	if strings.HasPrefix(name, "GOVERNMENT_ISSUED_ID") {
		return NationalID
	}
	return googleColumns[name]
}

// TikTokField is the standard field of a field's name in TikTok's forms.
func TikTokField(name string) Canonical {
	return tiktokFields[underscored(name)]
}

// LinkedInField is the standard field of a predefinedField of a LinkedIn form.
func LinkedInField(name string) Canonical {
	return linkedinFields[strings.ToUpper(strings.TrimSpace(name))]
}

// WebsiteField guesses the standard field from an input's name or label: the usual
// names and the tokens of HTML's autocomplete, in any spelling.
func WebsiteField(name string) Canonical {
	return websiteFields[strings.TrimPrefix(underscored(name), "your_")]
}

func nationalID(typ string) bool { return strings.HasPrefix(typ, "ID_") || typ == "NATIONAL_ID" }

// underscored is a name in lower case with single underscores between its words.
func underscored(name string) string {
	words := strings.FieldsFunc(strings.ToLower(Clean(name)), func(r rune) bool {
		return strings.ContainsRune(" _-.:*\t\u00a0", r)
	})
	return strings.Join(words, "_")
}
