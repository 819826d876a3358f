package pipedrive

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
)

// fieldKey returns the key of the deal field for the lead's id, from the settings or by
// its name; leads share the fields of deals.
func (p *Pipedrive) fieldKey(ctx context.Context, a crm.Account) (string, ledger.Outcome) {
	if key := a.Options.Text("lead_id_field"); key != "" {
		return key, nil
	}
	p.mu.Lock()
	key := p.keys[a.ID]
	p.mu.Unlock()
	if key != "" {
		return key, nil
	}
	fields, o := p.fields(ctx, a)
	if o != nil {
		return "", o
	}
	for key, f := range fields {
		if f.Name == fieldName {
			p.remember(a, key)
			return key, nil
		}
	}
	return "", ledger.Hold{Reason: ledger.FieldMissing, Answer: ledger.Answer{Message: "Pipedrive has no deal field named " + fieldName + "; " + crm.Repair}}
}

func (p *Pipedrive) remember(a crm.Account, key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys[a.ID] = key
}

func (p *Pipedrive) forget(a crm.Account) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.keys, a.ID)
}

// dealField is a field of deals.
type dealField struct {
	Key     string `json:"key"`
	Name    string `json:"name"`
	Options []struct {
		ID    plain `json:"id"`
		Label plain `json:"label"`
	} `json:"options"` // of what a choice is made
}

// fields returns the deal fields by their key.
func (p *Pipedrive) fields(ctx context.Context, a crm.Account) (map[string]dealField, ledger.Outcome) {
	fields := map[string]dealField{}
	for start, page := 0, 0; page < 10; page++ {
		r, err := p.do(ctx, a, http.MethodGet, "/api/v1/dealFields?start="+strconv.Itoa(start)+"&limit=500", nil)
		o := classify(r, err, crm.Private(a, nil))
		if _, ok := o.(ledger.Accepted); !ok {
			return nil, o
		}
		var answer struct {
			Data       []dealField `json:"data"`
			Additional struct {
				Pagination struct {
					More bool `json:"more_items_in_collection"`
					Next int  `json:"next_start"`
				} `json:"pagination"`
			} `json:"additional_data"`
		}
		if json.Unmarshal(r.Body, &answer) != nil {
			return nil, unreadable(r)
		}
		for _, f := range answer.Data {
			fields[f.Key] = f
		}
		if !answer.Additional.Pagination.More || answer.Additional.Pagination.Next <= start {
			break
		}
		start = answer.Additional.Pagination.Next
	}
	return fields, nil
}

// Check reads the deal fields, which shows the token's worth too. Repair creates the field
// for the lead's id.
func (p *Pipedrive) Check(ctx context.Context, a crm.Account, repair bool) []crm.Check {
	fields, o := p.fields(ctx, a)
	if o != nil {
		c := crm.Check{Name: "token", Sentence: "Pipedrive refuses: " + ledger.AnswerOf(o).Message + ".", NextStep: "Try again later; leads wait meanwhile."}
		if _, ok := o.(ledger.Hold); ok {
			c.NextStep = "Put in a new API token, or connect again, with the right to read and write deals, leads and contacts."
		}
		return []crm.Check{c}
	}
	checks := []crm.Check{{Name: "token", OK: true, Sentence: "Pipedrive takes the credential."}, p.checkField(ctx, a, fields, repair)}
	for _, table := range []string{"fields", "deal_fields"} {
		for target := range a.Options.Map(table) {
			if _, there := fields[target]; !hexKey.MatchString(target) || table == "deal_fields" && !there {
				checks = append(checks, crm.Check{Name: table, Sentence: "Pipedrive has no custom field " + target + ".", NextStep: "Use the field's 40-character key, which Pipedrive shows under Settings, Data fields, API key."})
			}
		}
	}
	checks = append(checks, checkWatched(a, fields)...)
	if a.Options.Is("deal") && a.Options.Text("stage") != "" {
		checks = append(checks, p.checkStage(ctx, a))
	}
	if p.oauth.Unsaved(a) {
		checks = append(checks, crm.Check{
			Name: "refresh_token", Warning: true,
			Sentence: "Pipedrive has renewed the refresh token, and it could not be kept: after a restart the old one may not work.", NextStep: "Look into the log for why the data folder cannot be written.",
		})
	}
	checks = append(checks, crm.CheckFields(a)...)
	return append(checks, crm.CheckFields(crm.Table(a, "deal_fields"))...)
}

func (p *Pipedrive) checkField(ctx context.Context, a crm.Account, fields map[string]dealField, repair bool) crm.Check {
	key := a.Options.Text("lead_id_field")
	for k, f := range fields {
		if key == k || key == "" && f.Name == fieldName {
			return crm.Check{Name: "lead_id_field", OK: true, Sentence: "The field for the lead's id is there."}
		}
	}
	if key != "" {
		return crm.Check{Name: "lead_id_field", Sentence: "Pipedrive has no deal field with the key in lead_id_field.", NextStep: "Copy the field's API key again, or take lead_id_field out and run capiloop doctor --repair."}
	}
	if !repair {
		return crm.Check{Name: "lead_id_field", Sentence: "Pipedrive has no deal field named " + fieldName + ".", NextStep: "To have it created " + crm.Repair + "."}
	}
	r, err := p.do(ctx, a, http.MethodPost, "/api/v1/dealFields", crm.JSON(map[string]string{"name": fieldName, "field_type": "varchar"}))
	o := classify(r, err, crm.Private(a, nil))
	var made struct {
		Data struct {
			Key string `json:"key"`
		} `json:"data"`
	}
	if _, ok := o.(ledger.Accepted); !ok || json.Unmarshal(r.Body, &made) != nil || made.Data.Key == "" {
		return crm.Check{Name: "lead_id_field", Sentence: "The field could not be created: " + ledger.AnswerOf(o).Message + ".", NextStep: "Create a deal field of the type text named " + fieldName + " by hand."}
	}
	p.remember(a, made.Data.Key)
	if a.SaveOption != nil {
		// Where it cannot be kept, it is found by its name.
		_ = a.SaveOption(ctx, "lead_id_field", secret.New(made.Data.Key))
	}
	return crm.Check{Name: "lead_id_field", OK: true, Sentence: "The deal field " + fieldName + " was created."}
}

func (p *Pipedrive) checkStage(ctx context.Context, a crm.Account) crm.Check {
	stage := a.Options.Text("stage")
	r, err := p.do(ctx, a, http.MethodGet, "/api/v2/stages/"+url.PathEscape(stage), nil)
	o := classify(r, err, crm.Private(a, nil))
	var answer struct {
		Data struct {
			Name     string `json:"name"`
			Pipeline ident  `json:"pipeline_id"`
		} `json:"data"`
	}
	_, ok := o.(ledger.Accepted)
	want := a.Options.Text("pipeline")
	if !ok || json.Unmarshal(r.Body, &answer) != nil || want != "" && string(answer.Data.Pipeline) != want {
		return crm.Check{Name: "stage", Sentence: "Pipedrive has no stage " + stage + " in the pipeline of the settings.", NextStep: "Set pipeline and stage to the numbers that Pipedrive shows in the address of the pipeline's page."}
	}
	return crm.Check{Name: "stage", OK: true, Sentence: "A lead's deal begins in " + answer.Data.Name + "."}
}
