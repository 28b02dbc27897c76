package gateway_test

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/edge"
	"github.com/rollcall-io/rollcall/edge/door"
	"github.com/rollcall-io/rollcall/edge/gateway"
	"github.com/rollcall-io/rollcall/edge/gateway/bearer"
	"github.com/rollcall-io/rollcall/internal/fabric"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/internal/natsd"
)

// The crowd is measured in three processes: NATS in the test's, the gateway alone in its
// own, and the clients in a third. Both children are this program again.
var (
	crowd    = flag.Int("crowd", 300, "sockets to hold at a time")
	lasting  = flag.Duration("lasting", 2*time.Second, "how long each load lasts")
	evidence = flag.String("evidence", "", "where the figures are written")
)

const childRole = "GATEWAY_TEST_CHILD"

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(childRole) {
	case "gateway":
		err = runGateway(os.Args[1])
	case "clients":
		err = runClients(os.Args[1], os.Args[2])
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var crowdKey = ed25519.NewKeyFromSeed([]byte(strings.Repeat("k", ed25519.SeedSize)))

// A child answers each line that it is sent with a line of JSON.
type child struct {
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Reader
}

func startChild(t *testing.T, role string, args ...string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env, cmd.Stderr = append(os.Environ(), childRole+"="+role), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	return &child{t, in, bufio.NewReader(out)}
}

func (c *child) ask(command string, answer any) {
	c.t.Helper()
	if command != "" {
		fmt.Fprintln(c.in, command)
	}
	line, err := c.out.ReadBytes('\n')
	if err != nil {
		c.t.Fatalf("%s: %v", command, err)
	}
	if err := json.Unmarshal(line, answer); err != nil {
		c.t.Fatalf("%s: %s: %v", command, line, err)
	}
}

// answering serves the commands of a child until its parent is gone.
func answering(first any, answer func(words []string) (any, error)) error {
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(first); err != nil {
		return err
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		got, err := answer(strings.Fields(in.Text()))
		if err != nil {
			return err
		}
		if err := out.Encode(got); err != nil {
			return err
		}
	}
	return nil
}

// held is what the gateway's process takes.
type held struct {
	Sockets, Sessions, Goroutines int
	Heap, Stacks, Resident        uint64
	Processor                     time.Duration
	Beats, LateBeats, Files       uint64
}

// runGateway is a gateway whose limits are no matter here.
func runGateway(server string) error {
	files := raiseFiles()
	nc, err := nats.Connect(server)
	if err != nil {
		return err
	}
	d, err := door.New(nc, door.Config{Edge: edge.Config{ID: "crowd"}, Rate: 1 << 30, Burst: 1 << 30})
	if err != nil {
		return err
	}
	v, err := bearer.New(context.Background(), bearer.Config{Keys: []ed25519.PublicKey{crowdKey.Public().(ed25519.PublicKey)}})
	if err != nil {
		return err
	}
	g, err := gateway.New(gateway.Config{Door: d, Verify: v.Verify, AddressRate: 1 << 30, AddressBurst: 1 << 30, SocketRate: 1 << 30, SocketBurst: 1 << 30})
	if err != nil {
		return err
	}
	go d.Run(context.Background())
	<-d.Ready()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go gateway.NewServer(g).Serve(listener)
	return answering(listener.Addr().String(), func([]string) (any, error) {
		runtime.GC()
		runtime.GC() // what the pools held
		samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
		metrics.Read(samples)
		return held{
			Sockets: g.Sockets(), Sessions: d.Sessions(), Goroutines: runtime.NumGoroutine(), Heap: samples[0].Value.Uint64(), Stacks: samples[1].Value.Uint64(),
			Resident: residentBytes(), Processor: processorTime(), Beats: d.Node().Stats().Beats, LateBeats: d.Node().Stats().LateBeats,
			Files: files,
		}, nil
	})
}

func residentBytes() uint64 {
	text, _ := os.ReadFile("/proc/self/statm")
	if fields := strings.Fields(string(text)); len(fields) > 1 {
		pages, _ := strconv.ParseUint(fields[1], 10, 64)
		return pages * uint64(os.Getpagesize())
	}
	return 0
}

// load is what clients saw.
type load struct {
	Answers         int
	Took            time.Duration
	Half, Most, Max time.Duration // of the answers: median, 99 of 100, all
	Failed          int
}

func runClients(address, count string) error {
	raiseFiles()
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	began := time.Now()
	sockets, err := openAll(address, n)
	if err != nil {
		return err
	}
	seqs := make([]int, n) // each touched by one goroutine at a time
	beat := func(i int) error {
		seqs[i]++
		a, err := sockets[i].Ask(`{"op":"heartbeat","seq":` + strconv.Itoa(seqs[i]) + `}`)
		if err == nil && a["error"] != nil {
			err = fmt.Errorf("%v", a)
		}
		return err
	}
	return answering(time.Since(began), func(words []string) (any, error) {
		lasts, err := time.ParseDuration(words[1])
		if err != nil {
			return nil, err
		}
		switch words[0] {
		case "beat": // every socket, as often as the third word says
			period, err := time.ParseDuration(words[2])
			return measure(n, lasts, func(i int, until time.Time, note func(error, time.Duration)) {
				for next := time.Now().Add(rand.N(period)); next.Before(until); next = next.Add(period) {
					time.Sleep(time.Until(next))
					asked := time.Now()
					note(beat(i), time.Since(asked))
				}
			}), err
		default: // a few sockets, as fast as they are answered
			return measure(min(n, 64), lasts, func(i int, until time.Time, note func(error, time.Duration)) {
				for asked := time.Now(); asked.Before(until); asked = time.Now() {
					note(beat(i), time.Since(asked))
				}
			}), nil
		}
	})
}

// openAll opens sockets with a session each, from four addresses, since one has too few
// ports.
func openAll(address string, n int) ([]*lab.Socket, error) {
	sockets, failed := make([]*lab.Socket, n), make(chan error, n)
	turns := make(chan struct{}, 64)
	var all sync.WaitGroup
	for i := range n {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			var err error
			if sockets[i], err = openOne(address, i); err != nil {
				failed <- err
			}
		})
	}
	all.Wait()
	select {
	case err := <-failed:
		return nil, fmt.Errorf("%d of %d: %w", len(failed)+1, n, err)
	default:
		return sockets, nil
	}
}

func openOne(address string, i int) (*lab.Socket, error) {
	user := fmt.Sprintf("user-%06d", i)
	token, err := bearer.Mint(crowdKey, user, "", time.Hour)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: 30 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(1+i%4))}}
	conn, err := dialer.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	s, err := lab.Handshake(conn, "ws://"+address+gateway.Root+"presence/socket", http.Header{"Authorization": {"Bearer " + token}})
	if err != nil {
		return nil, err
	}
	a, err := s.Ask(`{"op":"open","device":"phone","foreground":true,"active":true,"client":{"type":"web"}}`)
	if err == nil && a["error"] != nil {
		err = fmt.Errorf("%v", a)
	}
	return s, err
}

func measure(n int, lasts time.Duration, run func(i int, until time.Time, note func(error, time.Duration))) load {
	var mu sync.Mutex
	var l load
	var times []time.Duration
	began := time.Now()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			run(i, began.Add(lasts), func(err error, took time.Duration) {
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					l.Failed++
				}
				times = append(times, took)
			})
		})
	}
	all.Wait()
	slices.Sort(times)
	l.Answers, l.Took = len(times), time.Since(began)
	if len(times) > 0 {
		l.Half, l.Most, l.Max = times[len(times)/2], times[len(times)*99/100], times[len(times)-1]
	}
	return l
}

// Many sockets are held by one process, and each of them gets its answers.
func TestCrowd(t *testing.T) {
	server, err := natsd.Start(natsd.Config{StoreDir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	nc, err := server.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fabric.Ensure(t.Context(), js, fabric.Config{Params: rollcall.Default()}); err != nil {
		t.Fatal(err)
	}
	g := startChild(t, "gateway", server.ClientURL())
	var address string
	g.ask("", &address)
	var before, open, after held
	g.ask("look", &before)
	clients := startChild(t, "clients", address, strconv.Itoa(*crowd))
	var opening time.Duration
	clients.ask("", &opening)
	g.ask("look", &open)
	// At the rate of the protocol, or what comes to as much in a small run.
	period := min(28500*time.Millisecond, *lasting/2)
	var usual, full load
	clients.ask(fmt.Sprintf("beat %s %s", *lasting, period), &usual)
	g.ask("look", &after)
	spent := after.Processor - open.Processor
	clients.ask(fmt.Sprintf("flood %s", min(*lasting, 10*time.Second)), &full) // not so long that the others count as dead
	g.ask("look", &after)

	n := uint64(*crowd)
	if open.Sockets != *crowd || open.Sessions != *crowd || after.Sessions != *crowd {
		t.Errorf("%+v, then %+v", open, after)
	}
	if extra := open.Goroutines - before.Goroutines - *crowd; extra > 20 {
		t.Errorf("%d goroutines more than one for each socket", extra)
	}
	if usual.Failed+full.Failed > 0 || usual.Answers == 0 || after.LateBeats > 0 {
		t.Errorf("%+v, %+v, %+v", usual, full, after)
	}
	heap, stacks := (open.Heap-before.Heap)/n, (open.Stacks-before.Stacks)/n
	if *crowd >= 300 && (heap > 4096 || stacks > 16384) { // of a small crowd as of a large one
		t.Errorf("a socket takes %d bytes of heap and %d of stacks", heap, stacks)
	}
	report := fmt.Sprintf(`%d WebSockets with a session each, held by one gateway process; NATS and clients in others on the same machine
opened in %s, %.0f/s (TLS none, one EdDSA token each)
memory of the gateway: %d bytes of heap and %d of stacks a socket; resident %d bytes a socket, %.0f MB in all (%.0f MB before)
heartbeats at the usual rate: %.0f/s for %s, answered in %s (median), %s (99 of 100), %s (all); %.1f %% of a processor
heartbeats as fast as 64 sockets are answered: %.0f/s, %s (median), %s (99 of 100), %s (all)
one process may open %d files here, and a socket is one
`, *crowd, opening.Round(time.Millisecond), float64(n)/opening.Seconds(),
		heap, stacks, (open.Resident-before.Resident)/n, float64(open.Resident)/1e6, float64(before.Resident)/1e6,
		float64(usual.Answers)/usual.Took.Seconds(), usual.Took.Round(time.Second), usual.Half.Round(time.Microsecond), usual.Most.Round(time.Microsecond), usual.Max.Round(time.Microsecond),
		100*spent.Seconds()/usual.Took.Seconds(),
		float64(full.Answers)/full.Took.Seconds(), full.Half.Round(time.Microsecond), full.Most.Round(time.Microsecond), full.Max.Round(time.Microsecond), open.Files)
	t.Log("\n" + report)
	if *evidence != "" {
		if err := os.WriteFile(*evidence, []byte(report), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
