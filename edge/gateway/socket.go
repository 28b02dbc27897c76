package gateway

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"
	"golang.org/x/time/rate"

	"github.com/rollcall-io/rollcall/edge/door"
	"github.com/rollcall-io/rollcall/edge/gateway/bearer"
	"github.com/rollcall-io/rollcall/subjects"
)

// How long things of a socket may take, and how much is put up with.
const (
	opening    = 10 * time.Second // until the session is open
	receiving  = 10 * time.Second // a message that has begun
	writing    = 5 * time.Second
	lingering  = 2 * time.Second // after the gateway has said that it closes
	maxStrikes = 100             // messages too many before the socket is closed
	maxUnread  = 64 << 10        // bytes of one who goes on talking behind a close
)

// Codes of closes, besides those of RFC 6455.
const (
	closeSuperseded ws.StatusCode = 4001
	closeDead       ws.StatusCode = 4002
	closeRestart    ws.StatusCode = 1012 // Service Restart, as registered with IANA
)

// A socket is one WebSocket. Its goroutine reads, and writes the answers; only the end
// of its session comes from another.
type socket struct {
	gateway *Gateway
	conn    net.Conn
	source  io.Reader // conn, behind what came with the handshake
	who     bearer.Identity
	session *door.Session
	openBy  time.Time
	frames  *rate.Limiter
	strikes int

	mu     sync.Mutex
	ending bool // the gateway has said so
	cause  string
}

var _ door.Guest = (*socket)(nil)

// upgrade takes the connection away from the server; the handler's goroutine, with all that
// hangs on it, ends.
func (g *Gateway) upgrade(c *call) (any, error) {
	who, err := c.early()
	if err != nil {
		return nil, err
	}
	if !g.door.Accepting() {
		return nil, &subjects.DeviceError{Code: subjects.DeviceUnavailable, Message: "this front door is not open", RetryAfter: time.Second}
	}
	if g.sockets.Add(1) > int64(g.cfg.MaxSockets) {
		g.sockets.Add(-1)
		return nil, &subjects.DeviceError{Code: subjects.DeviceUnavailable, Message: "this gateway has all the sockets that it may have", RetryAfter: 5 * time.Second}
	}
	c.hijacked = true
	conn, rw, _, err := ws.HTTPUpgrader{Timeout: writing}.Upgrade(c.r, c.w)
	if err != nil {
		g.sockets.Add(-1)
		if conn != nil {
			conn.Close()
		}
		return nil, subjects.DeviceErrorf(subjects.DeviceInvalid, "%v", err)
	}
	s := &socket{
		gateway: g, conn: conn, source: conn, who: who, openBy: time.Now().Add(opening),
		frames: rate.NewLimiter(rate.Limit(g.cfg.SocketRate), g.cfg.SocketBurst), cause: "gone",
	}
	if n := rw.Reader.Buffered(); n > 0 {
		early, _ := rw.Reader.Peek(n)
		s.source = io.MultiReader(bytes.NewReader(bytes.Clone(early)), conn)
	}
	g.running.Go(s.run)
	return nil, nil
}

// early is what is refused before the connection becomes a socket, in the words of the
// protocol.
func (c *call) early() (who bearer.Identity, err error) {
	if !strings.EqualFold(c.r.Header.Get("Upgrade"), "websocket") || c.r.Header.Get("Sec-WebSocket-Key") == "" || c.r.ProtoMajor != 1 {
		return who, subjects.DeviceErrorf(subjects.DeviceInvalid, "this is where a WebSocket opens, over HTTP/1.1")
	}
	token, err := tokenOf(c.r)
	if err != nil || token == "" {
		return who, err // a page sends it with the first message
	}
	return c.gateway.identify(token)
}

func (s *socket) run() {
	defer s.leave()
	r := wsutil.Reader{
		Source: s.source, State: ws.StateServerSide, CheckUTF8: true, MaxMessageSize: s.gateway.cfg.MaxMessage,
		OnIntermediate: s.control, OnContinuation: func(ws.Header, io.Reader) error { return s.admit() },
	}
	s.readBy(s.openBy)
	for {
		if err := s.next(&r); err != nil {
			s.fail(err)
			return
		}
	}
}

// leave is the end of the socket, and of the session with it unless that has ended.
func (s *socket) leave() {
	s.conn.Close()
	if s.session != nil {
		s.session.Leave()
	}
	s.gateway.sockets.Add(-1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gateway.metrics.closes.WithLabelValues(s.cause).Inc()
}

// Errors that end a socket.
var (
	errFlood  = errors.New("too many messages")
	errBinary = errors.New("only text messages are understood")
	errSlow   = errors.New("no session was opened in time")
	errClosed = errors.New("closed") // by the client, once the gateway had
)

// admit takes a frame off the allowance.
func (s *socket) admit() error {
	if s.frames.Allow() {
		return nil
	}
	if s.strikes++; s.strikes > maxStrikes {
		return errFlood
	}
	return nil
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// next reads one message, or one control frame, and answers it.
func (s *socket) next(r *wsutil.Reader) error {
	header, err := r.NextFrame()
	if err != nil {
		return err
	}
	struck := s.strikes
	if err := s.admit(); err != nil {
		return err
	}
	if header.OpCode.IsControl() {
		return s.control(header, r)
	}
	if header.OpCode != ws.OpText {
		return errBinary
	}
	buffer := buffers.Get().(*bytes.Buffer)
	defer func() { buffer.Reset(); buffers.Put(buffer) }()
	s.readBy(time.Now().Add(receiving))
	if _, err := buffer.ReadFrom(r); err != nil {
		return err
	}
	switch {
	case s.isEnding(): // nobody listens any more
		return nil
	case s.strikes > struck:
		err = s.refuse(request{}, &subjects.DeviceError{
			Code: subjects.DeviceRateLimited, Message: "too many messages on this socket", RetryAfter: time.Second / time.Duration(s.gateway.cfg.SocketRate),
		})
	default:
		err = s.handle(buffer.Bytes())
	}
	if s.session != nil {
		s.readBy(time.Time{}) // silence is the door's to notice
	} else {
		s.readBy(s.openBy)
	}
	return err
}

// control answers pings and closes.
func (s *socket) control(h ws.Header, r io.Reader) error {
	if s.isEnding() { // behind a close nothing is said
		if h.OpCode == ws.OpClose {
			return errClosed
		}
		_, err := io.Copy(io.Discard, r)
		return err
	}
	return wsutil.ControlHandler{Src: r, Dst: s, State: ws.StateServerSide, DisableSrcCiphering: true}.Handle(h)
}

// Write writes whole frames, for a client that takes them in time.
func (s *socket) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writeLocked(b)
}

func (s *socket) writeLocked(b []byte) (int, error) {
	s.conn.SetWriteDeadline(time.Now().Add(writing))
	n, err := s.conn.Write(b)
	if err != nil {
		s.conn.Close() // a frame that is cut off cannot be mended
	}
	return n, err
}

// readBy sets until when the next bytes must have come; the zero time is never.
func (s *socket) readBy(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ending {
		s.conn.SetReadDeadline(t)
	}
}

func (s *socket) isEnding() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ending
}

// Ended implements [door.Guest].
func (s *socket) Ended(end door.End) {
	switch end {
	case door.Superseded:
		go s.end(closeSuperseded, "the device is connected elsewhere", subjects.DeviceSuperseded)
	case door.Dead:
		go s.end(closeDead, "no heartbeat came in time", subjects.DeviceDead)
	case door.Drained:
		go s.end(closeRestart, "register again elsewhere", "")
	}
}

// end says why the socket ends, once, and leaves the client a moment to say the same: a
// connection with bytes unread would be reset, and the reason lost.
func (s *socket) end(code ws.StatusCode, reason string, event subjects.DeviceOp) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending {
		return
	}
	s.ending, s.cause = true, causeOf(code)
	var frames []byte
	if event != "" {
		frames = text(message{Op: event})
	}
	s.writeLocked(append(frames, closing(code, reason)...))
	s.conn.SetReadDeadline(time.Now().Add(lingering))
}

// causeOf is the word for a code in the metrics.
func causeOf(code ws.StatusCode) string {
	switch code {
	case ws.StatusNormalClosure:
		return "closed"
	case closeSuperseded:
		return "superseded"
	case closeDead:
		return "dead"
	case closeRestart:
		return "drained"
	case ws.StatusPolicyViolation:
		return "policy"
	}
	return "malformed"
}

func closing(code ws.StatusCode, reason string) []byte {
	return ws.MustCompileFrame(ws.NewCloseFrame(ws.NewCloseFrameBody(code, reason)))
}

// fail is the end of the socket because of what came, or did not come.
func (s *socket) fail(err error) {
	code, says := ws.StatusProtocolError, err.Error()
	var closed wsutil.ClosedError
	var network net.Error
	switch {
	case errors.As(err, &closed):
		s.mu.Lock()
		defer s.mu.Unlock()
		s.cause = "client"
		return
	case s.isEnding(), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return
	case errors.As(err, &network) && network.Timeout() && s.session == nil:
		code, says = ws.StatusPolicyViolation, errSlow.Error()
	case errors.As(err, &network):
		return
	case errors.Is(err, errFlood):
		code = ws.StatusPolicyViolation
	case errors.Is(err, errBinary):
		code = ws.StatusUnsupportedData
	case errors.Is(err, wsutil.ErrInvalidUTF8):
		code = ws.StatusInvalidFramePayloadData
	case errors.Is(err, wsutil.ErrMessageTooLarge), errors.Is(err, wsutil.ErrFrameTooLarge):
		code, says = ws.StatusMessageTooBig, "messages have at most "+strconv.FormatInt(s.gateway.cfg.MaxMessage, 10)+" bytes"
		s.refuse(request{}, tooLarge(s.gateway.cfg.MaxMessage))
	}
	s.end(code, says, "")
	io.CopyN(io.Discard, s.conn, maxUnread) // until the client has closed too, or the time for it is over
}
