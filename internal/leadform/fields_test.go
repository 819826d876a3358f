package leadform_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/ledger"
)

func TestEachPlatformsNamesOfTheStandardFields(t *testing.T) {
	t.Parallel()
	cases := []struct {
		canonical                                leadform.Canonical
		meta, key, google, tiktok, linkedin, web string
	}{
		{leadform.FullName, "FULL_NAME", "full_name", "FULL_NAME", "name", "", "Your Name"},
		{leadform.FirstName, "FIRST_NAME", "first_name", "FIRST_NAME", "first_name", "FIRST_NAME", "given-name"},
		{leadform.LastName, "LAST_NAME", "last_name", "LAST_NAME", "last_name", "LAST_NAME", "surname"},
		{leadform.Email, "EMAIL", "email", "EMAIL", "email", "EMAIL", "E-mail *"},
		{leadform.WorkEmail, "WORK_EMAIL", "work_email", "WORK_EMAIL", "work_email", "WORK_EMAIL", "business_email"},
		{leadform.Phone, "PHONE", "phone_number", "PHONE_NUMBER_VERIFIED", "phone_number", "PHONE_NUMBER", "tel"},
		{leadform.WorkPhone, "WORK_PHONE_NUMBER", "work_phone_number", "WORK_PHONE", "", "WORK_PHONE_NUMBER", "work phone"},
		{leadform.Street, "STREET_ADDRESS", "street_address", "STREET_ADDRESS", "address", "", "street"},
		{leadform.City, "CITY", "city", "CITY", "city", "CITY", "town"},
		{leadform.State, "PROVINCE", "province", "REGION", "Province/State", "STATE", "region"},
		{leadform.Postcode, "ZIP", "zip_code", "POSTAL_CODE", "zip_code", "ZIP_CODE", "postal-code"},
		{leadform.Country, "COUNTRY", "country", "COUNTRY", "country", "COUNTRY", "Country:"},
		{leadform.Birthday, "DOB", "date_of_birth", "", "birthday", "", "bday"},
		{leadform.Gender, "GENDER", "gender", "", "gender", "GENDER", "gender"},
		{leadform.Company, "COMPANY_NAME", "company_name", "COMPANY_NAME", "company_name", "COMPANY_NAME", "organisation"},
		{leadform.JobTitle, "JOB_TITLE", "job_title", "JOB_TITLE", "job_title", "JOB_TITLE", "position"},
		{leadform.JobFunction, "", "", "JOB_ROLE", "", "JOB_FUNCTION", ""},
		{leadform.Relationship, "MARITIAL_STATUS", "relationship_status", "", "", "", ""},
		{leadform.NationalID, "ID_CPF", "id_cpf", "GOVERNMENT_ISSUED_ID_CPF", "", "", ""},
		{leadform.Custom, "CUSTOM", "which_roof", "which_roof", "Which roof?", "SCHOOL", "message"},
	}
	for _, c := range cases {
		of := func(f func(string) leadform.Canonical, name string) {
			t.Helper()
			if name != "" {
				require.Equal(t, c.canonical, f(name), name)
			}
		}
		of(leadform.MetaType, c.meta)
		of(leadform.MetaKey, c.key)
		of(leadform.GoogleColumn, c.google)
		of(leadform.TikTokField, c.tiktok)
		of(leadform.LinkedInField, c.linkedin)
		of(leadform.WebsiteField, c.web)
	}
}

func TestAnswersAreKeptUnderTheirOwnNamesToo(t *testing.T) {
	t.Parallel()
	var l ledger.Lead
	leadform.Assign(&l, leadform.Email, ledger.FormAnswer{Question: "correo", Label: "Correo ", Values: []string{"", " jose@example.com "}})
	leadform.Assign(&l, leadform.Email, ledger.FormAnswer{Question: "correo_2", Values: []string{"other@example.com"}})
	leadform.Assign(&l, leadform.City, ledger.FormAnswer{Question: "city", Values: []string{"Cafe\u0301 \x00\xff"}})
	leadform.Assign(&l, leadform.Phone, ledger.FormAnswer{Question: "phone_number"})
	leadform.Assign(&l, leadform.NationalID, ledger.FormAnswer{Question: "id_cpf", Values: []string{"000"}})
	leadform.Complete(&l)
	require.Equal(t, ledger.Contact{Email: "jose@example.com", City: "Café"}, l.Contact)
	require.Equal(t, []ledger.FormAnswer{
		{Question: "correo", Label: "Correo", Values: []string{"jose@example.com"}},
		{Question: "correo_2", Values: []string{"other@example.com"}},
		{Question: "city", Values: []string{"Café"}},
		{Question: "id_cpf", Values: []string{"000"}, Private: true},
	}, l.Answers)
}

func TestCompleteFillsWhatFollows(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name       string
		give, want ledger.Contact
	}{
		{"nothing", ledger.Contact{}, ledger.Contact{}},
		{"two words", ledger.Contact{FullName: "Jane  Doe"}, ledger.Contact{FullName: "Jane  Doe", FirstName: "Jane", LastName: "Doe"}},
		{
			"three words",
			ledger.Contact{FullName: "José Pérez Ejemplo"},
			ledger.Contact{FullName: "José Pérez Ejemplo", FirstName: "José Pérez", LastName: "Ejemplo"},
		},
		{"one word", ledger.Contact{FullName: "Ana"}, ledger.Contact{FullName: "Ana", FirstName: "Ana"}},
		{"parts", ledger.Contact{FirstName: "Zoë", LastName: "Exämple"}, ledger.Contact{FullName: "Zoë Exämple", FirstName: "Zoë", LastName: "Exämple"}},
		{"last alone", ledger.Contact{LastName: "Doe"}, ledger.Contact{FullName: "Doe", LastName: "Doe"}},
		{
			"all given stays as given",
			ledger.Contact{FullName: "A B", FirstName: "C"},
			ledger.Contact{FullName: "A B", FirstName: "C"},
		},
		{
			"work",
			ledger.Contact{WorkEmail: "w@example.com", WorkPhone: "1"},
			ledger.Contact{WorkEmail: "w@example.com", WorkPhone: "1", Email: "w@example.com", Phone: "1"},
		},
		{
			"work and own",
			ledger.Contact{WorkEmail: "w@example.com", Email: "o@example.com"},
			ledger.Contact{WorkEmail: "w@example.com", Email: "o@example.com"},
		},
	}
	for _, c := range cases {
		l := ledger.Lead{Contact: c.give}
		leadform.Complete(&l)
		require.Equal(t, c.want, l.Contact, c.name)
	}
}

func TestClickIDsStayAsTheyAre(t *testing.T) {
	t.Parallel()
	var l ledger.Lead
	require.True(t, leadform.SetClick(&l, "_fbp", " fb.1.1.AbC "))
	require.True(t, leadform.SetClick(&l, "GCLID", "aB"))
	require.True(t, leadform.SetClick(&l, "gclid", "second"))
	require.True(t, leadform.SetClick(&l, "li_fat_id", "00000000-0000-4000-8000-000000000001"))
	require.False(t, leadform.SetClick(&l, "utm_source", "x"))
	require.Equal(t, ledger.Clicks{FBP: "fb.1.1.AbC", GClid: "aB", LiFatID: "00000000-0000-4000-8000-000000000001"}, l.Clicks)
}

func TestIdsAreTextsOrNumbers(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]leadform.Ident{
		`"1234567890123456"`: "1234567890123456", `9007199254740993`: "9007199254740993", `0`: "0", `null`: "", `1e3`: "", `-1`: "",
		`{"a":1}`: "", `[1]`: "", `true`: "",
	} {
		var got leadform.Ident
		require.NoError(t, json.Unmarshal([]byte(raw), &got))
		require.Equal(t, want, got, raw)
	}
}

func TestDummyValues(t *testing.T) {
	t.Parallel()
	require.True(t, leadform.IsDummy("<test lead: dummy data for full_name>"))
	require.False(t, leadform.IsDummy("test lead"))
}
