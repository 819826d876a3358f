package e2e_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi/capitest"
)

const (
	pageID      = "555000111222333"
	formID      = "3000000000000777"
	googleKey   = "google-key-that-nobody-may-see"
	tiktokKey   = "tiktok-secret-that-nobody-may-see"
	linkedinKey = "linkedin-secret-that-nobody-may-see"
	crmSecret   = "whsec_bm9ib2R5LW1heS1zZWUtdGhpcy1rZXktb2YtYS1jcm0="

	// The secret parts of the sources' addresses.
	metaHook     = "hookOfMetaForms4Yc9Qv2XeLt7"
	googleHook   = "hookOfGoogleForms8Rb3Wn6Zk1"
	tiktokHook   = "hookOfTiktokForms5Hd7Mp0Ju2"
	linkedinHook = "hookOfLinkedinForms3Fs6Ga9Tx"
	siteHook     = "hookOfTheWebsite1Vq8Ei4Bo7y"
	crmHook      = "hookOfTheCRM6Jw3Ny9Kd5Ub2Xs"

	// In each name and in each answer of these tests, so that one search finds any.
	rawName   = "Zyxwelina"
	rawAnswer = "trescientosmil"
	rawNumber = "+7 701 2" // how each number begins, as it is typed
)

// leadRig is a rig with sources of leads and a CRM.
type leadRig struct {
	*rig
	crm *fakeCRM
}

func newLeadRig(t *testing.T, s setup) *leadRig {
	t.Helper()
	crm := newFakeCRM(t)
	s.lines = `    sources:
      - {kind: meta_leads, name: forms, page_id: "` + pageID + `", page_token: "${SHOP_TOKEN}", app_secret: "${SHOP_SECRET}", verify_token: verify-me, url: "GRAPH", webhook: ` + metaHook + `}
      - {kind: google_leads, name: google, key: ` + googleKey + `, webhook: ` + googleHook + `}
      - {kind: tiktok_leads, name: tiktok, app_secret: ` + tiktokKey + `, webhook: ` + tiktokHook + `}
      - {kind: linkedin_leads, name: linkedin, client_secret: ` + linkedinKey + `, token: "${SHOP_TOKEN}", url: "` + crm.url + `", webhook: ` + linkedinHook + `}
      - {kind: website, name: site, webhook: ` + siteHook + `}
    crms:
      - {kind: webhook, name: crm, url: "` + crm.url + `/leads", secret: "` + crmSecret + `", allow_private: true, webhook: ` + crmHook + `}
` + s.rules
	s.private = append(s.private, googleKey, tiktokKey, linkedinKey, crmSecret, rawName, rawAnswer, rawNumber)
	for n := range 10 { // and some as they are kept; a shorter text could be part of any id
		s.private = append(s.private, strconv.Itoa(77_012_000_000+n))
	}
	l := &leadRig{rig: newRig(t, s), crm: crm}
	l.graph.AddForm(capitest.Form{ID: formID, PageID: pageID, Name: "Category B", Questions: []string{"email", "phone_number", "full_name", "presupuesto"}})
	return l
}

// person fills in a form.
type person struct {
	n                  int
	id                 string // at the platform, or of the submission
	email, phone, name string
	question, answer   string
	fbc                string // of the website's visitor who clicked on an ad of Meta's
}

// somebody is a person like no other.
func somebody(n int) person {
	p := person{
		n: n, id: strconv.Itoa(1_700_000_000_000_000 + n), email: fmt.Sprintf("lead-%04d%s", n, rawDomain), phone: fmt.Sprintf("%s%06d", rawNumber, n),
		name: fmt.Sprintf("%s Núñez-%d", rawName, n), question: "budget", answer: fmt.Sprintf("up to %s €, now #%d", rawAnswer, n),
	}
	if n%2 == 1 {
		p.question, p.answer = "¿cuándo_quieres_mudarte?", fmt.Sprintf("mañana, %s € #%d", rawAnswer, n)
	}
	return p
}

// meta makes the lead at Graph; nobody is told of it.
func (l *leadRig) meta(p person, created time.Time) {
	l.graph.AddLead(capitest.Lead{ID: p.id, FormID: formID, PageID: pageID, Created: created, AdID: "120200000000000001", Fields: []capitest.Field{
		{Name: "full_name", Values: []string{p.name}},
		{Name: "email", Values: []string{p.email}},
		{Name: "phone_number", Values: []string{p.phone}},
		{Name: p.question, Values: []string{p.answer}},
	}})
}

// announce sends the webhook of Meta leads.
func (l *leadRig) announce(t *testing.T, list ...person) error {
	var ids []string
	for _, p := range list {
		ids = append(ids, p.id)
	}
	status, err := l.graph.DeliverLeads(t.Context(), l.url()+"/webhooks/"+metaHook, appSecret, ids...)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("the webhook answered %d", status)
	}
	return err
}

func (l *leadRig) google(t *testing.T, p person) error {
	column := func(id, value string) event { return event{"column_id": id, "string_value": value} }
	return l.hook(googleHook, encode(t, event{
		"google_key": googleKey, "lead_id": p.id, "form_id": 40000000001, "campaign_id": 50000000001, "gcl_id": fmt.Sprint("click-", p.n), "is_test": false,
		"user_column_data": []event{column("FULL_NAME", p.name), column("EMAIL", p.email), column("PHONE_NUMBER", p.phone), column(p.question, p.answer)},
	}))
}

func (l *leadRig) tiktok(t *testing.T, p person) error {
	change := func(field, value string) event { return event{"field": field, "value": value} }
	body := encode(t, event{"object": 1, "time": l.clock.Now().Unix(), "entry": []event{{
		"id": p.id, "lead_source": "INSTANT_FORM", "page_id": "7500000000000000200", "page_name": "Form A", "create_time": l.clock.Now().Unix(),
		"changes": []event{change("name", p.name), change("email", p.email), change("phone_number", p.phone), change(p.question, p.answer)},
	}}})
	return l.hook(tiktokHook, body, "X-Open-Signature", hmacOf(tiktokKey, "", body))
}

// linkedin has LinkedIn's API know the lead and announces it.
func (l *leadRig) linkedin(t *testing.T, p person) error {
	l.crm.addLinkedIn(p, l.clock.Now())
	body := encode(t, event{
		"type": "LEAD_ACTION", "leadGenFormResponse": "urn:li:leadGenFormResponse:" + p.id, "leadAction": "CREATED", "leadType": "SPONSORED",
		"occurredAt": l.clock.Now().UnixMilli(),
	})
	return l.hook(linkedinHook, body, "X-LI-Signature", hmacOf(linkedinKey, "hmacsha256=", body))
}

func (l *leadRig) website(t *testing.T, p person) error {
	return l.hook(siteHook, encode(t, event{
		"submission_id": p.id, "name": p.name, "email": p.email, "phone": p.phone, p.question: p.answer, "page_url": "https://costa.example.com/villa?gclid=abc", "fbc": p.fbc,
	}))
}

func (l *leadRig) api(t *testing.T, p person) error {
	status, answer, err := l.try(http.MethodPost, "/v1/leads", encode(t, event{
		"lead_id": p.id, "platform": "meta", "email": p.email, "phone": p.phone, "full_name": p.name, "answers": event{p.question: p.answer},
	}))
	if err == nil && status != http.StatusCreated && status != http.StatusOK {
		err = fmt.Errorf("POST /v1/leads: %d %s", status, answer)
	}
	return err
}

// hook posts to a source's address, which wants 200.
func (l *leadRig) hook(key string, body []byte, headers ...string) error {
	status, answer, err := l.try(http.MethodPost, "/webhooks/"+key, body, headers...)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("the webhook answered %d %s", status, answer)
	}
	return err
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return b
}

func hmacOf(key, before string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(before))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

// arrived waits until the CRM has leads of so many different persons.
func (l *leadRig) arrived(t *testing.T, n int, limit time.Duration) {
	t.Helper()
	for began := time.Now(); l.crm.persons() < n; time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > limit {
			t.Fatalf("after %s the CRM has %d of %d leads", limit, l.crm.persons(), n)
		}
	}
}

// once wants each person's lead in the CRM exactly once, complete, and nobody else's.
func (l *leadRig) once(t *testing.T, list []person) {
	t.Helper()
	taken := l.crm.taken()
	require.Len(t, taken, len(list), "calls that the CRM took")
	ids, byEmail := make(map[string]bool), make(map[string]crmCall)
	for _, c := range taken {
		require.False(t, ids[c.id], "webhook-id %s came twice", c.id)
		ids[c.id] = true
		_, twice := byEmail[c.body["email"].(string)]
		require.False(t, twice, "a person came twice: lead %v", c.body["lead_id"])
		byEmail[c.body["email"].(string)] = c
	}
	for _, p := range list {
		c, ok := byEmail[p.email]
		require.True(t, ok, "person %d is not in the CRM", p.n)
		require.Equal(t, p.name, c.body["full_name"], "%v", c.body)
		require.True(t, c.has(p.answer), "the answer of person %d is lost: %v", p.n, c.body)
	}
}

// fakeCRM takes leads, and can be in trouble.
type fakeCRM struct {
	url string

	mu       sync.Mutex
	calls    []crmCall
	delay    time.Duration
	mode     func(n int) string // what to do with the n-th call: ok, down, hang, cut
	linkedIn map[string]event
}

type crmCall struct {
	id    string // webhook-id
	at    time.Time
	body  map[string]any
	taken bool
}

func (c crmCall) has(answer string) bool {
	for key, value := range c.body {
		if strings.HasPrefix(key, "answer_") && value == answer {
			return true
		}
	}
	return false
}

func newFakeCRM(t *testing.T) *fakeCRM {
	t.Helper()
	c := &fakeCRM{linkedIn: make(map[string]event)}
	s := httptest.NewServer(c)
	c.url = s.URL
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return c
}

// ServeHTTP takes a lead, or is LinkedIn.
func (c *fakeCRM) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if id, ok := strings.CutPrefix(r.URL.Path, "/rest/leadFormResponses/"); ok {
		c.serveLinkedIn(w, id)
		return
	}
	body, err := io.ReadAll(r.Body)
	call := crmCall{id: r.Header.Get("Webhook-Id"), at: time.Now()}
	if err != nil || json.NewDecoder(bytes.NewReader(body)).Decode(&call.body) != nil || call.id == "" || r.Header.Get("Webhook-Signature") == "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	mode, delay := "ok", c.delay
	if c.mode != nil {
		mode = c.mode(len(c.calls))
	}
	call.taken = mode == "ok" || mode == "cut"
	c.calls = append(c.calls, call)
	c.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-r.Context().Done():
	}
	switch mode {
	case "down":
		w.WriteHeader(http.StatusServiceUnavailable)
	case "hang":
		select {
		case <-time.After(3 * time.Second):
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	case "cut":
		panic(http.ErrAbortHandler)
	default:
		_, _ = w.Write([]byte(`{"ok":true}`))
	}
}

// behave says how the CRM answers from now on.
func (c *fakeCRM) behave(delay time.Duration, mode func(int) string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.delay, c.mode = delay, mode
}

func always(mode string) func(int) string { return func(int) string { return mode } }

// taken lists the calls whose leads the CRM has kept, in the order of their arrival.
func (c *fakeCRM) taken() []crmCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.calls), func(c crmCall) bool { return !c.taken })
}

func (c *fakeCRM) persons() int {
	emails := make(map[any]bool)
	for _, call := range c.taken() {
		emails[call.body["email"]] = true
	}
	return len(emails)
}

func (c *fakeCRM) addLinkedIn(p person, at time.Time) {
	question := func(id int, field, name string) event {
		q := event{"questionId": id, "name": name, "questionDetails": event{"textQuestionDetails": event{"maxResponseLength": 300}}}
		if field != "" {
			q["predefinedField"] = field
		}
		return q
	}
	answer := func(id int, value string) event {
		return event{"questionId": id, "answerDetails": event{"textQuestionAnswer": event{"answer": value}}}
	}
	first, last, _ := strings.Cut(p.name, " ")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.linkedIn[p.id] = event{
		"id": p.id, "submittedAt": at.UnixMilli(), "leadType": "SPONSORED", "testLead": false,
		"owner":                   event{"sponsoredAccount": "urn:li:sponsoredAccount:500000001"},
		"versionedLeadGenFormUrn": "urn:li:versionedLeadGenForm:(urn:li:leadGenForm:3162,1)",
		"form": event{"id": 3162, "name": "Form L", "content": event{"questions": []event{
			question(1, "FIRST_NAME", "First name"), question(5, "LAST_NAME", "Last name"), question(2, "EMAIL", "email"), question(3, "PHONE_NUMBER", "phone"), question(4, "", p.question),
		}}},
		"formResponse": event{"answers": []event{answer(1, first), answer(5, last), answer(2, p.email), answer(3, p.phone), answer(4, p.answer)}},
	}
}

func (c *fakeCRM) serveLinkedIn(w http.ResponseWriter, id string) {
	c.mu.Lock()
	lead, ok := c.linkedIn[id]
	c.mu.Unlock()
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(lead)
}
