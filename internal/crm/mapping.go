package crm

import (
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
)

// fields holds how each field of a lead that a mapping can name is read.
var fields = map[string]func(a Account, l *ledger.Lead) string{
	"id":            func(_ Account, l *ledger.Lead) string { return Key(l) },
	"capiloop_id":   func(_ Account, l *ledger.Lead) string { return l.ID.String() },
	"lead_id":       func(_ Account, l *ledger.Lead) string { return l.LeadID },
	"source":        func(_ Account, l *ledger.Lead) string { return l.Source },
	"kind":          func(_ Account, l *ledger.Lead) string { return l.Kind },
	"ad_platform":   func(_ Account, l *ledger.Lead) string { return l.Platform },
	"platform":      func(_ Account, l *ledger.Lead) string { return l.Origin.Channel },
	"created_at":    func(_ Account, l *ledger.Lead) string { return moment(l.CreatedAt, time.RFC3339) },
	"created_date":  func(_ Account, l *ledger.Lead) string { return moment(l.CreatedAt, time.DateOnly) },
	"form_id":       func(_ Account, l *ledger.Lead) string { return l.Origin.FormID },
	"form_name":     func(_ Account, l *ledger.Lead) string { return l.Origin.FormName },
	"ad_id":         func(_ Account, l *ledger.Lead) string { return l.Origin.AdID },
	"ad_name":       func(_ Account, l *ledger.Lead) string { return l.Origin.AdName },
	"adset_id":      func(_ Account, l *ledger.Lead) string { return l.Origin.AdSetID },
	"adset_name":    func(_ Account, l *ledger.Lead) string { return l.Origin.AdSetName },
	"campaign_id":   func(_ Account, l *ledger.Lead) string { return l.Origin.CampaignID },
	"campaign_name": func(_ Account, l *ledger.Lead) string { return l.Origin.CampaignName },
	"is_organic":    func(_ Account, l *ledger.Lead) string { return yesNo(l.Origin.Organic) },
	"is_test":       func(_ Account, l *ledger.Lead) string { return yesNo(l.Test) },
	"page_url":      func(_ Account, l *ledger.Lead) string { return l.PageURL },
	"consent":       func(_ Account, l *ledger.Lead) string { return consentWord(l.Consent) },

	"fbclid":     func(_ Account, l *ledger.Lead) string { return fbclid(l.Clicks) },
	"fbc":        func(_ Account, l *ledger.Lead) string { return l.Clicks.FBC },
	"fbp":        func(_ Account, l *ledger.Lead) string { return l.Clicks.FBP },
	"gclid":      func(_ Account, l *ledger.Lead) string { return l.Clicks.GClid },
	"gbraid":     func(_ Account, l *ledger.Lead) string { return l.Clicks.GBraid },
	"wbraid":     func(_ Account, l *ledger.Lead) string { return l.Clicks.WBraid },
	"ttclid":     func(_ Account, l *ledger.Lead) string { return l.Clicks.TTClid },
	"li_fat_id":  func(_ Account, l *ledger.Lead) string { return l.Clicks.LiFatID },
	"ctwa_clid":  func(_ Account, l *ledger.Lead) string { return l.Clicks.CTWAClid },
	"msclkid":    func(_ Account, l *ledger.Lead) string { return l.Clicks.MSClkid },
	"full_name":  func(_ Account, l *ledger.Lead) string { full, _, _ := names(l.Contact); return full },
	"first_name": func(_ Account, l *ledger.Lead) string { _, first, _ := names(l.Contact); return first },
	"last_name":  func(_ Account, l *ledger.Lead) string { _, _, last := names(l.Contact); return last },
	"email":      func(_ Account, l *ledger.Lead) string { return Email(l) },
	"work_email": func(_ Account, l *ledger.Lead) string { return strings.TrimSpace(l.Contact.WorkEmail) },
	"phone": func(a Account, l *ledger.Lead) string {
		return Phone(a, l, firstOf(l.Contact.Phone, l.Contact.WorkPhone))
	},
	"work_phone": func(a Account, l *ledger.Lead) string { return Phone(a, l, l.Contact.WorkPhone) },
	"street":     func(_ Account, l *ledger.Lead) string { return l.Contact.Street },
	"city":       func(_ Account, l *ledger.Lead) string { return l.Contact.City },
	"state":      func(_ Account, l *ledger.Lead) string { return l.Contact.State },
	"postcode":   func(_ Account, l *ledger.Lead) string { return l.Contact.Postcode },
	"country":    func(_ Account, l *ledger.Lead) string { return l.Contact.Country },
	"birthday":   birthday,
	"gender":     func(_ Account, l *ledger.Lead) string { return l.Contact.Gender },
	"company":    func(_ Account, l *ledger.Lead) string { return l.Contact.Company },
	"job_title":  func(_ Account, l *ledger.Lead) string { return l.Contact.JobTitle },
	"title":      title,
	"answers":    func(_ Account, l *ledger.Lead) string { return answers(l) },
}

// FieldNames lists the fields of a lead that a mapping can name, sorted; beside them there
// is answer:<question>.
func FieldNames() []string { return slices.Sorted(maps.Keys(fields)) }

// Fields merges the account's own table "fields" (target: source) over the defaults of its
// kind. An empty source, or "-", takes a target out.
func Fields(a Account, defaults map[string]string) map[string]string {
	merged := maps.Clone(defaults)
	if merged == nil {
		merged = map[string]string{}
	}
	for target, source := range a.Options.Map("fields") {
		if source = strings.TrimSpace(source); source == "" || source == "-" {
			delete(merged, target)
			continue
		}
		merged[target] = source
	}
	return merged
}

// Table is the account with another of its tables in the place of "fields", for a CRM that
// fills two objects.
func Table(a Account, name string) Account {
	a.Options = secret.NewOptions(nil, nil, map[string]map[string]string{"fields": a.Options.Map(name)})
	return a
}

// Value returns what a source says about a lead, "" for nothing. A source is the name of
// a field (email), an answer (answer:budget), a text with such names in it ("{{first_name}} from
// {{city}}"), or a fixed text ("=Meta").
func Value(a Account, l *ledger.Lead, source string) string {
	source = strings.TrimSpace(source)
	if text, ok := strings.CutPrefix(source, "="); ok {
		return text
	}
	if !strings.Contains(source, "{{") {
		value, _ := lookUp(a, l, source)
		return value
	}
	var b strings.Builder
	rest := source
	for {
		before, after, ok := strings.Cut(rest, "{{")
		name, behind, closed := strings.Cut(after, "}}")
		b.WriteString(before)
		if !ok || !closed {
			break
		}
		value, _ := lookUp(a, l, strings.TrimSpace(name))
		b.WriteString(value)
		rest = behind
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// Values returns the value of each target that has one.
func Values(a Account, l *ledger.Lead, fields map[string]string) map[string]string {
	values := make(map[string]string, len(fields))
	for target, source := range fields {
		if v := Value(a, l, source); v != "" {
			values[target] = v
		}
	}
	return values
}

// CheckFields has a line for each source of the account's table that means nothing.
func CheckFields(a Account) []Check {
	var checks []Check
	table := a.Options.Map("fields")
	for _, target := range slices.Sorted(maps.Keys(table)) {
		for _, name := range named(table[target]) {
			if _, ok := lookUp(a, &ledger.Lead{}, name); !ok {
				checks = append(checks, Check{
					Name: "fields", Warning: true,
					Sentence: "The field " + target + " is to be filled from " + name + ", which no lead has; it stays empty.",
					NextStep: "Use one of " + strings.Join(FieldNames(), ", ") + ", answer:<question>, or =text for a fixed text.",
				})
			}
		}
	}
	return checks
}

// named lists the names that a source uses.
func named(source string) []string {
	source = strings.TrimSpace(source)
	if source == "" || source == "-" || strings.HasPrefix(source, "=") {
		return nil
	}
	if !strings.Contains(source, "{{") {
		return []string{source}
	}
	var list []string
	for _, part := range strings.Split(source, "{{")[1:] {
		name, _, _ := strings.Cut(part, "}}")
		list = append(list, strings.TrimSpace(name))
	}
	return list
}

func lookUp(a Account, l *ledger.Lead, name string) (value string, known bool) {
	if question, ok := strings.CutPrefix(name, "answer:"); ok {
		return AnswerTo(l, question), true
	}
	if f, ok := fields[name]; ok {
		return f(a, l), true
	}
	return "", false
}

// Key is the id that a record of the lead carries in the CRM: the platform's own, or ours
// where there is none or it is too long for a custom field.
func Key(l *ledger.Lead) string {
	if l.LeadID == "" || len(l.LeadID) > 250 {
		return l.ID.String()
	}
	return l.LeadID
}

// Email is the e-mail address to reach the lead by.
func Email(l *ledger.Lead) string {
	return strings.ToLower(strings.TrimSpace(firstOf(l.Contact.Email, l.Contact.WorkEmail)))
}

// Phone writes a number as +12025550143, by the lead's country or the workspace's; one
// that cannot be understood stays as it was typed, for a person may still be able to dial it.
func Phone(a Account, l *ledger.Lead, raw string) string {
	raw = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(raw), "p:"))
	if raw == "" {
		return ""
	}
	for _, country := range []string{l.Contact.Country, a.Country} {
		n, problem := capi.NormaliseValue(capi.KeyPhone, raw, capi.Locale{Country: country})
		if problem == nil && len(n.Texts) > 0 {
			return "+" + n.Texts[0]
		}
	}
	return raw
}

// AnswerTo returns the answer to a question, by the form's key or its words; several
// choices are joined by ", ".
func AnswerTo(l *ledger.Lead, question string) string {
	want := Slug(question)
	for _, by := range []func(ledger.FormAnswer) string{
		func(f ledger.FormAnswer) string { return f.Question },
		func(f ledger.FormAnswer) string { return f.Label },
	} {
		for _, f := range l.Answers {
			if name := by(f); name == question || want != "" && Slug(name) == want {
				return strings.Join(f.Values, ", ")
			}
		}
	}
	return ""
}

// Slug writes a question as what_are_you_looking_for: letters and digits of any language, in
// lower case, with single underscores between.
func Slug(text string) string {
	var b strings.Builder
	gap := false
	for _, r := range strings.ToLower(text) {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) {
			gap = true
			continue
		}
		if gap && b.Len() > 0 {
			b.WriteByte('_')
		}
		gap = false
		b.WriteRune(r)
	}
	return b.String()
}

// title names a deal: Ana Example – Form A.
func title(a Account, l *ledger.Lead) string {
	full, _, _ := names(l.Contact)
	who := firstOf(full, Email(l), Phone(a, l, firstOf(l.Contact.Phone, l.Contact.WorkPhone)), "Lead")
	what := map[string]string{"meta": "Meta lead", "google": "Google lead", "tiktok": "TikTok lead", "linkedin": "LinkedIn lead"}[l.Platform]
	return who + " – " + firstOf(l.Origin.FormName, what, "lead")
}

// Forwarded are the answers that go to a CRM by themselves: all but national ids, which
// only a mapping that names them (answer:id_cpf) hands on.
func Forwarded(l *ledger.Lead) []ledger.FormAnswer {
	return slices.DeleteFunc(slices.Clone(l.Answers), func(f ledger.FormAnswer) bool { return f.Private })
}

// answers writes all answers as lines for a note.
func answers(l *ledger.Lead) string {
	lines := make([]string, 0, len(l.Answers))
	for _, f := range Forwarded(l) {
		lines = append(lines, firstOf(f.Label, f.Question)+": "+strings.Join(f.Values, ", "))
	}
	return strings.Join(lines, "\n")
}

// names fills what a form did not ask for from what it did: the first word of a full
// name is the first name.
func names(c ledger.Contact) (full, first, last string) {
	full, first, last = words(c.FullName), words(c.FirstName), words(c.LastName)
	if full == "" {
		full = words(first + " " + last)
	}
	if first == "" && last == "" {
		first, last, _ = strings.Cut(full, " ")
	}
	return full, first, last
}

func words(s string) string { return strings.Join(strings.Fields(s), " ") }

func birthday(a Account, l *ledger.Lead) string {
	n, _ := capi.NormaliseValue(capi.KeyBirthDate, l.Contact.Birthday, capi.Locale{Country: firstOf(l.Contact.Country, a.Country)})
	if len(n.Texts) > 0 && len(n.Texts[0]) == 8 {
		d := n.Texts[0]
		return d[:4] + "-" + d[4:6] + "-" + d[6:]
	}
	return l.Contact.Birthday
}

// fbclid takes the click id out of _fbc (fb.1.1795000000000.IwAR…) where it did not come alone.
func fbclid(c ledger.Clicks) string {
	if c.FBClid != "" {
		return c.FBClid
	}
	if parts := strings.SplitN(c.FBC, ".", 4); len(parts) == 4 {
		return parts[3]
	}
	return ""
}

func firstOf(list ...string) string {
	for _, s := range list {
		if strings.TrimSpace(s) != "" {
			return s
		}
	}
	return ""
}

func moment(t time.Time, layout string) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(layout)
}

func yesNo(b bool) string {
	if b {
		return "true"
	}
	return "false"
}

func consentWord(c ledger.Consent) string {
	switch c {
	case ledger.ConsentGranted:
		return "granted"
	case ledger.ConsentDenied:
		return "denied"
	default:
		return ""
	}
}
