package e2e_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
)

// binary is the program under test, built once for all tests.
var binary string

func TestMain(m *testing.M) {
	code := build(m)
	closeChrome()
	os.Exit(code)
}

func build(m *testing.M) int {
	dir, err := os.MkdirTemp("", "capiloop-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "capiloop")
	// Most of a test's time is waiting, so that more of them go side by side than there
	// are processors.
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", strconv.Itoa(runtime.GOMAXPROCS(0)+1)); err != nil {
			fmt.Fprintln(os.Stderr, "e2e:", err)
			return 1
		}
	}
	// Without the race detector and without C, as it ships.
	cmd := exec.Command("go", "build", "-buildvcs=false", "-tags", "timetzdata", "-ldflags", "-X main.version=e2e", "-o", binary, "../cmd/capiloop")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "e2e: build the binary: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}
