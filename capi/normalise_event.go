package capi

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// Normalise brings the whole event into the form that Meta asks for, in place: match
// keys become hashes, or clean text where Meta says not to hash; amounts become plain
// decimal numbers, currencies codes of ISO 4217; addresses lose what may be personal
// data. What cannot be made right is left out, so that the rest can go, and is
// reported as a warning. Hashes that came are passed on, so that normalising twice
// changes nothing.
//
// The event's own country goes before that of the locale. A standard event's name in
// another spelling ("purchase") becomes Meta's, with a warning, except for the stages
// of a CRM, whose names are free. The first of the problems are those of decoding.
func (e *Event) Normalise(l Locale) Problems {
	n := eventNormaliser{facts: factsOf(l), problems: e.decoded}
	e.decoded = nil
	if e.EventTime > 0 {
		n.when = time.Unix(e.EventTime, 0)
	}
	if country := countryOf(e.UserData.Country); country != "" {
		n.country = country
	}
	n.eventName(e)
	e.EventSourceURL = n.address("event_source_url", e.EventSourceURL)
	if !isWebAddress(e.EventSourceURL) && e.EventSourceURL != "" {
		e.EventSourceURL = ""
		n.warn("event_source_url", ProblemBadSourceURL)
	}
	e.ReferrerURL = n.address("referrer_url", e.ReferrerURL)
	n.userData(&e.UserData)
	if c := e.CustomData; c != nil {
		n.money(e.EventName, c)
		n.amounts(c)
		c.ContentName, c.ContentCategory = unescape(c.ContentName), unescape(c.ContentCategory)
	}
	return n.problems
}

// eventNormaliser goes through one event and gathers its problems.
type eventNormaliser struct {
	facts
	problems Problems
	free     []string
}

// room returns an empty list of some capacity, so that the lists of an event share one
// piece of memory.
func (n *eventNormaliser) room(size int) []string {
	if len(n.free) < size {
		n.free = make([]string, max(size, 24))
	}
	list := n.free[:0:size]
	n.free = n.free[size:]
	return list
}

func (n *eventNormaliser) warn(field, code string) {
	if code != "" {
		n.problems = append(n.problems, warning(field, code))
	}
}

func (n *eventNormaliser) warnKey(key Key, code string) {
	if code != "" {
		n.warn("user_data."+string(key), code)
	}
}

// countryOf is the first country of an event, in capitals: a hash of a country is one
// of 250, so it is known too.
func countryOf(values []string) string {
	for _, v := range values {
		v = strings.TrimSpace(v)
		if IsHash(v) {
			if code := hashedCountries()[strings.ToLower(v[:hashLength])]; code != "" {
				return code
			}
			continue
		}
		if code := countryCapitals(v); code != "" {
			return code
		}
	}
	return ""
}

// hashedCountries is made when first an event comes with a hashed country.
var hashedCountries = sync.OnceValue(func() map[string]string {
	m := map[string]string{}
	for i := 0; i < len(countryCodes); i += entryLength {
		code := countryCodes[i : i+2]
		m[HashText(strings.ToLower(code))] = code
	}
	return m
})

func (n *eventNormaliser) userData(u *UserData) {
	for i, key := range keyOrder {
		if i < hashedKeys {
			if list := u.list(key); len(*list) > 0 {
				*list = n.hashes(key, *list)
			}
			continue
		}
		text := u.plain(key)
		if *text == "" {
			continue
		}
		value, code := n.plainValue(key, *text)
		*text = value
		n.warnKey(key, code)
	}
}

// hashes makes the list of one key: the recommended forms of all values in their
// order, then the alternates, nothing twice; nil when nothing is left.
func (n *eventNormaliser) hashes(key Key, values []string) []string {
	out := n.room(len(values) + 1)
	var alternates []string
	for _, raw := range values {
		value, code := n.hashedValue(key, raw)
		n.warnKey(key, code)
		if code == ProblemUnsupportedHash && key != KeyExternalID {
			continue // Meta refuses the whole batch for a hash that is not SHA-256 (error 2804016)
		}
		out = appendHash(out, value.Hash)
		out = appendHash(out, HashText(value.text))
		for _, text := range value.Texts {
			out = appendHash(out, HashText(text))
		}
		alternates = append(alternates, value.Alternates...)
	}
	for _, text := range alternates {
		out = appendHash(out, HashText(text))
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// standardEvents are the names of Meta's page "Standard events".
var standardEvents = []string{
	"PageView", "ViewContent", "Search", "AddToCart", "AddToWishlist", "InitiateCheckout", "AddPaymentInfo",
	"Purchase", "Lead", "CompleteRegistration", "Contact", "CustomizeProduct", "Donate", "FindLocation",
	"Schedule", "StartTrial", "SubmitApplication", "Subscribe",
}

func (n *eventNormaliser) eventName(e *Event) {
	e.EventName = strings.TrimSpace(e.EventName)
	if slices.Contains(standardEvents, e.EventName) || e.CustomData != nil && strings.EqualFold(e.CustomData.EventSource, "crm") {
		return
	}
	for _, name := range standardEvents {
		if strings.EqualFold(name, e.EventName) {
			e.EventName = name
			n.warn("event_name", ProblemEventName)
		}
	}
}

// isWebAddress tells whether an address is a full one of the web. Page "Server event
// parameters": it must begin with http:// or https://.
func isWebAddress(s string) bool {
	scheme, rest, ok := strings.Cut(s, "://")
	return ok && rest != "" && (strings.EqualFold(scheme, "https") || strings.EqualFold(scheme, "http"))
}

func (n *eventNormaliser) address(field, raw string) string {
	if raw == "" {
		return ""
	}
	cleaned, removed := CleanURL(raw)
	if len(removed) > 0 {
		n.warn(field, ProblemURLCleaned)
	}
	return cleaned
}

// money normalises the currency. An amount whose currency is not known would be read
// in another one, so it goes too; a Purchase keeps it, because without value it is no
// Purchase, and Validate tells that the currency is missing.
func (n *eventNormaliser) money(event string, c *CustomData) {
	if c.Currency == "" {
		return
	}
	currency, problem := NormaliseCurrency(c.Currency)
	c.Currency = currency
	if problem == nil {
		return
	}
	n.problems = append(n.problems, *problem)
	if event != "Purchase" && c.Value != "" {
		c.Value = ""
		n.warn("custom_data.value", ProblemNoCurrency)
	}
}

func (n *eventNormaliser) amounts(c *CustomData) {
	n.amount("custom_data.value", &c.Value)
	n.amount("custom_data.predicted_ltv", &c.PredictedLTV)
	n.amount("custom_data.net_revenue", &c.NetRevenue)
	n.amount("custom_data.num_items", &c.NumItems)
	for i := range c.Contents {
		n.amount("custom_data.contents.item_price", &c.Contents[i].ItemPrice)
		n.amount("custom_data.contents.quantity", &c.Contents[i].Quantity)
	}
}

func (n *eventNormaliser) amount(field string, text *string) {
	if *text == "" {
		return
	}
	number, ok := decimal(*text)
	if !ok {
		n.warn(field, ProblemInvalidValue)
	}
	*text = number
}

// decimal writes a number in its shortest decimal form without exponent: 19.90 as
// 19.9. It takes what JSON takes for a number, blanks around it, and a leading plus or
// point. Separators of thousands could be decimal points elsewhere, so they make it
// invalid; nothing is valid and stays nothing.
func decimal(s string) (number string, ok bool) {
	s = strings.TrimSpace(s)
	if s == "" {
		return "", true
	}
	sign := ""
	switch s[0] {
	case '-':
		sign, s = "-", s[1:]
	case '+':
		s = s[1:]
	}
	mantissa, exponent, scientific := strings.Cut(strings.ToLower(s), "e")
	shift := 0
	if scientific {
		digits := strings.TrimLeft(exponent, "+-")
		if !isDigits(digits) || len(exponent)-len(digits) > 1 || len(digits) > 3 {
			return "", false
		}
		if shift = atoi(digits); exponent[0] == '-' {
			shift = -shift
		}
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	if !isDigits(whole+fraction) || len(mantissa) > 60 || shift > 40 || shift < -40 {
		return "", false
	}
	if shift != 0 {
		digits := whole + fraction
		point := len(whole) + shift
		digits = strings.Repeat("0", max(-point, 0)) + digits
		point = max(point, 0)
		digits += strings.Repeat("0", max(point-len(digits), 0))
		whole, fraction = digits[:point], digits[point:]
	}
	whole, fraction = strings.TrimLeft(whole, "0"), strings.TrimRight(fraction, "0")
	if whole == "" {
		whole = "0"
	}
	switch {
	case fraction != "":
		return sign + whole + "." + fraction, true
	case whole == "0":
		return "0", true
	}
	return sign + whole, true
}
