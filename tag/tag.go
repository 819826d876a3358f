// Package tag holds what runs in the visitor's browser, as it is served. The source is
// TypeScript, in src; dist is built from it and is committed, so that building the server
// needs Go alone:
//
//	go test ./tag -update
//
// It must not grow: every page of every customer loads it. Nothing in it evaluates text or
// adds inline code, so that it runs under a strict Content-Security-Policy.
package tag

import _ "embed"

// Script is the tag: what GET /t.js answers, behind its settings.
//
//go:embed dist/t.js
var Script []byte

// TCF reads the consent of the IAB's framework; it is loaded only where that is on the
// page.
//
//go:embed dist/tcf.js
var TCF []byte
