package subjects_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall"
	"github.com/rollcall-io/rollcall/subjects"
)

// request is a body that names n different targets.
func request(n int) string {
	targets := make([]string, n)
	for i := range targets {
		targets[i] = fmt.Sprintf("t%d", i)
	}
	b, err := json.Marshal(subjects.Request{Targets: targets})
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestRefusedRequests(t *testing.T) {
	for name, tc := range map[string]struct {
		body string
		want subjects.Code
	}{
		"empty":                 {"", subjects.CodeNoTargets},
		"white space":           {" \r\n", subjects.CodeNoTargets},
		"null":                  {"null", subjects.CodeNoTargets},
		"no list":               {"{}", subjects.CodeNoTargets},
		"empty list":            {`{"targets":[]}`, subjects.CodeNoTargets},
		"null list":             {`{"targets":null}`, subjects.CodeInvalidRequest},
		"10,001 targets":        {request(subjects.MaxTargets + 1), subjects.CodeTooManyTargets},
		"10,001 times the same": {`{"targets":["a"` + strings.Repeat(`,"a"`, subjects.MaxTargets) + `]}`, subjects.CodeTooManyTargets},
		"129 bytes":             {`{"targets":["` + strings.Repeat("a", 129) + `"]}`, subjects.CodeInvalidID},
		"an empty id":           {`{"targets":["a",""]}`, subjects.CodeInvalidID},
		"not UTF-8":             {"{\"targets\":[\"\xff\"]}", subjects.CodeInvalidRequest},
		"overlong UTF-8":        {"{\"targets\":[\"\xc0\xaf\"]}", subjects.CodeInvalidRequest},
		"an encoded surrogate":  {"{\"targets\":[\"\xed\xa0\x80\"]}", subjects.CodeInvalidRequest},
		"a high surrogate":      {`{"targets":["\ud83d"]}`, subjects.CodeInvalidRequest},
		"a low surrogate":       {`{"targets":["\ude00"]}`, subjects.CodeInvalidRequest},
		"surrogates reversed":   {`{"targets":["\ude00\ud83d"]}`, subjects.CodeInvalidRequest},
		"surrogates apart":      {`{"targets":["\ud83dx\ude00"]}`, subjects.CodeInvalidRequest},
		"high before a pair":    {`{"targets":["\ud83d\ud83d\ude00"]}`, subjects.CodeInvalidRequest},
		"a list alone":          {`["a"]`, subjects.CodeInvalidRequest},
		"a string":              {`{"targets":"a"}`, subjects.CodeInvalidRequest},
		"numbers":               {`{"targets":[1]}`, subjects.CodeInvalidRequest},
		"lists":                 {`{"targets":[["a"]]}`, subjects.CodeInvalidRequest},
		"an object":             {`{"targets":{"a":1}}`, subjects.CodeInvalidRequest},
		"trailing garbage":      {`{"targets":["a"]}x`, subjects.CodeInvalidRequest},
		"two bodies":            {`{"targets":["a"]}{}`, subjects.CodeInvalidRequest},
		"truncated":             {`{"targets":["a"`, subjects.CodeInvalidRequest},
		"byte order mark":       {"\ufeff{}", subjects.CodeInvalidRequest},
	} {
		r, err := subjects.DecodeRequest([]byte(tc.body), true)
		if !errors.Is(err, &subjects.Error{Code: tc.want}) {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
		if r.Targets != nil {
			t.Errorf("%s: half a request was returned", name)
		}
	}
}

func TestAcceptedRequests(t *testing.T) {
	long := strings.Repeat("a", 128)
	for name, tc := range map[string]struct {
		body string
		want []string
	}{
		"one":                 {`{"targets":["a"]}`, []string{"a"}},
		"duplicates":          {`{"targets":["b","a","b","a"]}`, []string{"b", "a"}},
		"escaped duplicates":  {`{"targets":["a","\u0061"]}`, []string{"a"}},
		"128 bytes":           {`{"targets":["` + long + `"]}`, []string{long}},
		"wild":                {`{"targets":["*",">","a.b"," "]}`, []string{"*", ">", "a.b", " "}},
		"a surrogate pair":    {`{"targets":["\ud83d\ude00"]}`, []string{"😀"}},
		"an escaped escape":   {`{"targets":["\\ud83d"]}`, []string{`\ud83d`}},
		"the replacement":     {`{"targets":["\ufffd"]}`, []string{"\ufffd"}},
		"unknown fields stay": {`{"targets":["a"],"later":true}`, []string{"a"}},
	} {
		r, err := subjects.DecodeRequest([]byte(tc.body), true)
		if err != nil || !slices.Equal(r.Targets, tc.want) {
			t.Errorf("%s: %q, %v", name, r.Targets, err)
		}
	}
	if r, err := subjects.DecodeRequest([]byte(request(subjects.MaxTargets)), true); err != nil || len(r.Targets) != subjects.MaxTargets {
		t.Errorf("10,000 targets: %d, %v", len(r.Targets), err)
	}
	for _, body := range []string{"", " ", "null", "{}", `{"targets":[]}`} {
		if r, err := subjects.DecodeRequest([]byte(body), false); err != nil || len(r.Targets) != 0 {
			t.Errorf("%q without need of targets: %v, %v", body, r, err)
		}
	}
}

// Clients in other languages depend on these.
func TestCodesAreStable(t *testing.T) {
	for code, want := range map[subjects.Code]string{
		subjects.CodeInvalidRequest: "invalid_request", subjects.CodeInvalidID: "invalid_id",
		subjects.CodeNoTargets: "no_targets", subjects.CodeTooManyTargets: "too_many_targets",
		subjects.CodeTooLarge: "too_large", subjects.CodeUnavailable: "unavailable", subjects.CodeInternal: "internal",
		subjects.CodeRateLimited: "rate_limited", subjects.CodeTooMany: "too_many",
	} {
		err := error(subjects.Errorf(code, "because of %d", 1))
		if err.Error() != want+": because of 1" || !errors.Is(err, &subjects.Error{Code: code}) {
			t.Errorf("%s: %v", want, err)
		}
		if errors.Is(err, &subjects.Error{Code: "other"}) {
			t.Errorf("%s is equal to another code", want)
		}
	}
}

func TestMinute(t *testing.T) {
	at := time.Date(2026, 3, 29, 1, 59, 59, 999_999_000, time.UTC)
	m := subjects.MinuteOf(rollcall.MicrosOf(at))
	b, err := json.Marshal(m)
	if err != nil || string(b) != `"2026-03-29T01:59:00Z"` {
		t.Fatalf("%s, %v", b, err)
	}
	for body, want := range map[string]subjects.Minute{
		string(b): m, `"2026-03-29T03:59:59.9+02:00"`: m, `"1970-01-01T00:00:00Z"`: 0, "null": 0,
	} {
		var got subjects.Minute
		if err := json.Unmarshal([]byte(body), &got); err != nil || got != want {
			t.Errorf("%s: %v, %v", body, got, err)
		}
	}
	for absurd, want := range map[rollcall.Micros]string{1<<63 - 1: `"9999-12-31T23:59:00Z"`, -1 << 63: `"1970-01-01T00:00:00Z"`} {
		if b, err := json.Marshal(subjects.MinuteOf(absurd)); err != nil || string(b) != want {
			t.Errorf("%d: %s, %v", absurd, b, err)
		}
	}
	for _, body := range []string{`""`, `"soon"`, `5`, `"0000-01-01T00:00:00+23:59"`, `"9999-12-31T23:59:59-01:00"`, `"2026-03-29"`, `{}`} {
		if err := json.Unmarshal([]byte(body), new(subjects.Minute)); err == nil {
			t.Errorf("%s was accepted", body)
		}
	}
}

func TestUnknownMinutesAreLeftOut(t *testing.T) {
	b, err := json.Marshal(subjects.View{Target: "a", Status: rollcall.StatusUnknown, Version: 1})
	if want := `{"target":"a","status":"unknown","version":1}`; err != nil || string(b) != want {
		t.Errorf("%s, %v", b, err)
	}
}

func TestMessageRoundTrip(t *testing.T) {
	want := subjects.Message{
		Position: subjects.Position{Shard: 1, Generation: 2, Seq: 3, Feed: subjects.FeedStalled, Reason: "keeper", Targets: 4},
		Changes:  []subjects.View{{Target: "a", Status: rollcall.StatusOnline, State: "active", Version: 1<<53 - 1, ObservedAtMinute: 29_000_000}},
	}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := subjects.DecodeMessage(b)
	if err != nil || got.Position != want.Position || !slices.Equal(got.Changes, want.Changes) {
		t.Errorf("%s became %+v, %v", b, got, err)
	}
	if m, err := subjects.DecodeMessage(append(b[:len(b)-1], 'x')); !errors.Is(err, subjects.ErrMalformed) || m.Shard != 0 {
		t.Errorf("garbage: %+v, %v", m, err)
	}
}
