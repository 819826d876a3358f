package hubspot

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
)

// found is a deal or a contact as HubSpot gives it.
type found struct {
	ID           word                 `json:"id"`
	Properties   map[string]word      `json:"properties"`
	History      map[string][]version `json:"propertiesWithHistory"`
	CreatedAt    word                 `json:"createdAt"`
	Associations map[string]struct {
		Results []struct {
			ID word `json:"id"`
		} `json:"results"`
	} `json:"associations"`
}

// version is one value that a property had.
type version struct {
	Value    word `json:"value"`
	At       word `json:"timestamp"`
	SourceID word `json:"sourceId"`
}

// Complete reads whose deal or contact it is, the amount, and what the option read asks
// for. A deal that was just created begins in the first stage of its history.
func (h *HubSpot) Complete(ctx context.Context, a crm.Account, c *ledger.StageChange) error {
	if id := crm.RecordID(c.Records, "deal"); id != "" {
		d, err := h.deal(ctx, a, id)
		if err != nil {
			return err
		}
		return h.completeDeal(ctx, a, c, d)
	}
	id := crm.RecordID(c.Records, "contact")
	if id == "" {
		return crm.Unread("the record", ledger.Refusal{Answer: ledger.Answer{Message: "the change names no deal and no contact"}})
	}
	who, err := h.contact(ctx, a, id)
	if err != nil {
		return err
	}
	takeContact(a, c, who)
	c.CreatedAt = cmp.Or(c.CreatedAt, who.created())
	c.Thin = false
	return nil
}

func (h *HubSpot) completeDeal(ctx context.Context, a crm.Account, c *ledger.StageChange, d *found) error {
	stages := d.versions(dealStage)
	if c.Stage == "" && len(stages) > 0 {
		c.Stage = string(stages[0].Value)
	}
	if c.Stage = cmp.Or(c.Stage, string(d.Properties[dealStage])); c.Stage == "" {
		return crm.Unread("the deal", ledger.Refusal{Answer: ledger.Answer{Message: "the deal has no stage"}})
	}
	c.From = cmp.Or(c.From, before(stages, c))
	c.Pipeline = cmp.Or(c.Pipeline, d.pipelineAt(c.At))
	takeDeal(a, c, d)
	if c.Amount != "" && c.Currency == "" {
		c.Currency = h.portal(ctx, a).currency
	}
	if list := d.Associations["contacts"].Results; len(list) > 0 {
		who, err := h.contact(ctx, a, string(list[0].ID))
		// A deal whose contact is gone is still a deal: its own lead id may be enough.
		if err != nil && !crm.IsGone(err) {
			return err
		}
		if err == nil {
			takeContact(a, c, who)
		}
	}
	c.Thin = false
	return nil
}

// takeDeal takes what the deal itself says. What the hook said stays.
func takeDeal(a crm.Account, c *ledger.StageChange, d *found) {
	c.DealID = cmp.Or(c.DealID, string(d.ID))
	c.Amount = cmp.Or(c.Amount, crm.Decimal(string(d.Properties["amount"])))
	c.Currency = cmp.Or(c.Currency, strings.ToUpper(string(d.Properties["deal_currency_code"])))
	c.LeadID = cmp.Or(c.LeadID, string(d.Properties[property(a)]))
	c.CreatedAt = cmp.Or(c.CreatedAt, d.created())
	takeFields(a, c, d)
}

// takeContact takes whose it is. The deal's lead id comes first: the contact carries the
// one of the newest enquiry.
func takeContact(a crm.Account, c *ledger.StageChange, who *found) {
	p := who.Properties
	other, _, _ := strings.Cut(string(p["hs_additional_emails"]), ";")
	c.Contact = ledger.Contact{
		FirstName: string(p["firstname"]), LastName: string(p["lastname"]), Email: string(p["email"]), WorkEmail: other,
		Phone: string(cmp.Or(p["phone"], p["mobilephone"])),
	}
	if mobile := string(p["mobilephone"]); mobile != c.Contact.Phone {
		c.Contact.WorkPhone = mobile
	}
	c.LeadID = cmp.Or(c.LeadID, string(p[property(a)]))
	// A contact that was merged answers with the id of the one that was kept.
	if r := record("contact", who.ID); r != "" && !slices.Contains(c.Records, r) {
		c.Records = append(slices.Clone(c.Records), r)
	}
	takeFields(a, c, who)
}

// takeFields takes what rules ask for; a deal's own value goes before the contact's.
func takeFields(a crm.Account, c *ledger.StageChange, o *found) {
	for _, name := range a.Options.List("read") {
		value := string(o.Properties[name])
		if value == "" || c.Fields[name] != "" {
			continue
		}
		if c.Fields == nil {
			c.Fields = map[string]string{}
		}
		c.Fields[name] = value
	}
}

// before returns the stage that the deal left, "" if the history does not tell.
func before(stages []version, c *ledger.StageChange) string {
	for i := len(stages) - 1; i > 0; i-- {
		if string(stages[i].Value) == c.Stage && stages[i].time().Equal(c.At) {
			return string(stages[i-1].Value)
		}
	}
	return ""
}

// pipelineAt returns in which pipeline the deal was: the stage of the hook belongs to that
// one, even if the deal was moved to another since.
func (o *found) pipelineAt(at time.Time) string {
	id := string(o.Properties["pipeline"])
	if at.IsZero() {
		return id
	}
	for i, v := range o.versions("pipeline") {
		// Stage and pipeline change together, but are not always written in the same moment.
		if i == 0 || !v.time().After(at.Add(2*time.Second)) {
			id = string(v.Value)
		}
	}
	return id
}

// versions returns the values that a property had, the oldest first.
func (o *found) versions(name string) []version {
	list := slices.Clone(o.History[name])
	list = slices.DeleteFunc(list, func(v version) bool { return v.Value == "" || v.time().IsZero() })
	slices.SortStableFunc(list, func(x, y version) int { return x.time().Compare(y.time()) })
	return list
}

func (v version) time() time.Time { return moment(v.At) }

func (o *found) created() time.Time {
	return moment(cmp.Or(o.Properties["createdate"], o.CreatedAt))
}

// moment reads a time, zero if it is none.
func moment(text word) time.Time {
	t, err := time.Parse(time.RFC3339, string(text))
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}

// dealProperties and contactProperties are all that is asked for: HubSpot returns no
// property that is not.
func dealProperties(a crm.Account) []string {
	return append([]string{dealStage, "pipeline", "amount", "deal_currency_code", "createdate", "hs_lastmodifieddate", property(a)}, a.Options.List("read")...)
}

func contactProperties(a crm.Account) []string {
	return append([]string{"email", "hs_additional_emails", "phone", "mobilephone", "firstname", "lastname", "createdate", property(a)}, a.Options.List("read")...)
}

// deal reads a deal with the stages that it has been in.
func (h *HubSpot) deal(ctx context.Context, a crm.Account, id string) (*found, error) {
	return h.find(ctx, a, "deals", id, url.Values{
		"properties":            {strings.Join(dealProperties(a), ",")},
		"propertiesWithHistory": {dealStage + ",pipeline"},
		"associations":          {"contacts"},
	})
}

func (h *HubSpot) contact(ctx context.Context, a crm.Account, id string) (*found, error) {
	return h.find(ctx, a, "contacts", id, url.Values{"properties": {strings.Join(contactProperties(a), ",")}})
}

func (h *HubSpot) find(ctx context.Context, a crm.Account, kind, id string, query url.Values) (*found, error) {
	path := prefix(a, "objects") + "/" + kind + "/" + url.PathEscape(id) + "?" + query.Encode()
	r, err := h.do(ctx, a, http.MethodGet, path, nil)
	what := "the " + strings.TrimSuffix(kind, "s")
	if err := crm.UnreadRecord(what, classify(r, err, crm.Private(a, nil))); err != nil {
		return nil, err
	}
	var o found
	if json.Unmarshal(r.Body, &o) != nil || o.ID == "" {
		return nil, unreadable(what, r)
	}
	return &o, nil
}

// unreadable is a success whose answer is not what was asked for: something between us
// and HubSpot has answered.
func unreadable(what string, r crm.Reply) error {
	return crm.Unread(what, ledger.RetryAt{Reason: ledger.Backlog, Answer: ledger.Answer{Status: r.Status, Message: "the answer cannot be read"}})
}

// read makes a call and reads its answer.
func (h *HubSpot) read(ctx context.Context, a crm.Account, what, method, path string, body []byte, into any) error {
	r, err := h.do(ctx, a, method, path, body)
	if err := crm.Unread(what, classify(r, err, crm.Private(a, nil))); err != nil {
		return err
	}
	if json.Unmarshal(r.Body, into) != nil {
		return unreadable(what, r)
	}
	return nil
}
