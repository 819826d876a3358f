package record

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/ledger"
)

// price is what the guard knows a website's purchase by; nil for all other events. It is
// asked once the event is normalised.
func (r *Recorder) price(q *Request, e *capi.Event) *ledger.Price {
	if e.EventName != "Purchase" || e.ActionSource != capi.ActionSourceWebsite || e.CustomData == nil {
		return nil
	}
	set := q.Workspace.Guard
	value, err := strconv.ParseFloat(e.CustomData.Value, 64)
	if err != nil || set.Off || slices.Contains(set.Without, q.Source) {
		return nil
	}
	return &ledger.Price{
		Content: r.prints.Content(q.Workspace.ID, e.EventName, strings.ToUpper(e.CustomData.Currency), contentOf(e.CustomData)),
		Paid:    ledger.Paid{Value: value, Mark: r.prints.Mark(e.EventID)},
	}
}

// contentOf says what was bought, always in the same words: the products with how many of
// each, else what the page calls it; "" is the event as a whole.
func contentOf(d *capi.CustomData) string {
	var list []string
	kind, many := "contents", ""
	for i := range d.Contents {
		if c := &d.Contents[i]; c.ID != "" {
			list = append(list, strconv.Quote(c.ID)+" "+number(c.Quantity))
		}
	}
	if len(list) == 0 {
		kind, many = "ids", number(d.NumItems)
		for _, id := range d.ContentIDs {
			if id != "" {
				list = append(list, strconv.Quote(id))
			}
		}
	}
	if len(list) > 0 {
		slices.Sort(list)
		return kind + " " + strings.Join(list, " ") + " " + many
	}
	if d.ContentName != "" {
		return "name " + d.ContentName
	}
	return ""
}

// number writes a number in one way; none is one.
func number(text string) string {
	n, err := strconv.ParseFloat(cmp.Or(text, "1"), 64)
	if err != nil {
		return text
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}
