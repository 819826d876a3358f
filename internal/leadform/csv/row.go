package csv

import (
	"regexp"
	"strings"
	"time"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/ledger"
)

var (
	// markedLeadID is how Meta writes a lead's id, which is recognised in any column.
	markedLeadID = regexp.MustCompile(`^l:\d{10,20}$`)
	// markedPhone is how Meta writes a number, whatever the question is called.
	markedPhone = regexp.MustCompile(`^p:\+?[0-9]{5,20}$`)
	// rounded is what a table makes of a long number: its last digits are gone.
	rounded = regexp.MustCompile(`^[-+]?\d+([.,]\d+)?[eE]\+?\d+$`)
	digits  = regexp.MustCompile(`^\d{10,20}$`)
)

// idPrefixes keep tables from eating the digits of Meta's ids.
var idPrefixes = map[string]string{"ad_id": "ag:", "adset_id": "as:", "campaign_id": "c:", "form_id": "f:"}

// lead reads a record.
func (f *file) lead(row Row, record []string, own string) (Row, error) {
	row.Lead = ledger.Lead{Workspace: f.o.Workspace, Source: f.o.Source, Kind: Name, History: !f.o.Live, CreatedAt: f.o.Now}
	fail := func(column, reason, fix string) (Row, error) {
		return Row{Mark: row.Mark}, &LineError{Line: row.Mark.Line, Column: column, Reason: reason, Fix: fix}
	}
	for i, value := range record {
		value = leadform.Clean(value)
		if i >= len(f.columns) {
			if value != "" {
				return fail("", "the line has more values than there are columns", "put values that hold the delimiter into quotation marks")
			}
			continue
		}
		if value == "" {
			continue
		}
		c := &f.columns[i]
		if markedLeadID.MatchString(value) && c.role != roleLeadID && row.Lead.LeadID == "" {
			row.Lead.LeadID, row.Lead.Platform = value[2:], "meta"
			continue
		}
		if problem := f.cell(&row, c, value); problem != nil {
			return fail(c.header, problem.Reason, problem.Fix)
		}
	}
	l := &row.Lead
	if l.Platform == "" && l.LeadID != "" {
		switch {
		case f.meta:
			l.Platform = "meta"
		case f.tiktok:
			l.Platform = "tiktok"
		}
	}
	leadform.Complete(l)
	if l.LeadID == "" {
		if len(l.Answers) == 0 {
			return fail("", "the line has neither a lead id nor any answer", "map the columns: --column 'E-mail=email'")
		}
		l.DedupeKey = own
	}
	return row, nil
}

// cell puts a value where its column belongs.
func (f *file) cell(row *Row, c *column, value string) *LineError {
	l := &row.Lead
	switch c.role {
	case "":
		f.answer(l, c, value)
	case roleNone:
	case roleLeadID:
		return f.leadID(l, value)
	case roleCreated:
		at, problem := f.time(value)
		if problem != nil {
			return problem
		}
		l.CreatedAt = at
	case roleChannel:
		l.Origin.Channel = value
	case roleOrganic:
		l.Origin.Organic = isYes(value)
	case roleTest:
		l.Test = l.Test || isYes(value)
	case roleConsent:
		l.Consent = consent(value)
	case "platform":
		l.Platform = platform(value)
	case "page_url":
		if strings.HasPrefix(value, "https://") || strings.HasPrefix(value, "http://") {
			l.PageURL, _ = capi.CleanURL(value)
		}
	default:
		prefix := idPrefixes[c.role]
		if prefix != "" {
			value = strings.TrimPrefix(value, prefix)
			if rounded.MatchString(value) {
				row.Warnings = append(row.Warnings, &LineError{
					Line: row.Mark.Line, Column: c.header, Reason: "the id was rounded by a table (scientific notation) and was left out", Fix: "format the column as text",
				})
				return nil
			}
			if value == "0" {
				return nil
			}
		}
		if place := place(l, c.role); place != nil {
			*place = value
		}
	}
	return nil
}

func (f *file) answer(l *ledger.Lead, c *column, value string) {
	field := c.field
	switch field {
	case leadform.Custom:
		if f.meta && markedPhone.MatchString(value) {
			field = leadform.Phone
		}
	case leadform.Postcode:
		value = strings.TrimPrefix(value, "z:")
	default:
	}
	if field == leadform.Phone || field == leadform.WorkPhone {
		value = strings.TrimPrefix(value, "p:")
	}
	if leadform.IsDummy(value) || field == leadform.Email && (strings.EqualFold(value, "test@meta.com") || strings.EqualFold(value, "test@fb.com")) {
		l.Test = true
	}
	name := c.name
	label := c.header
	if name == "" {
		name, label = c.header, ""
	}
	leadform.Assign(l, field, ledger.FormAnswer{Question: name, Label: label, Values: []string{value}})
}

func (f *file) leadID(l *ledger.Lead, value string) *LineError {
	if l.LeadID != "" && markedLeadID.MatchString("l:"+l.LeadID) && !markedLeadID.MatchString(value) {
		return nil // another column has Meta's own, this one numbers the lines
	}
	plain := strings.TrimSpace(strings.TrimPrefix(value, "l:"))
	if rounded.MatchString(plain) {
		return &LineError{Reason: "the lead id was rounded by a table (scientific notation), its last digits are lost", Fix: "format the column as text and paste the ids again from the export"}
	}
	if whole, ok := strings.CutSuffix(plain, ".0"); ok && digits.MatchString(whole) {
		plain = whole
	}
	if (f.meta || strings.HasPrefix(value, "l:")) && !digits.MatchString(plain) {
		return &LineError{Reason: "a lead id of Meta's is 15 to 17 digits, with or without l: before them", Fix: "take the column id from the export, or map another one as lead_id"}
	}
	if strings.HasPrefix(value, "l:") {
		l.Platform = "meta"
	}
	l.LeadID = plain
	return nil
}

// place is where a value of a lead's own field goes.
func place(l *ledger.Lead, role string) *string {
	o, c := &l.Origin, &l.Clicks
	return map[string]*string{
		"ad_id": &o.AdID, "ad_name": &o.AdName, "adset_id": &o.AdSetID, "adset_name": &o.AdSetName,
		"campaign_id": &o.CampaignID, "campaign_name": &o.CampaignName, "form_id": &o.FormID, "form_name": &o.FormName,
		"fbclid": &c.FBClid, "fbc": &c.FBC, "fbp": &c.FBP, "gclid": &c.GClid, "gbraid": &c.GBraid, "wbraid": &c.WBraid,
		"ttclid": &c.TTClid, "li_fat_id": &c.LiFatID, "ctwa_clid": &c.CTWAClid, "msclkid": &c.MSClkid,
	}[role]
}

func platform(value string) string {
	switch value = strings.ToLower(value); value {
	case "fb", "ig", "facebook", "instagram", "meta":
		return "meta"
	}
	return value
}

func consent(value string) ledger.Consent {
	switch strings.ToLower(value) {
	case "true", "yes", "1", "granted", "on":
		return ledger.ConsentGranted
	case "false", "no", "0", "denied", "off":
		return ledger.ConsentDenied
	}
	return ledger.ConsentAbsent
}

func isYes(value string) bool {
	switch strings.ToLower(value) {
	case "true", "yes", "1":
		return true
	}
	return false
}

// zoned and local are the forms of times with and without a zone.
var (
	zoned = []string{
		time.RFC3339Nano, "2006-01-02T15:04:05Z0700", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 Z07:00", "2006-01-02 15:04:05 Z0700",
		"2006-01-02T15:04Z07:00", time.RFC1123Z,
	}
	local = []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly}
	parts = []string{" 15:04:05", " 15:04", " 3:04 PM", " 3:04:05 PM", ""}
)

// time reads a time. Of 05/11/2026 only the options say which number is the day.
func (f *file) time(value string) (time.Time, *LineError) {
	zone := f.o.Zone
	if zone == nil || f.tiktok {
		zone = time.UTC
	}
	for _, layout := range zoned {
		if t, err := time.Parse(layout, value); err == nil {
			return t.UTC(), nil
		}
	}
	for _, layout := range local {
		if t, err := time.ParseInLocation(layout, value, zone); err == nil {
			return t.UTC(), nil
		}
	}
	slashed := strings.NewReplacer(".", "/", "-", "/").Replace(value)
	dates := map[DateOrder]string{DayFirst: "2/1/2006", MonthFirst: "1/2/2006"}
	var read []time.Time
	for order, date := range dates {
		for _, part := range parts {
			if t, err := time.ParseInLocation(date+part, slashed, zone); err == nil {
				if order == f.o.Dates {
					return t.UTC(), nil
				}
				read = append(read, t)
			}
		}
	}
	if len(read) > 0 && f.o.Dates == DatesUnknown {
		return time.Time{}, &LineError{Reason: "which number of the date is the day cannot be told", Fix: "say it: --dates dmy or --dates mdy"}
	}
	if seconds, given, problem := capi.NormaliseTime(value, f.o.Now); given && problem == nil {
		return time.Unix(seconds, 0).UTC(), nil
	}
	return time.Time{}, &LineError{Reason: "it is not a point in time", Fix: "write it as 2026-11-18T14:06:37+03:00"}
}
