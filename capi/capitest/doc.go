// Package capitest is a strict stand-in for Meta's Graph API: the Conversions
// API with Meta's checks and its deduplication, lead ads, the reads that a
// sender makes about its token and dataset, and faults on demand. It is one
// http.Handler and needs no network.
//
//	graph := capitest.New(capitest.Options{})
//	server := httptest.NewServer(graph)   // or &http.Client{Transport: capitest.Transport(graph)}
//	… let the code under test send to server.URL …
//	require.Len(t, graph.Kept("1234567890"), 1)
//	require.Equal(t, 1, graph.Times("1234567890", "Lead", "lead-77"))
//
// In: whatever Meta's own SDKs send (JSON, urlencoded, multipart, events encoded
// once or twice). Out: Graph's answers, and what a test wants to know: each event
// with its Outcome, how often each id arrived, how large the requests were.
//
// It judges the raw JSON by itself and shares no code with package capi, so that
// it can prove that package. Where Meta's pages are silent it is rather too strict
// than too lax; each such choice is a Switch in Rules. Nothing here was compared
// with the live API by us: rules name the page of developers.facebook.com they
// come from, or say that practice reports them.
//
// From another process the same is reached over HTTP:
//
//	GET    /                      a page that shows the events as they arrive
//	GET    /_sandbox/events       ?dataset= &event_name= &event_id= &outcome= &test_event_code= &since= &limit= &payload=0
//	GET    /_sandbox/summary      counts by dataset and event name, and of the requests
//	GET    /_sandbox/twice        what arrived more than once, or under a second event_id
//	GET    /_sandbox/stream       server-sent events
//	POST   /_sandbox/fault        a Fault as JSON; GET lists, DELETE clears
//	POST   /_sandbox/lead         a Lead as JSON, with "webhook" and "app_secret" to have it delivered
//	POST   /_sandbox/reset        forget all events
//	GET    /tr                    the Pixel's endpoint: id, ev, eid, fbp
//
// and a single request with the header X-Sandbox-Fault ("190/463", "hang",
// "slow:1500") meets that fault.
//
// A Graph keeps compact records of the last million events, the bytes of the last
// 10,000, and an exact count of every (dataset, event_name, event_id). The access
// token is never kept, shown or written into an error.
package capitest
