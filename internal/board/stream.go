package board

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// A stream sends server-sent events.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func newStream(w http.ResponseWriter) stream {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy that waits for more would hold them back
	control := http.NewResponseController(w)
	// It has no end. Where there are no deadlines none are taken back.
	control.SetReadDeadline(time.Time{}) // reading on is how the server notices that the page is gone
	control.SetWriteDeadline(time.Time{})
	return stream{w, control}
}

// send fails when the page is gone.
func (s stream) send(event string, data any) error {
	b, err := json.Marshal(data)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", event, b); err != nil {
		return err
	}
	return s.control.Flush()
}
