package capi

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"
)

// MarshalJSON writes the event as Meta takes it. See AppendJSON.
func (e *Event) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil), nil }

// AppendJSON appends the event as Meta takes it to dst: fields in a fixed order,
// lists for the keys that may have several values, integers for lead_id and
// fb_login_id, numbers for amounts. The same event always gives the same bytes, so
// that what was stored is what leaves.
func (e *Event) AppendJSON(dst []byte) []byte {
	w := writer{buf: append(dst, '{')}
	w.text("event_name", e.EventName)
	if e.EventTime != 0 {
		w.key("event_time")
		w.buf = strconv.AppendInt(w.buf, e.EventTime, 10)
	}
	w.text("event_id", e.EventID)
	w.text("action_source", string(e.ActionSource))
	w.text("event_source_url", e.EventSourceURL)
	w.text("referrer_url", e.ReferrerURL)
	w.boolean("opt_out", e.OptOut)
	e.UserData.append(&w)
	e.CustomData.append(&w)
	e.AppData.append(&w)
	e.OriginalEventData.append(&w)
	e.AttributionData.append(&w)
	if e.DataProcessingOptions != nil {
		w.list("data_processing_options", e.DataProcessingOptions, true)
	}
	w.integer("data_processing_options_country", e.DataProcessingOptionsCountry)
	w.integer("data_processing_options_state", e.DataProcessingOptionsState)
	w.text("customer_segmentation", e.CustomerSegmentation)
	w.text("messaging_channel", e.MessagingChannel)
	w.boolean("advertiser_tracking_enabled", e.AdvertiserTrackingEnabled)
	w.text("advanced_measurement_table", e.AdvancedMeasurementTable)
	return append(w.buf, '}')
}

// listKeys and plainKeys give the order in which match keys are written.
var listKeys = [...]Key{
	KeyEmail, KeyPhone, KeyFirstName, KeyLastName, KeyGender, KeyBirthDate, KeyCity, KeyState, KeyZip, KeyCountry,
	KeyExternalID, KeyFirst5Name, KeyFirst5Last, KeyFirstInitial, KeyBirthDay, KeyBirthMonth, KeyBirthYear,
}

var plainKeys = [...]Key{
	KeyClientIPAddress, KeyClientUserAgent, KeyFBC, KeyFBP, KeySubscriptionID, KeyFBLoginID, KeyLeadID, KeyAnonID,
	KeyMADID, KeyPageID, KeyPageScopedUserID, KeyCTWAClid, KeyIGAccountID, KeyIGSID, KeyIGBusinessID, KeyWABusinessID,
	KeyAppUserID,
}

// isSDKOnly tells whether a key stands on no page of Meta's: its SDKs write the
// value of these without a list, so we do.
func isSDKOnly(k Key) bool {
	switch k {
	case KeyFirst5Name, KeyFirst5Last, KeyFirstInitial, KeyBirthDay, KeyBirthMonth, KeyBirthYear:
		return true
	default:
		return false
	}
}

func (u *UserData) append(w *writer) {
	w.open("user_data")
	for _, k := range listKeys {
		values := *u.list(k)
		if len(values) == 1 && isSDKOnly(k) {
			w.text(string(k), values[0])
			continue
		}
		w.list(string(k), values, false)
	}
	for _, k := range plainKeys {
		if k == KeyLeadID || k == KeyFBLoginID {
			w.number(string(k), *u.plain(k))
			continue
		}
		w.text(string(k), *u.plain(k))
	}
	w.close()
}

func (c *CustomData) append(w *writer) {
	if c == nil {
		return
	}
	w.open("custom_data")
	w.number("value", c.Value)
	w.text("currency", c.Currency)
	w.list("content_ids", c.ContentIDs, false)
	if len(c.Contents) > 0 {
		w.key("contents")
		w.buf = append(w.buf, '[')
		for i := range c.Contents {
			if i > 0 {
				w.buf = append(w.buf, ',')
			}
			c.Contents[i].append(w)
		}
		w.buf = append(w.buf, ']')
	}
	w.text("content_type", c.ContentType)
	w.text("content_name", c.ContentName)
	w.text("content_category", c.ContentCategory)
	w.text("status", c.Status)
	w.text("delivery_category", c.DeliveryCategory)
	w.number("num_items", c.NumItems)
	w.text("order_id", c.OrderID)
	w.text("search_string", c.SearchString)
	w.number("predicted_ltv", c.PredictedLTV)
	w.number("net_revenue", c.NetRevenue)
	w.text("item_number", c.ItemNumber)
	w.text("lead_event_source", c.LeadEventSource)
	w.text("event_source", c.EventSource)
	w.extra(c.Extra, func(name string) bool { return c.field(name) != nil || name == "contents" || name == "content_ids" })
	w.close()
}

func (c *Content) append(w *writer) {
	w.buf = append(w.buf, '{')
	w.text("id", c.ID)
	w.number("quantity", c.Quantity)
	w.number("item_price", c.ItemPrice)
	w.text("delivery_category", c.DeliveryCategory)
	w.text("title", c.Title)
	w.text("description", c.Description)
	w.text("brand", c.Brand)
	w.text("category", c.Category)
	w.extra(c.Extra, func(string) bool { return false })
	w.close()
}

func (a *AppData) append(w *writer) {
	if a == nil {
		return
	}
	w.open("app_data")
	w.boolean("advertiser_tracking_enabled", a.AdvertiserTrackingEnabled)
	w.boolean("application_tracking_enabled", a.ApplicationTrackingEnabled)
	if a.ExtInfo != nil {
		w.list("extinfo", a.ExtInfo, true)
	}
	w.extra(a.Extra, func(string) bool { return false })
	w.close()
}

func (o *OriginalEventData) append(w *writer) {
	if o == nil {
		return
	}
	w.open("original_event_data")
	w.text("event_name", o.EventName)
	if o.EventTime != 0 {
		w.number("event_time", strconv.FormatInt(o.EventTime, 10))
	}
	w.text("order_id", o.OrderID)
	w.text("event_id", o.EventID)
	w.extra(o.Extra, func(string) bool { return false })
	w.close()
}

func (a *AttributionData) append(w *writer) {
	if a == nil {
		return
	}
	w.open("attribution_data")
	w.text("ad_id", a.AdID)
	if a.TouchpointTS != 0 {
		w.number("touchpoint_ts", strconv.FormatInt(a.TouchpointTS, 10))
	}
	w.number("attribution_share", a.AttributionShare)
	w.number("attribution_value", a.AttributionValue)
	w.extra(a.Extra, func(string) bool { return false })
	w.close()
}

// writer appends JSON members to a buffer.
type writer struct{ buf []byte }

func (w *writer) key(name string) {
	if last := w.buf[len(w.buf)-1]; last != '{' && last != '[' {
		w.buf = append(w.buf, ',')
	}
	w.buf = appendText(w.buf, name)
	w.buf = append(w.buf, ':')
}

func (w *writer) open(name string) {
	w.key(name)
	w.buf = append(w.buf, '{')
}

func (w *writer) close() { w.buf = append(w.buf, '}') }

func (w *writer) text(name, v string) {
	if v == "" {
		return
	}
	w.key(name)
	w.buf = appendText(w.buf, v)
}

func (w *writer) list(name string, list []string, always bool) {
	if len(list) == 0 && !always {
		return
	}
	w.key(name)
	w.buf = append(w.buf, '[')
	for i, v := range list {
		if i > 0 {
			w.buf = append(w.buf, ',')
		}
		w.buf = appendText(w.buf, v)
	}
	w.buf = append(w.buf, ']')
}

func (w *writer) boolean(name string, v *bool) {
	if v == nil {
		return
	}
	w.key(name)
	w.buf = strconv.AppendBool(w.buf, *v)
}

func (w *writer) integer(name string, v *int) {
	if v == nil {
		return
	}
	w.key(name)
	w.buf = strconv.AppendInt(w.buf, int64(*v), 10)
}

// number writes a number that is kept as text. A text that is none, which Validate
// refuses, is written as a string: the JSON stays valid and the fault visible.
func (w *writer) number(name, v string) {
	if v == "" {
		return
	}
	w.key(name)
	if isNumber(v) {
		w.buf = append(w.buf, v...)
	} else {
		w.buf = appendText(w.buf, v)
	}
}

func (w *writer) extra(extra map[string]json.RawMessage, standard func(string) bool) {
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		v := bytes.TrimSpace(extra[name])
		if standard(name) || !json.Valid(v) {
			continue
		}
		w.key(name)
		var compact bytes.Buffer
		if err := json.Compact(&compact, v); err == nil {
			w.buf = append(w.buf, compact.Bytes()...)
		}
	}
}

// isNumber tells whether v is a number by JSON's grammar (RFC 8259 §6).
func isNumber(v string) bool {
	i := 0
	digits := func() bool {
		start := i
		for i < len(v) && v[i] >= '0' && v[i] <= '9' {
			i++
		}
		return i > start
	}
	if i < len(v) && v[i] == '-' {
		i++
	}
	zero := i < len(v) && v[i] == '0'
	start := i
	if !digits() || zero && i-start > 1 {
		return false
	}
	if i < len(v) && v[i] == '.' {
		i++
		if !digits() {
			return false
		}
	}
	if i < len(v) && (v[i] == 'e' || v[i] == 'E') {
		i++
		if i < len(v) && (v[i] == '+' || v[i] == '-') {
			i++
		}
		if !digits() {
			return false
		}
	}
	return i == len(v)
}

// appendText appends s as a JSON string (RFC 8259 §7), without the escapes for
// HTML that encoding/json adds: they would be three bytes more for each & of a URL.
func appendText(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= 0x20 && c != '"' && c != '\\' {
				i++
				continue
			}
			dst = append(dst, s[start:i]...)
			switch c {
			case '"', '\\':
				dst = append(dst, '\\', c)
			case '\n':
				dst = append(dst, '\\', 'n')
			case '\r':
				dst = append(dst, '\\', 'r')
			case '\t':
				dst = append(dst, '\\', 't')
			default:
				const hex = "0123456789abcdef"
				dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			}
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			dst = append(dst, s[start:i]...)
			dst = append(dst, "\uFFFD"...)
			i++
			start = i
			continue
		}
		i += size
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}
