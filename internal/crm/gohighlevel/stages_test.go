package gohighlevel_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/crm/crmtest"
	"github.com/capiloop/capiloop/internal/crm/gohighlevel"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
)

// person puts contact ct1 into the fake.
func person(f *fake) {
	f.contacts = append(f.contacts, &record{
		ID: "ct1", Fields: map[string]any{"firstName": "Ana", "lastName": "Example", "email": "ana.lead@example.com", "phone": "+12025550143", "source": "Meta Lead Ad"},
		Custom: map[string]string{"meta_lead_id": "987650000012345", "fbclid": "IwAR-example"}, Tags: []string{"qualified", "vip"},
	})
}

func TestCompleteReadsTheContact(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	person(f)
	c := gohighlevel.New()
	change := ledger.StageChange{Key: "k", Thin: true, Records: []string{"opportunity:op1", "contact:ct1"}, DealID: "op1", Pipeline: "pl1", Stage: "st1", At: stageAt, Amount: "10"}
	require.NoError(t, c.Complete(t.Context(), account(f), &change))
	require.Equal(t, ledger.StageChange{
		Key: "k", Records: []string{"opportunity:op1", "contact:ct1"}, DealID: "op1", Pipeline: "pl1", Stage: "st1", At: stageAt, Amount: "10", LeadID: "987650000012345",
		Contact:   ledger.Contact{FullName: "Ana Example", FirstName: "Ana", LastName: "Example", Email: "ana.lead@example.com", Phone: "+12025550143"},
		CreatedAt: time.Date(2026, 11, 18, 11, 6, 41, 0, time.UTC),
		Fields:    map[string]string{"source": "Meta Lead Ad", "tags": "qualified, vip", "meta_lead_id": "987650000012345", "fbclid": "IwAR-example"},
	}, change)
	require.NoError(t, c.Complete(t.Context(), account(f), &change))
	require.Len(t, f.Calls("GET /locations/"), 1, "the names of the fields are believed for a while")

	f.standing = []map[string]any{stands("op2", "st1", "open", "ct1", stageAt), stands("op3", "st1", "open", "", stageAt)}
	alone := ledger.StageChange{Thin: true, Records: []string{"opportunity:op2"}, Stage: "st1"}
	require.NoError(t, c.Complete(t.Context(), account(f), &alone))
	require.Equal(t, []string{"opportunity:op2", "contact:ct1"}, alone.Records)
	require.Equal(t, "1500.5", alone.Amount)
	require.Equal(t, "pl1", alone.Pipeline)
	nobody := ledger.StageChange{Thin: true, Records: []string{"opportunity:op3"}, Stage: "st1"}
	require.NoError(t, c.Complete(t.Context(), account(f), &nobody))
	require.False(t, nobody.Thin)
	deleted := ledger.StageChange{Thin: true, Records: []string{"opportunity:op9", "contact:ct9"}, Stage: "st1"}
	require.NoError(t, c.Complete(t.Context(), account(f), &deleted), "the opportunity is known by its id")
}

func TestCompleteTellsWhatAFailureMeans(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	person(f)
	outcome := func(c *gohighlevel.CRM, a crm.Account, records ...string) ledger.Outcome {
		err := c.Complete(t.Context(), a, &ledger.StageChange{Thin: true, Records: records, Stage: "x"})
		var e *crm.ReadError
		require.ErrorAs(t, err, &e)
		crmtest.QuietText(t, err.Error())
		return e.Outcome
	}
	c, a := gohighlevel.New(), account(f)
	require.IsType(t, ledger.Refusal{}, outcome(c, a, "contact:ct9"), "somebody deleted it")
	require.IsType(t, ledger.Refusal{}, outcome(c, a, "opportunity:op9"))
	require.IsType(t, ledger.Refusal{}, outcome(c, a))
	require.IsType(t, ledger.Hold{}, outcome(c, account(f, "token", "made-up-wrong-token"), "contact:ct1"))
	f.Next(1, crmtest.TooMany, "GET /contacts/")
	require.Equal(t, ledger.RetryAt{Wait: 10 * time.Second, Reason: ledger.Throttled, Answer: ledger.Answer{Status: 429, TraceID: "trace-1", Message: "Too Many Requests"}}, outcome(c, a, "contact:ct1"))
	for _, fault := range []crmtest.Fault{crmtest.Broken, crmtest.HTML, crmtest.Cut} {
		f.Next(1, fault, "GET /contacts/")
		require.IsType(t, ledger.RetryAt{}, outcome(c, a, "contact:ct1"))
	}
}

func TestStages(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	stages, err := gohighlevel.New().Stages(t.Context(), account(f))
	require.NoError(t, err)
	require.Equal(t, []ledger.Stage{
		{Pipeline: "pl1", PipelineLabel: "Sales", ID: "st1", Label: "New"},
		{ID: "open", Label: "Open", Meaning: ledger.MeaningOpen, Field: "status"},
		{ID: "won", Label: "Won", Position: 1, Meaning: ledger.MeaningWon, Field: "status"},
		{ID: "lost", Label: "Lost", Position: 2, Meaning: ledger.MeaningLost, Field: "status"},
		{ID: "abandoned", Label: "Abandoned", Position: 3, Meaning: ledger.MeaningLost, Field: "status"},
	}, stages)
	_, err = gohighlevel.New().Stages(t.Context(), account(f, "token", "made-up-wrong-token"))
	var e *crm.ReadError
	require.ErrorAs(t, err, &e)
	require.IsType(t, ledger.Hold{}, e.Outcome)
}

func TestCheckLooksAtTheKey(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	first := gohighlevel.New().Check(t.Context(), account(f, "webhook_public_key", "none"), false)[0]
	require.Equal(t, "webhook_public_key", first.Name)
	require.False(t, first.OK)
	require.NotEqual(t, "webhook_public_key", gohighlevel.New().Check(t.Context(), account(f, "webhook_public_key", ownKey), false)[0].Name)
}

// moves collects what Moves yields.
func moves(t *testing.T, f *fake, since time.Time) ([]ledger.StageChange, error) {
	t.Helper()
	var list []ledger.StageChange
	for c, err := range gohighlevel.Hasty().Moves(t.Context(), account(f), since) {
		if err != nil {
			return list, err
		}
		list = append(list, c)
	}
	return list, nil
}

func TestMoves(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	person(f)
	for i := range 205 {
		f.standing = append(f.standing, stands(fmt.Sprintf("old%03d", i), "st1", "open", "ct1", stageAt.Add(-time.Hour)))
	}
	f.standing[3] = stands("op1", "st2", "open", "ct1", stageAt)
	f.standing[204] = stands("op2", "st3", "won", "ct9", stageAt.Add(time.Minute))
	list, err := moves(t, f, stageAt)
	require.NoError(t, err)
	require.Len(t, f.Calls("GET /opportunities/search"), 3)
	require.Len(t, f.Calls("GET /contacts/"), 2, "only of what has changed")
	require.Len(t, list, 3)
	require.Equal(t, []string{"opportunity:op1", "contact:ct1"}, list[0].Records)
	require.Equal(t, "st2", list[0].Stage)
	require.Equal(t, "987650000012345", list[0].LeadID)
	require.Equal(t, stageAt, list[0].At)
	require.Equal(t, "1500.5", list[0].Amount)
	require.False(t, list[0].Thin)
	require.Equal(t, "st3", list[1].Stage)
	require.Equal(t, "status", list[2].Field)
	require.Equal(t, ledger.MeaningWon, list[2].Meaning)
	require.Equal(t, "ana.lead@example.com", list[2].Contact.Email, "the contact is gone; the search still knows it")
	again, err := moves(t, f, stageAt)
	require.NoError(t, err)
	require.Equal(t, list, again)
	all, err := moves(t, f, time.Time{})
	require.NoError(t, err)
	require.Len(t, all, 206)
	for _, err := range gohighlevel.Hasty().Moves(t.Context(), account(f), time.Time{}) {
		require.NoError(t, err)
		break
	}
}

// What stood in watched fields at the connection is history: the first time it comes without
// a moment, and under the keys that hooks use.
func TestTheFirstMovesAreTheBaselineOfWatchedFields(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	for i := range 205 {
		f.contacts = append(f.contacts, &record{ID: fmt.Sprintf("ct%03d", i), Fields: map[string]any{"email": fmt.Sprintf("p%d@example.com", i)}, Custom: map[string]string{}, Tags: []string{"qualified"}})
	}
	f.contacts[7].Custom["meta_lead_id"], f.contacts[7].Tags = "987650000012345", nil
	a := account(f)
	a.Options = secret.NewOptions(map[string]string{"location_id": location, "token": crmtest.Token, "url": f.URL, "allow_private": "true"}, map[string][]string{"watch": {"tags", "cf1"}}, nil)
	read := func(since time.Time) (list []ledger.StageChange) {
		for m, err := range gohighlevel.Hasty().Moves(t.Context(), a, since) {
			require.NoError(t, err)
			list = append(list, m)
		}
		return list
	}
	list := read(time.Time{})
	require.Len(t, list, 205)
	require.Len(t, f.Calls("GET /contacts/"), 3, "a hundred at a time")
	require.Equal(t, "contact:ct000\x00tags\x00qualified", list[0].Key)
	require.True(t, list[0].At.IsZero())
	require.Equal(t, "p0@example.com", list[0].Contact.Email)
	require.Equal(t, "cf1", list[7].Field)
	require.Equal(t, "987650000012345", list[7].LeadID)
	require.Empty(t, read(stageAt), "later the hooks tell")
	require.True(t, gohighlevel.New().TellsStanding("tags"))
	require.False(t, gohighlevel.New().TellsStanding("status"))
	require.False(t, gohighlevel.New().TellsStanding(""))
}

func TestMovesWithoutTheMomentOfTheStageCountOnce(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	person(f)
	o := stands("op1", "st2", "open", "ct1", stageAt)
	delete(o, "lastStageChangeAt")
	f.standing = []map[string]any{o}
	first, err := moves(t, f, stageAt)
	require.NoError(t, err)
	o["updatedAt"] = "2026-11-21T09:00:00.000Z"
	second, err := moves(t, f, stageAt)
	require.NoError(t, err)
	require.Equal(t, first[0].Key, second[0].Key)
}

func TestMovesWaitForAFullWindow(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	person(f)
	f.standing = []map[string]any{stands("op1", "st2", "open", "ct1", stageAt)}
	f.Busy = func(w http.ResponseWriter) {
		w.Header().Set("X-RateLimit-Interval-Milliseconds", "1")
		says(w, 429, "Too Many Requests")
	}
	f.Next(2, crmtest.TooMany, "GET /contacts/")
	f.Next(1, crmtest.TooMany, "GET /opportunities/search")
	list, err := moves(t, f, stageAt)
	require.NoError(t, err)
	require.Len(t, list, 1)
}

func TestMovesEndWithAnError(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.standing = []map[string]any{stands("op1", "st2", "open", "ct1", stageAt)}
	f.Next(1, crmtest.TooMany, "GET /opportunities/search")
	_, err := moves(t, f, stageAt)
	var e *crm.ReadError
	require.ErrorAs(t, err, &e)
	require.IsType(t, ledger.RetryAt{}, e.Outcome)
	f.Next(1, crmtest.Broken, "GET /contacts/")
	_, err = moves(t, f, stageAt)
	require.ErrorAs(t, err, &e)
}
