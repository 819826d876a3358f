package record_test

import (
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/record"
)

// BenchmarkRecordOne is what one event costs to record, the disk included: one that the
// guard has nothing to do with, and a purchase, whose value it knows.
func BenchmarkRecordOne(b *testing.B) {
	for _, name := range []string{"ViewContent", "Purchase"} {
		b.Run(name, func(b *testing.B) {
			d := newDeskOn(b, filepath.Join(b.TempDir(), "capiloop.db"))
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				item := record.Item{Dataset: "1", Event: &capi.Event{
					EventName: name, EventID: strconv.Itoa(n), EventTime: time.Now().Unix(), ActionSource: capi.ActionSourceWebsite,
					EventSourceURL: "https://shop.example.com/", CustomData: &capi.CustomData{Value: "45.00", Currency: "EUR", ContentIDs: []string{"tee"}},
					UserData: capi.UserData{Email: []string{"jane@example.com"}, ClientIPAddress: "203.0.113.7", ClientUserAgent: "Mozilla/5.0 (X11) Firefox/140"},
				}}
				if _, err := d.Record(b.Context(), record.Request{Workspace: d.ws, Source: "shop", Items: []record.Item{item}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
