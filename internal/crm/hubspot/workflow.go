package hubspot

import (
	"encoding/json"
	"strings"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
)

// fields are the properties in a workflow's body. Which ones there are, whoever made the
// workflow has chosen; they stand at the top or, if none were chosen, under "properties"
// as objects with a value.
type fields struct {
	top    map[string]json.RawMessage
	nested map[string]json.RawMessage
}

func readFields(body []byte) fields {
	var f fields
	_ = json.Unmarshal(body, &f.top)
	_ = json.Unmarshal(f.top["properties"], &f.nested)
	return f
}

func (f fields) text(names ...string) word {
	for _, name := range names {
		for _, raw := range []json.RawMessage{f.top[name], f.nested[name]} {
			var plain word
			var object struct {
				Value word `json:"value"`
			}
			if json.Unmarshal(raw, &plain) == nil && plain != "" {
				return plain
			}
			if json.Unmarshal(raw, &object) == nil && object.Value != "" {
				return object.Value
			}
		}
	}
	return ""
}

// workflow adds what the webhook of a workflow says: the stages that it carries, as of
// now, for it does not tell since when.
func (e *event) workflow(a crm.Account, body []byte, out *crm.Received) {
	f := readFields(body)
	if e.Portal == "" {
		e.Portal = f.text("portal-id", "portal_id")
	}
	kind, id := f.object()
	if record(kind, id) == "" || e.foreign(a) {
		return
	}
	stages := []string{lifecycle, leadStatus}
	if kind == "deal" {
		stages = []string{dealStage}
	}
	for _, name := range stages {
		value := f.text(name)
		if value == "" || len(value) > maxValue {
			continue
		}
		c := ledger.StageChange{
			Thin: true, Records: []string{record(kind, id)}, Stage: string(value), At: e.at(),
			// A repeat may come for three days, and the call has no time of its own.
			Key: moveKey(e.Portal, "workflow", f.text("callbackId"), id, word(name), value, e.At),
		}
		if kind == "deal" {
			c.DealID, c.Pipeline = string(id), string(f.text("pipeline"))
			c.Amount, c.Currency = crm.Decimal(string(f.text("amount"))), strings.ToUpper(string(f.text("deal_currency_code")))
		} else {
			c.Field = name
		}
		add(out, c)
	}
}

// object returns what the workflow is about.
func (f fields) object() (kind string, id word) {
	id = f.text("objectId", "hs_object_id", "dealId", "vid")
	switch strings.ToUpper(string(f.text("objectType", "objectTypeId"))) {
	case "DEAL", "0-3":
		return "deal", id
	case "CONTACT", "0-1":
		return "contact", id
	case "":
		if f.text(dealStage, "dealId") != "" {
			return "deal", id
		}
		return "contact", id
	}
	return "", ""
}
