package capi

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var validateNow = time.Date(2026, 11, 30, 20, 0, 0, 0, time.UTC)

const someHash = "62a14e44f765419d10fea99367361a727c12365e2520f32218d505ed9aa0f62f"

// goodEvent is a website event without any problem.
func goodEvent() *Event {
	return &Event{
		EventName: "Lead", EventTime: validateNow.Unix() - 60, EventID: "id-1", ActionSource: ActionSourceWebsite,
		EventSourceURL: "https://shop.example.com/thanks",
		UserData: UserData{
			Email: []string{someHash}, ClientUserAgent: "Mozilla/5.0", ClientIPAddress: "2001:db8::1",
			FBC: "fb.1.1759269000123.IwAR2F4.x_-y", FBP: "fb.1.1759200000456.1116446470",
		},
	}
}

func appEvent(extInfo ...string) func(*Event) {
	return func(e *Event) {
		e.ActionSource = ActionSourceApp
		e.AppData = &AppData{ExtInfo: extInfo, AdvertiserTrackingEnabled: new(bool)}
	}
}

func sixteen(first, version string) []string {
	list := make([]string, 16)
	list[0], list[4] = first, version
	return list
}

func messageEvent(name, channel string, u UserData) func(*Event) {
	return func(e *Event) {
		e.ActionSource, e.EventName, e.MessagingChannel, e.EventID, e.UserData = ActionSourceBusinessMessaging, name, channel, "", u
	}
}

func crmEvent(e *Event) {
	e.ActionSource = ActionSourceSystemGenerated
	e.UserData = UserData{LeadID: "1234567890123456", Email: []string{someHash}}
	e.CustomData = &CustomData{EventSource: "crm", LeadEventSource: "HubSpot"}
}

func ldu(options []string, country, state int) func(*Event) {
	return func(e *Event) {
		e.DataProcessingOptions = options
		if country >= 0 {
			e.DataProcessingOptionsCountry = &country
		}
		if state >= 0 {
			e.DataProcessingOptionsState = &state
		}
	}
}

func custom(d CustomData) func(*Event) { return func(e *Event) { e.CustomData = &d } }

func purchase(d *CustomData) func(*Event) {
	return func(e *Event) { e.EventName, e.CustomData = "Purchase", d }
}

func keysOnly(u UserData) func(*Event) {
	return func(e *Event) { e.ActionSource, e.UserData = ActionSourceChat, u }
}

func aged(age time.Duration, source ActionSource) func(*Event) {
	return func(e *Event) { e.EventTime, e.ActionSource = validateNow.Add(-age).Unix(), source }
}

const day = 24 * time.Hour

// validateCases: want lists the problems as "severity field code".
var validateCases = map[string]struct {
	change func(*Event)
	want   []string
}{
	"good": {func(*Event) {}, nil},

	"no name":             {func(e *Event) { e.EventName = " " }, []string{"error event_name event_name_missing"}},
	"name of 50":          {func(e *Event) { e.EventName = strings.Repeat("é", 50) }, nil},
	"name of 51":          {func(e *Event) { e.EventName = strings.Repeat("a", 51) }, []string{"warning event_name event_name_long"}},
	"no id":               {func(e *Event) { e.EventID = "" }, []string{"warning event_id event_id_missing"}},
	"opt_out":             {func(e *Event) { e.OptOut = new(bool) }, nil},
	"C128: no time":       {func(e *Event) { e.EventTime = 0 }, []string{"error event_time event_time_missing"}},
	"7 days less 1 s":     {aged(7*day-time.Second, ActionSourceChat), nil},
	"C126: over 7 days":   {aged(7*day+time.Second, ActionSourceChat), []string{"error event_time too_old"}},
	"C125: store, 30 d":   {aged(30*day, ActionSourcePhysicalStore), nil},
	"C125: store, 63 d":   {aged(63*day, ActionSourcePhysicalStore), []string{"error event_time too_old"}},
	"before 1970":         {func(e *Event) { e.EventTime = -5 }, []string{"error event_time too_old"}},
	"C122: 30 s ahead":    {aged(-30*time.Second, ActionSourceChat), nil},
	"C122: 10 min ahead":  {aged(-10*time.Minute, ActionSourceChat), []string{"error event_time in_future"}},
	"milliseconds":        {func(e *Event) { e.EventTime = validateNow.UnixMilli() }, []string{"error event_time in_future"}},
	"no source":           {func(e *Event) { e.ActionSource = "" }, []string{"warning action_source action_source_missing"}},
	"unknown source":      {func(e *Event) { e.ActionSource = "shop" }, []string{"error action_source action_source_unknown"}},
	"source in capitals":  {func(e *Event) { e.ActionSource = " Website" }, nil},
	"website without URL": {func(e *Event) { e.EventSourceURL = "" }, []string{"warning event_source_url event_source_url_missing"}},
	"website, half a URL": {func(e *Event) { e.EventSourceURL = "/thanks" }, []string{"warning event_source_url event_source_url_invalid"}},
	"website without UA":  {func(e *Event) { e.UserData.ClientUserAgent = "" }, []string{"warning user_data.client_user_agent client_user_agent_missing"}},

	"C198: no keys":  {keysOnly(UserData{}), []string{"error user_data no_match_key"}},
	"C198: UA alone": {keysOnly(UserData{ClientUserAgent: "UA"}), []string{"error user_data weak_match_keys"}},
	"UA and IP":      {keysOnly(UserData{ClientUserAgent: "UA", ClientIPAddress: "203.0.113.9"}), nil},
	"place and gender": {keysOnly(UserData{
		City: []string{someHash}, Country: []string{someHash}, State: []string{someHash}, Zip: []string{someHash},
		Gender: []string{someHash}, ClientUserAgent: "UA",
	}), []string{"error user_data weak_match_keys"}},
	"birth date and UA":  {keysOnly(UserData{BirthDate: []string{someHash}, ClientUserAgent: "UA"}), []string{"error user_data weak_match_keys"}},
	"birth and gender":   {keysOnly(UserData{BirthDate: []string{someHash}, Gender: []string{someHash}}), nil},
	"first name, gender": {keysOnly(UserData{FirstName: []string{someHash}, Gender: []string{someHash}}), []string{"error user_data weak_match_keys"}},
	"last name":          {keysOnly(UserData{LastName: []string{someHash}}), []string{"error user_data weak_match_keys"}},
	"both names":         {keysOnly(UserData{FirstName: []string{someHash}, LastName: []string{someHash}}), nil},
	"fbp alone":          {keysOnly(UserData{FBP: "fb.1.1759200000456.1"}), nil},
	"lead id alone":      {keysOnly(UserData{LeadID: "123456789012345"}), []string{"warning user_data.lead_id lead_id_alone"}},
	"lead id, 14 digits": {keysOnly(UserData{LeadID: "12345678901234", FBP: "fb.1.1759200000456.1"}), []string{"error user_data.lead_id invalid_lead_id"}},
	"lead id, rounded":   {keysOnly(UserData{LeadID: "1.2345678901E+16", FBP: "fb.1.1759200000456.1"}), []string{"error user_data.lead_id invalid_lead_id"}},

	"C074: city not hashed":    {func(e *Event) { e.UserData.City = []string{"london"} }, []string{"error user_data.ct not_hashed"}},
	"capital hash":             {func(e *Event) { e.UserData.Email = []string{strings.ToUpper(someHash)} }, []string{"error user_data.em not_hashed"}},
	"hash with ending":         {func(e *Event) { e.UserData.Email = []string{someHash + ".AQQCAQIB", someHash + ".Ag"} }, nil},
	"hash with bad ending":     {func(e *Event) { e.UserData.Email = []string{someHash + ".AQQ!AQIB"} }, []string{"error user_data.em not_hashed"}},
	"hash with an empty one":   {func(e *Event) { e.UserData.Email = []string{someHash + "."} }, []string{"error user_data.em not_hashed"}},
	"external id plain":        {func(e *Event) { e.UserData.ExternalID = []string{"cust-42"} }, []string{"warning user_data.external_id not_hashed"}},
	"C096: fbc without end":    {func(e *Event) { e.UserData.FBC = "fb.1.1750000000000." }, []string{"warning user_data.fbc invalid_click_id"}},
	"fbp of another form":      {func(e *Event) { e.UserData.FBP = "1116446470" }, []string{"warning user_data.fbp invalid_click_id"}},
	"IP with ending":           {func(e *Event) { e.UserData.ClientIPAddress = "203.0.113.9.AQQCAQIB" }, nil},
	"IP with port":             {func(e *Event) { e.UserData.ClientIPAddress = "203.0.113.9:80" }, []string{"warning user_data.client_ip_address invalid_ip"}},
	"IP no address":            {func(e *Event) { e.UserData.ClientIPAddress = "unknown" }, []string{"warning user_data.client_ip_address invalid_ip"}},
	"C183: Purchase, nothing":  {purchase(nil), []string{"error custom_data.value purchase_value_missing", "error custom_data.currency currency_missing"}},
	"Purchase":                 {purchase(&CustomData{Value: "142.52", Currency: "EUR"}), nil},
	"Purchase of 0":            {purchase(&CustomData{Value: "0", Currency: "EUR"}), nil},
	"C133: no currency":        {purchase(&CustomData{Value: "1000"}), []string{"error custom_data.currency currency_missing"}},
	"C139: Lead without value": {custom(CustomData{}), nil},
	"C139: Lead of 0":          {custom(CustomData{Value: "0", Currency: "EUR"}), nil},
	"Lead without currency":    {custom(CustomData{Value: "5"}), []string{"warning custom_data.currency currency_missing"}},
	"negative":                 {custom(CustomData{Value: "-5", Currency: "EUR"}), []string{"warning custom_data.value negative_value"}},
	"C131: NaN":                {custom(CustomData{Value: "NaN", Currency: "EUR"}), []string{"error custom_data.value invalid_value"}},
	"C131: Infinity":           {custom(CustomData{Value: "Infinity", Currency: "EUR"}), []string{"error custom_data.value invalid_value"}},
	"C131: hexadecimal":        {custom(CustomData{Value: "0x1p4", Currency: "EUR"}), []string{"error custom_data.value invalid_value"}},
	"C131: underscore":         {custom(CustomData{Value: "1_000", Currency: "EUR"}), []string{"error custom_data.value invalid_value"}},
	"out of range":             {custom(CustomData{Value: "1e999", Currency: "EUR"}), []string{"error custom_data.value invalid_value"}},
	"predicted_ltv":            {custom(CustomData{PredictedLTV: "lots"}), []string{"error custom_data.predicted_ltv invalid_value"}},
	"item price":               {custom(CustomData{Contents: []Content{{ItemPrice: "9,99"}}}), []string{"error custom_data.contents.item_price invalid_value"}},
	"C135: unknown to Meta":    {purchase(&CustomData{Value: "1", Currency: "XBT"}), []string{"error custom_data.currency unknown_currency"}},
	"C134: small currency":     {custom(CustomData{Value: "1", Currency: "usd"}), []string{"error custom_data.currency unknown_currency"}},

	"crm": {crmEvent, nil},
	"crm, Purchase without value": {func(e *Event) { crmEvent(e); e.EventName = "Purchase" }, []string{
		"warning custom_data.value purchase_value_missing", "warning custom_data.currency currency_missing",
	}},
	"crm without its name":     {func(e *Event) { crmEvent(e); e.CustomData.LeadEventSource = "" }, []string{"warning custom_data.lead_event_source crm_fields_incomplete"}},
	"crm name alone":           {func(e *Event) { crmEvent(e); e.CustomData.EventSource = "" }, []string{"warning custom_data.event_source crm_fields_incomplete"}},
	"crm from another channel": {func(e *Event) { crmEvent(e); e.ActionSource = ActionSourceChat }, []string{"warning action_source crm_action_source"}},

	"app":              {appEvent(sixteen("a2", "14")...), nil},
	"app, iOS":         {appEvent(sixteen("i2", "18.1")...), nil},
	"app, 15 entries":  {appEvent(sixteen("a2", "14")[:15]...), []string{"error app_data.extinfo extinfo_invalid"}},
	"app, other kind":  {appEvent(sixteen("w1", "14")...), []string{"error app_data.extinfo extinfo_invalid"}},
	"app, no version":  {appEvent(sixteen("a2", "")...), []string{"error app_data.extinfo extinfo_invalid"}},
	"app without data": {func(e *Event) { e.ActionSource = ActionSourceApp }, []string{"error app_data.extinfo extinfo_invalid", "warning app_data.advertiser_tracking_enabled advertiser_tracking_missing"}},

	"whatsapp":             {messageEvent("LeadSubmitted", "whatsapp", UserData{CTWAClid: "x", PageID: "1"}), nil},
	"whatsapp, wrong name": {messageEvent("Lead", "whatsapp", UserData{CTWAClid: "x", WABusinessID: "1"}), []string{"error event_name messaging_event_name"}},
	"whatsapp, no click":   {messageEvent("ViewContent", "whatsapp", UserData{WABusinessID: "1"}), []string{"error user_data.ctwa_clid ctwa_clid_missing"}},
	"whatsapp, no sender":  {messageEvent("ViewContent", "whatsapp", UserData{CTWAClid: "x"}), []string{"warning user_data messaging_identity_missing"}},
	"messenger":            {messageEvent("AddToCart", "messenger", UserData{PageID: "1", PageScopedUserID: "2"}), nil},
	"messenger, half":      {messageEvent("AddToCart", "messenger", UserData{PageID: "1"}), []string{"warning user_data messaging_identity_missing"}},
	"instagram":            {messageEvent("AddToCart", "instagram", UserData{IGBusinessID: "1", IGSID: "2"}), nil},
	"instagram, half":      {messageEvent("AddToCart", "instagram", UserData{IGSID: "2"}), []string{"warning user_data messaging_identity_missing"}},
	"no channel":           {messageEvent("AddToCart", "", UserData{PageID: "1"}), []string{"warning messaging_channel messaging_channel_missing", "error user_data.ctwa_clid ctwa_clid_missing"}},

	"LDU":                   {ldu([]string{"LDU"}, 1, 1000), nil},
	"LDU geolocated":        {ldu([]string{"LDU"}, 0, 0), nil},
	"explicitly no LDU":     {ldu([]string{}, -1, -1), nil},
	"LDU without country":   {ldu([]string{"LDU"}, -1, 1000), []string{"warning data_processing_options ldu_incomplete"}},
	"LDU without state":     {ldu([]string{"LDU"}, 1, -1), []string{"warning data_processing_options ldu_incomplete"}},
	"LDU, other country":    {ldu([]string{"LDU"}, 49, 1000), []string{"warning data_processing_options_country ldu_incomplete"}},
	"LDU, other state":      {ldu([]string{"LDU"}, 1, 1014), []string{"warning data_processing_options_state ldu_incomplete"}},
	"LDU, unknown option":   {ldu([]string{"GDPR"}, 1, 1000), []string{"warning data_processing_options ldu_incomplete"}},
	"country without LDU":   {ldu(nil, 1, -1), []string{"warning data_processing_options ldu_incomplete"}},
	"geolocated, no IP":     {func(e *Event) { ldu([]string{"LDU"}, 0, 0)(e); e.UserData.ClientIPAddress = "" }, []string{"warning user_data.client_ip_address ldu_incomplete"}},
	"large":                 {custom(CustomData{Extra: map[string]json.RawMessage{"x": make([]byte, maxEventSize+1)}}), []string{"warning event too_large"}},
	"large by its contents": {custom(CustomData{Contents: []Content{{Description: strings.Repeat("x", maxEventSize+1)}}}), []string{"warning event too_large"}},
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for name, c := range validateCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := goodEvent()
			c.change(e)
			var got []string
			for _, p := range e.Validate(validateNow) {
				got = append(got, fmt.Sprintf("%s %s %s", p.Severity, p.Field, p.Code))
				require.NotEmpty(t, p.Reason)
				require.NotEmpty(t, p.Fix)
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestValidateNamesWeakKeys(t *testing.T) {
	t.Parallel()
	e := goodEvent()
	e.ActionSource = ActionSourceChat
	e.UserData = UserData{FirstName: []string{someHash}, Gender: []string{someHash}}
	require.Equal(t, "Meta refuses the combination fn,ge as too broad", e.Validate(validateNow)[0].Reason)
}

func TestValidateShowsNoValues(t *testing.T) {
	t.Parallel()
	e := &Event{
		EventName: "SECRETNAME" + strings.Repeat("x", 50), ActionSource: "secretsource", EventSourceURL: "secreturl",
		UserData:   UserData{Email: []string{"secret@example.com"}, FBC: "secretfbc", ClientIPAddress: "secretip", LeadID: "secretlead"},
		CustomData: &CustomData{Value: "secretvalue", Currency: "secretcurrency"}, DataProcessingOptions: []string{"secretoption"},
	}
	require.NotContains(t, strings.ToLower(fmt.Sprintf("%+v", e.Validate(validateNow))), "secret")
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	e := &Event{EventTime: 1750000000}
	require.Equal(t, int64(1750000000+7*24*3600), Deadline(e).Unix())
	e.ActionSource = ActionSourcePhysicalStore
	require.Equal(t, int64(1750000000+62*24*3600), Deadline(e).Unix())
}

func BenchmarkValidate(b *testing.B) {
	e := goodEvent()
	b.ReportAllocs()
	for b.Loop() {
		if len(e.Validate(validateNow)) != 0 {
			b.Fatal("problems")
		}
	}
}
