package gohighlevel

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
)

// Check looks at access, the custom fields and the pipeline; with repair it creates the
// custom fields that are missing.
func (c *CRM) Check(ctx context.Context, a crm.Account, repair bool) []crm.Check {
	hide := crm.Private(a, nil)
	checks := crm.CheckFields(a)
	if key := a.Options.Text("webhook_public_key"); key != "" {
		if _, err := readKey(key); err != nil {
			checks = append(checks, crm.Check{
				Name: "webhook_public_key", Sentence: "The key cannot be read, so no webhook of an app is taken: " + err.Error() + ".",
				NextStep: "Take webhook_public_key out, unless another than GoHighLevel signs the webhooks.",
			})
		}
	}
	path := "/locations/" + url.PathEscape(a.Options.Text("location_id")) + "/customFields"
	reply, o := c.call(ctx, a, hide, http.MethodGet, path+"?model=contact", nil)
	if o != nil {
		return append(checks, crm.Check{
			Name: "access", Sentence: "GoHighLevel does not let us in: " + words(o) + ".",
			NextStep: "Make a Private Integration in this location with the scopes contacts.write, contacts.readonly, opportunities.write, opportunities.readonly, locations/customFields.readonly and .write, and look at location_id.",
		})
	}
	checks = append(checks, crm.Check{Name: "access", OK: true, Sentence: "GoHighLevel lets us in."})
	var have struct {
		Fields []struct {
			ID  word   `json:"id"`
			Key string `json:"fieldKey"`
		} `json:"customFields"`
	}
	_ = json.Unmarshal(reply.Body, &have) // what cannot be read has no fields
	keys, ids := make([]string, 0, len(have.Fields)), make([]string, 0, len(have.Fields))
	for _, f := range have.Fields {
		keys, ids = append(keys, bare(f.Key)), append(ids, string(f.ID))
	}
	checks = append(checks, c.fields(ctx, a, path, keys, repair)...)
	checks = append(checks, c.checkWatched(ctx, a, hide, ids)...)
	if a.Options.Text("pipeline_id") != "" || a.Options.Text("stage_id") != "" {
		checks = append(checks, c.pipeline(ctx, a, hide))
	}
	return checks
}

// fields compares the custom fields with those that leads are written into. Without the
// one for the lead id nothing can be told back to Meta; the others are a loss of detail.
func (c *CRM) fields(ctx context.Context, a crm.Account, path string, have []string, repair bool) []crm.Check {
	var checks []crm.Check
	missing := []string{}
	for _, key := range slices.Sorted(maps.Keys(table(a))) {
		if slices.Contains(standard, key) || key == "monetaryValue" || strings.HasPrefix(key, "id:") || slices.Contains(have, bare(key)) {
			continue
		}
		if repair {
			made, o := c.create(ctx, a, path, bare(key))
			if o == nil && made == bare(key) {
				continue
			}
			if o == nil {
				checks = append(checks, crm.Check{
					Name: "custom field " + bare(key), Warning: true, Sentence: "GoHighLevel made the custom field under the key " + made + ".",
					NextStep: "Name that key in fields or lead_id_field.",
				})
				continue
			}
			checks = append(checks, crm.Check{
				Name: "custom field " + bare(key), Warning: bare(key) != leadIDField(a), Sentence: "The custom field " + bare(key) + " could not be created: " + words(o) + ".",
				NextStep: "Create it by hand: Settings, Custom Fields, type text.",
			})
			continue
		}
		missing = append(missing, bare(key))
	}
	if slices.Contains(missing, leadIDField(a)) {
		checks = append(checks, crm.Check{
			Name: "lead id field", Sentence: "The location has no custom field " + leadIDField(a) + "; the lead id would be lost.",
			NextStep: "Run capiloop doctor --repair, which creates it.",
		})
		missing = slices.DeleteFunc(missing, func(k string) bool { return k == leadIDField(a) })
	}
	if len(missing) > 0 {
		checks = append(checks, crm.Check{
			Name: "custom fields", Warning: true, Sentence: "The location has no custom field for " + strings.Join(missing, ", ") + "; they are left out of contacts.",
			NextStep: "Run capiloop doctor --repair, which creates them, or take them out by fields.",
		})
	}
	if len(checks) == 0 {
		checks = append(checks, crm.Check{Name: "custom fields", OK: true, Sentence: "The location has the custom fields."})
	}
	return checks
}

// create makes a custom field and returns its key, which the API derives from the name.
func (c *CRM) create(ctx context.Context, a crm.Account, path, key string) (string, ledger.Outcome) {
	name, kind := strings.ReplaceAll(key, "_", " "), "TEXT"
	for _, f := range custom {
		if f.key == key {
			name, kind = f.name, f.kind
		}
	}
	reply, o := c.call(ctx, a, crm.Private(a, nil), http.MethodPost, path, map[string]any{"name": name, "dataType": kind, "model": "contact"})
	if o != nil {
		return "", o
	}
	var made struct {
		Field struct {
			Key string `json:"fieldKey"`
		} `json:"customField"`
	}
	_ = json.Unmarshal(reply.Body, &made) // then the key is empty
	return cmp.Or(bare(made.Field.Key), key), nil
}

func (c *CRM) pipeline(ctx context.Context, a crm.Account, hide []string) crm.Check {
	check := crm.Check{Name: "pipeline", NextStep: "Look at pipeline_id and stage_id; both are needed for opportunities."}
	reply, o := c.call(ctx, a, hide, http.MethodGet, "/opportunities/pipelines?locationId="+url.QueryEscape(a.Options.Text("location_id")), nil)
	if o != nil {
		check.Sentence = "The pipelines cannot be read: " + words(o) + "."
		return check
	}
	type named struct {
		ID     string  `json:"id"`
		Name   string  `json:"name"`
		Stages []named `json:"stages"`
	}
	var answer struct {
		Pipelines []named `json:"pipelines"`
	}
	_ = json.Unmarshal(reply.Body, &answer) // what cannot be read has no pipelines
	for _, p := range answer.Pipelines {
		for _, s := range p.Stages {
			if p.ID == a.Options.Text("pipeline_id") && s.ID == a.Options.Text("stage_id") {
				return crm.Check{Name: "pipeline", OK: true, Sentence: "Opportunities begin in " + p.Name + ", " + s.Name + "."}
			}
		}
	}
	check.Sentence = "The location has no such pipeline with such a stage."
	return check
}

// words are what the CRM said, or its status.
func words(o ledger.Outcome) string {
	a := ledger.AnswerOf(o)
	return cmp.Or(a.Message, "status "+strconv.Itoa(a.Status))
}
