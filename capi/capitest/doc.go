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
// A Graph keeps compact records of the last million events, the bytes of the last
// 10,000, and an exact count of every (dataset, event_name, event_id). The access
// token is never kept, shown or written into an error.
package capitest
