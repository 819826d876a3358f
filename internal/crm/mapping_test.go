package crm_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/crm"
	"github.com/capiloop/capiloop/internal/crm/crmtest"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
)

func TestValue(t *testing.T) {
	t.Parallel()
	a, l := crmtest.Account("x", ""), crmtest.Lead()
	l.Contact.Birthday = "03/04/1990"
	l.Answers = append(l.Answers, ledger.FormAnswer{Question: "q2", Label: "¿Qué día?", Values: []string{"lunes", "martes"}})
	for source, want := range map[string]string{
		"email": "ana.lead@example.com", "phone": "+12025550143", "id": "987650000012345", "lead_id": "987650000012345",
		"first_name": "Ana", "created_at": "2026-11-18T11:06:37Z", "created_date": "2026-11-18", "birthday": "1990-03-04",
		"answer:what_are_you_looking_for": "roof_repair", "answer:What are you looking for": "roof_repair", "answer:q2": "lunes, martes",
		"answer:qué_día": "lunes, martes", "answer:none": "", "answer:": "", "nothing": "", "": "", "=Meta lead": "Meta lead", "=": "",
		"{{first_name}} {{last_name}}": "Ana Example", "{{ city }} {{first_name}}": "Ana", "from {{": "from", "{{x}}": "", "{{email}} {{phone": "ana.lead@example.com",
		"is_organic": "false", "platform": "ig", "fbclid": "IwAR-example-fbclid", "answers": "What are you looking for?: roof_repair\n¿Qué día?: lunes, martes",
	} {
		require.Equal(t, want, crm.Value(a, l, source), "%q", source)
	}
}

func TestNamesFillEachOther(t *testing.T) {
	t.Parallel()
	for in, want := range map[ledger.Contact][3]string{
		{FullName: " José  Pérez Ejemplo "}:     {"José Pérez Ejemplo", "José", "Pérez Ejemplo"},
		{FirstName: "Zoë", LastName: "Exämple"}: {"Zoë Exämple", "Zoë", "Exämple"},
		{FullName: "Cher"}:                      {"Cher", "Cher", ""},
		{LastName: "Example"}:                   {"Example", "", "Example"},
		{}:                                      {},
		{FullName: "Dr. Ana Example", FirstName: "Ana"}:            {"Dr. Ana Example", "Ana", ""},
		{FullName: "A B", FirstName: "Ana", LastName: "Brown-Lee"}: {"A B", "Ana", "Brown-Lee"},
	} {
		l := &ledger.Lead{Contact: in}
		var got [3]string
		for i, f := range []string{"full_name", "first_name", "last_name"} {
			got[i] = crm.Value(crm.Account{}, l, f)
		}
		require.Equal(t, want, got)
	}
}

func TestPhone(t *testing.T) {
	t.Parallel()
	l := &ledger.Lead{}
	require.Equal(t, "+12025550143", crm.Phone(crm.Account{Country: "US"}, l, "p:(202) 555-0143"))
	require.Equal(t, "(202) 555-0143", crm.Phone(crm.Account{}, l, "(202) 555-0143"))
	require.Equal(t, "+442079460123", crm.Phone(crm.Account{Country: "US"}, &ledger.Lead{Contact: ledger.Contact{Country: "GB"}}, "020 7946 0123"))
	require.Empty(t, crm.Phone(crm.Account{}, l, " "))
}

func TestKey(t *testing.T) {
	t.Parallel()
	own := ledger.ID(123456789012345)
	require.Equal(t, "5", crm.Key(&ledger.Lead{ID: own, LeadID: "5"}))
	require.Equal(t, own.String(), crm.Key(&ledger.Lead{ID: own}))
	require.Equal(t, own.String(), crm.Key(&ledger.Lead{ID: own, LeadID: string(make([]byte, 300))}))
}

func TestFieldsMerge(t *testing.T) {
	t.Parallel()
	a := crm.Account{Options: secret.NewOptions(nil, nil, map[string]map[string]string{"fields": {"b": "-", "c": " city ", "d": "answer:x", "e": "{{wrong}} {{email}}", "f": "=x"}})}
	defaults := map[string]string{"a": "email", "b": "phone", "c": "state"}
	require.Equal(t, map[string]string{"a": "email", "c": "city", "d": "answer:x", "e": "{{wrong}} {{email}}", "f": "=x"}, crm.Fields(a, defaults))
	require.Len(t, defaults, 3)
	checks := crm.CheckFields(a)
	require.Len(t, checks, 1)
	require.Contains(t, checks[0].Sentence, "wrong")
}

func TestThePageListsTheFields(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/crm.md")
	require.NoError(t, err)
	_, list, _ := strings.Cut(string(page), "\nFields: ")
	list, _, _ = strings.Cut(list, "\n\n")
	var named []string
	for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(list, -1) {
		named = append(named, m[1])
	}
	slices.Sort(named)
	require.Equal(t, crm.FieldNames(), named)
}

func FuzzValue(f *testing.F) {
	for _, s := range []string{"{{", "}}{{email}}", "{{{{email}}}}", "answer:é", "=", "{{answer:x}}"} {
		f.Add(s)
	}
	a, l := crmtest.Account("x", ""), crmtest.Lead()
	f.Fuzz(func(_ *testing.T, source string) { crm.Value(a, l, source) })
}
