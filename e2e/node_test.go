package e2e_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Meta's official Node SDK works unchanged but for its host.
func TestMetasNodeSDK(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("node/node_modules/facebook-nodejs-business-sdk"); err != nil {
		t.Skip("the SDK is not installed: cd e2e/node && npm ci (make test does it)")
	}
	r := newRig(t, setup{})
	send := func(key, kind string) (sdk struct {
		EventsReceived int      `json:"events_received"`
		Messages       []string `json:"messages"`
		FBTraceID      string   `json:"fbtrace_id"`
		Name           string
		Status         int
		Message        string
		Response       struct {
			Message, Type string
			Code          int
			FBTraceID     string `json:"fbtrace_id"`
		}
	}, ok bool,
	) {
		cmd := exec.Command("node", "send.mjs", r.url(), key, datasetA, kind)
		cmd.Dir = "node"
		out, err := cmd.Output()
		require.NoError(t, json.Unmarshal(out, &sdk), "%s, %v", out, err)
		return sdk, err == nil
	}
	all := 0
	for kind, n := range map[string]int{"purchase": 1, "lead": 1, "app": 1, "optout": 1, "batch": 50} {
		a, ok := send(apiKey, kind)
		require.True(t, ok, "%s: %+v", kind, a)
		require.Equal(t, n, a.EventsReceived, kind)
		require.NotNil(t, a.Messages, kind)
		require.NotEmpty(t, a.FBTraceID, kind)
		all += n
	}
	r.drained(t, 10*time.Second)
	require.Len(t, r.graph.Kept(datasetA), all)
	sent := make(map[string]map[string]any)
	for _, e := range r.graph.Kept(datasetA) {
		var payload map[string]any
		require.NoError(t, json.Unmarshal(e.Payload, &payload))
		sent[e.EventID] = payload
	}
	custom := sent["node-purchase"]["custom_data"].(map[string]any)
	require.InDelta(t, 19.9, custom["value"], 0)
	require.Equal(t, "EUR", custom["currency"])
	require.Equal(t, "203.0.113.7", sent["node-purchase"]["user_data"].(map[string]any)["client_ip_address"], "the visitor's address, not the caller's")
	require.Contains(t, string(kept(r, "node-lead")), `1234567890123456`)
	extinfo, isList := sent["node-app"]["app_data"].(map[string]any)["extinfo"].([]any)
	require.True(t, isList, "the SDK writes an object, Graph wants a list")
	require.Len(t, extinfo, 16)
	require.Equal(t, "com.example.app", extinfo[1])
	require.Equal(t, true, sent["node-optout"]["opt_out"])
	require.EqualValues(t, 0, sent["node-optout"]["data_processing_options_country"])

	refused, ok := send("a-key-that-nobody-has-made", "lead")
	require.False(t, ok)
	require.Equal(t, 190, refused.Response.Code, "%+v", refused)
	require.Equal(t, "OAuthException", refused.Response.Type)
	require.NotEmpty(t, refused.Response.Message)
	require.NotEmpty(t, refused.Response.FBTraceID)
	require.Equal(t, "FacebookRequestError", refused.Name)
	require.EqualValues(t, all, r.book(t, "").Received)
}

func kept(r *rig, id string) []byte {
	for _, e := range r.graph.Kept("") {
		if e.EventID == id {
			return e.Payload
		}
	}
	return nil
}
