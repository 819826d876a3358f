package capitest

import (
	"strings"
	"time"
)

// warningSet is what an event was accepted in spite of, one bit each.
type warningSet uint32

const (
	warnFuture warningSet = 1 << iota
	warnUpperHash
	warnMD5
	warnEmptyHash
	warnUserAgent
	warnURL
	warnActionSource
	warnUnknownLead
	warnNegative
	warnPurchaseValue
	warnCurrency
	warnMessagingName
	warnLeadIDAlone
	warnUnknownKey
	warnTracking
	warnEventID
	warnMessagingKeys
)

var warningTexts = []string{
	"event_time lies in the future",
	"a hash is written in capital letters",
	"a hash is MD5, not SHA-256",
	"a hash is that of nothing at all",
	"a website event has no client_user_agent",
	"a website event has no event_source_url",
	"action_source is missing",
	"lead_id is not known here",
	"value is negative",
	"a Purchase has no value",
	"currency is not a code of ISO 4217",
	"this event name does not pass for business messaging",
	"lead_id is the only match key",
	"user_data holds a key that Meta does not know",
	"an app event has no advertiser_tracking_enabled",
	"event_id is missing, so a repeat cannot be recognised",
	"a messaging event lacks the ids of its channel",
}

func (w warningSet) texts() []string {
	var texts []string
	for i, t := range warningTexts {
		if w&(1<<i) != 0 {
			texts = append(texts, t)
		}
	}
	return texts
}

const (
	maxAge        = 7 * 24 * time.Hour  // "Using the API"
	maxAgeOffline = 62 * 24 * time.Hour // "Offline events"
	maxEvents     = 1000                // "Using the API"
)

// tooBroad are the combinations of keys that identify nobody: an event is refused
// when its keys are a subset of one of them. Page "Best practices".
var tooBroad = []keySet{
	keysOf("ct", "country", "st", "zp", "ge", "client_user_agent"),
	keysOf("db", "client_user_agent"),
	keysOf("fn", "ge"),
	keysOf("ln", "ge"),
}

var actionSources = map[string]bool{
	"email": true, "website": true, "app": true, "phone_call": true, "chat": true, "physical_store": true,
	"system_generated": true, "business_messaging": true, "other": true,
}

// messagingNames are the names that pass for business messaging, as three
// independent senders found; the page "Business messaging" lists more.
var messagingNames = map[string]bool{
	"LeadSubmitted": true, "Purchase": true, "AddToCart": true, "InitiateCheckout": true, "ViewContent": true,
}

// apply does what the switch says about a broken rule: nil to go on.
func (s Switch) apply(e *event, w warningSet, err func() *graphError) *graphError {
	switch s {
	case Reject:
		return err()
	case Warn:
		e.warnings |= w
	default:
	}
	return nil
}

// judge applies the rules to one event in their order and returns the first error.
// The age is checked before the match keys, as the live API was seen to do.
func (g *Graph) judge(e *event, now time.Time) *graphError {
	for _, rule := range []func(*event, time.Time) *graphError{
		g.judgeShape, g.judgeTime, g.judgeKeys, g.judgePurchase, g.judgeSource, g.judgeLead, g.judgeMessaging, g.judgeApp,
	} {
		if err := rule(e, now); err != nil {
			return err
		}
	}
	return nil
}

// judgeShape: event_name and event_time are there and of the right type. Page
// "Server event parameters".
func (g *Graph) judgeShape(e *event, _ time.Time) *graphError {
	if e.kindBroken != "" {
		return parameter("data: " + e.kindBroken + " has the wrong type")
	}
	if len(strings.TrimSpace(string(e.name))) == 0 {
		return parameter("data: event_name is required")
	}
	t, ok := digits(e.timeRaw)
	if !ok || t >= 1e11 { // a number this large is in milliseconds
		return parameter("data: event_time must be an integer, Unix time in seconds")
	}
	e.time = t
	if len(e.id) == 0 {
		e.warnings |= warnEventID
	}
	return nil
}

// judgeTime: at most 7 days old, 62 for a physical store. How far ahead it may be
// stands on no page.
func (g *Graph) judgeTime(e *event, now time.Time) *graphError {
	limit := maxAge
	if string(e.source) == "physical_store" {
		limit = maxAgeOffline
	}
	age := now.Unix() - e.time
	if age > int64(limit/time.Second) {
		return errorFor(100, 2804003)
	}
	if -age > int64(g.future/time.Second) {
		return g.rules.FutureTime.apply(e, warnFuture, func() *graphError { return parameter("data: event_time lies in the future") })
	}
	return nil
}

// judgeKeys: enough match keys, and hashes where hashes are due. Pages "Best
// practices" and "Customer information parameters".
func (g *Graph) judgeKeys(e *event, _ time.Time) *graphError {
	for _, broad := range tooBroad {
		if e.keys&^broad == 0 {
			return errorFor(100, 2804050)
		}
	}
	if e.keys == keysOf("lead_id") {
		err := g.rules.LeadIDAlone.apply(e, warnLeadIDAlone, func() *graphError { return errorFor(100, 2804050) })
		if err != nil {
			return err
		}
	}
	if e.unhashed != "" {
		return errorFor(100, 2804016, e.unhashed)
	}
	if e.md5 != "" {
		if err := g.rules.MD5Hash.apply(e, warnMD5, func() *graphError { return errorFor(100, 2804016, e.md5) }); err != nil {
			return err
		}
	}
	if e.upper {
		return g.rules.UpperCaseHash.apply(e, warnUpperHash, func() *graphError { return errorFor(100, 2804016, "user_data") })
	}
	return nil
}

// judgePurchase: value and currency are required for Purchase. Page "Custom data".
func (g *Graph) judgePurchase(e *event, _ time.Time) *graphError {
	purchase := string(e.name) == "Purchase"
	if purchase && len(e.value) == 0 {
		if err := g.rules.PurchaseValue.apply(e, warnPurchaseValue, func() *graphError { return errorFor(100, 2804009) }); err != nil {
			return err
		}
	}
	if len(e.value) > 0 {
		v, ok := amount(e.value)
		if !ok {
			return parameter("data: custom_data.value must be a number")
		}
		if v < 0 {
			err := g.rules.NegativeValue.apply(e, warnNegative, func() *graphError { return parameter("data: custom_data.value must not be negative") })
			if err != nil {
				return err
			}
		}
	}
	if _, ok := currencyCode(e.currency); ok || len(e.currency) == 0 && (!purchase || len(e.value) == 0) {
		return nil
	}
	if purchase {
		return parameter("data: custom_data.currency must be a code of ISO 4217")
	}
	e.warnings |= warnCurrency
	return nil
}

// judgeSource: action_source is one of nine, and a website event says where it
// happened and in which browser. Pages "Server event parameters", "Best practices".
func (g *Graph) judgeSource(e *event, _ time.Time) *graphError {
	if len(e.source) == 0 {
		return g.rules.ActionSourceMissing.apply(e, warnActionSource, func() *graphError { return parameter("data: action_source is required") })
	}
	if !actionSources[string(e.source)] {
		return parameter("data: action_source must be one of email, website, app, phone_call, chat, physical_store, system_generated, business_messaging, other")
	}
	if string(e.source) != "website" {
		return nil
	}
	if !e.keys.has("client_user_agent") {
		err := g.rules.WebsiteUserAgent.apply(e, warnUserAgent, func() *graphError { return parameter("data: client_user_agent is required for website events") })
		if err != nil {
			return err
		}
	}
	if len(e.url) == 0 {
		return g.rules.WebsiteURL.apply(e, warnURL, func() *graphError { return parameter("data: event_source_url is required for website events") })
	}
	return nil
}

// judgeLead: a lead_id has 15 to 17 digits and belongs to a lead. Page "Conversion
// leads: payload specification".
func (g *Graph) judgeLead(e *event, _ time.Time) *graphError {
	if !e.keys.has("lead_id") {
		return nil
	}
	invalid := func() *graphError { return errorFor(100, 2804036) }
	if !leadID(string(e.leadRaw)) {
		return invalid()
	}
	n, _ := digits(e.leadRaw)
	e.lead = n
	switch _, state := g.leads.created(n); state {
	case leadDeleted:
		return invalid()
	case leadUnknown:
		return g.rules.UnknownLead.apply(e, warnUnknownLead, invalid)
	default:
		return nil
	}
}

// judgeMessaging: names and ids of business messaging. Page "Business messaging".
func (g *Graph) judgeMessaging(e *event, _ time.Time) *graphError {
	if string(e.source) != "business_messaging" {
		return nil
	}
	if !messagingNames[string(e.name)] {
		if err := g.rules.MessagingName.apply(e, warnMessagingName, func() *graphError { return errorFor(100, 2804066) }); err != nil {
			return err
		}
	}
	switch string(e.channel) {
	case "messenger":
		if !e.keys.has("page_id") || !e.keys.has("page_scoped_user_id") {
			e.warnings |= warnMessagingKeys
		}
	case "instagram":
		if !e.keys.has("ig_sid") || e.keys&keysOf("ig_account_id", "instagram_business_account_id") == 0 {
			e.warnings |= warnMessagingKeys
		}
	case "whatsapp", "":
		if !e.keys.has("ctwa_clid") {
			return errorFor(100, 2804087)
		}
		if e.keys&keysOf("page_id", "whatsapp_business_account_id") == 0 {
			e.warnings |= warnMessagingKeys
		}
	default:
		return parameter("data: messaging_channel must be one of whatsapp, messenger, instagram")
	}
	return nil
}

// judgeApp: extinfo of an app event has its 16 places, the platform first and the
// version of the operating system fifth. Page "App events". Meta's Node SDK sends
// the list as an object with the keys "0" to "15".
func (g *Graph) judgeApp(e *event, _ time.Time) *graphError {
	if string(e.source) != "app" {
		return nil
	}
	var n int
	var platform, version []byte
	place := func(i int, v []byte) {
		n++
		switch i {
		case 0:
			platform = text(v)
		case 4:
			version = text(v)
		}
	}
	eachElement(e.extinfo, func(v []byte) bool {
		place(n, v)
		return true
	})
	eachMember(e.extinfo, func(name, v []byte) {
		if i, ok := digits(name); ok && i < 16 {
			place(int(i), v)
		}
	})
	if n != 16 || string(platform) != "a2" && string(platform) != "i2" || len(version) == 0 {
		return errorFor(100, 2804043)
	}
	if !e.hasTracking {
		e.warnings |= warnTracking
	}
	return nil
}
