package kommo

import (
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

// historyLag is how late the account's history may be: until then a value that it does not
// mention may still be new.
const historyLag = time.Minute

// watched are the values of the fields that the account watches. The hook does not tell
// which field has changed, so each value of a lead counts once; Complete finds out since when
// it stands.
func (e entry) watched(a crm.Account) []ledger.StageChange {
	watch := crm.Watched(a)
	if len(watch) == 0 || e.id("id") == "" {
		return nil
	}
	var list []ledger.StageChange
	whole := e.whole(a)
	for _, field := range watch {
		for f := range e.fields() {
			if !f.is(field) {
				continue
			}
			for _, value := range f.values {
				list = append(list, reach(whole, field, value))
			}
		}
	}
	return list
}

// reach is the change that a field has a value. Its key is the same whether a hook, the
// history or the baseline tells of it.
func reach(c ledger.StageChange, field, value string) ledger.StageChange {
	c.Key = strings.Join([]string{c.DealID, field, value}, "\x00")
	c.Field, c.Stage = field, value
	return c
}

// choice is one value of a field in the history. Of an option the text may be missing.
type choice struct{ text, enum string }

func (v choice) is(other choice) bool {
	return v.text != "" && strings.EqualFold(v.text, other.text) || v.enum != "" && v.enum == other.enum
}

func among(list []choice, v choice) bool { return slices.ContainsFunc(list, v.is) }

// choices are the values of a field as they stand.
func (f *readField) choices() []choice {
	var list []choice
	for i, v := range f.Values {
		c := choice{text: f.at(i), enum: string(v.Enum)}
		switch v.Value { // a check box, as hooks have it
		case true:
			c.text = "1"
		case false:
			c.text = "0"
		}
		if c.text != "" && len(c.text) <= maxText {
			list = append(list, c)
		}
	}
	return list
}

// field returns the lead's field of an id, code or name, nil if it is empty.
func (l *readLead) field(name string) *readField {
	for i := range l.Fields {
		if l.Fields[i].is(name) {
			return &l.Fields[i]
		}
	}
	return nil
}

// date sets when the field reached its value, as the history has it: what stood there before
// the connection was told only because of another edit. Where a plan has no history, the
// hook's moment stays.
func (c *CRM) date(ctx context.Context, a crm.Account, l *readLead, change *ledger.StageChange) error {
	f := l.field(change.Field)
	if f == nil { // emptied meanwhile, so it was not there for long
		return nil
	}
	q := url.Values{"filter[type][]": {eventOf(f.ID)}, "filter[entity][]": {"lead"}, "filter[entity_id][]": {l.ID.String()}}
	history, err := c.events(ctx, a, q, map[int64]string{f.ID: change.Field})
	if err != nil || history == nil {
		return err
	}
	value, stands := choice{text: change.Stage}, false
	for _, v := range f.choices() {
		if v.is(value) {
			value, stands = v, true
		}
	}
	var newest int64
	stood := false
	for _, e := range slices.Backward(history[l.ID.String()]) {
		if time.Unix(e.at, 0).After(change.At.Add(historyLag)) {
			continue // it came again later
		}
		if among(e.values, value) && !among(e.had, value) {
			change.At = time.Unix(e.at, 0).UTC()
			return nil
		}
		newest, stood = max(newest, e.at), stood || among(e.had, value)
	}
	switch {
	case !stands:
	case newest > 0 && !stood: // written in another way than here
		change.At = time.Unix(newest, 0).UTC()
	case newest == 0 && time.Since(change.At) < historyLag:
		return crm.Unread("the history", ledger.RetryAt{Reason: ledger.Backlog, Answer: ledger.Answer{
			Status: http.StatusOK, Message: "it does not say yet since when the field has its value",
		}})
	case !change.CreatedAt.IsZero(): // the lead was made with it
		change.At = change.CreatedAt
	}
	return nil
}

// eventOf is the kind under which the history keeps the changes of a field.
func eventOf(field int64) string { return "custom_field_" + number64(field) + "_value_changed" }

// reached are the values that an event of the history brought. Of an option without a text
// it is known as long as it stands.
func (e *event) reached(l *readLead, whole ledger.StageChange) []ledger.StageChange {
	var list []ledger.StageChange
	whole.At, whole.By = time.Unix(e.at, 0).UTC(), e.by
	for _, v := range e.values {
		if among(e.had, v) {
			continue
		}
		if f := l.field(e.field); v.text == "" && f != nil {
			for _, now := range f.choices() {
				if now.is(v) {
					v = now
				}
			}
		}
		if v.text != "" {
			list = append(list, reach(whole, e.field, v.text))
		}
	}
	return list
}

// baseline are the values in which the watched fields stand. Since when is not told: what
// the account held when it was connected is history.
func (l *readLead) baseline(watch []string, whole ledger.StageChange) []ledger.StageChange {
	var list []ledger.StageChange
	for _, field := range watch {
		if f := l.field(field); f != nil {
			for _, v := range f.choices() {
				list = append(list, reach(whole, field, v.text))
			}
		}
	}
	return list
}

// watchedIDs are the watched fields by their id, for the history knows them by that alone.
func (c *CRM) watchedIDs(ctx context.Context, a crm.Account) (map[int64]string, error) {
	ids := map[int64]string{}
	watch := crm.Watched(a)
	if len(watch) == 0 {
		return ids, nil
	}
	fields, o := c.customFields(ctx, a, crm.Private(a, nil), false)
	if o != nil {
		return nil, crm.Unread("the custom fields", o)
	}
	for _, field := range watch {
		if f, ok := fields.named(field); ok {
			ids[f.ID] = field
		}
	}
	return ids, nil
}

// word is a text, or a number as it is written; anything else is "".
type word string

// UnmarshalJSON takes them.
func (w *word) UnmarshalJSON(text []byte) error {
	var s string
	switch {
	case len(text) == 0 || strings.ContainsRune("{[n", rune(text[0])):
	case text[0] == '"':
		if err := json.Unmarshal(text, &s); err != nil {
			return err
		}
	default:
		s = string(text)
	}
	if s = strings.TrimSpace(strings.ReplaceAll(s, "\x00", "")); len(s) > maxText {
		s = ""
	}
	*w = word(s)
	return nil
}

// changedValue is a value of a field in an event.
type changedValue struct {
	Field word `json:"field_id"`
	Enum  word `json:"enum_id"`
	Text  word `json:"text"`
}

// checkWatched tells of the watched fields that leads do not have.
func checkWatched(a crm.Account, list fieldList) []crm.Check {
	var missing []string
	for _, field := range crm.Watched(a) {
		f, ok := list.named(field)
		if !ok || !slices.ContainsFunc(list.all, func(x customField) bool { return x.ID == f.ID }) {
			missing = append(missing, field)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return []crm.Check{{
		Name: "watch", Warning: true, Sentence: "Leads have no custom field " + strings.Join(missing, ", ") + ", so no rule for it ever holds.",
		NextStep: "Name the field in watch, and in the rule, by its name in Kommo or by its id.",
	}}
}
