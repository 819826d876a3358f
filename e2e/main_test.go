package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// binary is the program under test, built once for all tests.
var binary string

func TestMain(m *testing.M) { os.Exit(build(m)) }

func build(m *testing.M) int {
	dir, err := os.MkdirTemp("", "capiloop-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "capiloop")
	// Without the race detector and without C, as it ships.
	cmd := exec.Command("go", "build", "-buildvcs=false", "-tags", "timetzdata", "-ldflags", "-X main.version=e2e", "-o", binary, "../cmd/capiloop")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "e2e: build the binary: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}
