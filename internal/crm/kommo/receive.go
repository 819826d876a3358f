package kommo

import (
	"cmp"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/ledger"
)

var _ crm.StageCompleter = (*CRM)(nil)

// The stages that mean the same in each pipeline.
const (
	statusWon  = "142"
	statusLost = "143"
)

const (
	maxEntries = 1000 // leads in one hook
	maxText    = 500  // bytes of a name or a value
)

// entry is one lead of a hook, its fields by their path in brackets: "status_id",
// "custom_fields.0.id".
type entry map[string]string

// Receive reads a hook: a form with PHP's brackets, of one or more leads. It is not signed:
// its address is the credential. Kommo switches off an address that answers badly often, so
// what is not understood gets 200 as well.
func (*CRM) Receive(r crm.Incoming, a crm.Account, now time.Time) crm.Received {
	out := crm.Received{Answer: crm.Answer{Status: http.StatusOK}}
	if r.Method != http.MethodPost {
		return out
	}
	form, _ := url.ParseQuery(string(r.Body)) // what can be read of it
	if foreign(form.Get("account[subdomain]"), a) {
		return out
	}
	seen := map[string]bool{}
	add := func(c ledger.StageChange) {
		if !seen[c.Key] {
			seen[c.Key] = true
			out.Changes = append(out.Changes, c)
		}
	}
	// A move fires status, and often update, too: with what says more first.
	for _, event := range []string{"status", "add", "update"} {
		for _, e := range entries(form, event) {
			if c, ok := e.change(event, a, now); ok {
				add(c)
			}
			for _, c := range e.watched(a) {
				add(c)
			}
		}
	}
	return out
}

// foreign tells whether a hook is of another account than the one that the settings name.
func foreign(subdomain string, a crm.Account) bool {
	u, err := url.Parse(a.Options.Text("url"))
	if err != nil || subdomain == "" {
		return false
	}
	own, domain, _ := strings.Cut(strings.ToLower(u.Hostname()), ".")
	return slices.Contains([]string{"kommo.com", "amocrm.ru", "amocrm.com"}, domain) && own != strings.ToLower(subdomain)
}

// entries are the leads of an event, in the order of their indices.
func entries(form url.Values, event string) []entry {
	byIndex := map[int]entry{}
	for name, values := range form {
		rest, ok := strings.CutPrefix(name, "leads["+event+"][")
		index, path, closed := strings.Cut(rest, "][")
		n, err := strconv.Atoi(index)
		if !ok || !closed || err != nil || n < 0 || len(values) == 0 || !strings.HasSuffix(path, "]") {
			continue
		}
		if byIndex[n] == nil {
			if len(byIndex) >= maxEntries {
				continue
			}
			byIndex[n] = entry{}
		}
		value := strings.TrimSpace(strings.ReplaceAll(strings.ToValidUTF8(values[0], ""), "\x00", ""))
		if len(value) <= maxText {
			byIndex[n][strings.ReplaceAll(strings.TrimSuffix(path, "]"), "][", ".")] = value
		}
	}
	indices := make([]int, 0, len(byIndex))
	for n := range byIndex {
		indices = append(indices, n)
	}
	slices.Sort(indices)
	list := make([]entry, 0, len(indices))
	for _, n := range indices {
		list = append(list, byIndex[n])
	}
	return list
}

// id returns a field that is a number, "" for none and for 0.
func (e entry) id(name string) string {
	n, ok := number(e[name])
	if !ok {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// change is the move that an entry tells of; false: it tells of none.
func (e entry) change(event string, a crm.Account, now time.Time) (ledger.StageChange, bool) {
	id, status, from := e.id("id"), e.id("status_id"), e.id("old_status_id")
	pipeline, old := e.id("pipeline_id"), e.id("old_pipeline_id")
	moved := from != "" && (from != status || old != "" && old != pipeline)
	switch {
	case id == "" || status == "":
		return ledger.StageChange{}, false
	case event == "update" && !moved: // the amount, a field, a note
		return ledger.StageChange{}, false
	case event == "status" && from != "" && !moved:
		return ledger.StageChange{}, false
	}
	at := e.changed()
	c := e.whole(a)
	c.Key, c.Pipeline, c.Stage, c.Meaning, c.From = moveKey(id, status, at), pipeline, status, meaning(status), from
	if at == "" { // then the minute tells a repeat
		c.Key = moveKey(id, status, "minute "+strconv.FormatInt(now.Unix()/60, 10))
	}
	return c, true
}

// moveKey is the same for a move whether a hook or the history tells of it.
func moveKey(id, status, at string) string { return id + " " + status + " " + at }

// changed is when the lead was changed, as the hook writes it.
func (e entry) changed() string {
	return cmp.Or(e.id("last_modified"), e.id("updated_at"), e.id("date_create"))
}

// whole is what each change of the lead says beside where to.
func (e entry) whole(a crm.Account) ledger.StageChange {
	id := e.id("id")
	return ledger.StageChange{
		Thin: true, Records: []string{"lead:" + id}, DealID: id, LeadID: e.leadID(a), At: moment(e.changed()), By: e.id("modified_user_id"),
		Amount: amount(e["price"]), CreatedAt: moment(cmp.Or(e.id("date_create"), e.id("created_at"))),
	}
}

// Of a hook so many custom fields are read, and so many values of each.
const (
	maxFields = 200
	maxValues = 50
)

// hookField is a custom field as hooks have it.
type hookField struct {
	id, name, code string
	values         []string
}

// is tells whether it is the one of this id, code or name.
func (f *hookField) is(name string) bool {
	return f.id == name || strings.EqualFold(f.name, name) || strings.EqualFold(f.code, name)
}

// fields yields the lead's custom fields, where the hook has them.
func (e entry) fields() iter.Seq[hookField] {
	return func(yield func(hookField) bool) {
		for i := range maxFields {
			at := "custom_fields." + strconv.Itoa(i) + "."
			f := hookField{id: e[at+"id"], name: e[at+"name"], code: e[at+"code"]}
			if f.id == "" && f.name == "" {
				return
			}
			for j := range maxValues {
				place := at + "values." + strconv.Itoa(j)
				value, one := e[place+".value"]
				bare, other := e[place]
				if !one && !other {
					break
				}
				if value = cmp.Or(value, bare); value != "" {
					f.values = append(f.values, value)
				}
			}
			if !yield(f) {
				return
			}
		}
	}
}

// leadID is that of the custom field, where the hook has it.
func (e entry) leadID(a crm.Account) string {
	want := leadIDField(a)
	for f := range e.fields() {
		if (f.is(want) || strings.EqualFold(f.code, leadIDCode)) && len(f.values) > 0 {
			return strings.TrimPrefix(f.values[0], "l:")
		}
	}
	return ""
}

func meaning(status string) ledger.Meaning {
	switch status {
	case statusWon:
		return ledger.MeaningWon
	case statusLost:
		return ledger.MeaningLost
	}
	return ledger.MeaningOpen
}

// amount is what a lead is worth. One without a price has 0.
func amount(price string) string {
	text := crm.Decimal(price)
	if strings.Trim(text, "0.") == "" || strings.HasPrefix(text, "-") {
		return ""
	}
	return text
}

// moment reads seconds since 1970; what is none is no time.
func moment(seconds string) time.Time {
	n, ok := number(seconds)
	if !ok || n > 1<<34 {
		return time.Time{}
	}
	return time.Unix(n, 0).UTC()
}
