package intake

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"

	"github.com/capiloop/capiloop/capi"
	"github.com/capiloop/capiloop/internal/ledger"
)

// sameSite is the domain that the page and we share, for cookies; "" is none.
func (v *visitor) sameSite() string {
	domain := capi.CookieDomain(v.pageHost())
	if domain == "" || domain != capi.CookieDomain(v.host) {
		return ""
	}
	return domain
}

// cookies are those that the answer sets: what a script has set, Safari forgets after
// seven days. Only with consent, and only where page and server share their domain.
func (rd *tagReader) cookies() []*http.Cookie {
	domain, d := rd.sameSite(), rd.decisionOf(rd.report.Consent)
	if domain == "" || !rd.tag.Wait.Admits(d, rd.required) || d.By == ledger.ByPlain {
		return nil
	}
	var list []*http.Cookie
	value, click := rd.holds("_fbc", rd.report.FBC), ""
	if value == "" { // else the tag has compared it with the address
		click = rd.clickID()
	}
	if c, changed := capi.NextFBC(value, click, domain, rd.now); changed || c.ID != "" && !c.Doubtful {
		list = append(list, rd.cookie("_fbc", c, domain))
	}
	if rd.tag.CreateFBP {
		//nolint:gosec // the number tells browsers apart and is no secret
		c, changed := capi.NextFBP(rd.holds("_fbp", rd.report.FBP), domain, rd.now, rand.Uint32())
		if changed || !c.Doubtful {
			list = append(list, rd.cookie("_fbp", c, domain))
		}
	}
	return list
}

// holds is what a cookie holds, as the tag tells or the browser sends it; "" if that is
// none.
func (rd *tagReader) holds(name, told string) string {
	if _, ok := capi.ParseCookie(told); ok {
		return told
	}
	if sent, err := rd.call.Cookie(name); err == nil {
		if _, ok := capi.ParseCookie(sent.Value); ok {
			return sent.Value
		}
	}
	return ""
}

// clickID is that of the newest page.
func (rd *tagReader) clickID() string {
	for _, raw := range slices.Backward(rd.report.Events) {
		var in struct {
			URL string `json:"event_source_url"`
		}
		if json.Unmarshal(raw, &in) != nil {
			continue
		}
		if id := capi.ClickID(in.URL); id != "" {
			return id
		}
	}
	return ""
}

// cookie is one that the Pixel's script can read, too. A page that came by https reports
// by https.
func (rd *tagReader) cookie(name string, c capi.Cookie, domain string) *http.Cookie {
	return &http.Cookie{ //nolint:gosec // the Pixel reads it, so it is not HttpOnly; of a page by http it is not Secure
		Name: name, Value: c.String(), Domain: domain, Path: "/", MaxAge: int(capi.CookieAge.Seconds()), SameSite: http.SameSiteLaxMode,
		Secure: strings.HasPrefix(rd.origin, "https://"),
	}
}
