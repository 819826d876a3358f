package pipedrive

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
)

const (
	fieldsKept = 10 * time.Minute // how long the list of deal fields is believed
	maxValue   = 500              // bytes of a value that can be a stage
	maxDepth   = 4                // of what stands in a field
)

// watched adds the values that fields of the account's choice have taken. What version 2
// does not mention in previous has not changed, so that a value from before the connection
// is never told.
func (h *hook) watched(a crm.Account, c ledger.StageChange, now json.RawMessage, created bool, out *crm.Received) {
	after, before := fieldsOf(now), fieldsOf(h.Previous)
	c.Thin, c.By, c.At = true, string(h.Meta.UserID), h.at()
	if created {
		c.At = cmp.Or(c.CreatedAt, c.At)
	}
	for _, field := range crm.Watched(a) {
		was, mentioned := before[field]
		if field == statusField || !created && !mentioned && !h.old() { // the status is told by itself
			continue
		}
		had := h.values(was)
		for _, value := range h.values(after[field]) {
			if slices.Contains(had, value) {
				continue
			}
			c.Field, c.Stage, c.From = field, value, strings.Join(had, ", ")
			c.Key = strings.Join([]string{h.key(), field, value}, "/")
			out.Changes = append(out.Changes, c)
		}
	}
}

// fieldsOf are a deal's fields. Version 1 has custom ones beside the others.
func fieldsOf(raw json.RawMessage) map[string]json.RawMessage {
	var all, own map[string]json.RawMessage
	_ = json.Unmarshal(raw, &all) // then it has none
	_ = json.Unmarshal(all["custom_fields"], &own)
	maps.Copy(all, own)
	return all
}

// choices are how version 1 writes several options: their ids.
var choices = regexp.MustCompile(`^[0-9]+(,[0-9]+)+$`)

// values are those of a field, each option of several by itself.
func (h *hook) values(raw json.RawMessage) []string {
	list := texts(raw, 0)
	if h.old() && len(list) == 1 && choices.MatchString(list[0]) {
		return strings.Split(list[0], ",")
	}
	return list
}

// texts are what stands in a field, nothing if it is empty: a text or number, {"value": …},
// {"id": …} of an option, {"values": [{"id": …}]} of several, or a list of these.
func texts(raw json.RawMessage, depth int) []string {
	raw = bytes.TrimSpace(raw)
	var list []json.RawMessage
	switch {
	case len(raw) == 0 || depth > maxDepth:
		return nil
	case raw[0] == '[':
		_ = json.Unmarshal(raw, &list) // it is valid
	case raw[0] == '{':
		var object struct {
			Value  json.RawMessage   `json:"value"`
			ID     json.RawMessage   `json:"id"`
			Values []json.RawMessage `json:"values"`
		}
		_ = json.Unmarshal(raw, &object) // what is of another shape has no value
		list = object.Values
		switch {
		case len(object.Value) > 0:
			list = append(list, object.Value)
		case len(object.ID) > 0:
			list = append(list, object.ID)
		}
	default:
		var p plain
		_ = p.UnmarshalJSON(raw) // it is valid
		if text := strings.TrimSpace(string(p)); text != "" && len(text) <= maxValue {
			return []string{text}
		}
		return nil
	}
	var values []string
	for _, one := range list {
		for _, text := range texts(one, depth+1) {
			if !slices.Contains(values, text) {
				values = append(values, text)
			}
		}
	}
	return values
}

// fieldList is what an account had when it was asked.
type fieldList struct {
	fields map[string]dealField
	at     time.Time
}

// label writes what people call the option that a watched field has taken: hooks have its
// id only, which Pipedrive shows nowhere.
func (p *Pipedrive) label(ctx context.Context, a crm.Account, c *ledger.StageChange) error {
	if c.Field == "" || c.Field == statusField || !idPattern.MatchString(c.Stage) {
		return nil
	}
	p.mu.Lock()
	known := p.listed[a.ID]
	p.mu.Unlock()
	if time.Since(known.at) >= fieldsKept {
		fields, o := p.fields(ctx, a)
		if o != nil {
			return crm.Unread("the deal fields", o)
		}
		known = fieldList{fields, time.Now()}
		p.mu.Lock()
		p.listed[a.ID] = known
		p.mu.Unlock()
	}
	for _, option := range known.fields[c.Field].Options {
		if string(option.ID) == c.Stage {
			c.StageLabel = string(option.Label)
		}
	}
	return nil
}

// checkWatched has a line for each watched field that deals do not have.
func checkWatched(a crm.Account, fields map[string]dealField) []crm.Check {
	var checks []crm.Check
	for _, field := range crm.Watched(a) {
		if _, there := fields[field]; !there {
			checks = append(checks, crm.Check{
				Name: "watch", Warning: true, Sentence: "Pipedrive has no deal field " + field + ", so no rule for it ever holds.",
				NextStep: "Use the field's key, which Pipedrive shows under Settings, Data fields, API key.",
			})
		}
	}
	return checks
}
