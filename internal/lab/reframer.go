package lab

import (
	"bytes"
	"strconv"
)

// A reframer follows the server's side of the NATS client protocol, whatever the
// pieces in which it arrives, and rewrites store time in it once the clock has
// jumped. Before that it passes bytes on as they come and only keeps count of where
// an operation ends. A jump takes effect with the next operation.
type reframer struct {
	clocks clocks

	inside bool   // an operation has begun
	whole  bool   // it is held back until complete
	body   int    // bytes of its body to come
	line   []byte // its control line as far as it has come
	held   []byte // all of it, if whole
}

// feed appends what may pass to dst.
func (r *reframer) feed(dst, src []byte) []byte {
	for len(src) > 0 {
		if !r.inside {
			r.inside, r.whole = true, r.clocks.jumped()
		}
		n := r.advance(src)
		if r.whole {
			r.held = append(r.held, src[:n]...)
		} else {
			dst = append(dst, src[:n]...)
		}
		src = src[n:]
		if !r.inside && r.whole {
			dst = rewrite(dst, r.held, r.clocks)
			r.held = r.held[:0]
		}
	}
	return dst
}

// advance says how many bytes of src belong to the present step of the operation,
// its control line or its body.
func (r *reframer) advance(src []byte) int {
	if r.body > 0 {
		n := min(r.body, len(src))
		r.body -= n
		r.inside = r.body > 0
		return n
	}
	n := bytes.IndexByte(src, '\n') + 1
	if n == 0 {
		r.line = append(r.line, src...)
		return len(src)
	}
	r.line = append(r.line, src[:n]...)
	r.body = bodyLength(r.line)
	r.line = r.line[:0]
	r.inside = r.body > 0
	return n
}

// bodyLength is how many bytes follow a control line, the line end included.
func bodyLength(line []byte) int {
	if !isMessage(line) {
		return 0
	}
	fields := bytes.Fields(line)
	size, err := strconv.Atoi(string(fields[len(fields)-1]))
	if err != nil || size < 0 {
		return 0
	}
	return size + len("\r\n")
}

func isMessage(line []byte) bool {
	return bytes.HasPrefix(line, []byte("MSG ")) || bytes.HasPrefix(line, []byte("HMSG "))
}
