package website

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/ledger"
)

// metaFields are the inputs that tell of the visit and not of the person, by name in
// lower case with underscores. The field map may name them as targets.
var metaFields = map[string]string{
	"fbclid": "fbclid", "fbc": "fbc", "fbp": "fbp", "gclid": "gclid", "gbraid": "gbraid", "wbraid": "wbraid", "gcl_id": "gclid",
	"ttclid": "ttclid", "li_fat_id": "li_fat_id", "ctwa_clid": "ctwa_clid", "msclkid": "msclkid",
	"page_url": "page_url", "pageurl": "page_url", "page_location": "page_url", "source_url": "page_url",
	"consent": "consent", "marketing_consent": "consent", "event_id": "event_id", "submission_id": "submission_id", "submissionid": "submission_id",
	"form_id": "form_id", "formid": "form_id", "form_name": "form_name", "formname": "form_name",
	"client_ip": "client_ip", "client_ip_address": "client_ip", "remote_ip": "client_ip", "client_user_agent": "user_agent", "user_agent": "user_agent",
	"submitted_at": "submitted_at", "is_test": "is_test",
}

// maxMeta is how long what tells of the visit may be; what is longer is an answer.
const maxMeta = 4096

// reader turns a submission into a lead.
type reader struct {
	lead    ledger.Lead
	sub     submission
	table   map[string]string // the source's field map
	test    string
	answers map[string]bool // questions taken
}

func read(tree *node, r leadform.Request, s leadform.Source, now time.Time) ledger.Lead {
	rd := reader{
		lead: ledger.Lead{Workspace: s.Workspace, Source: s.Name, Kind: Name, CreatedAt: now},
		sub:  shape(tree), table: s.Options.Map("fields"), answers: map[string]bool{},
	}
	if table := rd.table; len(table) > 0 { // paths of the body as it came, builders' shapes or not
		rd.mapped(tree)
	}
	for _, f := range rd.sub.fields {
		if f.name != honeypot(s) {
			rd.take(f)
		}
	}
	leadform.Complete(&rd.lead)
	rd.visit(r, now)
	l := rd.lead
	l.Origin.FormID, l.Origin.FormName = leadform.Clean(rd.sub.form), leadform.Clean(rd.sub.formName)
	l.Test = isYes(rd.test)
	l.History = l.CreatedAt.Before(s.CreatedAt.Truncate(time.Second).Add(-clockDoubt))
	submission := leadform.Clean(rd.sub.id)
	l.DedupeKey = dedupeKey(&l, submission, s.Country, now)
	if submission == "" { // a double click may lie on both sides of a minute's end
		l.DedupeToo = "half " + dedupeKey(&l, submission, s.Country, now.Add(30*time.Second))
	}
	return l
}

// mapped adds what the field map names by its path and the shape left out.
func (rd *reader) mapped(tree *node) {
	var all submission
	all.gather(tree, nil)
	for _, f := range all.fields {
		if _, ok := rd.table[f.path]; ok && !slices.ContainsFunc(rd.sub.fields, func(have field) bool { return have.path == f.path }) {
			rd.sub.fields = append(rd.sub.fields, f)
		}
	}
}

// take puts a field where it belongs: where the field map says, else into the data of
// the visit, else among the answers.
func (rd *reader) take(f field) {
	target, isMapped := rd.target(f)
	if target == "-" {
		return
	}
	value := ""
	if len(f.values) > 0 {
		value = leadform.Clean(f.values[0])
	}
	meta := target
	if !isMapped {
		meta = metaFields[key(f.name)]
		if meta == "" && f.label != "" {
			meta = metaFields[key(f.label)]
		}
	}
	if meta != "" && rd.meta(meta, value) && meta != "consent" {
		return
	}
	a := ledger.FormAnswer{Question: f.name, Label: f.label, Values: f.values, Consent: meta == "consent"}
	if a.Label == a.Question {
		a.Label = ""
	}
	standard := leadform.Custom
	switch {
	case meta == "consent":
	case !isMapped:
		standard = guess(f)
	case isStandard(target):
		standard = leadform.Canonical(target)
	default:
		a.Question, a.Label = target, f.name
	}
	if rd.answers[a.Question] {
		a.Question = f.path
	}
	rd.answers[a.Question] = true
	leadform.Assign(&rd.lead, standard, a)
}

func (rd *reader) target(f field) (target string, ok bool) {
	for _, name := range []string{f.path, f.name, f.label} {
		if target, ok = rd.table[name]; ok && name != "" {
			return target, true
		}
	}
	return "", false
}

// guess finds the standard field by the input's name, its label, its type.
func guess(f field) leadform.Canonical {
	if f.deep {
		return leadform.Custom
	}
	for _, name := range []string{f.name, snake(f.name), f.label} {
		if c := leadform.WebsiteField(name); c != leadform.Custom {
			return c
		}
	}
	switch strings.ToLower(f.hint) {
	case "email", "input_email":
		return leadform.Email
	case "tel", "phone", "phone_number", "input_phone_number":
		return leadform.Phone
	}
	return leadform.Custom
}

// isStandard tells whether a target of the field map is a field of every lead.
func isStandard(target string) bool {
	var l ledger.Lead
	leadform.Set(&l, leadform.Canonical(target), "x")
	return l.Contact != ledger.Contact{}
}

// meta keeps what tells of the visit. false says that it is no such field.
func (rd *reader) meta(name, value string) bool {
	c := &rd.lead.Clicks
	places := map[string]*string{
		"fbclid": &c.FBClid, "fbc": &c.FBC, "fbp": &c.FBP, "gclid": &c.GClid, "gbraid": &c.GBraid, "wbraid": &c.WBraid,
		"ttclid": &c.TTClid, "li_fat_id": &c.LiFatID, "ctwa_clid": &c.CTWAClid, "msclkid": &c.MSClkid,
		"page_url": &rd.sub.page, "event_id": &rd.lead.EventID, "submission_id": &rd.sub.id, "form_id": &rd.sub.form, "form_name": &rd.sub.formName,
		"client_ip": &rd.sub.ip, "user_agent": &rd.sub.agent, "submitted_at": &rd.sub.at, "is_test": &rd.test,
	}
	if name == "consent" {
		rd.lead.Consent = consent(value)
		return true
	}
	place := places[name]
	if place == nil || len(value) > maxMeta {
		return false
	}
	if *place == "" {
		*place = value
	}
	return true
}

// visit adds what the request tells of the visitor. Of a form builder's server only
// what it says of the visitor counts, not its own address and agent.
func (rd *reader) visit(r leadform.Request, now time.Time) {
	l := &rd.lead
	if isBrowser(r.Header) {
		if r.Peer.IsValid() {
			l.IP = r.Peer.Unmap().String()
		}
		l.UserAgent = leadform.Clean(r.Header.Get("User-Agent"))
		if rd.sub.page == "" {
			rd.sub.page = r.Header.Get("Referer")
		}
		cookies := (&http.Request{Header: r.Header}).Cookies()
		for _, cookie := range cookies {
			if cookie.Name == "_fbp" || cookie.Name == "_fbc" {
				rd.meta(cookie.Name[1:], leadform.Clean(cookie.Value))
			}
		}
	} else {
		if ip, err := netip.ParseAddr(strings.TrimSpace(rd.sub.ip)); err == nil {
			l.IP = ip.Unmap().WithZone("").String()
		}
		l.UserAgent = leadform.Clean(rd.sub.agent)
		if at, ok := moment(rd.sub.at, now); ok {
			l.CreatedAt = at
		}
	}
	if page, err := url.Parse(strings.TrimSpace(rd.sub.page)); err == nil {
		for name, values := range page.Query() {
			switch name {
			case "fbclid", "gclid", "gbraid", "wbraid", "ttclid", "li_fat_id", "ctwa_clid", "msclkid":
				rd.meta(name, leadform.Clean(values[0]))
			}
		}
		if page.Host != "" && (page.Scheme == "https" || page.Scheme == "http") { // it stands open beside the lead: nothing but an address
			l.PageURL, _ = capi.CleanURL(leadform.Clean(rd.sub.page))
		}
	}
}

// moment reads when a form was sent. A text that does not say whose clock it is by
// tells nothing: read as UTC, it would make a lead of now one of hours ago.
func moment(text string, now time.Time) (at time.Time, ok bool) {
	text = strings.TrimSpace(text)
	if !zoned.MatchString(text) {
		return time.Time{}, false
	}
	seconds, given, problem := capi.NormaliseTime(text, now)
	if !given || problem != nil || seconds < firstMoment {
		return time.Time{}, false
	}
	at = time.Unix(seconds, 0).UTC()
	return at, at.Before(now)
}

// zoned is a time that names its zone so that it can be told: seconds since 1970, or a
// text with an offset. Abbreviations but UTC and GMT mean several zones each.
var zoned = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$|[0-9] ?(Z|UTC|GMT|[+-][0-9]{2}:?[0-9]{2})$`)

// firstMoment, in 2001, is before any form that is sent to here: 20261118 is a day and
// not a number of seconds.
const firstMoment = 1_000_000_000

// clockDoubt is how much older than its source a lead must be to be history: a form is
// open to all, and a lead taken for history wrongly reaches nobody.
const clockDoubt = 24 * time.Hour

// dedupeKey recognises the same submission: by its id, or by the minute and the
// answers, and by its person in any case, for anybody can post an id that another
// person's form had, and pages hand the same hidden id to all. It holds nothing that
// could be read, but who keeps it should still do so under a key: it is made of an
// e-mail address.
func dedupeKey(l *ledger.Lead, submission, country string, now time.Time) string {
	email, phone := l.Normalised(country)
	if email == "" {
		email = strings.ToLower(l.Contact.Email)
	}
	if phone == "" {
		phone = digits(l.Contact.Phone)
	}
	parts := [][]string{{"id", l.Origin.FormID, submission, email, phone}}
	if submission == "" {
		parts[0] = []string{"person", l.Origin.FormID, now.UTC().Format("2006-01-02T15:04"), email, phone}
	}
	if submission == "" || email == "" && phone == "" {
		parts = append(parts, enquiry(l)...)
	}
	h := sha256.New()
	for _, part := range parts {
		_, _ = fmt.Fprintf(h, "%q\n", part) // quoted, so that no text can look like two
	}
	return hex.EncodeToString(h.Sum(nil))
}

// enquiry is what was answered, in any order, but for the e-mail and the phone, which
// the same person writes in one way or another.
func enquiry(l *ledger.Lead) [][]string {
	list := make([][]string, 0, len(l.Answers))
	for _, a := range l.Answers {
		answer := []string{a.Question}
		for _, v := range a.Values {
			if v != l.Contact.Email && v != l.Contact.Phone {
				answer = append(answer, v)
			}
		}
		list = append(list, answer)
	}
	slices.SortFunc(list, slices.Compare)
	return list
}

func digits(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return r
		}
		return -1
	}, s)
}

// consent reads a tick box or a yes or no; anything else tells nothing.
func consent(value string) ledger.Consent {
	switch strings.ToLower(value) {
	case "on", "yes", "true", "1", "granted", "accepted", "agree", "agreed", "checked":
		return ledger.ConsentGranted
	case "off", "no", "false", "0", "denied", "declined":
		return ledger.ConsentDenied
	}
	return ledger.ConsentAbsent
}

func isYes(value string) bool {
	switch strings.ToLower(value) {
	case "true", "yes", "1", "on":
		return true
	}
	return false
}

// key is a name in lower case with underscores, without one before it: _fbp.
func key(name string) string {
	return strings.Trim(strings.NewReplacer(" ", "_", "-", "_").Replace(strings.ToLower(strings.TrimSpace(name))), "_")
}

// snake writes postalCode as postal_code.
func snake(name string) string {
	var b strings.Builder
	lower := false
	for _, r := range name {
		if unicode.IsUpper(r) && lower {
			b.WriteByte('_')
		}
		lower = unicode.IsLower(r)
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
