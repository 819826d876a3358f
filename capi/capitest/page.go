package capitest

import (
	_ "embed" // the page's three files
	"net/http"
)

var (
	//go:embed page/page.html
	pageHTML []byte
	//go:embed page/page.css
	pageCSS []byte
	//go:embed page/page.js
	pageJS []byte
)

// servePage sends one of the page's files. The page is the same for everyone: what
// came in reaches it as JSON and becomes text nodes, never HTML, and the policy
// forbids any script but its own.
func servePage(w http.ResponseWriter, content []byte, kind string) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'; "+
		"base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")
	_, _ = w.Write(content)
}
