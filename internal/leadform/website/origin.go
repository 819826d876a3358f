package website

import (
	"net/http"
	"net/url"
	"strings"
)

// server in the list of origins lets in what names no origin.
const server = "server"

// admit decides whether a request may post, and gives the headers by which a browser
// lets the page read the answer.
func admit(h http.Header, origins []string) (headers http.Header, allowed bool) {
	headers = http.Header{"Vary": {"Origin"}}
	origin := h.Get("Origin")
	if origin == "" {
		origin = refererOrigin(h.Get("Referer"))
		return headers, len(origins) == 0 || listed(origins, origin)
	}
	if len(origins) > 0 && !listed(origins, origin) {
		return headers, false
	}
	headers.Set("Access-Control-Allow-Origin", origin)
	return headers, true
}

// refererOrigin is the origin of the page that a browser names without Origin; "" is
// none.
func refererOrigin(referer string) string {
	u, err := url.Parse(referer)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// listed tells whether an origin, "" being none, is on the list.
func listed(origins []string, origin string) bool {
	origin = strings.ToLower(origin)
	_, host, _ := strings.Cut(origin, "://")
	for _, entry := range origins {
		entry = strings.ToLower(strings.TrimRight(strings.TrimSpace(entry), "/"))
		switch below, isBelow := strings.CutPrefix(entry, "*."); {
		case origin == "":
			if entry == server {
				return true
			}
		case entry == "*", entry == origin, host != "" && entry == host:
			return true
		case isBelow && below != "" && (host == below || strings.HasSuffix(host, "."+below)):
			return true
		}
	}
	return false
}

// isBrowser tells whether the visitor's own browser posted, so that the address and
// agent of the request are the visitor's.
func isBrowser(h http.Header) bool {
	return h.Get("Origin") != "" || h.Get("Referer") != "" || h.Get("Sec-Fetch-Site") != "" || strings.HasPrefix(h.Get("User-Agent"), "Mozilla/")
}
