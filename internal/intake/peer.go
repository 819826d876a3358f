package intake

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/realclientip/realclientip-go"
)

// peers finds out who is calling. X-Forwarded-For is believed only where the
// connection comes from a trusted proxy, and then back to the first address that is
// none.
type peers struct {
	trusted []netip.Prefix
	behind  realclientip.Strategy
}

func newPeers(trusted []netip.Prefix) peers {
	p := peers{trusted: trusted}
	if len(trusted) == 0 {
		return p
	}
	ranges := make([]net.IPNet, len(trusted))
	for i, prefix := range trusted {
		prefix = prefix.Masked()
		ranges[i] = net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())}
	}
	s, err := realclientip.NewRightmostTrustedRangeStrategy("X-Forwarded-For", ranges)
	if err != nil { // only a header without a name is refused
		panic(err)
	}
	p.behind = s
	return p
}

// Caller returns what tells who is calling, for what else is served to strangers.
func Caller(trusted []netip.Prefix) func(*http.Request) netip.Addr { return newPeers(trusted).of }

// of returns the caller's address; the zero one if it cannot be told.
func (p peers) of(r *http.Request) netip.Addr {
	direct, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	addr := direct.Addr().Unmap().WithZone("")
	if p.behind == nil || !p.trusts(addr) {
		return addr
	}
	if far, err := netip.ParseAddr(p.behind.ClientIP(r.Header, r.RemoteAddr)); err == nil {
		return far.Unmap().WithZone("")
	}
	return addr
}

// host is the name by which the caller reached us, as the proxy in between tells if it is
// a trusted one.
func (p peers) host(r *http.Request) string {
	direct, err := netip.ParseAddrPort(r.RemoteAddr)
	if err == nil && p.trusts(direct.Addr().Unmap().WithZone("")) {
		if first, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Host"), ","); first != "" {
			return strings.TrimSpace(first)
		}
	}
	return r.Host
}

func (p peers) trusts(addr netip.Addr) bool {
	for _, prefix := range p.trusted {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}
