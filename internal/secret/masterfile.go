package secret

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// nextSuffix is put to the path of the master key for the one to rotate to.
const nextSuffix = ".next"

// maxKeyFile is more than any text of a key takes.
const maxKeyFile = 1 << 10

// keptPath is where a master key is kept that was rotated away.
func keptPath(path string, id KeyID) string { return path + "." + id.String() }

// parseKey reads the text of a key. Its errors name where it came from and say
// nothing of what it is.
func parseKey(from, text string) (Key, error) {
	const want = "want 32 bytes as base64 or hexadecimal digits, as `openssl rand -base64 32` prints them"
	text = strings.TrimSpace(text)
	if text == "" {
		return Key{}, fmt.Errorf("master key in %s: it is empty: %s", from, want)
	}
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != KeySize {
		standard := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(text, "="))
		b, err = base64.RawStdEncoding.Strict().DecodeString(standard)
	}
	if err != nil || len(b) != KeySize {
		return Key{}, fmt.Errorf("master key in %s: its %d characters are no key: %s", from, len(text), want)
	}
	same := true
	for _, c := range b {
		same = same && c == b[0]
	}
	if same {
		return Key{}, fmt.Errorf("master key in %s: one byte repeated is no key: %s", from, want)
	}
	return keyOf([KeySize]byte(b)), nil
}

// readKeyFile reads a key. If there is no file the error is os.ErrNotExist.
func readKeyFile(path string) (Key, error) {
	file, err := os.Open(path)
	if err != nil {
		return Key{}, fmt.Errorf("master key: %w", err)
	}
	defer file.Close()
	info, err := file.Stat() // of what is open, not of what has the name now
	if err != nil {
		return Key{}, fmt.Errorf("master key: %w", err)
	}
	if mode := info.Mode().Perm(); runtime.GOOS != "windows" && mode&0o077 != 0 {
		return Key{}, fmt.Errorf("master key in %s: others can read or change it (mode %04o): run `chmod 600 %s`, or give the key in %s",
			path, mode, path, EnvMaster)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxKeyFile))
	if err != nil {
		return Key{}, fmt.Errorf("master key: %w", err)
	}
	return parseKey(path, string(text))
}

// readOrMake reads the master key, and makes it where there is no file, except beside
// a next one: then the file was taken away, and a new key would hide that.
func readOrMake(path string, hasNext bool) (key Key, made bool, err error) {
	key, err = readKeyFile(path)
	if !errors.Is(err, os.ErrNotExist) {
		return key, false, err
	}
	if hasNext {
		return Key{}, false, fmt.Errorf("master key: %s is gone, but %s is there: put the first one back, or if it is lost rename the second to it",
			path, path+nextSuffix)
	}
	return makeKeyFile(path)
}

// makeKeyFile makes a key and its file. If another process was faster its key counts.
func makeKeyFile(path string) (key Key, made bool, err error) {
	key = NewKey()
	err = writeKeyFile(path, key)
	if errors.Is(err, os.ErrExist) {
		key, err = readKeyFile(path)
		return key, false, err
	}
	if err != nil {
		return Key{}, false, fmt.Errorf("make the master key: %w", err)
	}
	return key, true, nil
}

// writeKeyFile makes a file with a key, whole or not at all, and on the disk when it
// returns. If there is something at path the error is os.ErrExist.
func writeKeyFile(path string, key Key) error {
	folder := filepath.Dir(path)
	file, err := os.CreateTemp(folder, ".key-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = io.WriteString(file, base64.StdEncoding.EncodeToString(key.key.bytes[:])+"\n")
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	// A link does not replace what is there, as a rename would.
	if err = os.Link(file.Name(), path); err != nil && !errors.Is(err, os.ErrExist) {
		err = renameToNew(file.Name(), path) // a file system without links
	}
	if err != nil {
		return err
	}
	return syncFolder(folder)
}

func renameToNew(from, to string) error {
	switch _, err := os.Lstat(to); {
	case err == nil:
		return os.ErrExist
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	return os.Rename(from, to)
}

// promoteKeyFile keeps the old key beside and puts the next one in its place. It may
// be done twice, also by two processes.
func promoteKeyFile(path string, key, next Key) error {
	if err := writeKeyFile(keptPath(path, key.ID()), key); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("keep the old master key: %w", err)
	}
	waiting, err := readKeyFile(path + nextSuffix)
	switch {
	case err == nil && waiting.ID() == next.ID():
		if err := os.Rename(path+nextSuffix, path); err != nil {
			return fmt.Errorf("put the new master key in place: %w", err)
		}
		return syncFolder(filepath.Dir(path))
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return err
	}
	// Another process has done it, or it was never done.
	there, err := readKeyFile(path)
	if err != nil {
		return err
	}
	if there.ID() != next.ID() {
		return fmt.Errorf("put the new master key in place: %s is not the new key %s any more", path+nextSuffix, next.ID())
	}
	return nil
}

// syncFolder makes new names in a folder last. Windows has no such call and needs none.
func syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
