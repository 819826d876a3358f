package website_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/leadform/website"
	"github.com/capiloop/capiloop/internal/ledger"
)

func TestElementor(t *testing.T) {
	t.Parallel()
	l := one(t, builder(urlencoded, sample(t, "website-elementor.txt")), source())
	require.Equal(t, ledger.Contact{FullName: "Ana Example", FirstName: "Ana", LastName: "Example", Email: "ana.lead@example.com", Phone: "+12025550143"}, l.Contact)
	require.Equal(t, ledger.Origin{FormID: "a1b2c3d", FormName: "New Form"}, l.Origin)
	require.Equal(t, shop+"/contact/", l.PageURL)
	require.Equal(t, "203.0.113.7", l.IP)
	require.Equal(t, "Mozilla/5.0 (example)", l.UserAgent)
	require.Equal(t, ledger.FormAnswer{Question: "field_1", Label: "Phone", Values: []string{"+12025550143"}}, l.Answers[2])

	l = one(t, builder(urlencoded, "Name=Ana+Example&Email=ana.lead%40example.com&Tel%C3%A9fono=1&Page+URL=https%3A%2F%2Fshop.example.com%2F&Remote+IP=203.0.113.7&User+Agent=Mozilla%2F5.0&form_id=a1&form_name=New"), source())
	require.Equal(t, "Ana Example", l.Contact.FullName)
	require.Equal(t, shop+"/", l.PageURL)
	require.Equal(t, "203.0.113.7", l.IP)
	require.Equal(t, "a1", l.Origin.FormID)
}

func TestWebflow(t *testing.T) {
	t.Parallel()
	l := one(t, builder("application/json", sample(t, "website-webflow.json")), source())
	require.Equal(t, ledger.Contact{FullName: "Ana Example", FirstName: "Ana", LastName: "Example", Email: "ana.lead@example.com", Phone: "+12025550143"}, l.Contact)
	require.Equal(t, ledger.Origin{FormID: "65429eadebe8a9f3a30f0001", FormName: "Email Form"}, l.Origin)
	require.Equal(t, now, l.CreatedAt)
	require.Equal(t, []string{"Ana"}, question(l, "First Name"))
	require.Len(t, l.Answers, 4)
	l = one(t, builder("application/json", sample(t, "website-webflow.json")), withFields(map[string]string{"payload.data.Phone": "work_phone"}))
	require.Equal(t, "+12025550143", l.Contact.WorkPhone)
}

func TestTypeform(t *testing.T) {
	t.Parallel()
	l := one(t, builder("application/json", sample(t, "typeform.json")), source())
	require.Equal(t, "ana.lead@example.com", l.Contact.Email)
	require.Equal(t, "+12025550143", l.Contact.Phone)
	require.Equal(t, "Ana", l.Contact.FirstName)
	require.Equal(t, ledger.Origin{FormID: "lT4Z3j", FormName: "Quote"}, l.Origin)
	require.Equal(t, "IwAR-example-fbclid", l.Clicks.FBClid)
	require.Equal(t, "tag-1", l.EventID, "the hidden field, not the webhook's own event_id")
	require.Equal(t, time.Date(2026, 11, 18, 11, 6, 38, 0, time.UTC), l.CreatedAt)
	require.Equal(t, []string{"Flat", "Steep"}, question(l, "roofs"))
	require.Equal(t, []string{"Soon"}, question(l, "when"))
	require.Equal(t, []string{"true"}, question(l, "owner"))
	require.Equal(t, []string{"3"}, question(l, "floors"))
}

func TestTally(t *testing.T) {
	t.Parallel()
	l := one(t, builder("application/json", sample(t, "tally.json")), source())
	require.Equal(t, "Ana Example", l.Contact.FullName)
	require.Equal(t, "ana.lead@example.com", l.Contact.Email)
	require.Equal(t, "+12025550143", l.Contact.Phone)
	require.Equal(t, ledger.Origin{FormID: "mVGEg3", FormName: "Quote"}, l.Origin)
	require.Equal(t, []string{"Flat"}, question(l, "question_roof"))
	require.Equal(t, "IwAR-example-fbclid", l.Clicks.FBClid)
}

func TestOtherShapes(t *testing.T) {
	t.Parallel()
	l := one(t, browser(urlencoded, "wpforms%5Bid%5D=12&wpforms%5Bfields%5D%5B0%5D%5Bfirst%5D=Ana&wpforms%5Bfields%5D%5B1%5D=ana%40example.com&page_url=https%3A%2F%2Fshop.example.com%2F"),
		withFields(map[string]string{"wpforms.fields.1": "email", "wpforms.fields.0.first": "first_name"}))
	require.Equal(t, "12", l.Origin.FormID)
	require.Equal(t, "ana@example.com", l.Contact.Email)
	require.Equal(t, "Ana", l.Contact.FirstName)

	l = one(t, browser("application/json", `[{"name":"email","value":"a@example.com"},{"name":"tel","value":"1"}]`), source())
	require.Equal(t, ledger.Contact{Email: "a@example.com", Phone: "1"}, l.Contact)

	// C079, C080: camelCase, email_address, an address as object or as list
	for _, address := range []string{`{"city":"New York","postal_code":"10001","country":"US"}`, `[{"city":"New York","postalCode":"10001","country":"US"}]`} {
		l = one(t, browser("application/json", `{"user_data":{"firstName":"Jane","LastName":"Doe","email_address":"jane@example.com","address":`+address+`}}`), source())
		require.Equal(t, ledger.Contact{
			FullName: "Jane Doe", FirstName: "Jane", LastName: "Doe", Email: "jane@example.com",
			City: "New York", Postcode: "10001", Country: "US",
		}, l.Contact)
	}
	l = one(t, browser("application/json", `{"email":"a@example.com","items":[{"name":"Hat"},{"name":"Coat"}]}`), source())
	require.Empty(t, l.Contact.FullName, "a product is nobody's name")
	require.Equal(t, []string{"Hat"}, question(l, "name"))
	require.Equal(t, []string{"Coat"}, question(l, "items.1.name"))
}

func TestOtherNewsOfBuildersIsAnswered200(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"triggerType":"site_publish","payload":{"site":"1","by":"someone"}}`,
		`{"event_type":"form_response_partial","form_response":{"answers":[]}}`,
		`{"eventType":"FORM_DELETED","data":{"formId":"1"}}`,
	} {
		got := website.Kind{}.Receive(builder("application/json", body), source(), now)
		require.Equal(t, http.StatusOK, got.Answer.Status)
		require.Empty(t, got.Leads)
	}
}
