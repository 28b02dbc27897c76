package subjects_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rollcall-io/rollcall/subjects"
)

type checked interface{ Check() error }

func TestDeviceRequests(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, c := range []struct {
		into checked
		body string
		bad  string // part of the message; empty if it is accepted
	}{
		{&subjects.DeviceOpenRequest{}, `{"device":"d","foreground":true,"active":false}`, ""},
		{&subjects.DeviceOpenRequest{}, `{"device":"d","foreground":true,"active":false,"later":{"x":1},"client":{"type":"web","later":1}}`, ""},
		{&subjects.DeviceOpenRequest{}, `{"foreground":true,"active":false}`, "device"},
		{&subjects.DeviceOpenRequest{}, `{"device":"d","active":false}`, "foreground is missing"},
		{&subjects.DeviceOpenRequest{}, `{"device":"d","foreground":null,"active":false}`, "foreground is null"},
		{&subjects.DeviceOpenRequest{}, `{"device":"d","foreground":true,"active":false,"later":null,"client":{"later":null},"":{"token":null}}`, ""},
		{&subjects.DeviceOpenRequest{}, `{"device":"d","foreground":true,"active":false,"client":{"TYPE":null}}`, "client.type is null"},
		{&subjects.DeviceOpenRequest{}, `{"device":"d","foreground":true}`, "active is missing"},
		{&subjects.DeviceOpenRequest{}, `{"device":"d","foreground":"yes","active":false}`, "foreground is of the wrong kind"},
		{&subjects.DeviceOpenRequest{}, `{"device":7,"foreground":true,"active":false}`, "device is of the wrong kind"},
		{&subjects.DeviceOpenRequest{}, `{"device":"\ud800","foreground":true,"active":false}`, "surrogate"},
		{&subjects.DeviceOpenRequest{}, `{"device":"d","foreground":true,"active":false,"activity":"` + long + `"}`, "activity has 300 bytes"},
		{&subjects.DeviceOpenRequest{}, `{"device":"d","foreground":true,"active":false,"session":"` + long + `"}`, "session"},
		{&subjects.DeviceOpenRequest{}, `{"device":"d","foreground":true,"active":false,"client":{"region":"` + long + `"}}`, "client.region"},
		{&subjects.DeviceOpenRequest{}, `{"device":"d","foreground":true,"active":false,"client":[]}`, "client is of the wrong kind"},
		{&subjects.DeviceOpenRequest{}, `[]`, "not an object"},
		{&subjects.DeviceOpenRequest{}, ``, "unexpected end"},
		{&subjects.DeviceOpenRequest{}, "{\"device\":\"\xff\"}", "UTF-8"},
		{&subjects.DeviceHeartbeatRequest{}, `{"seq":1}`, ""},
		{&subjects.DeviceHeartbeatRequest{}, `{"seq":4294967294,"activity":""}`, ""},
		{&subjects.DeviceHeartbeatRequest{}, `{"seq":1,"activity":null}`, "activity is null"},
		{&subjects.DeviceHeartbeatRequest{}, `{"seq":1,"sessionId":null}`, "sessionId is null"},
		{&subjects.DeviceHeartbeatRequest{}, `{"seq":1,"activity":"null"}`, ""},
		{&subjects.DeviceHeartbeatRequest{}, `{"seq":0}`, "seq"},
		{&subjects.DeviceHeartbeatRequest{}, `{}`, "seq"},
		{&subjects.DeviceHeartbeatRequest{}, `{"seq":4294967295}`, "seq"},
		{&subjects.DeviceHeartbeatRequest{}, `{"seq":4294967296}`, "seq is of the wrong kind, or out of range"},
		{&subjects.DeviceHeartbeatRequest{}, `{"seq":-1}`, "seq"},
		{&subjects.DeviceHeartbeatRequest{}, `{"seq":1.5}`, "seq"},
		{&subjects.DeviceHeartbeatRequest{}, `{"seq":"1"}`, "seq"},
		{&subjects.DeviceHeartbeatRequest{}, `{"seq":1,"activity":"` + long + `"}`, "activity"},
		{&subjects.DeviceStateRequest{}, `{"foreground":false,"active":false}`, ""},
		{&subjects.DeviceStateRequest{}, `{"active":false}`, "foreground is missing"},
		{&subjects.DeviceCloseRequest{}, `{}`, ""},
		{&subjects.DeviceCloseRequest{}, `{"reason":"logout"}`, ""},
		{&subjects.DeviceCloseRequest{}, `{"reason":"fire"}`, "reason is neither"},
		{&subjects.DeviceSession{}, `{"sessionId":"a","sessionEpoch":1}`, ""},
		{&subjects.DeviceSession{}, `{"sessionEpoch":1}`, "sessionId is missing"},
		{&subjects.DeviceSession{}, `{"sessionId":"a"}`, "sessionEpoch is missing"},
	} {
		err := subjects.DecodeDevice([]byte(c.body), c.into)
		if err == nil {
			err = c.into.Check()
		}
		switch {
		case c.bad == "" && err != nil:
			t.Errorf("%T %s: %v", c.into, c.body, err)
		case c.bad != "" && (!errors.Is(err, &subjects.DeviceError{Code: subjects.DeviceInvalid}) || !strings.Contains(err.Error(), c.bad)):
			t.Errorf("%T %.80s: %v, want it to say %q", c.into, c.body, err, c.bad)
		}
	}
}

func TestDeviceAnswersInJSON(t *testing.T) {
	at := time.Date(2026, 2, 3, 4, 5, 6, 7_890_000, time.UTC)
	answer := subjects.DeviceOpenAnswer{SessionID: "s", SessionEpoch: 1, DeviceAnswer: subjects.DeviceAnswer{ServerTime: subjects.DeviceTime(at.UnixMicro()), NextHeartbeatInMs: 28_000}}
	b, err := json.Marshal(answer)
	if want := `"serverTime":"2026-02-03T04:05:06.007Z","nextHeartbeatInMs":28000}`; err != nil || !strings.HasSuffix(string(b), want) {
		t.Errorf("%s, %v", b, err)
	}
	refusal := subjects.DeviceRefusal{Error: &subjects.DeviceError{Code: subjects.DeviceRateLimited, Message: "slowly", RetryAfter: time.Second}}
	b, err = json.Marshal(refusal)
	if want := `{"error":{"code":"RATE_LIMITED","message":"slowly","retryAfterMs":1000}}`; err != nil || string(b) != want {
		t.Errorf("%s, %v", b, err)
	}
	var back subjects.DeviceRefusal
	if err := json.Unmarshal(b, &back); err != nil || *back.Error != *refusal.Error {
		t.Errorf("%+v, %v", back.Error, err)
	}
}
