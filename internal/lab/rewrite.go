package lab

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// rewrite appends a complete operation with its store times stamped by the clocks.
// What holds no store time that is off stays as it is, byte for byte.
func rewrite(dst, op []byte, c clocks) []byte {
	line, body, _ := bytes.Cut(op, []byte("\r\n"))
	fields := strings.Fields(string(line))
	if !isMessage(op) || len(fields) < 4 || len(body) < 2 {
		return append(dst, op...)
	}
	sizes := 1 // MSG subject sid [reply] size
	if fields[0] == "HMSG" {
		sizes = 2 // HMSG subject sid [reply] header-size size
	}
	var changed bool
	if reply := len(fields) - sizes - 1; reply == 3 {
		fields[3], changed = stampReply(fields[3], c)
	}
	header, payload := 0, body[:len(body)-2]
	if sizes == 2 {
		header, _ = strconv.Atoi(fields[len(fields)-2])
		header = min(max(header, 0), len(payload))
	}
	newHeader, inHeader := stampAll(headerTime, payload[:header], c)
	newPayload, inPayload := payload[header:], false
	if bytes.HasPrefix(newPayload, apiResponse) {
		newPayload, inPayload = stampAll(jsonTime, newPayload, c)
	}
	if !changed && !inHeader && !inPayload {
		return append(dst, op...)
	}
	if sizes == 2 {
		fields[len(fields)-2] = strconv.Itoa(len(newHeader))
	}
	fields[len(fields)-1] = strconv.Itoa(len(newHeader) + len(newPayload))
	dst = append(dst, strings.Join(fields, " ")...)
	dst = append(dst, "\r\n"...)
	dst = append(dst, newHeader...)
	dst = append(dst, newPayload...)
	return append(dst, "\r\n"...)
}

// stampReply rewrites the time in the reply subject of a consumer's message:
//
//	$JS.ACK.<stream>.<consumer>.<n>.<sseq>.<cseq>.<time>.<pending>
//	$JS.ACK.<domain>.<account>.<stream>.<consumer>.<n>.<sseq>.<cseq>.<time>.<pending>[.<random>]
func stampReply(reply string, c clocks) (string, bool) {
	if !strings.HasPrefix(reply, "$JS.ACK.") {
		return reply, false
	}
	tokens := strings.Split(reply, ".")
	at := 7
	if len(tokens) >= 11 {
		at = 9
	} else if len(tokens) != 9 {
		return reply, false
	}
	nanos, err := strconv.ParseInt(tokens[at], 10, 64)
	if err != nil {
		return reply, false
	}
	stamped := c.stamp(time.Unix(0, nanos)).UnixNano()
	tokens[at] = strconv.FormatInt(stamped, 10)
	return strings.Join(tokens, "."), stamped != nanos
}

// apiResponse begins every answer of the JetStream API.
var apiResponse = []byte(`{"type":"io.nats.jetstream.api.v1.`)

// Where store time stands: before, the time, behind. Neither can occur inside a
// JSON string, where the quotes are escaped, or in base64.
var (
	jsonTime   = regexp.MustCompile(`("(?:ts|time|first_ts|last_ts)":")([^"]*)(")`)
	headerTime = regexp.MustCompile(`(?i)(\r\nNats-Time-Stamp: *)([^\r]*)(\r\n)`)
)

// stampAll rewrites every time that the pattern finds.
func stampAll(pattern *regexp.Regexp, text []byte, c clocks) ([]byte, bool) {
	var out []byte
	end := 0
	for _, m := range pattern.FindAllSubmatchIndex(text, -1) {
		at, err := time.Parse(time.RFC3339Nano, string(text[m[4]:m[5]]))
		if err != nil {
			continue
		}
		stamped := c.stamp(at)
		if stamped.Equal(at) {
			continue
		}
		out = append(out, text[end:m[4]]...)
		out = stamped.AppendFormat(out, time.RFC3339Nano)
		end = m[5]
	}
	if end == 0 {
		return text, false
	}
	return append(out, text[end:]...), true
}
