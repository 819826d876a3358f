package gohighlevel

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
)

// step is what the action "Webhook" of a workflow sends. The contact's custom fields stand
// beside these, under their labels.
type step struct {
	Contact   word `json:"contact_id"`
	ID        word `json:"id"` // of the opportunity
	FirstName word `json:"first_name"`
	LastName  word `json:"last_name"`
	FullName  word `json:"full_name"`
	Email     word `json:"email"`
	Phone     word `json:"phone"`
	Address   word `json:"address1"`
	City      word `json:"city"`
	State     word `json:"state"`
	Postcode  word `json:"postal_code"`
	Country   word `json:"country"`
	Company   word `json:"company_name"`
	Created   word `json:"date_created"`

	Name         word `json:"opportunity_name"`
	Status       word `json:"status"`
	Value        word `json:"lead_value"`
	Stage        word `json:"pipleline_stage"` // the vendor's spelling
	StageToo     word `json:"pipeline_stage"`
	Pipeline     word `json:"pipeline_id"`
	PipelineName word `json:"pipeline_name"`

	Location struct {
		ID word `json:"id"`
	} `json:"location"`
	Custom map[string]word `json:"customData"`
}

// readWorkflow reads what a workflow sent. It has neither an id nor a time: the moment of
// receipt is taken, and a second of the same within a minute is a repeat.
func readWorkflow(body []byte, a crm.Account, now time.Time) crm.Received {
	var s step
	_ = json.Unmarshal(body, &s) // what is of another shape than is known stays empty
	var all map[string]any
	_ = json.Unmarshal(body, &all)
	if all["webhookId"] != nil && all["type"] != nil {
		return answer(http.StatusUnauthorized, "X-GHL-Signature is missing from the webhook of an app\n")
	}
	out := answer(http.StatusOK, "")
	if own := a.Options.Text("location_id"); own != "" && s.Location.ID != "" && string(s.Location.ID) != own {
		return out
	}
	own := s.own()
	c := ledger.StageChange{
		Records: records("opportunity", s.ID, "contact", s.Contact), DealID: string(s.ID), CreatedAt: moment(s.Created),
		Contact: ledger.Contact{
			FullName: string(s.FullName), FirstName: string(s.FirstName), LastName: string(s.LastName), Email: string(s.Email), Phone: string(s.Phone),
			Street: string(s.Address), City: string(s.City), State: string(s.State), Postcode: string(s.Postcode), Country: string(s.Country), Company: string(s.Company),
		},
		Pipeline: string(s.Pipeline), PipelineLabel: string(s.PipelineName), Amount: amount(cmp.Or(own["value"], own["amount"], s.Value)),
		Currency: currency(own["currency"]), Fields: fieldsOf(all),
	}
	c.LeadID = leadIDOf(own, a)
	if c.LeadID == "" {
		c.LeadID = leadIDOf(snaked(c.Fields), a)
	}
	if len(c.Records) == 0 && c.LeadID == "" && c.Contact.Email == "" && c.Contact.Phone == "" {
		return out
	}
	stage, status := c, c
	stage.Stage = string(cmp.Or(own["stage"], s.Stage, s.StageToo))
	stage.StageLabel = stage.Stage
	status.Field, status.Stage, status.Meaning = statusField, strings.ToLower(string(s.Status)), meaning(s.Status)
	list := []ledger.StageChange{stage}
	if m := status.Meaning; m == ledger.MeaningWon || m == ledger.MeaningLost {
		list = append(list, status)
	}
	if field, is := own["field"], cmp.Or(own["is"], own["field_value"]); field != "" && is != "" {
		c.Field, c.Stage = string(field), string(is)
		list = append(list, c)
	}
	out.Changes = named(list)
	for i := range out.Changes {
		out.Changes[i].Key = s.key(&out.Changes[i], now)
	}
	return out
}

// own are the customer's own keys, in lower case with underscores.
func (s *step) own() map[string]word {
	own := map[string]word{}
	for _, name := range slices.Sorted(maps.Keys(s.Custom)) {
		own[crm.Slug(name)] = s.Custom[name]
	}
	return own
}

// key is made of what the vendor's hook can be told by, and of the minute.
func (s *step) key(c *ledger.StageChange, now time.Time) string {
	h := sha256.Sum256([]byte(strings.Join([]string{
		string(s.Contact), string(s.ID), string(s.Status), c.LeadID, c.Contact.Email, c.Contact.Phone, c.Field, c.Pipeline, c.Stage, now.UTC().Truncate(time.Minute).Format(time.RFC3339),
	}, "\x00")))
	return "workflow " + hex.EncodeToString(h[:16])
}

// leadIDOf finds the lead id among fields, whose names are in lower case with underscores.
func leadIDOf(fields map[string]word, a crm.Account) string {
	for _, name := range []string{crm.Slug(leadIDField(a)), "meta_lead_id", "lead_id", "leadgen_id", "facebook_lead_id"} {
		if id := strings.TrimPrefix(string(fields[name]), "l:"); id != "" && !strings.ContainsAny(id, "{} ") {
			return id
		}
	}
	return ""
}

func snaked(fields map[string]string) map[string]word {
	list := map[string]word{}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		list[crm.Slug(name)] = word(fields[name])
	}
	return list
}

// fieldsOf are the plain values at the top, custom fields by their labels among them, and the
// customer's own keys.
func fieldsOf(all map[string]any) map[string]string {
	fields := map[string]string{}
	take := func(from map[string]any) {
		for _, name := range slices.Sorted(maps.Keys(from)) {
			_, nested := from[name].(map[string]any)
			if value := plain(from[name]); !nested && value != "" && len(name) <= maxText && !slices.Contains(personal, name) && len(fields) < 200 {
				fields[name] = string(value)
			}
		}
	}
	own, _ := all["customData"].(map[string]any)
	take(own)
	take(all)
	delete(fields, "key") // may be a password
	return fields
}

// personal are the contact's own fields, which stand in Contact.
var personal = []string{"first_name", "last_name", "full_name", "email", "phone", "address1", "full_address", "city", "state", "postal_code", "company_name", "date_of_birth"}

func currency(code word) string {
	if len(code) != 3 {
		return ""
	}
	return strings.ToUpper(string(code))
}
