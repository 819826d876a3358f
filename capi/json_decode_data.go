package capi

import (
	"encoding/json"
	"strconv"
	"strings"
)

func (d *decoder) customData(raw []byte) error {
	c := new(CustomData)
	d.event.CustomData = c
	var properties []byte
	err := d.within("custom_data", raw, func(key, v []byte) error {
		switch string(key) {
		case "content_ids":
			c.ContentIDs = d.contentIDs(key, v)
		case "contents":
			return d.contents(c, v)
		case "content_category": // Meta wants one text; shop plug-ins send the path as a list
			c.ContentCategory = strings.Join(d.texts(key, v), ",")
		case "custom_properties":
			properties = v
		default:
			if field := c.field(string(key)); field != nil {
				*field = d.text(key, v)
			} else if !isNull(v) {
				keep(&c.Extra, key, v)
			}
		}
		return nil
	})
	if err != nil || len(properties) == 0 || properties[0] != '{' {
		return err
	}
	return d.within("custom_data.custom_properties", properties, func(key, v []byte) error {
		if c.field(string(key)) != nil || string(key) == "contents" || string(key) == "content_ids" {
			d.event.decoded = append(d.event.decoded, Problem{
				Field: d.path + string(key), Code: ProblemDuplicateField, Severity: SeverityWarning,
				Reason: "a custom property has the name of a standard field; the standard field wins", Fix: "give the property another name",
			})
			return nil
		}
		if !isNull(v) {
			keep(&c.Extra, key, v)
		}
		return nil
	})
}

// field returns the text field of a standard name, nil for other names.
func (c *CustomData) field(name string) *string {
	switch name {
	case "value":
		return &c.Value
	case "currency":
		return &c.Currency
	case "content_type":
		return &c.ContentType
	case "content_name":
		return &c.ContentName
	case "content_category":
		return &c.ContentCategory
	case "status":
		return &c.Status
	case "delivery_category":
		return &c.DeliveryCategory
	case "num_items":
		return &c.NumItems
	case "order_id":
		return &c.OrderID
	case "search_string":
		return &c.SearchString
	case "predicted_ltv":
		return &c.PredictedLTV
	case "net_revenue":
		return &c.NetRevenue
	case "item_number":
		return &c.ItemNumber
	case "lead_event_source":
		return &c.LeadEventSource
	case "event_source":
		return &c.EventSource
	}
	return nil
}

// contentIDs reads a list, or a list that was put into a string as JSON text.
func (d *decoder) contentIDs(key, raw []byte) []string {
	if raw[0] == '"' {
		inner := strings.TrimSpace(unquote(raw))
		if strings.HasPrefix(inner, "[") && json.Valid([]byte(inner)) {
			raw = []byte(inner)
		}
	}
	return d.texts(key, raw)
}

func (d *decoder) contents(c *CustomData, raw []byte) error {
	if isNull(raw) {
		return nil
	}
	if raw[0] == '"' {
		inner := strings.TrimSpace(unquote(raw))
		if !json.Valid([]byte(inner)) {
			d.note("contents", raw)
			return nil
		}
		raw = []byte(inner)
	}
	if raw[0] == '{' {
		return d.content(c, 0, raw)
	}
	if raw[0] != '[' {
		d.note("contents", raw)
		return nil
	}
	return array(raw, func(v []byte) error { return d.content(c, len(c.Contents), v) })
}

func (d *decoder) content(c *CustomData, n int, raw []byte) error {
	var item Content
	err := d.within("contents["+strconv.Itoa(n)+"]", raw, func(key, v []byte) error {
		switch string(key) {
		case "id":
			item.ID = d.text(key, v)
		case "quantity":
			item.Quantity = d.text(key, v)
		case "item_price":
			item.ItemPrice = d.text(key, v)
		case "delivery_category":
			item.DeliveryCategory = d.text(key, v)
		case "title":
			item.Title = d.text(key, v)
		case "description":
			item.Description = d.text(key, v)
		case "brand":
			item.Brand = d.text(key, v)
		case "category":
			item.Category = d.text(key, v)
		default:
			if !isNull(v) {
				keep(&item.Extra, key, v)
			}
		}
		return nil
	})
	if err == nil {
		c.Contents = append(c.Contents, item)
	}
	return err
}

func (d *decoder) appField(key, v []byte) error {
	a := d.event.AppData
	switch string(key) {
	case "advertiser_tracking_enabled":
		a.AdvertiserTrackingEnabled = d.boolean(key, v)
	case "application_tracking_enabled":
		a.ApplicationTrackingEnabled = d.boolean(key, v)
	case "extinfo":
		a.ExtInfo = d.extInfo(key, v)
	default:
		if !isNull(v) {
			keep(&a.Extra, key, v)
		}
	}
	return nil
}

// extInfo reads the sixteen positions from a list or, as Meta's Node SDK writes
// them, from an object with the keys "0" to "15". Empty positions count.
func (d *decoder) extInfo(key, raw []byte) []string {
	var list []string
	switch raw[0] {
	case '[':
		_ = array(raw, func(v []byte) error {
			s, _ := scalar(v)
			list = append(list, s)
			return nil
		})
	case '{':
		_ = object(raw, func(k, v []byte) error {
			if n, err := strconv.Atoi(string(k)); err == nil && n >= 0 && n <= 15 { // else it is no position
				for len(list) <= n {
					list = append(list, "")
				}
				list[n], _ = scalar(v)
			}
			return nil
		})
	default:
		if !isNull(raw) {
			d.note(string(key), raw)
		}
	}
	return list
}

// member strips the underscore that Meta's Node SDK 26 puts before the members of
// its nested classes.
func member(key []byte) string { return strings.TrimPrefix(string(key), "_") }

func (d *decoder) originalEvent(raw []byte) error {
	var o OriginalEventData
	given := false
	err := d.within("original_event_data", raw, func(key, v []byte) (err error) {
		if isNull(v) {
			return nil
		}
		given = true
		switch member(key) {
		case "event_name":
			o.EventName = d.text(key, v)
		case "event_time":
			o.EventTime, err = d.seconds(key, v)
		case "order_id":
			o.OrderID = d.text(key, v)
		case "event_id":
			o.EventID = d.text(key, v)
		default:
			keep(&o.Extra, []byte(member(key)), v)
		}
		return err
	})
	if given { // PHP's SDK sends the object with every member null when it is unset
		d.event.OriginalEventData = &o
	}
	return err
}

func (d *decoder) attribution(raw []byte) error {
	var a AttributionData
	given := false
	err := d.within("attribution_data", raw, func(key, v []byte) (err error) {
		if isNull(v) {
			return nil
		}
		given = true
		switch member(key) {
		case "ad_id":
			a.AdID = d.text(key, v)
		case "touchpoint_ts":
			a.TouchpointTS, err = d.seconds(key, v)
		case "attribution_share":
			a.AttributionShare = d.text(key, v)
		case "attribution_value":
			a.AttributionValue = d.text(key, v)
		default:
			keep(&a.Extra, []byte(member(key)), v)
		}
		return err
	})
	if given {
		d.event.AttributionData = &a
	}
	return err
}
