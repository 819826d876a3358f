package intake_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestARepeatUnderItsKeyGetsTheFirstAnswer(t *testing.T) {
	t.Parallel()
	d := open(t)
	// Without an event_id only the key can tell a repeat.
	body := `{"event_name":"Lead","event_time":1759270000,"action_source":"other","user_data":{"em":"jane@example.com"}}`
	first := d.post(t, body, "Idempotency-Key", "k-1")
	require.Equal(t, http.StatusAccepted, first.Code, first.Body.String())
	require.Empty(t, first.Header().Get("Idempotent-Replayed"))
	again := d.post(t, body, "Idempotency-Key", "k-1")
	require.Equal(t, http.StatusAccepted, again.Code)
	require.Equal(t, "true", again.Header().Get("Idempotent-Replayed"))
	require.Equal(t, first.Body.String(), again.Body.String())
	require.EqualValues(t, 1, d.book(t).Received)

	other := d.post(t, lead("x"), "Idempotency-Key", "k-1")
	require.Equal(t, http.StatusConflict, other.Code)
	require.Equal(t, "idempotency_key_reused", other.at("error", "code"))
	require.EqualValues(t, 1, d.book(t).Received)

	two := d.do(t, http.MethodPost, "/v1/events", strings.NewReader(lead("x")), "Authorization", "Bearer "+keyTwo, "Idempotency-Key", "k-1")
	require.Equal(t, http.StatusAccepted, two.Code, "a key belongs to its workspace")

	bad := d.post(t, `{}`, "Idempotency-Key", "k-2")
	require.Equal(t, http.StatusUnprocessableEntity, bad.Code)
	again = d.post(t, `{}`, "Idempotency-Key", "k-2")
	require.Equal(t, http.StatusUnprocessableEntity, again.Code)
	require.Equal(t, bad.Body.String(), again.Body.String())

	for _, key := range []string{" ", strings.Repeat("k", 256), "käse", "a\tb"} {
		a := d.post(t, lead("y"), "Idempotency-Key", key)
		require.Equal(t, http.StatusBadRequest, a.Code, key)
		require.Equal(t, "invalid_idempotency_key", a.at("error", "code"))
	}
}

func TestFiftyRepeatsAtOnceAreOneEvent(t *testing.T) {
	t.Parallel()
	d := open(t)
	body := `[{"event_name":"Lead","event_time":1759270000,"action_source":"other","user_data":{"em":"jane@example.com"}}]`
	answers := make([]*httptest.ResponseRecorder, 50)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() {
			r := httptest.NewRequest(http.MethodPost, "/v1/events", strings.NewReader(body))
			r.Header.Set("Authorization", "Bearer "+keyOne)
			r.Header.Set("Idempotency-Key", "one for all")
			answers[i] = httptest.NewRecorder()
			d.ServeHTTP(answers[i], r)
		})
	}
	all.Wait()
	fresh := 0
	for _, a := range answers {
		require.Equal(t, http.StatusAccepted, a.Code)
		require.Equal(t, answers[0].Body.String(), a.Body.String())
		if a.Header().Get("Idempotent-Replayed") == "" {
			fresh++
		}
	}
	require.Equal(t, 1, fresh)
	require.EqualValues(t, 1, d.book(t).Received)
}
