package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
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

const (
	movesPerSecond = 20
	movesFor       = 20 * time.Second
	movesHook      = "benchHookOfTheCRM7Lp2Tx9Wd3Qe"
)

// acceptor is Graph as far as this takes: it takes every event and notes when it came, by
// the e-mail's hash.
type acceptor struct {
	mu sync.Mutex
	at map[string]time.Time
}

// ServeHTTP takes a batch.
func (a *acceptor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	var body struct {
		Data []struct {
			UserData struct {
				Em []string `json:"em"`
			} `json:"user_data"`
		} `json:"data"`
	}
	if json.NewDecoder(r.Body).Decode(&body) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	for _, e := range body.Data {
		if len(e.UserData.Em) > 0 {
			a.at[e.UserData.Em[0]] = now
		}
	}
	a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"events_received":%d,"messages":[],"fbtrace_id":"bench"}`, len(body.Data))
}

func (a *acceptor) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.at)
}

// stageCells measure from the CRM's hook with a stage to the request to Meta.
func (b *bench) stageCells(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	graph := &acceptor{at: make(map[string]time.Time)}
	server := &http.Server{Handler: graph, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }() // ends with Close
	defer func() { _ = server.Close() }()
	dir := b.folder()
	defer func() { _ = os.RemoveAll(dir) }()
	p, err := b.serveStages(ctx, dir, listener.Addr().String())
	if err != nil {
		return err
	}
	defer p.stop()
	length := movesFor
	if b.o.quick {
		length = time.Second
	}
	sent, err := sendMoves(ctx, p.addr, int(length.Seconds()*movesPerSecond))
	if err != nil {
		return err
	}
	for began := time.Now(); graph.count() < len(sent) && time.Since(began) < 20*time.Second; {
		pause(ctx, 20*time.Millisecond)
	}
	graph.mu.Lock()
	defer graph.mu.Unlock()
	var took []float64
	for email, at := range sent {
		sum := sha256.Sum256([]byte(email))
		arrived, ok := graph.at[hex.EncodeToString(sum[:])]
		if !ok {
			return fmt.Errorf("a stage change never reached Meta; %d of %d did", len(graph.at), len(sent))
		}
		took = append(took, milliseconds(arrived.Sub(at)))
	}
	slices.Sort(took)
	b.add("stages p50 ms", took[len(took)/2])
	b.add("stages p95 ms", took[len(took)*95/100])
	b.add("stages most ms", took[len(took)-1])
	return nil
}

// serveStages starts capiloop with a CRM that tells of stages.
func (b *bench) serveStages(ctx context.Context, dir, graph string) (*process, error) {
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lines := []string{
		"listen: " + addr, "graph: {url: \"http://" + graph + "\"}", "workspaces:", "  - name: shop", "    country: ES",
		"    datasets: [{id: \"1234567890\", token: no-token-of-anybody}]",
		"    crms: [{kind: webhook, name: crm, url: \"http://" + graph + "/crm\", allow_private: true, webhook: " + movesHook + "}]",
		"    guard: {off: true}", "    stages: [{stage: Qualified, event: QualifiedLead}]",
	}
	file := filepath.Join(dir, "capiloop.yaml")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return nil, err
	}
	return start(ctx, addr, "/readyz", b.o.binary, "serve", "--config", file, "--data", dir)
}

// sendMoves tells of so many stage changes at an even pace and returns when each was sent.
func sendMoves(ctx context.Context, addr string, n int) (map[string]time.Time, error) {
	sent, errs := make(map[string]time.Time), make(chan error, n)
	var senders sync.WaitGroup
	tick := time.NewTicker(time.Second / movesPerSecond)
	defer tick.Stop()
	for i := range n {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
		email := fmt.Sprintf("lead-%d@bench.example.com", i)
		sent[email] = time.Now()
		senders.Go(func() { errs <- sendMove(ctx, addr, email) })
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

func sendMove(ctx context.Context, addr, email string) error {
	body, err := json.Marshal(map[string]any{"email": email, "stage": "Qualified"})
	if err != nil {
		return err
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/webhooks/"+movesHook, bytes.NewReader(body))
	if err != nil {
		return err
	}
	q.Header.Set("Content-Type", "application/json")
	res, err := (&http.Client{Timeout: 10 * time.Second}).Do(q)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("a stage change: status %d", res.StatusCode)
	}
	return nil
}
