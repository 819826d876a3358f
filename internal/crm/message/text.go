package message

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/notify"
)

// platforms are the names of ad platforms for people.
var platforms = map[string]string{"meta": "Meta", "google": "Google", "tiktok": "TikTok", "linkedin": "LinkedIn"}

// Message writes the lead for people: who it is, what they answered, where they came
// from. Click ids are left out: nobody reads them.
func Message(a crm.Account, l *ledger.Lead) notify.Message {
	value := func(source string) string { return crm.Value(a, l, source) }
	m := notify.Message{ID: "lead-" + l.ID.String()}
	name := value("full_name")
	m.Subject = "New lead: " + cmp.Or(name, value("company"), value("phone"), value("email"), l.Origin.FormName, "without a name")
	if l.Test {
		m.Subject = "[Test] " + m.Subject
		m.Text = "This is a test lead: nobody is waiting for a call."
	}
	if l.Consent == ledger.ConsentDenied {
		m.Text = strings.TrimSpace(m.Text + "\nThis person did not agree to advertising.")
	}
	add := func(label, text, link string) {
		if text = strings.TrimSpace(text); text != "" {
			m.Fields = append(m.Fields, notify.Field{Label: label, Value: text, Link: link})
		}
	}
	add("Name", name, "")
	add("Phone", value("phone"), tel(value("phone")))
	if value("work_phone") != value("phone") {
		add("Work phone", value("work_phone"), tel(value("work_phone")))
	}
	add("E-mail", value("email"), mailto(value("email")))
	if !strings.EqualFold(value("work_email"), value("email")) {
		add("Work e-mail", value("work_email"), mailto(value("work_email")))
	}
	add("Company", value("company"), "")
	add("Job title", value("job_title"), "")
	add("Address", join(", ", l.Contact.Street, l.Contact.City, l.Contact.State, l.Contact.Postcode, l.Contact.Country), "")
	add("Birthday", value("birthday"), "")
	shown := contact(a, l)
	for _, f := range crm.Forwarded(l) {
		text := strings.Join(f.Values, ", ")
		if !slices.Contains(shown, strings.ToLower(strings.TrimSpace(text))) { // the answer is a standard field as well
			add(cmp.Or(f.Label, f.Question), text, "")
		}
	}
	origin(l, add)
	add("Came", came(a, l.CreatedAt), "")
	add("Lead id", crm.Key(l), "")
	if a.MarkURL != nil && !l.Test {
		m.Ask, m.Answers = "What became of it?", answers(a.MarkURL(l.ID))
	}
	return m
}

// answers are the choices with a link each. They open a page that asks once more, so that
// a program which opens links marks nothing.
func answers(link string) []notify.Link {
	list := make([]notify.Link, 0, len(ledger.Choices()))
	for _, c := range ledger.Choices() {
		list = append(list, notify.Link{Label: c.Stage(), URL: link + "?c=" + string(c)})
	}
	return list
}

func origin(l *ledger.Lead, add func(label, text, link string)) {
	add("Campaign", cmp.Or(l.Origin.CampaignName, l.Origin.CampaignID), "")
	add("Ad", cmp.Or(l.Origin.AdName, l.Origin.AdID), "")
	add("Form", cmp.Or(l.Origin.FormName, l.Origin.FormID), "")
	from := cmp.Or(platforms[l.Platform], l.Platform)
	if l.Origin.Organic {
		from = join(", ", from, "without an ad")
	}
	add("Source", join(" · ", l.Source, from), "")
	page := ""
	if strings.HasPrefix(l.PageURL, "https://") {
		page = l.PageURL
	}
	add("Page", l.PageURL, page)
}

// contact lists what the message says anyway, in lower case.
func contact(a crm.Account, l *ledger.Lead) []string {
	c := l.Contact
	list := []string{
		c.FullName, c.FirstName, c.LastName, c.Email, c.Phone, c.WorkEmail, c.WorkPhone, c.Street, c.City, c.State, c.Postcode, c.Country,
		c.Birthday, c.Company, c.JobTitle, crm.Value(a, l, "phone"), crm.Value(a, l, "work_phone"),
	}
	for i, text := range list {
		list[i] = strings.ToLower(strings.TrimSpace(text))
	}
	return list
}

// tel makes a number clickable that is written internationally.
func tel(number string) string {
	digits, ok := strings.CutPrefix(number, "+")
	if !ok || digits == "" || strings.ContainsFunc(digits, func(r rune) bool { return r < '0' || r > '9' }) {
		return ""
	}
	return "tel:+" + digits
}

func mailto(address string) string {
	if !strings.Contains(address, "@") || strings.ContainsAny(address, " \t\r\n<>\",") {
		return ""
	}
	return "mailto:" + strings.ReplaceAll(url.PathEscape(address), "%40", "@")
}

func came(a crm.Account, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	zone, err := time.LoadLocation(a.Options.Text("timezone"))
	if err != nil {
		zone = time.UTC
	}
	return at.In(zone).Format("2 January 2006, 15:04 MST")
}

func zoneKnown(name string) bool {
	_, err := time.LoadLocation(name)
	return err == nil
}

func join(separator string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return strings.TrimSpace(s) == "" }), separator)
}
