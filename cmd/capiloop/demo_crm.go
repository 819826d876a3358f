package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/capiloop/capiloop/internal/admin"
)

// demoCRM is a small stand-in for a CRM: it takes leads at an address, keeps a card for
// each, and tells when one is moved.
type demoCRM struct {
	url    string
	server *http.Server

	mu    sync.Mutex
	cards []demoCard
}

// demoCard is a lead in the CRM, by Meta's or Google's id of it.
type demoCard struct{ lead, platform, stage string }

func newDemoCRM(ctx context.Context) (*demoCRM, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the CRM's stand-in: %w", err)
	}
	c := &demoCRM{url: "http://" + listener.Addr().String() + "/leads"}
	c.server = &http.Server{Handler: http.HandlerFunc(c.take), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = c.server.Serve(listener) }() // ends with close
	return c, nil
}

func (c *demoCRM) close() error {
	if err := c.server.Close(); err != nil {
		return fmt.Errorf("stop the CRM's stand-in: %w", err)
	}
	return nil
}

// take keeps a lead as a card; a repeat is the same card.
func (c *demoCRM) take(w http.ResponseWriter, r *http.Request) {
	var lead struct {
		ID       string `json:"lead_id"`
		Platform string `json:"ad_platform"`
	}
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&lead); err != nil {
		http.Error(w, "not a lead", http.StatusBadRequest)
		return
	}
	c.put(lead.ID, lead.Platform, "")
}

// put moves a card, and makes it if it is not there yet.
func (c *demoCRM) put(lead, platform, stage string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.cards {
		if c.cards[i].lead == lead {
			if stage != "" {
				c.cards[i].stage = stage
			}
			return
		}
	}
	c.cards = append(c.cards, demoCard{lead, platform, stage})
}

// in returns the cards of a column, the oldest first.
func (c *demoCRM) in(stage string) []demoCard {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []demoCard
	for _, card := range c.cards {
		if card.stage == stage {
			list = append(list, card)
		}
	}
	return list
}

// move is what the CRM tells of a card.
type move struct {
	Lead       string `json:"lead_id"`
	Platform   string `json:"platform"`
	Stage      string `json:"stage"`
	OccurredAt string `json:"occurred_at"`
	Value      int    `json:"value,omitempty"`
	Currency   string `json:"currency,omitempty"`
}

// tell moves cards and has the CRM tell of it by one webhook, signed by Standard Webhooks.
func (d *demo) tell(ctx context.Context, moves ...move) error {
	for _, m := range moves {
		d.crm.put(m.Lead, m.Platform, m.Stage)
	}
	body, err := json.Marshal(map[string]any{"data": moves})
	if err != nil {
		return fmt.Errorf("write stage changes: %w", err)
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(d.secret, "whsec_"))
	if err != nil {
		return fmt.Errorf("read the CRM's secret: %w", err)
	}
	now := d.clock.Now()
	id, stamp := "msg_"+strconv.FormatInt(now.UnixNano(), 36), strconv.FormatInt(now.Unix(), 10)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + stamp + "."))
	mac.Write(body)
	d.counted.moves += len(moves)
	return d.post(ctx, d.hooks["crm"], body,
		"Webhook-Id", id, "Webhook-Timestamp", stamp, "Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

// post sends JSON to the gateway's front door.
func (d *demo) post(ctx context.Context, url string, body []byte, headers ...string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make a request of the demo: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := d.client.Do(r)
	if err != nil {
		return fmt.Errorf("send a request of the demo: %w", errors.Unwrap(err))
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err == nil && res.StatusCode >= 300 {
		err = fmt.Errorf("the demo's request to %s was answered %s: %s", r.URL.Path, res.Status, answer)
	}
	return err
}

// postOwn sends JSON with the workspace's key.
func (d *demo) postOwn(ctx context.Context, path string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("write a request of the demo: %w", err)
	}
	return d.post(ctx, d.base+path, text, "Authorization", "Bearer "+demoKey)
}

// arrived waits until the CRM has a lead.
func (d *demo) arrived(ctx context.Context, lead string) error {
	return d.until(ctx, func() (bool, error) {
		l, err := d.app.Actions().Lead(ctx, me, "", lead)
		var e *admin.Error
		if errors.As(err, &e) && e.Code == admin.NotFound {
			return false, nil // announced, not read yet
		}
		return err == nil && l.State == "sent", err
	})
}
