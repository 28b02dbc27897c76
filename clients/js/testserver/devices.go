package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/edge"
)

// devices are the connected ones, whose hearts all beat together.
type devices struct {
	mu   sync.Mutex
	open map[rollcall.Endpoint]*edge.Conn
}

func newDevices() *devices { return &devices{open: make(map[rollcall.Endpoint]*edge.Conn)} }

func (d *devices) connect(node *edge.Node, user, device string) error {
	conn, err := node.Connect(user, device, edge.State{Foreground: true, Active: true})
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open[rollcall.Endpoint{User: user, Device: device}] = conn
	return nil
}

func (d *devices) find(user, device string) (*edge.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	conn := d.open[rollcall.Endpoint{User: user, Device: device}]
	if conn == nil {
		return nil, fmt.Errorf("%s of %s is not connected", device, user)
	}
	return conn, nil
}

func (d *devices) close(user, device string) error {
	conn, err := d.find(user, device)
	if err != nil {
		return err
	}
	d.mu.Lock()
	delete(d.open, rollcall.Endpoint{User: user, Device: device})
	d.mu.Unlock()
	conn.Close()
	return nil
}

func (d *devices) setState(user, device, name string) error {
	state, err := stateOf(name)
	if err != nil {
		return err
	}
	conn, err := d.find(user, device)
	if err != nil {
		return err
	}
	return conn.SetState(state)
}

// beat lets every device send a heartbeat from time to time.
func (d *devices) beat(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for seq := uint32(1); ; seq++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		d.mu.Lock()
		for _, conn := range d.open {
			conn.Beat(seq)
		}
		d.mu.Unlock()
	}
}
