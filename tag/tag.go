// Package tag holds what runs in the visitor's browser, as it is served.
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
