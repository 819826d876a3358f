package capiloop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/capi/capitest"
)

// report is the README's snippet, as it stands there.
func report(ctx context.Context, client *capi.Client) error {
	event := capi.Event{
		EventName: "Lead", EventTime: time.Now().Unix(), EventID: "lead-1001", ActionSource: capi.ActionSourceSystemGenerated,
		UserData: capi.UserData{Email: []string{" Jane@Example.com "}, Phone: []string{"8 701 234 56 78"}},
	}
	problems := event.Normalise(capi.Locale{Country: "KZ"})    // now hashed
	problems = append(problems, event.Validate(time.Now())...) // what Meta would refuse
	if err := problems.Err(); err != nil {
		return err
	}
	result, err := client.Send(ctx, "1234567890", capi.Batch{Events: []json.RawMessage{event.AppendJSON(nil)}})
	if refused, ok := errors.AsType[*capi.APIError](err); ok {
		return fmt.Errorf("%s: %w", refused.Class, refused) // retry, throttled, access, payload …
	}
	fmt.Println("events received:", result.EventsReceived)
	return err
}

func Example() {
	graph := httptest.NewServer(capitest.New(capitest.Options{}))
	defer graph.Close()
	client, err := capi.NewClient(capi.Config{BaseURL: graph.URL, Token: "token-from-events-manager"})
	if err == nil {
		err = report(context.Background(), client)
	}
	if err != nil {
		fmt.Println(err)
	}
	// Output: events received: 1
}

// TestTheReadmeShowsTheExample compares the README's Go snippet with report, which
// compiles and runs.
func TestTheReadmeShowsTheExample(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	page, err := os.ReadFile("README.md")
	require.NoError(t, err)
	list, _ := blocks(string(page))
	for _, b := range list {
		if b.language != "go" {
			continue
		}
		for line := range strings.Lines(b.text) {
			code := strings.Join(strings.Fields(line), " ")
			require.Contains(t, strings.Join(strings.Fields(string(source)), " "), code, "this line of the README is not in the example")
		}
	}
}
