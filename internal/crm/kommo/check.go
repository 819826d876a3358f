package kommo

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
)

// maxPages ends a list of custom fields that never ends.
const maxPages = 40

// fieldList is what an account had when it was asked.
type fieldList struct {
	all []customField
	url string
	at  time.Time
}

// customFields lists the lead's custom fields, from memory while they are believed.
func (c *CRM) customFields(ctx context.Context, a crm.Account, hide []string, fresh bool) (fieldList, ledger.Outcome) {
	c.mu.Lock()
	list, ok := c.fields[a.ID]
	c.mu.Unlock()
	if ok && !fresh && list.url == address(a) && time.Since(list.at) < fieldsKept {
		return list, nil
	}
	list = fieldList{url: address(a), at: time.Now()}
	for page := 1; page <= maxPages; page++ {
		reply, o := c.call(ctx, a, hide, http.MethodGet, "/leads/custom_fields?limit=250&page="+strconv.Itoa(page), nil)
		if o != nil {
			return fieldList{}, o
		}
		if reply.Status == http.StatusNoContent || len(reply.Body) == 0 {
			break
		}
		var answer struct {
			Embedded struct {
				Fields []customField `json:"custom_fields"`
			} `json:"_embedded"`
			Links struct {
				Next *struct{} `json:"next"`
			} `json:"_links"`
		}
		if json.Unmarshal(reply.Body, &answer) != nil {
			return fieldList{}, ledger.RetryAt{Reason: ledger.Backlog, Answer: ledger.Answer{Status: reply.Status, Message: "what answered is not Kommo"}}
		}
		list.all = append(list.all, answer.Embedded.Fields...)
		if answer.Links.Next == nil {
			break
		}
	}
	c.mu.Lock()
	c.fields[a.ID] = list
	c.mu.Unlock()
	return list, nil
}

// forget makes the next delivery ask for the custom fields again.
func (c *CRM) forget(a crm.Account) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.fields, a.ID)
}

// Check looks at access, currency, the custom fields and the pipeline; with repair it
// creates the fields for the lead id and the answers.
func (c *CRM) Check(ctx context.Context, a crm.Account, repair bool) []crm.Check {
	hide := crm.Private(a, nil)
	checks := crm.CheckFields(a)
	reply, o := c.call(ctx, a, hide, http.MethodGet, "/account", nil)
	if o != nil {
		return append(checks, crm.Check{
			Name: "access", Sentence: "Kommo does not let us in: " + words(o) + ".",
			NextStep: "Look at url, and make a new long-lived token in the private integration.",
		})
	}
	checks = append(checks, crm.Check{Name: "access", OK: true, Sentence: "Kommo lets us in."})
	var account struct {
		Currency string `json:"currency"`
	}
	_ = json.Unmarshal(reply.Body, &account) // then the currency is not known
	if account.Currency != "" && a.Currency != "" && !strings.EqualFold(account.Currency, a.Currency) {
		checks = append(checks, crm.Check{
			Name: "currency", Warning: true, Sentence: "The account counts in " + account.Currency + ", the workspace in " + a.Currency + ".",
			NextStep: "Set the workspace's currency to the account's.",
		})
	}
	list, o := c.customFields(ctx, a, hide, true)
	if o != nil {
		return append(checks, crm.Check{Name: "lead id field", Sentence: "The custom fields cannot be read: " + words(o) + ".", NextStep: "Try again; else give the integration's user the right."})
	}
	checks = append(checks, c.leadIDCheck(ctx, a, list, repair)...)
	if missing := unknown(a, list); len(missing) > 0 {
		checks = append(checks, crm.Check{
			Name: "fields", Warning: true, Sentence: "Leads have no custom field " + strings.Join(missing, ", ") + "; what is to go there is left out.",
			NextStep: "Create it in Kommo, or name it by its id in fields.",
		})
	}
	checks = append(checks, checkWatched(a, list)...)
	if id, ok := number(a.Options.Text("pipeline_id")); ok {
		checks = append(checks, c.pipeline(ctx, a, hide, id))
	}
	return checks
}

// unknown lists the targets of the account's own table that do not exist.
func unknown(a crm.Account, list fieldList) []string {
	var missing []string
	for _, target := range slices.Sorted(maps.Keys(crm.Fields(a, nil))) {
		if target == "name" || target == "price" || strings.HasPrefix(target, "contact.") {
			continue
		}
		if _, ok := list.named(target); !ok {
			missing = append(missing, target)
		}
	}
	return missing
}

func (c *CRM) leadIDCheck(ctx context.Context, a crm.Account, list fieldList, repair bool) []crm.Check {
	f, ok := list.leadID(a)
	if _, given := number(leadIDField(a)); given {
		ok = slices.ContainsFunc(list.all, func(x customField) bool { return x.ID == f.ID })
	}
	var todo []map[string]any
	if !ok {
		todo = append(todo, map[string]any{"name": leadIDField(a), "type": "text", "code": leadIDCode})
	}
	if _, ok := list.named(answersCode); !ok && repair {
		todo = append(todo, map[string]any{"name": answersName, "type": "textarea", "code": answersCode})
	}
	good := crm.Check{Name: "lead id field", OK: true, Sentence: "Leads have the custom field for the lead id."}
	if _, given := number(leadIDField(a)); !ok && (given || !repair) {
		return []crm.Check{{
			Name: "lead id field", Sentence: "Leads have no custom field " + leadIDField(a) + ", so none is delivered.",
			NextStep: "Run capiloop doctor --repair, which creates it (with lead_id_field not set to a number).",
		}}
	}
	if len(todo) == 0 {
		return []crm.Check{good}
	}
	_, o := c.call(ctx, a, crm.Private(a, nil), http.MethodPost, "/leads/custom_fields", todo)
	c.forget(a)
	if o == nil {
		good.Sentence = "The custom fields were created."
		return []crm.Check{good}
	}
	return []crm.Check{{
		Name: "lead id field", OK: ok, Warning: ok, Sentence: "The custom fields could not be created: " + words(o) + ".",
		NextStep: "Create them by hand: " + leadIDField(a) + " (text) and " + answersName + " (long text), or use an administrator's token.",
	}}
}

func (c *CRM) pipeline(ctx context.Context, a crm.Account, hide []string, id int64) crm.Check {
	check := crm.Check{Name: "pipeline", NextStep: "Look at pipeline_id and status_id."}
	reply, o := c.call(ctx, a, hide, http.MethodGet, "/leads/pipelines/"+strconv.FormatInt(id, 10), nil)
	if o != nil {
		check.Sentence = "The pipeline cannot be read: " + words(o) + "."
		return check
	}
	var answer struct {
		Name     string `json:"name"`
		Embedded struct {
			Statuses []struct {
				ID   int64  `json:"id"`
				Name string `json:"name"`
			} `json:"statuses"`
		} `json:"_embedded"`
	}
	_ = json.Unmarshal(reply.Body, &answer) // then it has no stages
	want, given := number(a.Options.Text("status_id"))
	if !given {
		return crm.Check{Name: "pipeline", OK: true, Sentence: "Leads begin in " + answer.Name + "."}
	}
	for _, s := range answer.Embedded.Statuses {
		if s.ID == want {
			return crm.Check{Name: "pipeline", OK: true, Sentence: "Leads begin in " + answer.Name + ", " + s.Name + "."}
		}
	}
	check.Sentence = "The pipeline " + answer.Name + " has no stage " + strconv.FormatInt(want, 10) + "."
	return check
}

// words are what the CRM said, or its status.
func words(o ledger.Outcome) string {
	a := ledger.AnswerOf(o)
	return cmp.Or(a.Message, "status "+strconv.Itoa(a.Status))
}
