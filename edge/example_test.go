package edge_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall/edge"
)

// A gateway that embeds an edge: it connects a device when its socket opens, notes
// its heartbeats, and closes the socket when the device has fallen silent.
func Example() {
	nc, err := nats.Connect(nats.DefaultURL, nats.MaxReconnects(-1))
	if err != nil {
		fmt.Println("no server here:", err)
		return
	}
	defer nc.Close()
	node, err := edge.New(nc, edge.Config{
		ID:     "gateway-1",
		OnDead: func(c *edge.Conn) { fmt.Println("close the socket of", c.User(), c.Device()) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() {
		if err := node.Run(context.Background()); err != nil {
			slog.Error("the edge has ended", "error", err) // close all sockets and exit
		}
	}()
	<-node.Ready()
	serve := func(socket net.Conn, user, device string, heartbeats <-chan uint32) error {
		defer socket.Close()
		conn, err := node.Connect(user, device, edge.State{Foreground: true})
		if err != nil {
			return err
		}
		defer conn.Close()
		for seq := range heartbeats {
			conn.Beat(seq)
		}
		return nil
	}
	_ = serve // called for every socket

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	node.Drain(ctx) // on SIGTERM
}
