package capi

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// weakKeys are the combinations that Meta refuses as too broad: an event whose
// keys are all within one of them. Page "Best practices"; answered with 100/2804050.
var weakKeys = [...]KeySet{
	keySetOf(KeyCity, KeyCountry, KeyState, KeyZip, KeyGender, KeyClientUserAgent),
	keySetOf(KeyBirthDate, KeyClientUserAgent),
	keySetOf(KeyFirstName, KeyGender),
	keySetOf(KeyLastName, KeyGender),
}

func keySetOf(keys ...Key) KeySet {
	var s KeySet
	for _, k := range keys {
		s = s.Add(k)
	}
	return s
}

func (c *checker) matchKeys() {
	const fix = "add an e-mail, a phone, an external_id, fbp, fbc, a lead_id or the visitor's IP address"
	if c.keys == 0 {
		c.refuse("user_data", ProblemNoMatchKey, "nothing says who the event is about", fix)
		return
	}
	for _, weak := range weakKeys {
		if c.keys&^weak == 0 {
			c.refuse("user_data", ProblemWeakMatchKeys, "Meta refuses the combination "+c.keys.String()+" as too broad", fix)
			return
		}
	}
	if c.keys == keySetOf(KeyLeadID) {
		c.warn("user_data.lead_id", ProblemLeadIDAlone, "the lead id is the only key; Meta's page allows it, some senders saw it refused",
			"add the hashed e-mail and phone of the lead")
	}
}

// keyForms: after Normalise only a caller that fills the fields itself can fail here.
func (c *checker) keyForms() {
	u := &c.e.UserData
	for _, k := range listKeys {
		if slices.ContainsFunc(*u.list(k), func(v string) bool { return !isMetaHash(v) }) {
			field := "user_data." + string(k)
			if k == KeyExternalID { // recommended only. Page "External ID"
				c.warn(field, ProblemUnhashed, "the id is not hashed", "hash it by SHA-256, on the website too")
				continue
			}
			c.refuse(field, ProblemUnhashed, "a value is not a SHA-256 hash in lower-case hexadecimal digits", "run Normalise before, or hash by Meta's rules")
		}
	}
	if u.LeadID != "" && (len(u.LeadID) < 15 || len(u.LeadID) > 17 || !isDigits(u.LeadID)) {
		c.refuse("user_data.lead_id", ProblemInvalidLeadID, "a lead id has 15 to 17 digits", "pass it as text; spreadsheets round it")
	}
	if u.FBC != "" && !isClickID(u.FBC) {
		c.warn("user_data.fbc", ProblemInvalidClickID, "this is not fb.{index}.{milliseconds}.{fbclid}", "send the _fbc cookie as it is")
	}
	if u.FBP != "" && !isClickID(u.FBP) {
		c.warn("user_data.fbp", ProblemInvalidClickID, "this is not fb.{index}.{milliseconds}.{number}", "send the _fbp cookie as it is")
	}
	if ip := u.ClientIPAddress; ip != "" && !isAddress(ip) {
		c.warn("user_data.client_ip_address", ProblemInvalidIP, "this is no IP address", "give the visitor's address, without port")
	}
}

// isMetaHash also takes the ending of two or eight characters that Meta's
// Parameter Builder puts behind a hash.
func isMetaHash(v string) bool {
	hash, ending, found := strings.Cut(v, ".")
	if len(hash) != 64 || found && len(ending) != 2 && len(ending) != 8 {
		return false
	}
	for i := range len(hash) {
		if c := hash[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	for i := range len(ending) {
		c := ending[i] | 0x20
		if (c < 'a' || c > 'z') && (ending[i] < '0' || ending[i] > '9') && ending[i] != '_' && ending[i] != '-' {
			return false
		}
	}
	return true
}

// isClickID is lax about the last part: a fbclid may hold dots. Page "fbp and fbc".
func isClickID(v string) bool {
	parts := strings.SplitN(v, ".", 4)
	return len(parts) == 4 && parts[0] == "fb" && isDigits(parts[1]) && isDigits(parts[2]) &&
		len(parts[2]) >= 10 && len(parts[2]) <= 13 && parts[3] != "" && !strings.ContainsAny(parts[3], " \t\r\n")
}

// isAddress takes the Parameter Builder's ending off: 203.0.113.9.AQQCAQIB.
func isAddress(ip string) bool {
	if _, err := netip.ParseAddr(ip); err == nil {
		return true
	}
	i := strings.LastIndexByte(ip, '.')
	if n := len(ip) - i - 1; i < 0 || n != 2 && n != 8 {
		return false
	}
	_, err := netip.ParseAddr(ip[:i])
	return err == nil
}

// money: Meta takes no Purchase without value and currency (100/2804009). A deal
// won in a CRM without an amount still teaches Meta who buys; whether it is sent is
// for the caller to say, so it is a warning there. Page "Custom data parameters".
func (c *checker) money() {
	d := c.e.CustomData
	if d == nil {
		d = &CustomData{}
	}
	c.purchase(d)
	if v := d.Value; v != "" {
		c.decimal("value", v)
		switch {
		case strings.HasPrefix(v, "-"):
			c.warn("custom_data.value", ProblemNegativeValue, "the value is negative, which Meta is said to refuse", "report refunds outside of Meta, or send 0")
		case d.Currency == "" && c.e.EventName != "Purchase":
			c.warn("custom_data.currency", ProblemNoValueCurrency, "a value without a currency counts for nothing", "add the ISO 4217 code")
		}
	}
	c.decimal("predicted_ltv", d.PredictedLTV)
	c.decimal("net_revenue", d.NetRevenue)
	c.decimal("num_items", d.NumItems)
	for i := range d.Contents {
		c.decimal("contents.quantity", d.Contents[i].Quantity)
		c.decimal("contents.item_price", d.Contents[i].ItemPrice)
	}
	if d.Currency != "" && !isCurrency(d.Currency) {
		c.refuse("custom_data.currency", ProblemUnknownCurrency, "this is no currency of ISO 4217 in capital letters", "use USD, EUR, KZT …")
	}
}

func (c *checker) purchase(d *CustomData) {
	if c.e.EventName != "Purchase" {
		return
	}
	severity := SeverityError
	if d.EventSource == "crm" || c.e.ActionSource == ActionSourceSystemGenerated {
		severity = SeverityWarning
	}
	if d.Value == "" {
		c.add(severity, "custom_data.value", ProblemNoPurchaseValue, "a Purchase needs a value", "add what was paid; 0 is allowed, an invented amount is not")
	}
	if d.Currency == "" {
		c.add(severity, "custom_data.currency", ProblemNoValueCurrency, "a Purchase needs a currency", "add the ISO 4217 code")
	}
}

func (c *checker) decimal(name, v string) {
	if v == "" {
		return
	}
	if _, err := strconv.ParseFloat(v, 64); err != nil || !isNumber(v) {
		c.refuse("custom_data."+name, ProblemInvalidValue, "this is not a finite decimal number", "give digits with a point: 142.52")
	}
}

// crm: only events with both fields count for Conversion Leads; with one of them
// they are ordinary events. Page "Payload specification" of that integration.
func (c *checker) crm() {
	d := c.e.CustomData
	if d == nil || d.EventSource == "" && d.LeadEventSource == "" {
		return
	}
	switch {
	case d.EventSource == "":
		c.warn("custom_data.event_source", ProblemCRMFields, "without it the event does not count for Conversion Leads", `add event_source "crm"`)
	case d.LeadEventSource == "":
		c.warn("custom_data.lead_event_source", ProblemCRMFields, "without it the event does not count for Conversion Leads", "add the name of the CRM")
	}
	if d.EventSource == "crm" && c.e.ActionSource != ActionSourceSystemGenerated {
		c.warn("action_source", ProblemCRMActionSource, "Meta's specification for CRM events asks for system_generated", "send CRM stages with system_generated")
	}
}

// app: page "App events"; an empty OS version is answered with 100/2804043.
func (c *checker) app() {
	if c.e.ActionSource != ActionSourceApp {
		return
	}
	const field = "app_data.extinfo"
	a := c.e.AppData
	if a == nil {
		a = &AppData{}
	}
	switch {
	case len(a.ExtInfo) != 16:
		c.refuse(field, ProblemNoExtInfo, "extinfo has "+strconv.Itoa(len(a.ExtInfo))+" entries", "give all 16, with empty texts as fillers")
	case a.ExtInfo[0] != "a2" && a.ExtInfo[0] != "i2":
		c.refuse(field, ProblemNoExtInfo, "the first entry of extinfo is neither a2 nor i2", "give a2 for Android, i2 for iOS")
	case strings.TrimSpace(a.ExtInfo[4]) == "":
		c.refuse(field, ProblemNoExtInfo, "the fifth entry of extinfo, the OS version, is empty", "give the version of the system")
	}
	if a.AdvertiserTrackingEnabled == nil && c.e.AdvertiserTrackingEnabled == nil {
		c.warn("app_data.advertiser_tracking_enabled", ProblemNoTracking, "an app event should say whether tracking is allowed", "give 1 or 0")
	}
}

// messagingNames are those that pass; the page lists more, which Meta answers
// with 100/2804066.
var messagingNames = [...]string{"LeadSubmitted", "Purchase", "AddToCart", "InitiateCheckout", "ViewContent"}

// messaging: page "Business messaging".
func (c *checker) messaging() {
	if c.e.ActionSource != ActionSourceBusinessMessaging {
		return
	}
	if !slices.Contains(messagingNames[:], c.e.EventName) {
		c.refuse("event_name", ProblemMessagingName, "Meta takes no event of this name from messages",
			"use LeadSubmitted, Purchase, AddToCart, InitiateCheckout or ViewContent")
	}
	has := c.keys.Has
	switch c.e.MessagingChannel {
	case "whatsapp":
		if !has(KeyCTWAClid) {
			c.refuse("user_data.ctwa_clid", ProblemNoCTWAClid, "a WhatsApp event needs the click id of its ad", "pass ctwa_clid of the message's referral")
		}
		if !has(KeyWABusinessID) && !has(KeyPageID) {
			c.identity("whatsapp_business_account_id or page_id")
		}
	case "messenger":
		if !has(KeyPageID) || !has(KeyPageScopedUserID) {
			c.identity("page_id and page_scoped_user_id")
		}
	case "instagram":
		if !has(KeyIGBusinessID) && !has(KeyIGAccountID) || !has(KeyIGSID) {
			c.identity("instagram_business_account_id and ig_sid")
		}
	default:
		c.warn("messaging_channel", ProblemMessagingChannel, "the event does not say by which messenger it came", "give whatsapp, messenger or instagram")
		if !has(KeyCTWAClid) && !has(KeyPageScopedUserID) && !has(KeyIGSID) {
			c.refuse("user_data.ctwa_clid", ProblemNoCTWAClid, "nothing names the conversation", "give ctwa_clid, page_scoped_user_id or ig_sid")
		}
	}
}

func (c *checker) identity(want string) {
	c.warn("user_data", ProblemMessagingIdentity, "the event does not name both sides of the conversation", "give "+want)
}

// limitedDataUse: page "Data processing options". With LDU, country and state
// should both be there, and 0 (Meta geolocates) needs the visitor's address.
func (c *checker) limitedDataUse() {
	const field = "data_processing_options"
	options, country, state := c.e.DataProcessingOptions, c.e.DataProcessingOptionsCountry, c.e.DataProcessingOptionsState
	if len(options) == 0 {
		if country != nil || state != nil {
			c.warn(field, ProblemLDU, "country or state has no effect without the option LDU", `add ["LDU"], or leave them out`)
		}
		return
	}
	if len(options) != 1 || options[0] != "LDU" {
		c.warn(field, ProblemLDU, "Meta knows only the option LDU", `give ["LDU"], or [] for none`)
		return
	}
	switch {
	case country == nil || state == nil:
		c.warn(field, ProblemLDU, "LDU without country and state leaves it to Meta whether it holds", "give both; 0 and 0 let Meta geolocate")
		return
	case *country != 0 && *country != 1:
		c.warn(field+"_country", ProblemLDU, "Meta knows no such country code here", "give 1 for the USA, 0 to geolocate")
	case *state != 0 && (*state < 1000 || *state > 1013):
		c.warn(field+"_state", ProblemLDU, "Meta knows no such state code here", "give 1000 to 1013, 0 to geolocate")
	}
	if (*country == 0 || *state == 0) && !c.keys.Has(KeyClientIPAddress) {
		c.warn("user_data.client_ip_address", ProblemLDU, "Meta cannot geolocate without the visitor's address", "add it, or give country and state")
	}
}
