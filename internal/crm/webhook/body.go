package webhook

import (
	"strconv"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
)

// Body returns what is posted for a lead. It is the same each time.
func Body(a crm.Account, l *ledger.Lead) []byte {
	switch a.Options.Text("format") {
	case "full":
		return crm.JSON(full(a, l))
	case "fields":
		body := map[string]string{}
		for target, source := range crm.Fields(a, nil) {
			body[target] = crm.Value(a, l, source)
		}
		return crm.JSON(body)
	default:
		return crm.JSON(flat(a, l))
	}
}

// flat has one level and always the same keys, for Zapier and its like learn the keys
// from one sample. Only the answers depend on the form.
func flat(a crm.Account, l *ledger.Lead) map[string]any {
	defaults := map[string]string{}
	for _, name := range crm.FieldNames() {
		if name != "answers" && name != "title" {
			defaults[name] = name
		}
	}
	body := map[string]any{}
	for target, source := range crm.Fields(a, defaults) {
		switch source {
		case "is_organic":
			body[target] = l.Origin.Organic
		case "is_test":
			body[target] = l.Test
		default:
			body[target] = crm.Value(a, l, source)
		}
	}
	for key, value := range answerKeys(l) {
		if _, taken := body[key]; !taken && crm.Fields(a, map[string]string{key: key})[key] != "" {
			body[key] = value
		}
	}
	return body
}

// answerKeys names each answer answer_<slug of the question>; a second one of that name
// gets a number.
func answerKeys(l *ledger.Lead) map[string]string {
	keys := map[string]string{}
	for i, f := range crm.Forwarded(l) {
		slug := crm.Slug(f.Question)
		if slug == "" {
			slug = crm.Slug(f.Label)
		}
		if slug == "" {
			slug = strconv.Itoa(i + 1)
		}
		key := "answer_" + slug
		for n := 2; ; n++ {
			if _, taken := keys[key]; !taken {
				break
			}
			key = "answer_" + slug + "_" + strconv.Itoa(n)
		}
		only := &ledger.Lead{Answers: []ledger.FormAnswer{{Question: "q", Values: f.Values}}}
		keys[key] = crm.AnswerTo(only, "q")
	}
	return keys
}

// full is nested, in the form that Standard Webhooks advises.
func full(a crm.Account, l *ledger.Lead) map[string]any {
	group := func(names ...string) map[string]string {
		values := map[string]string{}
		for _, name := range names {
			if v := crm.Value(a, l, name); v != "" {
				values[name] = v
			}
		}
		return values
	}
	list := make([]ledger.FormAnswer, 0, len(l.Answers))
	for _, f := range crm.Forwarded(l) {
		if f.Values == nil {
			f.Values = []string{}
		}
		list = append(list, f)
	}
	data := map[string]any{
		"id": crm.Key(l), "capiloop_id": l.ID.String(), "lead_id": l.LeadID, "source": l.Source, "kind": l.Kind, "ad_platform": l.Platform,
		"created_at": crm.Value(a, l, "created_at"), "page_url": l.PageURL, "consent": crm.Value(a, l, "consent"), "is_test": l.Test,
		"is_organic": l.Origin.Organic, "history": l.History,
		"contact": group("full_name", "first_name", "last_name", "email", "phone", "work_email", "work_phone", "street", "city",
			"state", "postcode", "country", "birthday", "gender", "company", "job_title"),
		"origin": group("platform", "form_id", "form_name", "ad_id", "ad_name", "adset_id", "adset_name", "campaign_id", "campaign_name"),
		"clicks": group("fbclid", "fbc", "fbp", "gclid", "gbraid", "wbraid", "ttclid", "li_fat_id", "ctwa_clid", "msclkid"), "answers": list,
	}
	if own := crm.Fields(a, nil); len(own) > 0 {
		data["fields"] = crm.Values(a, l, own)
	}
	return map[string]any{"type": "lead.created", "timestamp": crm.Value(a, l, "created_at"), "data": data}
}
