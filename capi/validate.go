package capi

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// The codes of what Validate finds; it also uses some of Normalise's
// (invalid_value, unknown_currency, invalid_lead_id, invalid_click_id, invalid_ip).
const (
	ProblemNoEventName       = "event_name_missing"
	ProblemLongEventName     = "event_name_long"
	ProblemNoEventTime       = "event_time_missing"
	ProblemTooOld            = "too_old"
	ProblemInFuture          = "in_future"
	ProblemNoActionSource    = "action_source_missing"
	ProblemActionSource      = "action_source_unknown"
	ProblemNoEventID         = "event_id_missing"
	ProblemNoSourceURL       = "event_source_url_missing"
	ProblemBadSourceURL      = "event_source_url_invalid"
	ProblemNoUserAgent       = "client_user_agent_missing"
	ProblemNoMatchKey        = "no_match_key"
	ProblemWeakMatchKeys     = "weak_match_keys" // Meta calls them too broad
	ProblemUnhashed          = "not_hashed"
	ProblemLeadIDAlone       = "lead_id_alone"
	ProblemNoPurchaseValue   = "purchase_value_missing"
	ProblemNoValueCurrency   = "currency_missing"
	ProblemNegativeValue     = "negative_value"
	ProblemCRMFields         = "crm_fields_incomplete"
	ProblemCRMActionSource   = "crm_action_source"
	ProblemNoExtInfo         = "extinfo_invalid"
	ProblemNoTracking        = "advertiser_tracking_missing"
	ProblemMessagingName     = "messaging_event_name"
	ProblemMessagingChannel  = "messaging_channel_missing"
	ProblemNoCTWAClid        = "ctwa_clid_missing"
	ProblemMessagingIdentity = "messaging_identity_missing"
	ProblemLDU               = "ldu_incomplete"
	ProblemTooLarge          = "too_large"
)

// MaxClockSkew is how far an event may lie in the future. Meta documents no
// tolerance; others refuse beyond a minute.
const MaxClockSkew = 60 * time.Second

const (
	maxEventName = 50         // of the Pixel's custom events; the server's limit is not documented
	maxEventSize = 256 * 1024 // one event of this size takes a quarter of a request
)

// MaxAge returns how old an event may be when Meta receives it: 62 days for
// physical_store, 7 days for all others. One event that is older makes Meta refuse
// its whole batch. Pages "Using the API" and "Offline events".
func MaxAge(s ActionSource) time.Duration {
	const day = 24 * time.Hour
	if s == ActionSourcePhysicalStore {
		return 62 * day
	}
	return 7 * day
}

// Deadline returns the last moment at which Meta takes the event. Senders should
// stop somewhat earlier, for requests wait and clocks differ.
func Deadline(e *Event) time.Time { return time.Unix(e.EventTime, 0).Add(MaxAge(e.ActionSource)) }

// Validate finds what Meta would refuse (SeverityError) and what it would ignore or
// make less of (SeverityWarning), in an event that Normalise has been over. Meta
// refuses a whole batch for one bad event, so that only events without errors
// should be sent. It changes nothing but the case of action_source.
func (e *Event) Validate(now time.Time) Problems {
	e.ActionSource = ActionSource(strings.ToLower(strings.TrimSpace(string(e.ActionSource))))
	c := checker{e: e, now: now, keys: e.UserData.Keys()}
	c.name()
	c.time()
	c.actionSource()
	c.website()
	c.matchKeys()
	c.keyForms()
	c.money()
	c.crm()
	c.app()
	c.messaging()
	c.limitedDataUse()
	c.size()
	return c.found
}

// checker collects the problems of one event.
type checker struct {
	e     *Event
	now   time.Time
	keys  KeySet
	found Problems
}

func (c *checker) add(s Severity, field, code, reason, fix string) {
	c.found = append(c.found, Problem{Field: field, Code: code, Severity: s, Reason: reason, Fix: fix})
}

func (c *checker) refuse(field, code, reason, fix string) {
	c.add(SeverityError, field, code, reason, fix)
}

func (c *checker) warn(field, code, reason, fix string) {
	c.add(SeverityWarning, field, code, reason, fix)
}

func (c *checker) name() {
	switch n := utf8.RuneCountInString(c.e.EventName); {
	case strings.TrimSpace(c.e.EventName) == "":
		c.refuse("event_name", ProblemNoEventName, "the event has no name", "give a standard name (Lead, Purchase …) or one of your own")
	case n > maxEventName:
		c.warn("event_name", ProblemLongEventName, fmt.Sprintf("the name has %d characters", n),
			fmt.Sprintf("keep names to %d characters, as the Pixel does", maxEventName))
	}
	// Business messaging events are not deduplicated at all, whatever their id.
	if c.e.EventID == "" && c.e.ActionSource != ActionSourceBusinessMessaging {
		c.warn("event_id", ProblemNoEventID, "without an id Meta cannot tell a repeat from a second event",
			"give an id that stays the same when the event is sent again, and that the Pixel sends as eventID")
	}
}

func (c *checker) time() {
	at := time.Unix(c.e.EventTime, 0)
	maxAge := MaxAge(c.e.ActionSource)
	switch {
	case c.e.EventTime == 0:
		c.refuse("event_time", ProblemNoEventTime, "the event has no time", "give the moment it happened, in Unix seconds")
	case c.e.EventTime >= 1e11: // the year 5138 in seconds, 1973 in milliseconds
		c.refuse("event_time", ProblemInFuture, "the time lies in the far future, as milliseconds read as seconds do", "give Unix seconds")
	case at.Before(c.now.Add(-maxAge)):
		c.refuse("event_time", ProblemTooOld, fmt.Sprintf("the event is more than %d days old", int(maxAge.Hours()/24)),
			"send events when they happen; a time that is too old must not be changed")
	case at.After(c.now.Add(MaxClockSkew)):
		c.refuse("event_time", ProblemInFuture, "the time lies in the future", "set the clock of the sender, and give Unix seconds in UTC")
	}
}

func (c *checker) actionSource() {
	switch c.e.ActionSource {
	case ActionSourceEmail, ActionSourceWebsite, ActionSourceApp, ActionSourcePhoneCall, ActionSourceChat,
		ActionSourcePhysicalStore, ActionSourceSystemGenerated, ActionSourceBusinessMessaging, ActionSourceOther:
	case "":
		// Meta's page calls it required, yet several of Meta's own samples leave it
		// out: the event is not lost here for what Meta may well take.
		c.warn("action_source", ProblemNoActionSource, "the event does not say where it took place", "give website, system_generated, physical_store …")
	default:
		c.refuse("action_source", ProblemActionSource, "Meta knows no such action source",
			"use email, website, app, phone_call, chat, physical_store, system_generated, business_messaging or other")
	}
}

// website: Meta documents both as required and takes events without them, but they
// match badly. Page "Best practices".
func (c *checker) website() {
	if c.e.ActionSource != ActionSourceWebsite {
		return
	}
	switch url := strings.ToLower(c.e.EventSourceURL); {
	case url == "":
		c.warn("event_source_url", ProblemNoSourceURL, "a website event should name its page", "give the full address of the page")
	case !strings.HasPrefix(url, "https://") && !strings.HasPrefix(url, "http://"):
		c.warn("event_source_url", ProblemBadSourceURL, "this is no full address", "begin it with https://")
	}
	if !c.keys.Has(KeyClientUserAgent) {
		c.warn("user_data.client_user_agent", ProblemNoUserAgent, "a website event should carry the browser's user agent",
			"pass the User-Agent header of the visitor's request")
	}
}

// size looks at what can grow without end.
func (c *checker) size() {
	n := len(c.e.EventSourceURL) + len(c.e.ReferrerURL) + len(c.e.EventID) + len(c.e.EventName)
	for _, k := range listKeys {
		for _, v := range *c.e.UserData.list(k) {
			n += len(v)
		}
	}
	if d := c.e.CustomData; d != nil {
		for _, id := range d.ContentIDs {
			n += len(id)
		}
		for i := range d.Contents {
			p := &d.Contents[i]
			n += len(p.ID) + len(p.Title) + len(p.Description) + len(p.Brand) + len(p.Category)
			for _, v := range p.Extra {
				n += len(v)
			}
		}
		for _, v := range d.Extra {
			n += len(v)
		}
		n += len(d.ContentName) + len(d.ContentCategory) + len(d.SearchString) + len(d.OrderID)
	}
	if n > maxEventSize {
		c.warn("event", ProblemTooLarge, fmt.Sprintf("the event has more than %d KiB", maxEventSize/1024),
			"send ids instead of texts in contents and custom properties")
	}
}
