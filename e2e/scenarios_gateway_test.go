package e2e_test

import (
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/e2e"
)

// A balancer that sends each request to the next gateway has a device register anew at
// every heartbeat. Nobody who looks sees anything of it.
func TestGatewaysBehindABalancer(t *testing.T) {
	scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
		v := f.StartViewer("vera", "ann", "bob")
		g1, g2 := f.StartGateway("g1"), f.StartGateway("g2")
		ann := f.StartBrowser("ann", "phone", g1, g2)
		f.Wait()
		// Sticky: all requests go to the same gateway.
		bob := f.StartBrowser("bob", "phone", g2)
		f.At(1800 * second)
		if ann.Opened() < 20 || bob.Opened() != 1 {
			t.Errorf("ann opened %d sessions, bob %d", ann.Opened(), bob.Opened())
		}
		v.Want("ann online@0", "bob online@0.25")
		if n := g1.Sessions() + g2.Sessions(); n != 2 {
			t.Errorf("%d sessions are held: what is superseded must end", n)
		}
		ann.Silence()
		f.At(2000 * second)
		if rows := v.RowsOf("ann"); len(rows) != 2 || rows[1].Status != "offline" {
			t.Errorf("ann was silenced, and shown %v", rows)
		}
	})
}

// A gateway is killed, and comes back under its id or not at all; or it is stopped politely.
// Its devices register again, and nobody is shown offline.
func TestAGatewayEnds(t *testing.T) {
	for name, end := range map[string]func(f *stage, b *e2e.Browser, g1, g2 *e2e.Gateway){
		"killed, and another one is there": func(f *stage, b *e2e.Browser, g1, g2 *e2e.Gateway) {
			g1.Kill()
			b.Balance(g2)
		},
		"killed, and started again": func(f *stage, b *e2e.Browser, g1, _ *e2e.Gateway) {
			g1.Kill()
			f.At(105 * second)
			b.Balance(f.StartGateway("g1"))
		},
		"stopped politely": func(f *stage, b *e2e.Browser, g1, g2 *e2e.Gateway) {
			b.Balance(g2)
			if err := g1.Door.Drain(f.T.Context(), 10*time.Second); err != nil {
				f.T.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, e2e.Options{}, func(t *testing.T, f *stage) {
				v := f.StartViewer("vera", "ann")
				g1, g2 := f.StartGateway("g1"), f.StartGateway("g2")
				ann := f.StartBrowser("ann", "phone", g1)
				f.At(100 * second)
				end(f, ann, g1, g2)
				f.At(600 * second)
				v.Want("ann online@0")
				if ann.Opened() != 2 {
					t.Errorf("%d sessions were opened", ann.Opened())
				}
			})
		})
	}
}
