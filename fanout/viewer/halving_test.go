package viewer

import (
	"errors"
	"slices"
	"testing"

	"github.com/rollcall-io/rollcall/subjects"
)

func TestHalving(t *testing.T) {
	tooLarge := subjects.Errorf(subjects.CodeTooLarge, "ask in parts")
	other := errors.New("other")
	targets := []string{"a", "b", "c", "d", "e", "f", "g"}
	for _, tc := range []struct {
		limit int
		asked int // parts that were answered
		err   error
	}{{7, 1, nil}, {3, 3, nil}, {1, 7, nil}, {0, 0, tooLarge}} {
		var answered []string
		parts := 0
		err := halving(targets, func(part []string) error {
			if len(part) > tc.limit {
				return tooLarge
			}
			parts++
			answered = append(answered, part...)
			return nil
		})
		if !errors.Is(err, tc.err) || parts != tc.asked || tc.err == nil && !slices.Equal(answered, targets) {
			t.Errorf("limit %d: %v, %d parts, %v", tc.limit, err, parts, answered)
		}
	}
	if err := halving(targets, func([]string) error { return other }); err != other {
		t.Errorf("another error became %v", err)
	}
}
