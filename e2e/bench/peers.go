package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed peers/relay.js
var relay []byte

//go:embed peers/package.json
var relayPackage []byte

// peerCells measure relays made with Meta's Node SDK beside ours, at once and with
// Graph a hundred milliseconds away.
func (b *bench) peerCells(ctx context.Context) error {
	if !b.o.peers {
		b.skip("peers: -peers is off")
		return nil
	}
	folder, durable, err := b.preparePeers(ctx)
	if err != nil {
		b.skip("peers: " + err.Error())
		b.o.peers = false
		return nil
	}
	modes := []string{"sync", "memory"}
	if durable {
		modes = append(modes, "durable")
	} else {
		b.skip("the durable peer: better-sqlite3 could not be installed")
	}
	for _, mode := range modes {
		if err := b.peer(ctx, "peer "+mode, folder, mode, 1); err != nil {
			return err
		}
	}
	if err := b.peer(ctx, "peer memory 100", folder, "memory", 100); err != nil {
		return err
	}
	if err := b.graph.fault(ctx, `{"mode":"slow","delay_ms":100}`); err != nil {
		return err
	}
	defer func() { _ = b.graph.fault(ctx, "") }()
	if err := b.peer(ctx, "far peer sync", folder, "sync", 1); err != nil {
		return err
	}
	p, dir, _, err := b.saturate(ctx, "far ours 64x1", "", 64, 1)
	if err != nil {
		return err
	}
	p.stop()
	return os.RemoveAll(dir)
}

// preparePeers installs the peers' packages with npm, once.
func (b *bench) preparePeers(ctx context.Context) (folder string, durable bool, err error) {
	folder = b.o.peersFolder
	if folder == "" {
		folder = filepath.Join(b.dir, "peers")
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", false, err
	}
	for name, text := range map[string][]byte{"relay.js": relay, "package.json": relayPackage} {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			return "", false, err
		}
	}
	in := func(name string, args ...string) error {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir = folder
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s failed: %w: %.200s", name, err, out)
		}
		return nil
	}
	if in("node", "-e", `require("facebook-nodejs-business-sdk")`) != nil {
		if err := in("npm", "install", "--no-audit", "--no-fund"); err != nil {
			return "", false, err
		}
	}
	return folder, in("node", "-e", `require("better-sqlite3")(":memory:")`) == nil, nil
}

// peer measures one relay.
func (b *bench) peer(ctx context.Context, name, folder, mode string, events int) error {
	addr, err := freeAddr(ctx)
	if err != nil {
		return err
	}
	db := filepath.Join(b.dir, "peer.db")
	defer func() {
		for _, f := range []string{db, db + "-wal", db + "-shm"} {
			_ = os.Remove(f)
		}
	}()
	p, err := start(ctx, addr, "/", "node", filepath.Join(folder, "relay.js"), addr, "http://"+b.graph.addr, mode, db)
	if err != nil {
		return err
	}
	defer p.kill()
	conns := 64
	if events > 1 {
		conns = 16
	}
	o, err := b.load(ctx, p, conns, events).run(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	b.keep(name, o)
	b.add(name+" rss", p.memory("VmHWM"))
	return nil
}
