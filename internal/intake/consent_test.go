package intake_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/ledger"
)

// person is an event with one key of a person.
func person(id, key, value string) string {
	return fmt.Sprintf(`{"event_name":"Lead","event_time":1759270000,"event_id":"%s","action_source":"system_generated","user_data":{"%s":"%s","client_ip_address":"203.0.113.7"}}`, id, key, value)
}

func TestWithdrawnConsentSkipsWaitingAndLaterEvents(t *testing.T) {
	t.Parallel()
	d := open(t)
	a := d.send(t, "/v1/leads", `{"lead_id":"987650000012345","platform":"meta","email":"ana@example.com","phone":"+1 202 555 0143","external_id":"cust-1"}`)
	require.Equal(t, http.StatusCreated, a.Code)
	ids := [][2]string{{"em", "Ana@Example.com "}, {"ph", "12025550143"}, {"external_id", "cust-1"}, {"lead_id", "987650000012345"}, {"em", "bo@example.com"}, {"lead_id", "9876500000123456"}}
	for i, x := range ids {
		a := d.post(t, person(fmt.Sprint("before-", i), x[0], x[1]))
		require.Equal(t, "waiting", a.at("events", 0, "state"), a.Body.String())
	}
	a = d.send(t, "/v1/consent", `{"email":" ANA@example.com","granted":false}`)
	require.Equal(t, http.StatusOK, a.Code, a.Body.String())
	require.EqualValues(t, 1, a.at("leads"))
	require.EqualValues(t, 4, a.at("events"))
	require.Equal(t, ledger.ConsentDenied, d.kept(t, d.one)[0].Lead.Consent)
	for i, x := range ids {
		a := d.post(t, person(fmt.Sprint("after-", i), x[0], x[1]))
		want := "skipped"
		if i >= 4 {
			want = "waiting"
		} else {
			require.Equal(t, "no_consent", a.at("events", 0, "reason"))
		}
		require.Equal(t, want, a.at("events", 0, "state"), x)
	}
	for _, v := range d.views(t) {
		if v.Deliveries[0].State == ledger.Skipped {
			require.Empty(t, v.Deliveries[0].Payload, "what does not leave is not kept")
		}
	}
	book := d.book(t)
	require.EqualValues(t, 12, book.Received)

	again := d.send(t, "/v1/consent", `{"lead_id":987650000012345,"granted":true}`)
	require.Equal(t, http.StatusOK, again.Code, again.Body.String())
	require.Equal(t, ledger.ConsentGranted, d.kept(t, d.one)[0].Lead.Consent)
	require.Equal(t, "waiting", d.post(t, person("later", "em", "ana@example.com")).at("events", 0, "state"))
	require.Equal(t, "waiting", d.post(t, person("before-0", "em", "ana@example.com")).at("events", 0, "state"), "a skipped event may come again")
	require.NotContains(t, d.log.String(), "example.com")
}

func TestWithdrawnConsentHoldsWhereTheKeyStaysAtHome(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.one.Keys = d.one.Keys.Add("ph")
	require.Equal(t, http.StatusOK, d.send(t, "/v1/consent", `{"email":"ana@example.com","granted":false}`).Code)
	a := d.post(t, `{"event_name":"Lead","event_time":1759270000,"event_id":"x","action_source":"system_generated","user_data":{"em":"ana@example.com","ph":"12025550199"}}`)
	require.Equal(t, "no_consent", a.at("events", 0, "reason"), a.Body.String())
	a = d.send(t, "/v1/leads", `{"email":"ana@example.com"}`)
	require.Equal(t, http.StatusCreated, a.Code)
	require.Equal(t, ledger.ConsentDenied, d.kept(t, d.one)[0].Lead.Consent, "a later lead that says nothing")
}

func TestADecisionThatCannotBeRead(t *testing.T) {
	t.Parallel()
	d := open(t)
	for body, want := range map[string][2]string{
		`{"email":"a@example.com"}`:                                   {"no_decision", "granted"},
		`{"email":"a@example.com","granted":"no"}`:                    {"wrong_type", "granted"},
		`{"email":"a@example.com","granted":null}`:                    {"wrong_type", "granted"},
		`{"granted":false}`:                                           {"no_identity", ""},
		`{"email":"nobody","granted":false}`:                          {"invalid_email", "email"},
		`{"email":"a@example.com","phone":"12","granted":false}`:      {"invalid_phone", "phone"},
		`{"mail":"a@example.com","granted":false}`:                    {"unknown_field", "mail"},
		`{"email":["a@example.com"],"granted":false}`:                 {"wrong_type", "email"},
		`{"email":"a@example.com","granted":false,"granted":true}`:    {"duplicate_field", "granted"},
		`{"email":"a@example.com","platform":"meta","granted":false}`: {"unknown_platform", "platform"},
		`{"lead_id":"1","platform":"facebook","granted":false}`:       {"unknown_platform", "platform"},
		`[{"email":"a@example.com","granted":false}]`:                 {"wrong_type", ""},
	} {
		a := d.send(t, "/v1/consent", body)
		require.Equal(t, http.StatusUnprocessableEntity, a.Code, body)
		require.Equal(t, want[0], a.at("error", "code"), body)
		if want[1] != "" {
			require.Equal(t, want[1], a.at("error", "field"), body)
		}
		require.NotEmpty(t, a.at("error", "fix"))
	}
	require.Equal(t, http.StatusUnauthorized, d.do(t, http.MethodPost, "/v1/consent", nil).Code)
	require.Equal(t, http.StatusMethodNotAllowed, d.do(t, http.MethodGet, "/v1/consent", nil).Code)
}

// An event that was judged before the withdrawal and is written after it is found, too.
func TestAWithdrawalAmidEvents(t *testing.T) {
	t.Parallel()
	d := open(t)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				_ = d.call(http.MethodPost, "/v1/events", strings.NewReader(person(fmt.Sprint(n, "-", i), "em", "ana@example.com")),
					"Authorization", "Bearer "+keyOne, "Content-Type", "application/json")
			}
		})
	}
	require.Eventually(t, func() bool { return len(d.views(t)) > 20 }, 10*time.Second, time.Millisecond)
	require.Equal(t, http.StatusOK, d.send(t, "/v1/consent", `{"email":"ana@example.com","granted":false}`).Code)
	close(stop)
	wg.Wait()
	book := d.book(t)
	require.Positive(t, book.Received)
	require.Equal(t, book.Received, book.By[ledger.Skipped][ledger.NoConsent], "none waits")
}
