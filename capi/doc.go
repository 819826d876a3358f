// Package capi is Meta's Conversions API for Go: the events with Meta's own
// field names, the normalising and hashing of what identifies a person, the
// checks that Meta makes before it accepts an event, and a client that sends
// them and tells what an answer means.
//
// The way of an event through the package:
//
//	var e capi.Event                              // or json.Unmarshal, which is tolerant of what SDKs send
//	problems := e.Normalise(capi.Locale{Country: "KZ"})  // raw values become hashes; what cannot be made right is left out
//	problems = append(problems, e.Validate(time.Now())...) // what Meta would refuse or ignore
//	result, err := client.Send(ctx, datasetID, capi.Batch{Events: …})
//
// The package never logs, never keeps state between calls, never puts an access
// token into an error, nor into a URL (but for Reader.DebugToken, whose endpoint takes
// it nowhere else), and imports nothing of Capiloop's other packages.
//
// Rules follow Meta's documentation (developers.facebook.com, Conversions API,
// state of September 2026); where Meta's own libraries disagree with it, the
// documentation wins. Each rule names its page.
package capi
