package ledger

import (
	"log/slog"
	"time"
)

// Lead is one enquiry by one person. What identifies the person (Contact, Answers,
// the address and browser of the visit) is kept under a key of the lead's own; the
// rest stands open.
type Lead struct {
	ID        ID
	Workspace int64
	Source    string // name of the source it came by
	Kind      string // the source's kind: meta_leads, google_leads, tiktok_leads, linkedin_leads, website, api, csv
	Platform  string // whose ad brought it: meta, google, tiktok, linkedin; "": not known
	LeadID    string // the platform's own id, as text; "": none
	DedupeKey string // what recognises the same submission at its source; "": kind and LeadID
	DedupeToo string // a second one, for what is recognised by the minute; "": none
	Origin    Origin
	Clicks    Clicks
	PageURL   string // page of the form, without personal parameters
	Consent   Consent
	History   bool // it was there before the connection: what it reached before now is never sent
	Test      bool // kept and delivered, never turned into an event
	CreatedAt time.Time
	EventID   string // of the tag, for the Lead event that the browser reports too

	Contact    Contact
	ExternalID string // the caller's own id of the person
	Answers    []FormAnswer
	IP         string // the visitor's, for website leads
	UserAgent  string
}

// LeadName stands in the place of an event's name where a delivery is a lead on its
// way into a CRM. No event may be called so: the two books are told apart by it.
const LeadName = "(lead)"

// Origin is the advertising that a lead came by; ids as text, each may be missing.
type Origin struct {
	FormID, FormName         string
	AdID, AdName             string
	AdSetID, AdSetName       string
	CampaignID, CampaignName string
	Channel                  string // where the ad ran: fb, ig …
	Organic                  bool   // no ad
}

// Clicks are the click ids that came with a lead, unchanged: they are case
// sensitive.
type Clicks struct {
	FBC, FBP, FBClid      string
	GClid, GBraid, WBraid string
	TTClid, LiFatID       string
	CTWAClid, MSClkid     string
}

// Contact holds the standard fields of a form.
type Contact struct {
	FullName, FirstName, LastName string
	Email, Phone                  string
	WorkEmail, WorkPhone          string
	Street, City, State, Postcode string
	Country                       string
	Birthday, Gender              string
	Company, JobTitle             string
}

// FormAnswer is one answer of a form under the form's own name of the question. Several
// values are several choices.
type FormAnswer struct {
	Question string   `json:"question"`        // the form's key
	Label    string   `json:"label,omitempty"` // the question in words, where known
	Values   []string `json:"values"`
	Consent  bool     `json:"consent,omitempty"` // a tick box of a disclaimer
	Private  bool     `json:"private,omitempty"` // a national id: kept, and forwarded only where a mapping names it
}

// LogValue keeps personal data out of logs: it says which lead, not who.
func (l Lead) LogValue() slog.Value {
	return slog.GroupValue(slog.String("id", l.ID.String()), slog.String("source", l.Source), slog.String("kind", l.Kind))
}

// LogValue says which fields are there, not what they hold.
func (c Contact) LogValue() slog.Value { return slog.StringValue("***") }

// String hides the contact.
func (c Contact) String() string { return "***" }

// GoString hides the contact.
func (c Contact) GoString() string { return "***" }
