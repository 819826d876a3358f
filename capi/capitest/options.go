package capitest

import (
	"net/http"
	"time"
)

// Options says what the stand-in knows and how strict it is. The zero value
// accepts every token that does not begin with "bad" and every dataset, and judges
// events by the defaults of Rules.
type Options struct {
	// Now is the stand-in's clock; nil means time.Now. Where it is set, the Date
	// header follows it, so that a skewed clock can be simulated.
	Now func() time.Time

	// Tokens are the access tokens that exist. Nil: any token may do anything,
	// except that one beginning with "bad" is refused with code 190, and
	// "bad-463" with that subcode.
	Tokens map[string]Token

	// Datasets are the datasets that exist; any other answers 100/33. Nil: all exist.
	Datasets map[string]Dataset

	// Pages are the Facebook pages that exist; any other answers 100/33. Nil: all exist.
	Pages map[string]Page

	// AppSecret, where set, makes appsecret_proof obligatory: code 104 without a right one.
	AppSecret string

	// StrictSource refuses website events without event_source_url or
	// client_user_agent and events without action_source. Meta's pages call these
	// required, but the live API accepted a website event without a user agent.
	StrictSource bool

	// RefuseLeadIDAlone refuses events whose only match key is lead_id, as some
	// practitioners report; the documentation allows them.
	RefuseLeadIDAlone bool

	// FutureTolerance is how far ahead event_time may be; 0 means 60 seconds.
	FutureTolerance time.Duration

	// Rules are the remaining switches.
	Rules Rules

	// KeepServerRepeats keeps a repeat of an event_id that came from the server
	// both times. No page says that Meta removes such a repeat; by default it is
	// dropped, as practice reports.
	KeepServerRepeats bool

	// MaxBody is the largest body in bytes; 0 means 8 MiB. Meta documents no limit.
	MaxBody int64

	// KeepRecords is how many events are remembered one by one; 0 means 1,000,000.
	// Counts stay exact beyond it.
	KeepRecords int

	// KeepPayloads is how many events' bytes are remembered; 0 means 10,000,
	// negative none.
	KeepPayloads int

	// CountOnly makes POST /events check nothing and count the events by the
	// number of times that event_name occurs in the body. For load tests only:
	// nothing is judged, deduplicated or remembered.
	CountOnly bool

	// Client delivers lead webhooks; nil means a client with a timeout of 10 seconds.
	Client *http.Client
}

// Switch says what a broken rule does to an event.
type Switch uint8

// The positions of a Switch.
const (
	Default Switch = iota // as documented at the rule
	Off                   // nothing
	Warn                  // the event is accepted, the record carries a warning
	Reject                // the whole request is refused
)

// Rules holds a Switch for each rule about which Meta's pages are silent,
// contradictory, or stricter than the live API. Rules that are certain have none.
type Rules struct {
	FutureTime          Switch // event_time ahead of the clock by more than FutureTolerance; default Warn
	UpperCaseHash       Switch // a hash in capital letters; default Warn
	MD5Hash             Switch // a hash of 32 digits, which old SDKs pass through; default Reject
	WebsiteUserAgent    Switch // website without client_user_agent; default Warn
	WebsiteURL          Switch // website without event_source_url; default Warn
	ActionSourceMissing Switch // no action_source; default Warn
	UnknownLead         Switch // well-formed lead_id that no AddLead made known; default Reject
	NegativeValue       Switch // custom_data.value below zero; default Warn
	PurchaseValue       Switch // Purchase without value, whatever its source; default Reject
	MessagingName       Switch // business_messaging outside the five names that pass; default Reject
	LeadIDAlone         Switch // lead_id as the only key; default Off
}

// withDefaults returns the rules with every Default replaced.
func (o Options) withDefaults() Rules {
	r := o.Rules
	set := func(s *Switch, v Switch) {
		if *s == Default {
			*s = v
		}
	}
	source := Warn
	if o.StrictSource {
		source = Reject
	}
	set(&r.FutureTime, Warn)
	set(&r.UpperCaseHash, Warn)
	set(&r.MD5Hash, Reject)
	set(&r.WebsiteUserAgent, source)
	set(&r.WebsiteURL, source)
	set(&r.ActionSourceMissing, source)
	set(&r.UnknownLead, Reject)
	set(&r.NegativeValue, Warn)
	set(&r.PurchaseValue, Reject)
	set(&r.MessagingName, Reject)
	if o.RefuseLeadIDAlone {
		set(&r.LeadIDAlone, Reject)
	}
	set(&r.LeadIDAlone, Off)
	return r
}

// Token is what an access token may do; the zero value may do everything.
type Token struct {
	AppID             string
	UserID            string
	Type              string    // USER, PAGE, APP or SYSTEM_USER; empty means SYSTEM_USER
	Scopes            []string  // permissions; nil means all that this package's reads ask for
	Datasets          []string  // datasets it may use, others answer 100/33; nil means all
	Pages             []string  // pages it may use, others answer 100/33; nil means all
	Expires           time.Time // zero means never; afterwards every call answers 190/463
	DataAccessExpires time.Time // zero means never; only debug_token tells it
	Subcode           int       // revoked: every call answers 190 with this subcode, 458 or 460 for instance
	SendOnly          bool      // may post events but read nothing, as tokens made in Events Manager
}

// Dataset is what GET /{dataset} tells about one, and whether events may come in.
type Dataset struct {
	Name            string
	OwnerBusiness   string    // the business that owns it
	IsCRM           bool      // is_crm
	NotConsolidated bool      // is_consolidated_container is false
	Unavailable     bool      // is_unavailable
	Created         time.Time // creation_time; zero means 30 days ago
	AccessExpires   time.Time // user_access_expire_time; afterwards every call answers 100/33
	MatchRate       float64   // match_rate_approx
	Quality         []Quality // what dataset_quality answers; nil: figures made from what came in
}

// Quality is one event name's line of the Dataset Quality API.
type Quality struct {
	EventName string
	Score     float64            // event_match_quality.composite_score
	Keys      map[string]float64 // coverage in percent by identifier: email, ip_address, user_agent …
	Coverage  float64            // event_coverage.percentage
}

// Page is a Facebook page with lead forms.
type Page struct {
	Name             string
	Token            string // page access token, as /me/accounts tells it
	Subscribed       bool   // the app gets the page's leadgen webhooks
	AppLacksAccess   bool   // the Leads Access Manager does not list the app
	UserLacksAccess  bool   // it does not list the user
	AccessCustomised bool   // enabled_lead_access_manager
}
