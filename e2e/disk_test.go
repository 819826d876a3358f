package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// disk is a small file system that can be filled.
type disk struct{ path string }

// newDisk mounts a disk of some megabytes in memory. Only root may; elsewhere the
// test is skipped.
func newDisk(t *testing.T, megabytes int) *disk {
	t.Helper()
	path := folder(t)
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("a small disk can only be mounted by root on Linux")
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+strconv.Itoa(megabytes)+"m", "capiloop-e2e", path).CombinedOutput(); err != nil {
		t.Skipf("a small disk cannot be mounted here: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", path).CombinedOutput(); err != nil {
			t.Errorf("unmount %s: %v: %s", path, err, out)
		}
	})
	return &disk{path}
}

func (d *disk) filler() string { return filepath.Join(d.path, "filler") }

// fill takes all room that is left.
func (d *disk) fill(t *testing.T) {
	t.Helper()
	f, err := os.Create(d.filler())
	require.NoError(t, err)
	defer f.Close()
	block := make([]byte, 4096)
	for err == nil {
		_, err = f.Write(block)
	}
	require.ErrorContains(t, err, "no space left")
}

func (d *disk) empty(t *testing.T) {
	t.Helper()
	require.NoError(t, os.Remove(d.filler()))
}
