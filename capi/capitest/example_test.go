package capitest_test

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/capiloop/capiloop/capi/capitest"
)

// A sender is given the stand-in in place of https://graph.facebook.com. Here the
// connection breaks after the event was taken in, and the sender tries again.
func Example() {
	graph := capitest.New(capitest.Options{})
	graph.Fault(capitest.Fault{Mode: capitest.ModeReset, Count: 1})
	client := &http.Client{Transport: capitest.Transport(graph)} // or httptest.NewServer(graph)

	body := fmt.Sprintf(`{"data":[{"event_name":"Lead","event_id":"lead-77","event_time":%d,"action_source":"website",
		"user_data":{"em":"62a14e44f765419d10fea99367361a727c12365e2520f32218d505ed9aa0f62f"}}]}`, time.Now().Unix())
	for range 2 {
		res, err := client.Post("https://graph.facebook.com/v26.0/1234567890/events?access_token=any", "application/json", strings.NewReader(body))
		if err != nil {
			fmt.Println("broken, and nobody knows whether it arrived")
			continue
		}
		fmt.Println(res.Status)
		_ = res.Body.Close()
	}

	fmt.Println("arrived", graph.Times("1234567890", "Lead", "lead-77"), "times")
	fmt.Println("counted", len(graph.Kept("1234567890")))
	fmt.Println("under a second id", len(graph.SecondIDs()))
	// Output:
	// broken, and nobody knows whether it arrived
	// 200 OK
	// arrived 2 times
	// counted 1
	// under a second id 0
}
