package intake_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/ledger"
)

const aMove = `{"lead_id":"987650000012345","stage":"Qualified","occurred_at":"2025-09-30T21:00:00Z"}`

func TestAStageChangeIsTakenThenKnown(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.one.Rules = []ledger.Rule{{Stage: "qualified", Event: "QualifiedLead"}}
	lead := d.send(t, "/v1/leads", `{"lead_id":"987650000012345","platform":"meta","email":"ana@example.com","created_at":"2025-09-30T20:00:00Z"}`)
	require.Equal(t, http.StatusCreated, lead.Code)
	first := d.send(t, "/v1/stages", aMove)
	require.Equal(t, http.StatusCreated, first.Code, first.Body.String())
	require.Equal(t, "event", first.at("effect"))
	require.Equal(t, "An event was made of it.", first.at("sentence"))
	require.Equal(t, lead.at("id"), first.at("lead"))
	require.Equal(t, lead.at("url"), first.at("url"))
	require.Equal(t, false, first.at("duplicate"))
	require.Len(t, first.at("events"), 1)
	require.Equal(t, d.views(t)[0].ID.String(), first.at("events", 0))

	again := d.send(t, "/v1/stages", aMove)
	require.Equal(t, http.StatusOK, again.Code)
	require.Equal(t, true, again.at("duplicate"))
	require.Equal(t, first.at("id"), again.at("id"))
	require.Contains(t, again.at("sentence"), "came before")
	require.Len(t, d.views(t), 1)
	require.Contains(t, d.log.String(), "duplicates=1")
	require.NotContains(t, d.log.String(), "ana@")

	back := d.send(t, "/v1/stages", `{"data":[{"lead_id":"987650000012345","stage":"New"},{"lead_id":"987650000012345","stage":"Qualified"}]}`)
	require.Equal(t, http.StatusCreated, back.Code, back.Body.String())
	require.EqualValues(t, 0, back.at("rejected"))
	require.Equal(t, "no_rule", back.at("stages", 0, "effect"))
	require.Empty(t, back.at("stages", 0, "events"))
	require.NotNil(t, back.at("stages", 0, "events"))
	require.Equal(t, "already_sent", back.at("stages", 1, "effect"))
	require.Len(t, d.views(t), 1)
}

func TestWhoSentAStageChange(t *testing.T) {
	t.Parallel()
	d, heard := listen(t)
	a := d.send(t, "/v1/stages", `{"type":"deal","data":{"email":"ana@example.com","stage":"Won","value":"1500","currency":"EUR"}}`)
	require.Equal(t, http.StatusCreated, a.Code, a.Body.String())
	require.Equal(t, []string{"shop", "api"}, []string{heard.source, heard.kind})
	require.Zero(t, heard.crm)
	require.Equal(t, "ana@example.com", heard.changes[0].Contact.Email, "an envelope is opened")
	require.Equal(t, "1500", heard.changes[0].Amount)
}

func TestAStageChangeThatIsNoneIsRefusedWithAFix(t *testing.T) {
	t.Parallel()
	d, heard := listen(t)
	many := `{"data":[` + strings.Repeat(aMove+",", 1000) + aMove + `]}`
	for _, c := range []struct {
		name, body  string
		status      int
		code, field string
	}{
		{"nobody", `{"stage":"Won"}`, 422, "no_identity", ""},
		{"no stage", `{"email":"a@example.com"}`, 422, "stage_missing", "stage"},
		{"a warning stands before the error", `{"nonsense":1,"email":"a@example.com","stage":"Won","test":"perhaps"}`, 422, "invalid_flag", "test"},
		{"a text", `"Won"`, 422, "wrong_type", "data"},
		{"data is a text", `{"data":"Won"}`, 422, "wrong_type", "data"},
		{"data stands twice", `{"data":[],"data":[]}`, 422, "duplicate_field", "data"},
		{"an empty list", `[]`, 422, "no_stages", "data"},
		{"none in the list", `[{"stage":"Won"},7]`, 422, "", ""},
		{"nothing", ``, 400, "empty_body", ""},
		{"no JSON", `stage=Won`, 400, "invalid_json", ""},
		{"no UTF-8", "{\"stage\":\"\xff\"}", 400, "not_utf8", ""},
		{"too long for one", `{"email":"a@example.com","stage":"Won","fields":{"x":"` + strings.Repeat("x", 1<<20) + `"}}`, 413, "too_large", ""},
		{"too many", many, 413, "too_many_stages", "data"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := d.send(t, "/v1/stages", c.body)
			require.Equal(t, c.status, a.Code, a.Body.String())
			if c.code == "" {
				require.EqualValues(t, 2, a.at("rejected"))
				require.Equal(t, "no_identity", a.at("stages", 0, "problems", 0, "code"))
				return
			}
			require.Equal(t, c.code, a.at("error", "code"))
			if c.field != "" {
				require.Equal(t, c.field, a.at("error", "field"))
			}
			require.NotEmpty(t, a.at("error", "fix"))
			require.NotContains(t, a.at("error", "fix"), "event_name", "this route takes stage changes")
		})
	}
	t.Cleanup(func() { require.Empty(t, heard.calls) })
	require.Equal(t, http.StatusUnauthorized, d.do(t, http.MethodPost, "/v1/stages", strings.NewReader(aMove)).Code)
	require.Equal(t, http.StatusUnauthorized, d.do(t, http.MethodPost, "/v1/stages", strings.NewReader(aMove), "Authorization", "Bearer wrong").Code)
	require.Equal(t, http.StatusMethodNotAllowed, d.do(t, http.MethodGet, "/v1/stages", nil).Code)
	require.Equal(t, http.StatusUnsupportedMediaType, d.send(t, "/v1/stages", aMove, "Content-Type", "application/x-www-form-urlencoded").Code)
}

func TestTheGoodStageChangesOfABatchAreTaken(t *testing.T) {
	t.Parallel()
	d := open(t)
	a := d.send(t, "/v1/stages", `{"data":[{"email":"a@example.com","stage":"Won"},{"stage":"Won"},{"external_id":"cust-1","stage":"Won"}]}`)
	require.Equal(t, http.StatusCreated, a.Code, a.Body.String())
	require.EqualValues(t, 1, a.at("rejected"))
	require.Equal(t, "no_rule", a.at("stages", 0, "effect"))
	require.Equal(t, "rejected", a.at("stages", 1, "effect"))
	require.Equal(t, "no_identity", a.at("stages", 1, "problems", 0, "code"))
	require.NotEmpty(t, a.at("stages", 1, "sentence"))
	require.Nil(t, a.at("stages", 1, "lead"))
	require.EqualValues(t, 2, a.at("stages", 2, "index"))
	require.Len(t, d.kept(t, d.one), 2, "leads that nobody knew are made of what the calls carry")
	require.Empty(t, d.kept(t, d.two))
}

func TestAStageChangeWithAnIdempotencyKey(t *testing.T) {
	t.Parallel()
	d, heard := listen(t)
	const timeless, named = `{"email":"a@example.com","stage":"Won"}`, `{"email":"a@example.com","stage":"Won","event_id":"m-1"}`
	first := d.send(t, "/v1/stages", timeless, "Idempotency-Key", "k1")
	require.Equal(t, http.StatusCreated, first.Code, first.Body.String())
	again := d.send(t, "/v1/stages", timeless, "Idempotency-Key", "k1")
	require.Equal(t, http.StatusOK, again.Code)
	require.Equal(t, heard.changes[0].Key, heard.changes[1].Key, "whenever it is sent again")
	other := d.send(t, "/v1/stages", aMove, "Idempotency-Key", "k1")
	require.Equal(t, http.StatusConflict, other.Code)
	require.Equal(t, "idempotency_key_reused", other.at("error", "code"))
	require.Len(t, heard.changes, 2, "nothing of the refused request was written")

	require.Equal(t, http.StatusCreated, d.send(t, "/v1/stages", timeless, "Idempotency-Key", "k2").Code, "it happened again")
	require.Equal(t, http.StatusCreated, d.send(t, "/v1/stages", named, "Idempotency-Key", "k3").Code)
	require.Equal(t, http.StatusOK, d.send(t, "/v1/stages", named, "Idempotency-Key", "k4").Code, "the sender's own id tells")
	require.Equal(t, http.StatusCreated, d.send(t, "/v1/stages", aMove, "Idempotency-Key", "k5").Code)
	require.Equal(t, http.StatusOK, d.send(t, "/v1/stages", aMove, "Idempotency-Key", "k6").Code, "and so does the moment")

	require.Equal(t, http.StatusUnprocessableEntity, d.send(t, "/v1/stages", `{"stage":"Won"}`, "Idempotency-Key", "k7").Code)
	require.Equal(t, http.StatusCreated, d.send(t, "/v1/stages", `{"stage":"Lost","email":"b@example.com"}`, "Idempotency-Key", "k7").Code,
		"a request of which nothing was taken leaves its key free")
	require.Equal(t, http.StatusBadRequest, d.send(t, "/v1/stages", aMove, "Idempotency-Key", "").Code)
	require.Equal(t, http.StatusConflict, d.post(t, lead("e1"), "Idempotency-Key", "k1").Code, "the key is taken on every route")
}

func TestOneStageChangeThirtyTimesAtOnce(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.one.Rules = []ledger.Rule{{Stage: "Qualified", Event: "QualifiedLead"}}
	codes := make([]int, 30)
	var wg sync.WaitGroup
	for i := range codes {
		wg.Go(func() {
			codes[i] = d.call(http.MethodPost, "/v1/stages", strings.NewReader(aMove), "Authorization", "Bearer "+keyOne, "Content-Type", "application/json", "Idempotency-Key", "k").Code
		})
	}
	wg.Wait()
	created := 0
	for _, code := range codes {
		if code == http.StatusCreated {
			created++
			continue
		}
		require.Equal(t, http.StatusOK, code)
	}
	require.Equal(t, 1, created)
	require.Len(t, d.kept(t, d.one), 1)
	require.Len(t, d.views(t), 1)
}
