package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/fanout/viewer"
	"github.com/rollcall-io/rollcall/internal/retry"
	"github.com/rollcall-io/rollcall/subjects"
	"github.com/rollcall-io/rollcall/subjects/identity"
)

// A natsDevice speaks NATS with the credential that rollcall token has minted.
type natsDevice struct {
	user  string
	nc    *nats.Conn
	names subjects.Names

	session subjects.DeviceSession
	seq     uint32
	gate    atomic.Value // of the session: the beginning of its id
}

func newNATSDevice(t *testing.T, url, user string) *natsDevice {
	t.Helper()
	file := filepath.Join(t.TempDir(), "device.creds")
	if code, _, errs := command(t, "token", "device", "--user", user, "--device", "phone", "--out", file); code != 0 {
		t.Fatal(errs)
	}
	options, err := identity.FromFile(file)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(url, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	names, err := subjects.New(subjects.DefaultPrefix, 1)
	if err != nil {
		t.Fatal(err)
	}
	d := &natsDevice{user: user, nc: nc, names: names}
	d.gate.Store("")
	return d
}

func (d *natsDevice) ask(op subjects.DeviceOp, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	m, err := d.nc.Request(d.names.Device(op, d.user, "phone"), body, 5*time.Second)
	if err != nil {
		return err
	}
	var refusal subjects.DeviceRefusal
	if err := json.Unmarshal(m.Data, &refusal); err != nil || refusal.Error != nil {
		return errors.Join(err, refusal.Error)
	}
	return json.Unmarshal(m.Data, answer)
}

// talk keeps a session until ctx ends.
func (d *natsDevice) talk(ctx context.Context) {
	for wait := time.Duration(0); retry.Pause(ctx, wait); {
		var answer subjects.DeviceOpenAnswer
		var err error
		if d.session.SessionID == "" {
			err = d.ask(subjects.DeviceOpen, subjects.DeviceOpenRequest{Device: "phone", Foreground: new(true), Active: new(true)}, &answer)
			if err == nil {
				d.session, d.seq = subjects.DeviceSession{SessionID: answer.SessionID, SessionEpoch: answer.SessionEpoch}, 0
				d.gate.Store(answer.SessionID)
			}
		} else {
			d.seq++
			err = d.ask(subjects.DeviceHeartbeat, subjects.DeviceHeartbeatRequest{DeviceSession: d.session, Seq: d.seq}, &answer.DeviceAnswer)
		}
		wait = time.Duration(answer.NextHeartbeatInMs) * time.Millisecond
		if err != nil {
			wait = 200 * time.Millisecond
		}
		if errors.Is(err, &subjects.DeviceError{Code: subjects.DeviceUnregistered}) {
			d.session = subjects.DeviceSession{}
		}
	}
}

// Gates are processes: one is killed, another stopped beside a third, and nobody who looks
// sees anything of it.
func TestGatesAreProcesses(t *testing.T) {
	url := up(t, "--preset", "worker", "--no-natsgate", "--http", "off")
	gate := func(id string) child {
		c := startChild(t, "natsgate", "-s", url, "--id", id, "--phi", "8")
		c.out.await(t, "natsgate "+id+" runs on")
		return c
	}
	first, second := gate("one"), gate("two")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var devices []*natsDevice
	var users []string
	for i := range 8 {
		d := newNATSDevice(t, url, fmt.Sprint("user.", i))
		devices, users = append(devices, d), append(users, d.user)
		go d.talk(ctx)
	}
	file := filepath.Join(t.TempDir(), "viewer.creds")
	if code, _, errs := command(t, "token", "viewer", "--user", "vera", "--out", file); code != 0 {
		t.Fatal(errs)
	}
	options, err := identity.FromFile(file)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(url, options...)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	client, err := viewer.New(nc, viewer.Config{Viewer: "vera"})
	if err != nil {
		t.Fatal(err)
	}
	go client.Run(ctx)
	if err := client.Watch(ctx, users...); err != nil {
		t.Fatal(err)
	}
	// await waits until everybody is online with a session at one of some gates.
	await := func(what string, gates ...string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			missing := 0
			for _, d := range devices {
				at, _, _ := strings.Cut(d.gate.Load().(string), ".")
				if s, _ := client.State(d.user); s.View.Status != rollcall.StatusOnline || !slices.Contains(gates, at) {
					missing++
				}
			}
			if missing == 0 {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %d are missing; %s", what, missing, second.errs)
			}
		}
	}
	await("in the beginning", "one", "two")
	var offline atomic.Int64
	go func() {
		for c := range client.Changes() {
			if c.View.Status == rollcall.StatusOffline {
				offline.Add(1)
			}
		}
	}()
	first.kill()
	await("after one was killed", "two")
	gate("three")
	second.stop(t)
	await("after two was stopped", "three")
	time.Sleep(2 * time.Second) // what follows from it is told
	if n := offline.Load(); n > 0 {
		t.Errorf("somebody was shown offline %d times", n)
	}
	if code, _, errs := command(t, "natsgate", "-s", url, "--phi=-1"); code != exitUsage {
		t.Errorf("%d %s", code, errs)
	}
}
