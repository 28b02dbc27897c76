//go:build !race

package trace_test

import (
	"encoding/csv"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/e2e"
	"github.com/rollcall-io/rollcall/fanout"
	"github.com/rollcall-io/rollcall/internal/lab"
	"github.com/rollcall-io/rollcall/internal/trace"
	"github.com/rollcall-io/rollcall/subjects"
)

var (
	replay    = flag.String("replay", "e2e/testdata/irc-netsplit-1d.csv", "the trace to replay; a relative path counts from the module's root")
	until     = flag.Duration("until", 0, "how much of the trace to replay; default: all of it")
	published = flag.String("published", "", "write what a viewer received to this CSV file; a relative path counts from the module's root")
)

// TestTrace plays a real connection history through the whole fabric, as it was,
// and holds what a viewer of everybody received against the rules of package trace.
func TestTrace(t *testing.T) {
	events := e2e.ReadTrace(t, fromRoot(*replay))
	if *until > 0 {
		events = slices.DeleteFunc(events, func(e trace.Event) bool { return e.At >= *until })
	}
	lab.Bubble(t, func(t *testing.T) {
		f := e2e.New(t, e2e.Options{Shards: shardsFor(events)})
		f.ForgetHeartbeats(time.Hour)
		f.StartKeeper()
		// Interests are refreshed seldom: the day is long and nobody leaves.
		f.StartFanoutWith(fanout.Config{InterestTTL: 48 * time.Hour})
		v := f.StartAudience(12*time.Hour, trace.Users(events)...)
		begin := f.Now()
		leave := f.Play(events)
		f.At(f.Now() + f.Params.Bounds().EdgeCrash.Latest + time.Second)
		length := f.Now() - begin
		leave()

		rows := v.Rows()
		for i := range rows {
			rows[i].At -= begin
		}
		for _, violation := range trace.Check(events, rows, f.Params, length, fanout.DefaultWindow) {
			t.Error(violation)
		}
		t.Logf("%d events, %d published changes, %s", len(events), len(rows), length)
		if *published != "" {
			writePublished(t, *published, rows)
		}
	})
}

// shardsFor plays days on the usual number of shards and weeks on one, which is
// played twice as fast: a fortnight is through before go test's ten minutes are over.
func shardsFor(events []trace.Event) int {
	const days = 3
	if len(events) > 0 && events[len(events)-1].At > days*24*time.Hour {
		return 1
	}
	return subjects.DefaultShards
}

// fromRoot makes a path relative to the module's root one of this directory.
func fromRoot(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join("..", "..", path)
}

func writePublished(t *testing.T, path string, rows []trace.Row) {
	t.Helper()
	file, err := os.Create(fromRoot(path))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w := csv.NewWriter(file)
	w.Write([]string{"t", "user", "status", "version"})
	for _, r := range rows {
		w.Write([]string{seconds(r.At), r.User, string(r.Status), strconv.FormatUint(r.Version, 10)})
	}
	w.Flush()
	if err := w.Error(); err != nil {
		t.Fatal(err)
	}
}

// seconds writes a time with as many decimals as it has, at most milliseconds.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Round(time.Millisecond).Seconds(), 'f', -1, 64)
}
