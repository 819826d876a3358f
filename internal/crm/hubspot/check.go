package hubspot

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
)

// Check asks which properties there are, which shows the token's worth too, and for the
// pipeline and the stage where deals are wanted. Repair creates our own properties.
func (h *HubSpot) Check(ctx context.Context, a crm.Account, repair bool) []crm.Check {
	checks := h.checkObject(ctx, a, "contacts", contactFields(a), repair)
	if a.Options.Is("deal") && checks[0].OK {
		own := crm.Fields(crm.Table(a, "deal_fields"), map[string]string{property(a): "id", "pipeline": "=", "dealstage": "="})
		checks = append(checks, h.checkObject(ctx, a, "deals", own, repair)[1:]...)
		checks = append(checks, h.checkStage(ctx, a))
	}
	if h.oauth.Unsaved(a) {
		checks = append(checks, crm.Check{
			Name: "refresh_token", Warning: true,
			Sentence: "HubSpot has renewed the refresh token, and it could not be kept: after a restart the old one will not work.", NextStep: "Look into the log for why the data folder cannot be written.",
		})
	}
	checks = append(checks, crm.CheckFields(a)...)
	return append(checks, crm.CheckFields(crm.Table(a, "deal_fields"))...)
}

// checkObject begins with the check of the credential.
func (h *HubSpot) checkObject(ctx context.Context, a crm.Account, kind string, fields map[string]string, repair bool) []crm.Check {
	have, o := h.properties(ctx, a, kind)
	if o != nil {
		return []crm.Check{refused(o)}
	}
	checks := []crm.Check{{Name: "token", OK: true, Sentence: "HubSpot takes the credential."}}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		unique, there := have[name]
		_, ours := custom(a)[name]
		switch {
		case there && name == property(a) && !unique:
			checks = append(checks, crm.Check{
				Name: kind + "." + name, Warning: true,
				Sentence: "The property " + name + " of " + kind + " is not unique in HubSpot, so leads cannot be told apart by it.",
				NextStep: "HubSpot cannot change this afterwards: set lead_id_property to another name and run capiloop doctor --repair.",
			})
		case there && name == property(a):
			checks = append(checks, crm.Check{Name: kind + "." + name, OK: true, Sentence: "The property for the lead's id is there."})
		case there:
		case ours && repair:
			checks = append(checks, h.create(ctx, a, kind, name))
		case ours:
			checks = append(checks, crm.Check{Name: kind + "." + name, Sentence: "The property " + name + " of " + kind + " is missing in HubSpot.", NextStep: "To have it created " + crm.Repair + "."})
		default:
			checks = append(checks, crm.Check{Name: kind + "." + name, Sentence: "HubSpot has no property " + name + " of " + kind + ".", NextStep: "Create it in HubSpot, or correct the name in the table of fields."})
		}
	}
	return checks
}

func refused(o ledger.Outcome) crm.Check {
	c := crm.Check{Name: "token", Sentence: "HubSpot refuses: " + ledger.AnswerOf(o).Message + ".", NextStep: "Try again later; leads wait meanwhile."}
	if hold, ok := o.(ledger.Hold); ok {
		c.NextStep = "Put in a new token, with the scopes of contacts and of their schemas."
		if hold.Reason == ledger.PermissionMissing {
			c.NextStep = "Add the scopes crm.objects.contacts and crm.schemas.contacts, read and write (and those of deals where deal is true)."
		}
	}
	return c
}

// properties returns which properties there are, and whether each is unique.
func (h *HubSpot) properties(ctx context.Context, a crm.Account, kind string) (map[string]bool, ledger.Outcome) {
	r, err := h.do(ctx, a, http.MethodGet, prefix(a, "properties")+"/"+kind, nil)
	o := classify(r, err, crm.Private(a, nil))
	if _, ok := o.(ledger.Accepted); !ok {
		return nil, o
	}
	var list struct {
		Results []struct {
			Name   string `json:"name"`
			Unique bool   `json:"hasUniqueValue"`
		} `json:"results"`
	}
	if json.Unmarshal(r.Body, &list) != nil {
		return nil, ledger.RetryAt{Answer: ledger.Answer{Status: r.Status, Message: "the answer is no list of properties"}}
	}
	have := map[string]bool{}
	for _, p := range list.Results {
		have[p.Name] = p.Unique
	}
	return have, nil
}

func (h *HubSpot) create(ctx context.Context, a crm.Account, kind, name string) crm.Check {
	label := map[string]string{property(a): "Lead id", "lead_fbclid": "Facebook click id (fbclid)", "lead_gclid": "Google click id (gclid)"}[name]
	group := map[string]string{"contacts": "contactinformation", "deals": "dealinformation"}[kind]
	r, err := h.do(ctx, a, http.MethodPost, prefix(a, "properties")+"/"+kind, crm.JSON(map[string]any{
		"name": name, "label": cmp.Or(label, name), "type": "string", "fieldType": "text", "groupName": group, "hasUniqueValue": name == property(a),
	}))
	o := classify(r, err, crm.Private(a, nil))
	if _, ok := o.(ledger.Accepted); ok || err == nil && r.Status == http.StatusConflict {
		return crm.Check{Name: kind + "." + name, OK: true, Sentence: "The property " + name + " of " + kind + " was created."}
	}
	return crm.Check{
		Name: kind + "." + name, Sentence: "The property " + name + " of " + kind + " could not be created: " + ledger.AnswerOf(o).Message + ".",
		NextStep: "Create it by hand as a single-line text that is unique, or give the token the scope crm.schemas." + kind + ".write.",
	}
}

func (h *HubSpot) checkStage(ctx context.Context, a crm.Account) crm.Check {
	pipeline, stage := cmp.Or(a.Options.Text("pipeline"), "default"), cmp.Or(a.Options.Text("stage"), "appointmentscheduled")
	r, err := h.do(ctx, a, http.MethodGet, prefix(a, "pipelines")+"/deals", nil)
	o := classify(r, err, crm.Private(a, nil))
	if _, ok := o.(ledger.Accepted); !ok {
		return crm.Check{Name: "stage", Sentence: "The pipelines could not be read: " + ledger.AnswerOf(o).Message + ".", NextStep: "Give the token the scope crm.objects.deals.read."}
	}
	var list struct {
		Results []struct {
			ID     string `json:"id"`
			Stages []struct {
				ID    string `json:"id"`
				Label string `json:"label"`
			} `json:"stages"`
		} `json:"results"`
	}
	_ = json.Unmarshal(r.Body, &list)
	for _, p := range list.Results {
		for _, s := range p.Stages {
			if p.ID == pipeline && s.ID == stage {
				return crm.Check{Name: "stage", OK: true, Sentence: "A lead's deal begins in " + s.Label + "."}
			}
		}
	}
	return crm.Check{Name: "stage", Sentence: "HubSpot has no stage " + stage + " in the pipeline " + pipeline + ".", NextStep: "Set pipeline and stage to ids that HubSpot shows under Settings, Objects, Deals, Pipelines."}
}
