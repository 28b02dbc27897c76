package gateway

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// addressOf is where a request comes from, as far as proxies that are believed say: the
// last address that none of them has. An IPv6 address stands for its network of 64
// bits, which one client can have for itself.
func addressOf(r *http.Request, proxies []netip.Prefix) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr // no network that has addresses
	}
	address := peer.Addr().Unmap()
	if trusted(address, proxies) {
		hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
		for _, hop := range slices.Backward(hops) {
			before, err := netip.ParseAddr(strings.TrimSpace(hop))
			if err != nil {
				break
			}
			address = before.Unmap()
			if !trusted(address, proxies) {
				break
			}
		}
	}
	if address.Is6() {
		network, _ := address.WithZone("").Prefix(64)
		return network.String()
	}
	return address.String()
}

func trusted(address netip.Addr, proxies []netip.Prefix) bool {
	return slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(address) })
}
