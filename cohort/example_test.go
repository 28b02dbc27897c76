package cohort_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/cohort"
	"github.com/rollcall-io/rollcall/internal/natsd"
)

// Workers consume a stream by partition, each partition in order and by one worker at a time. The
// server computes the partition of an order from its customer.
func Example() {
	nc, stop := exampleServer()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	js, err := jetstream.New(nc)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: "ORDERS", Subjects: []string{"orders.*"},
		SubjectTransform: &jetstream.SubjectTransformConfig{Source: "orders.*", Destination: "orders.{{partition(4,1)}}.{{wildcard(1)}}"},
	}); err != nil {
		log.Fatal(err)
	}
	for i := range 100 {
		if _, err := js.Publish(ctx, fmt.Sprintf("orders.customer%d", i%20), fmt.Append(nil, i)); err != nil {
			log.Fatal(err)
		}
	}

	m, err := cohort.Join(ctx, nc, cohort.Config{Group: "orders", ID: "worker-1", Partitions: 4})
	if err != nil {
		log.Fatal(err)
	}
	done := make(chan struct{}, 100)
	working, finish := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- m.Own(working, func(ctx context.Context, g rollcall.Grant) error {
			return consume(ctx, js, m, g.Shard, func(jetstream.Msg) { done <- struct{}{} })
		})
	}()
	for range 100 {
		<-done
	}
	fmt.Println("100 orders")

	// On SIGTERM: end the work, then say goodbye. Who is back within the hold goes on with the same
	// partitions.
	finish()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
	if err := m.Leave(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: 100 orders
}

// consume works on one partition until ctx ends: it is asked for, or lost.
func consume(ctx context.Context, js jetstream.JetStream, m *cohort.Member, partition int, work func(jetstream.Msg)) error {
	offset, err := m.Offset(partition)
	if err != nil {
		return err
	}
	consumer, err := js.OrderedConsumer(ctx, "ORDERS", jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{fmt.Sprintf("orders.%d.*", partition)},
		DeliverPolicy:  jetstream.DeliverByStartSequencePolicy, OptStartSeq: offset + 1,
	})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	for {
		msg, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		work(msg)
		meta, err := msg.Metadata()
		if err != nil {
			return err
		}
		// What is done is done, also when the partition is asked for just now. After the commit
		// nobody does it again; a worker that lost the partition meanwhile learns of it here.
		if err := m.Commit(context.WithoutCancel(ctx), partition, meta.Sequence.Stream); err != nil {
			return err
		}
	}
}

func exampleServer() (nc *nats.Conn, stop func()) {
	dir, err := os.MkdirTemp("", "rollcall-")
	if err != nil {
		log.Fatal(err)
	}
	server, err := natsd.Start(natsd.Config{StoreDir: dir})
	if err != nil {
		log.Fatal(err)
	}
	nc, err = nats.Connect("", nats.InProcessServer(server))
	if err != nil {
		log.Fatal(err)
	}
	return nc, func() {
		nc.Close()
		server.Shutdown()
		os.RemoveAll(dir)
	}
}
