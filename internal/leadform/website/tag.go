package website

import (
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/secret"
)

var (
	waits   = []string{string(ledger.WaitHold), string(ledger.WaitDrop), string(ledger.WaitPlain), string(ledger.WaitSend)}
	yesOrNo = []string{"true", "false"}
)

// Tag is how the tag of a website behaves.
type Tag struct {
	Site      string      // public key
	Wait      ledger.Wait // before the visitor has decided
	CreateFBP bool        // a browser without _fbp gets one
	PageView  bool        // PageView is reported by itself
	Pixel     bool        // the Pixel on the page is called, too
}

// TagOf reads the settings of a source.
func TagOf(o secret.Options) Tag {
	t := Tag{Site: o.Text("site"), Wait: ledger.Wait(o.Map("consent")["wait"]), CreateFBP: o.Text("fbp") == "create", PageView: o.Is("pageview"), Pixel: true}
	if t.Wait == "" {
		t.Wait = ledger.WaitHold
	}
	if o.Has("pixel") {
		t.Pixel = o.Is("pixel")
	}
	return t
}

// Origin is the origin of the page that a request came from, by the header Origin or, as
// far as there is none, Referer; "" is none.
func Origin(origin, referer string) string {
	if origin != "" {
		return origin
	}
	return refererOrigin(referer)
}

// Lets tells whether pages of an origin may report to a source.
func Lets(o secret.Options, origin string) bool {
	return origin != "" && listed(o.List("origins"), origin)
}
