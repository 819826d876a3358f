package capitest

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// Sign is the header X-Hub-Signature-256 of a webhook body.
func Sign(appSecret string, body []byte) string {
	m := hmac.New(sha256.New, []byte(appSecret))
	m.Write(body)
	return "sha256=" + hex.EncodeToString(m.Sum(nil))
}

// WebhookBody is the body of a leadgen webhook for the leads, one change each,
// grouped by page. Unknown ids are left out. Page "Lead ads: webhooks".
func (g *Graph) WebhookBody(ids ...string) []byte {
	type entry struct {
		ID      string `json:"id"`
		Time    int64  `json:"time"`
		Changes []any  `json:"changes"`
	}
	var entries []*entry
	byPage := map[string]*entry{}
	for _, id := range ids {
		n, _ := digits([]byte(id))
		l, ok := g.leads.find(n)
		if !ok {
			continue
		}
		value := map[string]any{"leadgen_id": l.ID, "page_id": l.PageID, "form_id": l.FormID, "created_time": l.Created.Unix()}
		if l.AdID != "" {
			value["ad_id"], value["adgroup_id"] = l.AdID, l.AdID
		}
		e := byPage[l.PageID]
		if e == nil {
			e = &entry{ID: l.PageID, Time: g.now().Unix()}
			byPage[l.PageID], entries = e, append(entries, e)
		}
		e.Changes = append(e.Changes, map[string]any{"field": "leadgen", "value": value})
	}
	b, err := json.Marshal(map[string]any{"object": "page", "entry": entries})
	if err != nil { // strings and numbers only
		panic(err)
	}
	return b
}

// DeliverLeads posts the signed leadgen webhook for the leads to url and returns
// the status of the answer. It tries once; Meta would try again for 36 hours.
func (g *Graph) DeliverLeads(ctx context.Context, url, appSecret string, ids ...string) (int, error) {
	body := g.WebhookBody(ids...)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, fmt.Errorf("make webhook request: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "facebookexternalua")
	r.Header.Set("X-Hub-Signature-256", Sign(appSecret, body))
	res, err := g.client.Do(r)
	if err != nil {
		return 0, fmt.Errorf("deliver webhook: %w", err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<20)) // so that the connection can be used again
	return res.StatusCode, nil
}
