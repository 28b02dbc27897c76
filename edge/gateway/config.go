package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rollcall-io/rollcall/edge/door"
	"github.com/rollcall-io/rollcall/edge/gateway/bearer"
	"github.com/rollcall-io/rollcall/subjects"
)

// ErrConfig is returned, wrapped with the reason, for a configuration that cannot work.
var ErrConfig = errors.New("gateway: invalid configuration")

// Config describes a gateway. Door and Verify are required.
type Config struct {
	Door *door.Door
	// Verify says who holds a token; see package bearer.
	Verify func(token string) (bearer.Identity, error)
	// See is what a viewer may know of a target now; without it nobody can ask. A
	// refusal is a [*subjects.DeviceError].
	See func(ctx context.Context, viewer, target string) (Sight, error)
	// Origins of pages that may come, such as https://example.org, besides those of the
	// gateway's own host.
	Origins []string
	// Proxies are those whose header X-Forwarded-For is believed.
	Proxies []netip.Prefix
	// MaxSockets at a time; default 100,000.
	MaxSockets int
	// MaxMessage is the longest body or message, in bytes; default 4096.
	MaxMessage int64
	// AddressRate is how many requests, and new sockets, one address may have in a second,
	// on average; default 200, with bursts of AddressBurst, default 2000: many people can
	// be behind one address. Of IPv6 a network of 64 bits is one address.
	AddressRate, AddressBurst int
	// SocketRate is how many frames one socket may send in a second, on average; default
	// 5, with bursts of SocketBurst, default 20.
	SocketRate, SocketBurst int
	// Logger hears of what a page or client may be asked about; default: nobody.
	Logger *slog.Logger
	// Registerer takes the metrics; default: nobody.
	Registerer prometheus.Registerer
}

// Sight is what a viewer may know of a target. The zero value is what is shown of who does
// not exist.
type Sight struct {
	View *subjects.View
	// Reason says why the status is unknown, if it is not the target's wish.
	Reason string
}

func (c Config) withDefaults() (Config, error) {
	if c.Door == nil || c.Verify == nil {
		return c, fmt.Errorf("%w: no door, or nobody to verify tokens", ErrConfig)
	}
	c.Origins = slices.Clone(c.Origins)
	for i, origin := range c.Origins {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" {
			return c, fmt.Errorf("%w: origin %q is not like https://example.org or http://127.0.0.1:8080", ErrConfig, origin)
		}
		c.Origins[i] = u.Scheme + "://" + u.Host
	}
	if c.MaxMessage == 0 {
		c.MaxMessage = 4096
	}
	for _, n := range []struct {
		name  string
		value *int
		usual int
	}{
		{"sockets", &c.MaxSockets, 100_000}, {"address rate", &c.AddressRate, 200}, {"address burst", &c.AddressBurst, 2000},
		{"socket rate", &c.SocketRate, 5}, {"socket burst", &c.SocketBurst, 20},
	} {
		if *n.value < 0 {
			return c, fmt.Errorf("%w: %s %d", ErrConfig, n.name, *n.value)
		}
		if *n.value == 0 {
			*n.value = n.usual
		}
	}
	if c.MaxMessage < 0 {
		return c, fmt.Errorf("%w: messages of %d bytes", ErrConfig, c.MaxMessage)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}
