package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Leads come in evenly over several workspaces, each with a CRM of its own: a CRM of
// kind webhook is not called more than ten times a second.
const (
	leadsPerSecond = 50
	leadWorkspaces = 8
	leadsFor       = 20 * time.Second
)

// receiver is the CRM: it notes when each lead came.
type receiver struct {
	mu sync.Mutex
	at map[string]time.Time
}

// ServeHTTP takes a lead.
func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	now := time.Now()
	var lead struct {
		Email string `json:"email"`
	}
	if json.NewDecoder(q.Body).Decode(&lead) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, twice := r.at[lead.Email]; !twice {
		r.at[lead.Email] = now
	}
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.at)
}

// leadCells measure from the request with a lead to the request to the CRM: by turns
// POST /v1/leads and the website's own address.
func (b *bench) leadCells(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	crm := &receiver{at: make(map[string]time.Time)}
	server := &http.Server{Handler: crm, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }() // ends with Close
	defer func() { _ = server.Close() }()
	dir := b.folder()
	defer func() { _ = os.RemoveAll(dir) }()
	p, err := b.serveLeads(ctx, dir, listener.Addr().String())
	if err != nil {
		return err
	}
	defer p.stop()
	length := leadsFor
	if b.o.quick {
		length = time.Second
	}
	sent, err := sendLeads(ctx, p.addr, int(length.Seconds()*leadsPerSecond))
	if err != nil {
		return err
	}
	for began := time.Now(); crm.count() < len(sent) && time.Since(began) < 20*time.Second; {
		pause(ctx, 20*time.Millisecond)
	}
	crm.mu.Lock()
	defer crm.mu.Unlock()
	var took []float64
	for email, at := range sent {
		arrived, ok := crm.at[email]
		if !ok {
			return fmt.Errorf("a lead never reached the CRM; %d of %d did", len(crm.at), len(sent))
		}
		took = append(took, milliseconds(arrived.Sub(at)))
	}
	slices.Sort(took)
	b.add("leads p50 ms", took[len(took)/2])
	b.add("leads p95 ms", took[len(took)*95/100])
	b.add("leads most ms", took[len(took)-1])
	return nil
}

func leadKey(n int) string  { return fmt.Sprintf("bench-key-that-is-no-secret-lead-%02d", n) }
func leadHook(n int) string { return fmt.Sprintf("benchHookOfTheWebsite4Yc9Qv2X%02d", n) }

// serveLeads starts capiloop with the workspaces.
func (b *bench) serveLeads(ctx context.Context, dir, crm string) (*process, error) {
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "listen: %s\ngraph: {url: \"http://%s\"}\nworkspaces:\n", addr, b.graph.addr)
	for n := range leadWorkspaces {
		fmt.Fprintf(&text, "  - name: shop-%d\n    country: ES\n    api_keys: [%s]\n    sources: [{kind: website, name: site, webhook: %s}]\n"+
			"    crms: [{kind: webhook, name: crm, url: \"http://%s/%d\", allow_private: true}]\n", n, leadKey(n), leadHook(n), crm, n)
	}
	file := filepath.Join(dir, "capiloop.yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		return nil, err
	}
	return start(ctx, addr, "/readyz", b.o.binary, "serve", "--config", file, "--data", dir)
}

// sendLeads sends so many leads at an even pace and returns when each was sent.
func sendLeads(ctx context.Context, addr string, n int) (map[string]time.Time, error) {
	sent, errs := make(map[string]time.Time), make(chan error, n)
	var senders sync.WaitGroup
	tick := time.NewTicker(time.Second / leadsPerSecond)
	defer tick.Stop()
	for i := range n {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
		email := fmt.Sprintf("lead-%d@bench.example.com", i)
		sent[email] = time.Now()
		senders.Go(func() { errs <- sendLead(ctx, addr, i, email) })
	}
	senders.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return sent, nil
}

func sendLead(ctx context.Context, addr string, i int, email string) error {
	path, ws := "/v1/leads", i%leadWorkspaces
	if i/leadWorkspaces%2 == 1 {
		path = "/webhooks/" + leadHook(ws)
	}
	body := fmt.Sprintf(`{"email":%q,"phone":"+34 612 %06d","full_name":"Ana Example %d","budget":"up to 300 000","page_url":"https://example.com/villa"}`, email, i, i)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+leadKey(ws))
	a, err := local.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = a.Body.Close() }()
	if a.StatusCode > 299 {
		return fmt.Errorf("POST %s: %d", path, a.StatusCode)
	}
	return nil
}
