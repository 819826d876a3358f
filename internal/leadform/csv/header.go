package csv

import (
	"fmt"
	"slices"
	"strings"

	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/ledger"
)

// column is what a column of the file holds.
type column struct {
	header string
	role   string // "" is an answer
	field  leadform.Canonical
	name   string // of the answer; "" is the header
}

// Roles of columns beside answers. The others are names of the lead's fields.
const (
	roleNone    = "-"
	roleLeadID  = "lead_id"
	roleCreated = "created_at"
	roleChannel = "channel" // Meta's column platform: fb, ig
	roleOrganic = "is_organic"
	roleConsent = "consent"
	roleTest    = "is_test"
)

// roles are the headers that are no questions, in Meta's exports and elsewhere, by name
// in lower case with underscores.
var roles = map[string]string{
	"lead_id": roleLeadID, "leadid": roleLeadID, "meta_lead_id": roleLeadID, "facebook_lead_id": roleLeadID,
	"created_time": roleCreated, "created_at": roleCreated, "create_time": roleCreated,
	"ad_id": "ad_id", "ad_name": "ad_name", "adset_id": "adset_id", "adset_name": "adset_name", "adgroup_id": "adset_id", "adgroup_name": "adset_name",
	"campaign_id": "campaign_id", "campaign_name": "campaign_name", "form_id": "form_id", "form_name": "form_name", "page_id": "form_id", "page_name": "form_name",
	"is_organic": roleOrganic, "consent": roleConsent, "is_test": roleTest,
	"fbclid": "fbclid", "fbc": "fbc", "fbp": "fbp", "gclid": "gclid", "gbraid": "gbraid", "wbraid": "wbraid",
	"ttclid": "ttclid", "li_fat_id": "li_fat_id", "ctwa_clid": "ctwa_clid", "msclkid": "msclkid", "page_url": "page_url",

	"inbox_url": roleNone, "lead_status": roleNone,
	// Money and stages come by other ways.
	"amount": roleNone, "value": roleNone, "sale_value": roleNone, "deal_value": roleNone, "price": roleNone, "revenue": roleNone, "currency": roleNone,
	"stage": roleNone, "pipeline": roleNone, "changed_at": roleNone,
}

// targets are the roles that only a map of columns gives.
var targets = map[string]bool{"platform": true, roleChannel: true}

func key(header string) string {
	words := strings.FieldsFunc(strings.ToLower(header), func(r rune) bool { return strings.ContainsRune(" _-\t\u00a0", r) })
	return strings.Join(words, "_")
}

// readHeader decides what each column holds.
func (f *file) readHeader(header []string) error {
	f.columns = make([]column, len(header))
	keys := make([]string, len(header))
	for i, name := range header {
		f.columns[i].header = leadform.Clean(readable(name))
		keys[i] = key(f.columns[i].header)
	}
	f.tiktok = slices.Contains(keys, "adgroup_id") && slices.Contains(keys, "create_time")
	marks := 0
	for _, name := range []string{"id", "created_time", "ad_id", "adset_id", "campaign_id", "campaign_name", "form_id", "is_organic", "platform"} {
		if slices.Contains(keys, name) {
			marks++
		}
	}
	f.meta = !f.tiktok && marks >= 3
	asExported := f.meta && len(keys) > 2 && keys[0] == "id" && keys[1] == "created_time" && keys[2] == "ad_id"
	used := map[string]bool{}
	for i := range f.columns {
		c := &f.columns[i]
		if name, target, ok := f.mapped(c.header); ok {
			used[name] = true
			c.assign(target)
			continue
		}
		switch {
		case f.meta && keys[i] == "id":
			c.role = roleLeadID
		case f.meta && keys[i] == "platform":
			c.role = roleChannel
		default:
			c.role = roles[keys[i]]
		}
		if c.role != "" {
			continue
		}
		switch {
		case f.meta:
			c.field = leadform.MetaKey(c.header)
		case f.tiktok:
			c.field = leadform.TikTokField(c.header)
		}
		if c.field == leadform.Custom && !asExported && !f.tiktok {
			c.field = leadform.WebsiteField(c.header)
		}
	}
	for name := range f.o.Columns {
		if !used[name] {
			return fmt.Errorf("the file has no column %q that the map of columns names", name)
		}
	}
	return nil
}

func (f *file) mapped(header string) (name, target string, ok bool) {
	if target, ok = f.o.Columns[header]; ok {
		return header, target, true
	}
	for name, target := range f.o.Columns {
		if key(name) == key(header) {
			return name, target, true
		}
	}
	return "", "", false
}

// assign gives a column what the map says of it.
func (c *column) assign(target string) {
	var l ledger.Lead
	leadform.Set(&l, leadform.Canonical(target), "x")
	switch role := roles[key(target)]; {
	case target == roleNone || target == "":
		c.role = roleNone
	case l.Contact != ledger.Contact{}:
		c.field = leadform.Canonical(target)
	case role != "" && role != roleNone:
		c.role = role
	case targets[target]:
		c.role = target
	default:
		c.name = target
	}
}
