package capi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/capiloop/capiloop/capi"
)

func ExampleClient_Send() {
	meta := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `{"events_received":1,"messages":[],"fbtrace_id":"AbCdEf"}`)
	}))
	defer meta.Close()

	client, err := capi.NewClient(capi.Config{BaseURL: meta.URL, Token: "token-from-events-manager"})
	if err != nil {
		fmt.Println(err)
		return
	}
	event := json.RawMessage(`{"event_name":"Lead","event_time":1764532800,"action_source":"system_generated",` +
		`"user_data":{"lead_id":1234567890123456}}`)
	result, err := client.Send(context.Background(), "1234567890", capi.Batch{Events: []json.RawMessage{event}})
	if refused, ok := errors.AsType[*capi.APIError](err); ok {
		fmt.Println(refused.Class, refused) // the class says what to do with the events, the text what a person can do
		return
	}
	fmt.Println(result.EventsReceived, result.FBTraceID)
	// Output: 1 AbCdEf
}

func ExampleEvent_Validate() {
	now := time.Date(2026, 11, 30, 20, 0, 0, 0, time.UTC)
	event := capi.Event{
		EventName:    "Purchase",
		EventTime:    now.AddDate(0, 0, -8).Unix(),
		EventID:      "order-1001",
		ActionSource: "physical_shop",
		UserData:     capi.UserData{LeadID: "1234567890123456"},
		CustomData:   &capi.CustomData{Value: "142.52", Currency: "EUR"},
	}
	for _, p := range event.Validate(now) {
		fmt.Println(p.Severity, p.Code, "-", p)
	}
	// Output:
	// error too_old - event_time: the event is more than 7 days old
	// error action_source_unknown - action_source: Meta knows no such action source
	// warning lead_id_alone - user_data.lead_id: the lead id is the only key; Meta's page allows it, some senders saw it refused
}

func ExampleExplain() {
	x := capi.Explain(100, 33)
	fmt.Println(x.Title)
	fmt.Println(x.Owner, x.Class, x.Retried)
	// Output:
	// the dataset is not there for this token
	// client access waits
}
