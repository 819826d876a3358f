package website_test

import (
	"bytes"
	"encoding/json"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/internal/leadform"
	"github.com/capiloop/capiloop/internal/leadform/website"
)

// input is one field of a form, in the order in which it is sent.
type input struct{ name, value string }

// encodings writes a form in each of the ways in which a form is sent.
func encodings(t *testing.T, fields []input) map[string]leadform.Request {
	t.Helper()
	var form, object []string
	var parts bytes.Buffer
	w := multipart.NewWriter(&parts)
	for _, f := range fields {
		form = append(form, url.QueryEscape(f.name)+"="+url.QueryEscape(f.value))
		member, err := json.Marshal(map[string]string{f.name: f.value})
		require.NoError(t, err)
		object = append(object, string(member[1:len(member)-1]))
		require.NoError(t, w.WriteField(f.name, f.value))
	}
	require.NoError(t, w.Close())
	return map[string]leadform.Request{
		"urlencoded": browser(urlencoded, strings.Join(form, "&")),
		"JSON":       browser("application/json", "{"+strings.Join(object, ",")+"}"),
		"multipart":  browser(w.FormDataContentType(), parts.String()),
	}
}

func refused(t *testing.T, r leadform.Request, says ...string) {
	t.Helper()
	got := website.Kind{}.Receive(r, source(), now)
	require.Equal(t, http.StatusBadRequest, got.Answer.Status, "%s", got.Answer.Body)
	require.Empty(t, got.Leads)
	var answer struct{ Error string }
	require.NoError(t, json.Unmarshal(got.Answer.Body, &answer))
	require.Less(t, len(answer.Error), 300)
	for _, text := range says {
		require.Contains(t, answer.Error, text)
	}
}

func TestAValueTooLongIsRefusedAndNeverCut(t *testing.T) {
	t.Parallel()
	const most = 64 << 10
	full, long := strings.Repeat("x", most), strings.Repeat("x", most+1)
	for name, r := range encodings(t, []input{{"email", "a@example.com"}, {"message", full}}) {
		require.Equal(t, []string{full}, question(one(t, r, source()), "message"), name)
	}
	for name, r := range encodings(t, []input{{"email", "a@example.com"}, {"message", long}}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, r, `"message"`, "65537", "65536")
		})
	}
	for name, r := range encodings(t, []input{{"email", "a@example.com"}, {long, "x"}}) {
		t.Run("the name, "+name, func(t *testing.T) {
			t.Parallel()
			refused(t, r, "name", "65537", "65536")
		})
	}
	refused(t, browser("application/json", `{"a":{"list":["x","`+long+`"]}}`), `"1"`, "65537")
	refused(t, browser("application/json", `{"email":"a@example.com","`+long+`":{"a":["x"]}}`), "name", "65537")
	refused(t, browser("application/json", `{"n":`+strings.Repeat("1", most+1)+`}`), `"n"`, "65537")
	refused(t, browser("application/json", `[{"name":"email","value":"a@example.com"},{"name":"m","value":"`+long+`"}]`), "65537")
}

func TestTooManyFieldsAreRefusedAndNoneIsDropped(t *testing.T) {
	t.Parallel()
	fields := func(n int) []input {
		list := make([]input, n)
		for i := range list {
			list[i] = input{"q" + strconv.Itoa(i), "x"}
		}
		list[n-1] = input{"email", "last@example.com"}
		return list
	}
	for name, r := range encodings(t, fields(1000)) {
		l := one(t, r, source())
		require.Len(t, l.Answers, 1000, name)
		require.Equal(t, "last@example.com", l.Contact.Email, name)
	}
	for name, r := range encodings(t, fields(5000)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, r, "more than", "000")
		})
	}
	all := encodings(t, fields(1001))
	refused(t, all["urlencoded"], "more than 1000 fields")
	refused(t, all["multipart"], "more than 1000 fields")
	refused(t, browser("application/json", strings.Repeat(`{"a":`, 40)+"1"+strings.Repeat("}", 40)), "16")
}
