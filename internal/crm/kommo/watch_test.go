package kommo_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/crm/crmtest"
	"github.com/capiloop/capiloop/internal/crm/kommo"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
)

// watching is an account that watches fields of its leads.
func watching(address string, fields ...string) crm.Account {
	a := hooked()
	if address == "" {
		address = "https://example.kommo.com"
	}
	a.Options = secret.NewOptions(map[string]string{"url": address, "token": crmtest.Token, "allow_private": "true"}, map[string][]string{"watch": fields}, nil)
	return a
}

// said writes what is told of fields: field=value@moment.
func said(list []ledger.StageChange) string {
	var texts []string
	for _, c := range list {
		if c.Field != "" {
			texts = append(texts, c.Field+"="+c.Stage+"@"+c.At.Format("02T15:04:05"))
		}
	}
	return strings.Join(texts, " ")
}

func TestReceiveTellsTheWatchedFields(t *testing.T) {
	t.Parallel()
	body := sample(t, "kommo-webhook-update.txt")
	told := func(fields ...string) []ledger.StageChange {
		return kommo.New().Receive(hook(body), watching("", fields...), hookNow).Changes
	}
	require.Equal(t, []ledger.StageChange{{
		Key: "7000101\x00temperature\x00Hot", Thin: true, Records: []string{"lead:7000101"}, DealID: "7000101", LeadID: "987650000012345", Field: "temperature", Stage: "Hot",
		At: time.Unix(1795604800, 0).UTC(), By: "600001", Amount: "1500", CreatedAt: time.Unix(1795000000, 0).UTC(),
	}}, told("temperature", "Budget"))
	require.Equal(t, "900004=Hot@25T11:06:40 Interests=Roof@25T11:06:40 Interests=Windows@25T11:06:40", said(told("900004", "Interests")))
	require.Empty(t, told(), "nobody asked")

	// A move tells of them, too; update and status of one lead are one change.
	both := append(append([]byte(strings.ReplaceAll(string(body), "update", "status")), '&'), body...)
	list := kommo.New().Receive(hook(both), watching("", "Temperature"), hookNow).Changes
	require.Len(t, list, 2)
	require.Equal(t, "30000012", list[0].Stage)
	require.Equal(t, "Temperature", list[1].Field)

	for name, bad := range map[string]string{
		"deleted":         strings.ReplaceAll(string(body), "update", "delete"),
		"without an id":   strings.Replace(string(body), "%5Bid%5D=7000101", "%5Bid%5D=x", 1),
		"emptied":         strings.Replace(string(body), "=Hot", "=", 1),
		"another account": strings.Replace(string(body), "subdomain%5D=example", "subdomain%5D=other", 1),
	} {
		require.Empty(t, kommo.New().Receive(hook([]byte(bad)), watching("", "Temperature"), hookNow).Changes, name)
	}
}

// warm is a fake whose lead has a choice, several choices, and a check box.
func warm(t *testing.T) *fake {
	t.Helper()
	f := filled(t)
	f.fields = append(f.fields, field{900004, "Temperature", "", "select"}, field{900005, "Interests", "", "multiselect"}, field{900006, "Visited", "", "checkbox"})
	value := func(id int, name string, values ...any) any {
		rows := []any{}
		for i := 0; i < len(values); i += 2 {
			rows = append(rows, map[string]any{"value": values[i], "enum_id": values[i+1]})
		}
		return map[string]any{"field_id": id, "field_name": name, "field_code": nil, "values": rows}
	}
	f.standing[0]["custom_fields_values"] = []any{
		value(900004, "Temperature", "Hot", 1200002), value(900005, "Interests", "Roof", 1300001, "Windows", 1300002), value(900006, "Visited", true, nil),
	}
	return f
}

// The hook of any edit holds all values. The history says since when they stand, so that what
// stood there before the connection is history.
func TestCompleteDatesTheValueOfAField(t *testing.T) {
	t.Parallel()
	at := func(n int) int { return 1795600000 + n }
	none, cold, hot := []any{}, []any{"Cold"}, []any{"Hot"}
	for name, c := range map[string]struct {
		field, value string
		history      []map[string]any
		want         int
	}{
		"it was just chosen":          {"Temperature", "Hot", []map[string]any{set(7000101, 900004, at(4800), cold, hot), set(7000101, 900004, at(1), none, cold)}, at(4800)},
		"by its id":                   {"900004", "Hot", []map[string]any{set(7000101, 900004, at(4000), cold, hot)}, at(4000)},
		"long ago":                    {"Temperature", "Hot", []map[string]any{set(7000101, 900004, 1794000000, cold, hot)}, 1794000000},
		"the option by its number":    {"Temperature", "Hot", []map[string]any{set(7000101, 900004, at(7), []any{1200001}, []any{1200002})}, at(7)},
		"again after something else":  {"Temperature", "Hot", []map[string]any{set(7000101, 900004, at(9), cold, hot), set(7000101, 900004, at(5), hot, cold), set(7000101, 900004, at(1), none, hot)}, at(9)},
		"again after the hook":        {"Temperature", "Hot", []map[string]any{set(7000101, 900004, at(9000), cold, hot), set(7000101, 900004, at(8900), hot, cold), set(7000101, 900004, at(1), none, hot)}, at(1)},
		"written in another way":      {"Temperature", "Hot", []map[string]any{set(7000101, 900004, at(3), cold, []any{"hot!"})}, at(3)},
		"one choice more":             {"Interests", "Windows", []map[string]any{set(7000101, 900005, at(6), []any{"Roof"}, []any{"Roof", "Windows"})}, at(6)},
		"the choice before that":      {"Interests", "Roof", []map[string]any{set(7000101, 900005, at(6), []any{"Roof"}, []any{"Roof", "Windows"}), set(7000101, 900005, at(2), none, []any{"Roof"})}, at(2)},
		"made with it, and one more":  {"Interests", "Roof", []map[string]any{set(7000101, 900005, at(6), []any{"Roof"}, []any{"Roof", "Windows"})}, 1795000000},
		"made with it":                {"Temperature", "Hot", nil, 1795000000},
		"another lead's, another one": {"Temperature", "Hot", []map[string]any{set(9, 900004, at(1), cold, hot), set(7000101, 900005, at(2), cold, hot)}, 1795000000},
		"changed meanwhile":           {"Temperature", "Cold", []map[string]any{set(7000101, 900004, at(8000), cold, hot), set(7000101, 900004, at(4), none, cold)}, at(4)},
		"nothing is known of it":      {"Temperature", "Warm", nil, at(4800)},
		"emptied meanwhile":           {"Budget", "5", nil, at(4800)},
		"a check box":                 {"Visited", "1", []map[string]any{set(7000101, 900006, at(2), none, []any{"1"})}, at(2)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := warm(t)
			f.history = c.history
			change := ledger.StageChange{Key: "k", Thin: true, Records: []string{"lead:7000101"}, DealID: "7000101", Field: c.field, Stage: c.value, At: time.Unix(int64(at(4800)), 0).UTC()}
			require.NoError(t, kommo.New().Complete(t.Context(), watching(f.URL, c.field), &change))
			require.Equal(t, int64(c.want), change.At.Unix())
			require.Equal(t, c.value, change.Stage)
			require.Equal(t, ana, change.Contact)
			require.False(t, change.Thin)
		})
	}
}

func TestAValueWaitsForAHistoryThatIsLate(t *testing.T) {
	t.Parallel()
	f := warm(t)
	now := time.Now().Truncate(time.Second)
	complete := func() error {
		change := ledger.StageChange{Thin: true, Records: []string{"lead:7000101"}, DealID: "7000101", Field: "Temperature", Stage: "Hot", At: now}
		err := kommo.New().Complete(t.Context(), watching(f.URL, "Temperature"), &change)
		if err == nil {
			require.True(t, now.Equal(change.At))
		}
		return err
	}
	var e *crm.ReadError
	require.ErrorAs(t, complete(), &e)
	require.IsType(t, ledger.RetryAt{}, e.Outcome)
	crmtest.QuietText(t, e.Error())
	f.history = []map[string]any{set(7000101, 900004, int(now.Unix()), []any{"Cold"}, []any{"Hot"})}
	require.NoError(t, complete())

	f.Next(1, crmtest.TooMany, "GET /api/v4/events")
	require.ErrorAs(t, complete(), &e)
	require.IsType(t, ledger.RetryAt{}, e.Outcome)

	f.poor, f.history = true, nil
	require.NoError(t, complete(), "without a history the hook's moment stays")
}

func TestTheBaselineHoldsTheValuesThatStand(t *testing.T) {
	t.Parallel()
	f := warm(t)
	list, err := movesOf(t, watching(f.URL, "Temperature", "900005", "visited", "Budget"), time.Time{})
	require.NoError(t, err)
	require.Len(t, list, 5)
	require.Equal(t, "142", list[0].Stage)
	for _, c := range list[1:] {
		require.True(t, c.At.IsZero(), "since when is not told: it is history")
		require.Equal(t, ana, c.Contact)
		require.Equal(t, []string{"lead:7000101", "contact:8000101"}, c.Records)
	}
	require.Equal(t, "Temperature=Hot@01T00:00:00 900005=Roof@01T00:00:00 900005=Windows@01T00:00:00 visited=1@01T00:00:00", said(list))
	told := kommo.New().Receive(hook(sample(t, "kommo-webhook-update.txt")), watching("", "Temperature"), hookNow).Changes
	require.Equal(t, told[0].Key, list[1].Key, "a hook tells of it no second time")
}

func TestMovesTellTheWatchedFieldsThatNoHookToldOf(t *testing.T) {
	t.Parallel()
	f := warm(t)
	at := int(time.Now().Add(-time.Hour).Unix())
	f.standing[0]["updated_at"] = at + 100
	f.history = []map[string]any{
		set(7000101, 900004, at+90, []any{1200001}, []any{1200002}), set(7000101, 900005, at+80, []any{"Roof"}, []any{"Roof", "Windows"}), set(7000101, 900004, at+70, []any{}, []any{1200001}),
		moved(7000101, 30000011, 142, at+60), set(7000101, 900006, at+50, []any{}, []any{"1"}), set(7000101, 900005, at-50, []any{}, []any{"Roof"}),
	}
	list, err := movesOf(t, watching(f.URL, "temperature", "900005"), time.Unix(int64(at), 0))
	require.NoError(t, err)
	require.Equal(t, "142", list[0].Stage)
	stamp := func(after int) string { return time.Unix(int64(at+after), 0).UTC().Format("02T15:04:05") }
	require.Equal(t, "900005=Windows@"+stamp(80)+" temperature=Hot@"+stamp(90), said(list), "an option that does not stand any more has no name")
	require.Equal(t, "600001", list[1].By)
	require.Equal(t, "7000101", list[1].DealID)
	require.False(t, list[1].Thin)

	f.poor = true
	list, err = movesOf(t, watching(f.URL, "temperature"), time.Unix(int64(at), 0))
	require.NoError(t, err)
	require.Empty(t, said(list), "without a history nobody knows what changed")
	f.Next(1, crmtest.TooMany, "GET /api/v4/leads/custom_fields")
	_, err = movesOf(t, watching(f.URL, "temperature"), time.Unix(int64(at), 0))
	var e *crm.ReadError
	require.ErrorAs(t, err, &e)
}

func TestCheckKnowsTheWatchedFields(t *testing.T) {
	t.Parallel()
	f := warm(t)
	checks := kommo.New().Check(t.Context(), watching(f.URL, "temperature", "900005"), false)
	for _, c := range checks {
		require.NotEqual(t, "watch", c.Name)
	}
	missing := line(t, kommo.New().Check(t.Context(), watching(f.URL, "900004", "Score", "900009"), false), "watch")
	require.True(t, missing.Warning)
	require.Equal(t, "Leads have no custom field Score, 900009, so no rule for it ever holds.", missing.Sentence)
	require.NotEmpty(t, missing.NextStep)
}
