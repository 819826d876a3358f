package e2e_test

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// buffer collects output while it is being written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// process is a running capiloop.
type process struct {
	cmd         *exec.Cmd
	out, errOut *buffer
	done        chan struct{}
	addr        string // of the gateway, once it listens
}

// launch starts the binary in dir; env comes on top of an environment without any
// CAPILOOP_ variable.
func launch(t *testing.T, dir string, env []string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(binary, args...), out: &buffer{}, errOut: &buffer{}, done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env = dir, append(bareEnv(), env...)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.errOut
	require.NoError(t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait() // the exit code is read from ProcessState
		close(p.done)
	}()
	t.Cleanup(func() { // a test that failed leaves nothing behind
		if p.running() {
			p.kill()
		}
	})
	return p
}

func bareEnv() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "CAPILOOP_") && !strings.HasPrefix(v, "GORACE") {
			env = append(env, v)
		}
	}
	return env
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// wait waits for the process to end and returns its exit code; -1 if a signal ended it.
func (p *process) wait(t *testing.T, limit time.Duration) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(limit):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // where does it hang?
		<-p.done
		t.Fatalf("the process did not end within %s:\n%s%s", limit, p.out, p.errOut)
	}
	return p.cmd.ProcessState.ExitCode()
}

// kill ends the process as the kernel does when memory is short: at once.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// stop ends the process as an operator does, and wants it to be done within ten
// seconds.
func (p *process) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Zero(t, p.wait(t, 10*time.Second), "exit code after SIGTERM:\n%s", p.errOut)
}

// said waits until the process has written something that fits the pattern, and
// returns the first group of it.
func (p *process) said(t *testing.T, b *buffer, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		running := p.running()
		if m := re.FindStringSubmatch(b.String()); m != nil {
			return m[len(m)-1]
		}
		if !running || time.Since(began) > 30*time.Second {
			t.Fatalf("capiloop %v did not say %q (running: %v):\n%s%s", p.cmd.Args[1:], pattern, running, p.out, p.errOut)
		}
	}
}

// result is what a command that ended by itself has said.
type result struct {
	code        int
	out, errOut string
}

// command runs a command to its end.
func command(t *testing.T, dir string, env []string, args ...string) result {
	t.Helper()
	p := launch(t, dir, env, args...)
	code := p.wait(t, time.Minute)
	return result{code, p.out.String(), p.errOut.String()}
}
