package kommo_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/crm/crmtest"
	"github.com/capiloop/capiloop/internal/crm/kommo"
	"github.com/capiloop/capiloop/internal/ledger"
)

var ana = ledger.Contact{FullName: "Ana Example", FirstName: "Ana", LastName: "Example", Email: "ana.lead@example.com", Phone: "+12025550143"}

// filled is a fake with the lead and the contact of the samples.
func filled(t *testing.T) *fake {
	t.Helper()
	f := newFake(t)
	f.standing = []map[string]any{object(t, "kommo-lead-response.json", nil)}
	f.people = map[string]map[string]any{"8000101": object(t, "kommo-contact-response.json", nil)}
	return f
}

func thin() ledger.StageChange {
	return ledger.StageChange{Key: "k", Thin: true, Records: []string{"lead:7000101"}, DealID: "7000101", Pipeline: "3000001", Stage: "30000012"}
}

func TestCompleteReadsTheLeadAndItsContact(t *testing.T) {
	t.Parallel()
	f := filled(t)
	c, change := kommo.New(), thin()
	require.NoError(t, c.Complete(t.Context(), crmtest.Account(kommo.Kind, f.URL), &change))
	require.Equal(t, ledger.StageChange{
		Key: "k", Records: []string{"lead:7000101", "contact:8000101"}, DealID: "7000101", Pipeline: "3000001", Stage: "30000012", LeadID: "987650000012345",
		Contact: ana, Amount: "1500", Currency: "USD", CreatedAt: time.Unix(1795000000, 0).UTC(), Fields: map[string]string{"Meta Lead ID": "987650000012345"},
	}, change, "the stage stays the hook's")
	change = thin()
	change.Amount = "99"
	require.NoError(t, c.Complete(t.Context(), crmtest.Account(kommo.Kind, f.URL), &change))
	require.Equal(t, "99", change.Amount)
	require.Len(t, f.Calls("GET /api/v4/account"), 1, "the currency is believed for a while")
}

func TestCompleteOfALeadWithLittle(t *testing.T) {
	t.Parallel()
	f := filled(t)
	f.standing[0]["custom_fields_values"], f.standing[0]["price"], f.people = nil, 0, nil
	change := thin()
	require.NoError(t, kommo.New().Complete(t.Context(), crmtest.Account(kommo.Kind, f.URL), &change), "the contact is gone")
	require.Equal(t, []string{"lead:7000101", "contact:8000101"}, change.Records)
	require.Empty(t, change.LeadID+change.Amount+change.Currency+change.Contact.Email)
	f.standing[0]["_embedded"] = map[string]any{"contacts": []any{}}
	change = thin()
	require.NoError(t, kommo.New().Complete(t.Context(), crmtest.Account(kommo.Kind, f.URL), &change))
	require.False(t, change.Thin)
}

func TestCompleteTellsWhatAFailureMeans(t *testing.T) {
	t.Parallel()
	f := filled(t)
	outcome := func(a crm.Account, records ...string) ledger.Outcome {
		err := kommo.New().Complete(t.Context(), a, &ledger.StageChange{Thin: true, Records: records, Stage: "x"})
		var e *crm.ReadError
		require.ErrorAs(t, err, &e)
		crmtest.QuietText(t, err.Error())
		return e.Outcome
	}
	a := crmtest.Account(kommo.Kind, f.URL)
	require.IsType(t, ledger.Refusal{}, outcome(a, "lead:9"), "204: somebody deleted it")
	require.IsType(t, ledger.Refusal{}, outcome(a))
	f.standing = append(f.standing, object(t, "kommo-lead-response.json", map[string]any{"id": 8, "is_deleted": true}))
	require.IsType(t, ledger.Refusal{}, outcome(a, "lead:8"))
	require.IsType(t, ledger.Hold{}, outcome(crmtest.Account(kommo.Kind, f.URL, "token", "made-up-wrong-token"), "lead:7000101"))
	f.Next(1, crmtest.TooMany, "GET /api/v4/leads/")
	require.IsType(t, ledger.RetryAt{}, outcome(a, "lead:7000101"))
	for _, path := range []string{"GET /api/v4/leads/", "GET /api/v4/contacts/", "GET /api/v4/account"} {
		for _, fault := range []crmtest.Fault{crmtest.Broken, crmtest.HTML, crmtest.Cut} {
			f.Next(1, fault, path)
			require.IsType(t, ledger.RetryAt{}, outcome(a, "lead:7000101"), path)
		}
	}
}

func TestStages(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	stages, err := kommo.New().Stages(t.Context(), crmtest.Account(kommo.Kind, f.URL))
	require.NoError(t, err)
	require.Equal(t, []ledger.Stage{
		{Pipeline: "3000001", PipelineLabel: "Sales", ID: "30000011", Label: "New", Meaning: ledger.MeaningOpen},
		{Pipeline: "3000001", PipelineLabel: "Sales", ID: "30000012", Label: "Called", Position: 1, Meaning: ledger.MeaningOpen},
		{Pipeline: "3000001", PipelineLabel: "Sales", ID: "142", Label: "Won", Position: 2, Meaning: ledger.MeaningWon},
		{Pipeline: "3000001", PipelineLabel: "Sales", ID: "143", Label: "Lost", Position: 3, Meaning: ledger.MeaningLost},
		{Pipeline: "3000002", PipelineLabel: "Roofs", ID: "30000021", Label: "New", Meaning: ledger.MeaningOpen},
		{Pipeline: "3000002", PipelineLabel: "Roofs", ID: "142", Label: "Sold", Position: 1, Meaning: ledger.MeaningWon},
	}, stages)
	f.Next(1, crmtest.TooMany, "GET /api/v4/leads/pipelines")
	_, err = kommo.New().Stages(t.Context(), crmtest.Account(kommo.Kind, f.URL))
	var e *crm.ReadError
	require.ErrorAs(t, err, &e)
	require.IsType(t, ledger.RetryAt{}, e.Outcome)
}

// moves collects what Moves yields.
func moves(t *testing.T, f *fake, since time.Time) ([]ledger.StageChange, error) {
	t.Helper()
	return movesOf(t, crmtest.Account(kommo.Kind, f.URL), since)
}

func movesOf(t *testing.T, a crm.Account, since time.Time) ([]ledger.StageChange, error) {
	t.Helper()
	var list []ledger.StageChange
	for c, err := range kommo.Hasty().Moves(t.Context(), a, since) {
		if err != nil {
			return list, err
		}
		list = append(list, c)
	}
	return list, nil
}

func TestMovesOfTheBaseline(t *testing.T) {
	t.Parallel()
	f := filled(t)
	for i := range 4 {
		f.standing = append(f.standing, object(t, "kommo-lead-response.json", map[string]any{"id": 1 + i, "status_id": 30000011, "closed_at": nil, "updated_at": 1795000000 + i}))
	}
	f.standing[2]["is_deleted"] = true
	list, err := moves(t, f, time.Time{})
	require.NoError(t, err)
	require.Empty(t, f.Calls("GET /api/v4/events"), "all of it is history anyway")
	require.Len(t, f.Calls("GET /api/v4/leads"), 3)
	require.Len(t, f.Calls("GET /api/v4/contacts"), 3, "the contacts of a page in one call")
	require.Len(t, list, 4)
	require.Equal(t, []string{"lead:1", "contact:8000101"}, list[0].Records, "the oldest change first")
	last := list[3]
	require.Equal(t, ledger.StageChange{
		Key: "7000101 142 in 3000001", Records: []string{"lead:7000101", "contact:8000101"}, DealID: "7000101", Pipeline: "3000001", Stage: "142", Meaning: ledger.MeaningWon,
		LeadID: "987650000012345", Contact: ana, Amount: "1500", Currency: "USD", At: time.Unix(1795604800, 0).UTC(), CreatedAt: time.Unix(1795000000, 0).UTC(),
		Fields: map[string]string{"Meta Lead ID": "987650000012345"},
	}, last)
}

func TestMovesTellTheMovesInBetween(t *testing.T) {
	t.Parallel()
	f := filled(t)
	at := int(time.Now().Add(-time.Hour).Unix())
	f.standing[0]["updated_at"] = at + 100
	f.history = []map[string]any{moved(7000101, 30000012, 142, at+100), moved(9, 1, 2, at+60), moved(7000101, 30000011, 30000012, at+50), moved(7000101, 1, 30000011, at-50)}
	list, err := moves(t, f, time.Unix(int64(at), 0))
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, []string{"30000012", "142"}, []string{list[0].Stage, list[1].Stage})
	require.Equal(t, "30000011", list[0].From)
	require.Equal(t, "600001", list[0].By)
	require.Equal(t, ana, list[0].Contact)

	hook := kommo.New().Receive(hook(form("status", map[string]string{
		"id": "7000101", "status_id": "142", "old_status_id": "30000012", "last_modified": strconv.Itoa(at + 100),
	})), crmtest.Account(kommo.Kind, f.URL), hookNow)
	require.Equal(t, hook.Changes[0].Key, list[1].Key, "hook and history tell of one move")

	f.poor = true
	list, err = moves(t, f, time.Unix(int64(at), 0))
	require.NoError(t, err)
	require.Len(t, list, 1, "a plan without history tells where the lead stands")
	require.Equal(t, "142", list[0].Stage)
}

func TestMovesEndWithAnError(t *testing.T) {
	t.Parallel()
	f := filled(t)
	at := time.Now().Add(-time.Hour)
	f.standing[0]["updated_at"] = at.Unix() + 1
	for _, path := range []string{"GET /api/v4/events", "GET /api/v4/account", "GET /api/v4/leads", "GET /api/v4/contacts"} {
		f.Next(1, crmtest.TooMany, path)
		_, err := moves(t, f, at)
		var e *crm.ReadError
		require.ErrorAs(t, err, &e, path)
		require.IsType(t, ledger.RetryAt{}, e.Outcome)
		require.Equal(t, http.StatusTooManyRequests, ledger.AnswerOf(e.Outcome).Status)
	}
	f.standing, f.history = nil, nil
	list, err := moves(t, f, at)
	require.NoError(t, err, "lists that are empty are 204")
	require.Empty(t, list)
}
