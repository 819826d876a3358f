package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a program under measurement.
type process struct {
	cmd   *exec.Cmd
	addr  string
	log   bytes.Buffer
	ended chan struct{}
	ready time.Duration // from its start to its first good answer
}

var local = &http.Client{Timeout: 5 * time.Second}

// start runs a program that listens on addr and waits until path answers 200.
func start(ctx context.Context, addr, path, name string, args ...string) (*process, error) {
	p := &process{addr: addr, ended: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, name, args...)
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	began := time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	raw := []byte("GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
	for {
		if c, err := dial(ctx, addr); err == nil {
			status, err := c.do(raw)
			_ = c.Close()
			if err == nil && status == http.StatusOK {
				p.ready = time.Since(began)
				return p, nil
			}
		}
		select {
		case <-p.ended:
			return nil, fmt.Errorf("%s ended at once: %.2000s", filepath.Base(name), p.log.String())
		default:
		}
		if time.Since(began) > 30*time.Second {
			p.kill()
			return nil, fmt.Errorf("%s did not answer: %.2000s", filepath.Base(name), p.log.String())
		}
		pause(ctx, time.Millisecond)
	}
}

func (p *process) kill() { p.end(syscall.SIGKILL) }

// stop asks the process to end, and insists after fifteen seconds.
func (p *process) stop() { p.end(syscall.SIGTERM) }

func (p *process) end(how syscall.Signal) {
	_ = p.cmd.Process.Signal(how)
	select {
	case <-p.ended:
	case <-time.After(15 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// cpu returns the processor time that the process has used. Linux counts it in
// hundredths of a second.
func (p *process) cpu() time.Duration {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/stat")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// memory returns a line of /proc/PID/status in MB: VmRSS now, VmHWM at its highest.
func (p *process) memory(line string) float64 {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(raw), line+":")
	f := strings.Fields(rest)
	if len(f) == 0 {
		return 0
	}
	kb, _ := strconv.ParseFloat(f[0], 64)
	return kb / 1024
}

// freeAddr returns an address that nobody listens on.
func freeAddr(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// build makes the binary as it is released.
func build(ctx context.Context, into string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags", "timetzdata", "-ldflags", "-s -w", "-o", into, "./cmd/capiloop")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build capiloop (run this in the repository): %w: %s", err, out)
	}
	return nil
}

// sandbox is the stand-in for Graph in its own process, counting only.
type sandbox struct{ *process }

func startSandbox(ctx context.Context, bin string) (*sandbox, error) {
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, err
	}
	p, err := start(ctx, addr, "/_sandbox/summary", bin, "sandbox", "--count-only", "--listen", addr)
	if err != nil {
		return nil, err
	}
	return &sandbox{p}, nil
}

// delivered returns how many events have arrived.
func (s *sandbox) delivered(ctx context.Context) float64 {
	raw, err := s.call(ctx, http.MethodGet, "summary", "")
	if err != nil {
		return 0
	}
	var sum struct {
		Requests struct {
			Events float64 `json:"events"`
		} `json:"requests"`
	}
	if json.Unmarshal(raw, &sum) != nil {
		return 0
	}
	return sum.Requests.Events
}

// fault sets a fault for all requests to come; "" clears them.
func (s *sandbox) fault(ctx context.Context, fault string) error {
	if fault == "" {
		_, err := s.call(ctx, http.MethodDelete, "fault", "")
		return err
	}
	_, err := s.call(ctx, http.MethodPost, "fault", fault)
	return err
}

func (s *sandbox) call(ctx context.Context, method, what, body string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+s.addr+"/_sandbox/"+what, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	a, err := local.Do(r)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(a.Body)
	if err = errors.Join(err, a.Body.Close()); err != nil {
		return nil, err
	}
	if a.StatusCode > 299 {
		return nil, fmt.Errorf("sandbox: %s %s: %d %s", method, what, a.StatusCode, raw)
	}
	return raw, nil
}

// apiKey opens the workspace of the measurements; it is no secret.
const apiKey = "bench-key-that-is-no-secret-0001"

// serve starts capiloop on a database, sending to the sandbox.
func serve(ctx context.Context, bin, dir, database string, s *sandbox) (*process, error) {
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if database == "" {
		database = filepath.Join(dir, "capiloop.db")
	}
	file := filepath.Join(dir, "capiloop.yaml")
	text := fmt.Sprintf("listen: %s\ndatabase: %q\ngraph: {url: \"http://%s\"}\nworkspaces:\n  - name: bench\n    country: US\n    currency: USD\n    api_keys: [%s]\n"+
		"    datasets: [{id: \"1234567890\", token: no-token-at-all}]\n", addr, database, s.addr, apiKey)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return start(ctx, addr, "/readyz", bin, "serve", "--config", file, "--data", dir)
}
