package crm

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/ledger"
)

// StageFromRow reads one line of a table as a stage change: the values by the name of their
// column. Columns are known by the names that DecodeStage takes and by those that CRMs give
// them; the others are kept among the fields. Decimal commas and dates such as 25.11.2026
// are understood; of 03/04/2026 only dayFirst says what it means, and nil is an error:
// DayFirst tells it from the whole file. Times without a zone are of zone; nil is UTC, with
// a warning.
func StageFromRow(row map[string]string, zone *time.Location, dayFirst *bool, now time.Time) (ledger.StageChange, capi.Problems) {
	d := newStageDecoder(zone, now)
	d.table, d.dayFirst = true, dayFirst
	names := slices.Sorted(maps.Keys(row))
	for _, own := range []bool{true, false} { // our names before what others call it
		for _, column := range names {
			field := columnField(column)
			switch {
			case (snake(column) == field) != own:
			case stageFields[field]:
				d.set(field, column, row[column])
			default:
				d.keep(column, row[column])
			}
		}
	}
	if id := d.values["id"]; id != "" && d.values["record_id"] == "" { // a table's id is the record's
		d.values["record_id"] = id
	}
	d.finish()
	return d.change, d.problems
}

// columns are names that only tables use.
var columns = map[string]string{
	"stage_changed": "occurred_at", "last_stage_change": "occurred_at", "stage_change_time": "occurred_at", "change_time": "occurred_at", "changed": "occurred_at",
	"deal_record_id": "deal_id", "leadid": "lead_id", "recordid": "record_id", "dealid": "deal_id", "deal": "", "deal_name": "", "lead": "",
	"sum": "amount", "total": "amount", "budget": "", "opportunity_value": "amount", "owner": "changed_by", "deal_owner": "changed_by",
}

func columnField(column string) string {
	name := snake(strings.TrimPrefix(column, "\ufeff"))
	if as, ok := columns[name]; ok {
		return as
	}
	return stageField(name)
}

// DayFirst tells from the lines of a file whether its dates begin with the day; nil if no
// date has a number above 12, or some say this and some that.
func DayFirst(rows iter.Seq[map[string]string]) *bool {
	var says *bool
	for row := range rows {
		for column, text := range row {
			switch columnField(column) {
			case "occurred_at", "date", "created_at":
			default:
				continue
			}
			day, month, sep := slashed(strings.TrimSpace(text), time.UTC)
			if sep == '.' || day.IsZero() == month.IsZero() {
				continue
			}
			first := !day.IsZero()
			if says != nil && *says != first {
				return nil
			}
			says = &first
		}
	}
	return says
}
