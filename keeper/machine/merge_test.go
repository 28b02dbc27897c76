package machine

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects/wire"
)

// A user's state is merged from its devices' as the vectors say.
func TestMergeVectors(t *testing.T) {
	b, err := os.ReadFile("testdata/merge.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Rows []struct {
			Devices []string
			User    string
		}
	}
	if err := json.Unmarshal(b, &vectors); err != nil || len(vectors.Rows) == 0 {
		t.Fatalf("%d rows, %v", len(vectors.Rows), err)
	}
	for _, row := range vectors.Rows {
		w := newWorld(t, rollcall.Default())
		g := w.edge("g1")
		for i, name := range row.Devices {
			state, err := rollcall.ParseState(name)
			if err != nil {
				t.Fatal(err)
			}
			conn := g.open("ann", fmt.Sprintf("device%d", i), max(state, rollcall.Background))
			if state == rollcall.Offline { // it is gone, and does not count
				g.close(conn, wire.Reason_REASON_CLOSED)
			}
		}
		w.to(30)
		shown := rollcall.Offline
		if view := w.store.Views["ann"]; view != nil {
			shown = rollcall.State(view.State)
		}
		if shown.String() != row.User {
			t.Errorf("%v: %s, want %s", row.Devices, shown, row.User)
		}
	}
}
