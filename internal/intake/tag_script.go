package intake

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/leadform/website"
	"github.com/capiloop/capiloop/tag"
)

// tagSettings is what the script finds before itself.
type tagSettings struct {
	Site     string   `json:"site"`
	Wait     string   `json:"wait"`
	FBP      string   `json:"fbp"`
	Domain   string   `json:"domain"`  // that this server can set cookies for; "": none
	Domains  []string `json:"domains"` // of the site's pages
	PageView bool     `json:"pageview"`
	Pixel    bool     `json:"pixel"`
}

// unknownSite is what a page gets whose key nobody has. It is read by who looks into the
// browser's tools.
const unknownSite = "/* Capiloop: no website has this site key. Write it into the snippet as `site:` of the source has it; `capiloop sources` prints the snippet. */\n"

// script is GET /t.js and GET /t-tcf.js: what runs in the page.
func (h *Handler) script(c *call) reply {
	if c.Method != http.MethodGet && c.Method != http.MethodHead {
		a := wrong{http.StatusMethodNotAllowed, "method_not_allowed", "this route takes GET only", "load it by a script element", ""}.reply()
		a.allow = "GET, HEAD"
		return a
	}
	if c.route == routeTCF {
		return scriptReply(c, tag.TCF)
	}
	ws, source := h.c.Settings.Get().SourceBySite(c.URL.Query().Get("site"))
	if source == nil {
		return reply{status: http.StatusNotFound, contentType: scriptType, body: []byte(unknownSite)}
	}
	c.workspace, c.source = ws, source.Name
	t := website.TagOf(source.Options)
	settings := tagSettings{
		Site: t.Site, Wait: string(t.Wait), FBP: "read", Domain: capi.CookieDomain(h.peers.host(c.Request)),
		Domains: pageDomains(source.Options.List("origins")), PageView: t.PageView, Pixel: t.Pixel,
	}
	if t.CreateFBP {
		settings.FBP = "create"
	}
	head, err := json.Marshal(settings)
	if err != nil { // texts and booleans always encode
		return wrong{http.StatusInternalServerError, "internal", "the script could not be put together", "report it", ""}.reply()
	}
	body := append([]byte("self.__capiloop="), head...)
	return scriptReply(c, append(append(body, ";\n"...), tag.Script...))
}

// pageDomains are the registrable domains of a list of origins: what a page may set its
// cookies on, which no browser tells.
func pageDomains(origins []string) []string {
	list := []string{}
	for _, o := range origins {
		if _, host, ok := strings.Cut(o, "://"); ok {
			o = host
		}
		if d := capi.CookieDomain(strings.TrimPrefix(o, "*.")); d != "" && !slices.Contains(list, d) {
			list = append(list, d)
		}
	}
	return list
}

const scriptType = "text/javascript; charset=utf-8"

// scriptReply answers with a script that browsers keep for ten minutes, and pages of any
// site may load.
func scriptReply(c *call, body []byte) reply {
	sum := sha256.Sum256(body)
	etag := `"` + hex.EncodeToString(sum[:12]) + `"`
	a := reply{status: http.StatusOK, contentType: scriptType, body: body, headers: http.Header{
		"Cache-Control": {"public, max-age=600"}, "Etag": {etag}, "Vary": {"Accept-Encoding"},
		"Access-Control-Allow-Origin": {"*"}, "Cross-Origin-Resource-Policy": {"cross-origin"},
	}}
	if strings.Contains(c.Header.Get("If-None-Match"), etag) {
		a.status, a.body = http.StatusNotModified, nil
		return a
	}
	if strings.Contains(c.Header.Get("Accept-Encoding"), "gzip") {
		var packed bytes.Buffer
		w, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // a level that there is
		_, _ = w.Write(body)                                       // into memory
		_ = w.Close()
		a.body = packed.Bytes()
		a.headers.Set("Content-Encoding", "gzip")
	}
	return a
}
