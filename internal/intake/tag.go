package intake

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/capiloop/capiloop/internal/config"
	"github.com/capiloop/capiloop/internal/leadform/website"
	"github.com/capiloop/capiloop/internal/ledger"
	"github.com/capiloop/capiloop/internal/record"
)

const (
	maxReport = 256 << 10 // bytes of what the tag sends at once
	maxItems  = 200       // events and sightings in it
)

// tag is POST /t: what the tag in a page reports. It is answered once it is on disk.
func (h *Handler) tag(ctx context.Context, c *call) reply {
	v := h.visitor(c)
	switch c.Method {
	case http.MethodOptions:
		return v.preflight()
	case http.MethodPost:
	default:
		a := v.refuse(wrongMethod())
		a.allow = "OPTIONS, POST"
		return a
	}
	if kind, _ := mediaType(c); !isJSONType(kind) {
		return v.refuse(wrong{http.StatusUnsupportedMediaType, "unsupported_media_type", "this route takes JSON only", "send it as text/plain or application/json", ""})
	}
	raw, e := readBodyUpTo(c, maxReport, tooLargeReport)
	if e == nil {
		raw, e = readJSON(raw)
	}
	var r report
	if e == nil {
		r, e = readReport(raw)
	}
	if e != nil {
		return v.refuse(*e)
	}
	ws, source := h.c.Settings.Get().SourceBySite(r.Site)
	switch {
	case source == nil:
		return v.refuse(wrong{http.StatusNotFound, "no_such_site", "no website has this site key", "copy the snippet from: capiloop sources", "site"})
	case !website.Lets(source.Options, v.origin):
		return wrongOrigin(v.origin == "")
	}
	c.workspace, c.source = ws, source.Name
	if !h.tagged.allow(source.ID, c.peer, max(r.items(), 1), h.c.Clock.Now()) {
		return v.refuse(wrongTagFlood())
	}
	rd := tagReader{
		visitor: v, report: &r, tag: website.TagOf(source.Options), required: ws.ConsentRequired, now: h.c.Clock.Now(),
	}
	q := record.Request{Workspace: ws, Source: source.Name, Items: rd.items(), Sightings: rd.sightings()}
	if len(q.Items)+len(q.Sightings) > 0 {
		out, err := h.c.Recorder.Record(ctx, q)
		if err != nil {
			return v.refuse(h.notRecorded(ctx, c, err))
		}
		c.count(out.Results)
		h.logRefused(ctx, c, out.Results)
	}
	a := reply{status: http.StatusNoContent, headers: v.headers}
	for _, cookie := range rd.cookies() {
		a.headers.Add("Set-Cookie", cookie.String())
	}
	return a
}

// logRefused tells why events of the tag were not taken: the page does not ask.
func (h *Handler) logRefused(ctx context.Context, c *call, results []record.Result) {
	n, first := 0, ""
	for i := range results {
		if results[i].Rejected == nil {
			continue
		}
		if n++; n == 1 {
			p := firstError(results[i].Rejected)
			first = p.Field + ": " + p.Code
		}
	}
	if n > 0 {
		h.c.Log.InfoContext(ctx, "events of the tag were not taken", "workspace", c.workspace.Name, "source", c.source, "events", n, "first", first)
	}
}

// visitor is who reports, as far as the request tells without its body.
type visitor struct {
	call    *call
	origin  string // of the page; "": it cannot be told
	host    string // by which we were reached
	gpc     bool   // the browser sends Sec-GPC: 1
	headers http.Header
}

// visitor reads the headers. Those of the answer let the page read it where its origin is
// that of any site of ours: which site it is, only the body tells.
func (h *Handler) visitor(c *call) *visitor {
	v := &visitor{
		call: c, origin: website.Origin(c.Header.Get("Origin"), c.Header.Get("Referer")), host: h.peers.host(c.Request),
		gpc: slices.Contains(c.Header.Values("Sec-Gpc"), "1"), headers: http.Header{"Vary": {"Origin"}},
	}
	origin := c.Header.Get("Origin")
	if origin == "" || !anySite(h.c.Settings.Get(), origin) {
		return v
	}
	v.headers.Set("Access-Control-Allow-Origin", origin)
	v.headers.Set("Access-Control-Expose-Headers", "Retry-After")
	if v.sameSite() != "" {
		v.headers.Set("Access-Control-Allow-Credentials", "true")
	}
	return v
}

func anySite(settings *config.Snapshot, origin string) bool {
	for source := range settings.Sites() {
		if website.Lets(source.Options, origin) {
			return true
		}
	}
	return false
}

// preflight answers what a browser asks before it sends JSON by that name.
func (v *visitor) preflight() reply {
	if v.headers.Get("Access-Control-Allow-Origin") == "" {
		return wrongOrigin(v.call.Header.Get("Origin") == "")
	}
	v.headers.Set("Access-Control-Allow-Methods", http.MethodPost)
	v.headers.Set("Access-Control-Allow-Headers", "Content-Type")
	v.headers.Set("Access-Control-Max-Age", "86400")
	return reply{status: http.StatusNoContent, headers: v.headers}
}

// refuse lets the page read why.
func (v *visitor) refuse(e wrong) reply {
	a := e.reply()
	a.headers = v.headers
	return a
}

func wrongOrigin(missing bool) reply {
	e := wrong{http.StatusForbidden, "origin_not_allowed", "pages of this origin may not report here", "add the page's origin to origins: of the website's source", ""}
	if missing {
		e.code, e.message = "no_origin", "the request names no page: it has neither Origin nor Referer"
		e.fix = "let the page send them: its Referrer-Policy may be no-referrer"
	}
	a := e.reply()
	a.headers = http.Header{"Vary": {"Origin"}}
	return a
}

func tooLargeReport() *wrong {
	return &wrong{http.StatusRequestEntityTooLarge, "too_large", "the report is larger than 256 KiB (262144 bytes)", "send fewer events at once", ""}
}

// pageHost is the host of the page.
func (v *visitor) pageHost() string {
	u, err := url.Parse(v.origin)
	if err != nil {
		return ""
	}
	return u.Host
}

// decisionOf reads what the tag says of consent. What cannot be read is no decision.
func (v *visitor) decisionOf(s said) ledger.Decision {
	d := ledger.Decision{GPC: s.GPC || v.gpc}
	if slices.Contains([]string{"site", "gcm", "tcf", ledger.ByNone, ledger.ByPlain}, s.By) {
		d.By = s.By
	}
	switch s.Ads {
	case "granted":
		d.Consent = ledger.ConsentGranted
	case "denied":
		d.Consent = ledger.ConsentDenied
	}
	return d
}
