package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/gobwas/ws"
)

// Socket is a WebSocket client that does what a test tells it, and no more.
type Socket struct {
	net.Conn
	reader io.Reader
}

// Handshake makes a WebSocket of a connection. A refusal is a [ws.StatusError].
func Handshake(conn net.Conn, at string, header http.Header) (*Socket, error) {
	u, err := url.Parse(at)
	if err != nil {
		return nil, err
	}
	dialer := ws.Dialer{Header: ws.HandshakeHeaderHTTP(header), Timeout: 10 * time.Second}
	buffered, _, err := dialer.Upgrade(conn, u)
	if err != nil {
		conn.Close()
		return nil, err
	}
	s := &Socket{conn, conn}
	if buffered != nil {
		s.reader = buffered
	}
	return s, nil
}

// DialSocket connects over TCP.
func DialSocket(ctx context.Context, at string, header http.Header) (*Socket, error) {
	u, err := url.Parse(at)
	if err != nil {
		return nil, err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return nil, err
	}
	return Handshake(conn, at, header)
}

// Say sends a message.
func (s *Socket) Say(text string) error { return s.Frame(ws.NewTextFrame([]byte(text))) }

// Frame sends a frame.
func (s *Socket) Frame(f ws.Frame) error {
	b, err := ws.CompileFrame(ws.MaskFrame(f))
	if err == nil {
		_, err = s.Write(b)
	}
	return err
}

// Closed says with which code the other side has closed.
type Closed struct {
	Code   int
	Reason string
}

func (c Closed) Error() string { return fmt.Sprintf("closed with %d %s", c.Code, c.Reason) }

// Hear waits for a message, and answers pings meanwhile. Its error is [Closed] if the other
// side closes as it should.
func (s *Socket) Hear() (string, error) {
	for {
		header, err := ws.ReadHeader(s.reader)
		if err != nil {
			return "", err
		}
		payload := make([]byte, header.Length)
		if _, err := io.ReadFull(s.reader, payload); err != nil {
			return "", err
		}
		switch header.OpCode {
		case ws.OpText:
			return string(payload), nil
		case ws.OpPing:
			if err := s.Frame(ws.NewPongFrame(payload)); err != nil {
				return "", err
			}
		case ws.OpClose:
			code, reason := ws.ParseCloseFrameData(payload)
			s.Frame(ws.NewCloseFrame(ws.NewCloseFrameBody(code, "")))
			return "", Closed{int(code), reason}
		case ws.OpPong:
			return "pong " + string(payload), nil
		default:
			return "", errors.New("lab: a frame that is no message")
		}
	}
}

// Ask sends a message and returns the next one that comes.
func (s *Socket) Ask(text string) (answer map[string]any, err error) {
	if err := s.Say(text); err != nil {
		return nil, err
	}
	heard, err := s.Hear()
	if err != nil {
		return nil, err
	}
	return answer, json.Unmarshal([]byte(heard), &answer)
}
