package check

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// An Example is a message in a Markdown page: a fenced block whose info string is
// "json" and the message's name. The headers of a message without a body are shown as
// an object.
type Example struct {
	Line    int
	Message string
	Body    []byte
}

const fence = "```"

// Examples reads the examples of a page. JSON that names no message is an error: nobody
// would hold it against anything.
func Examples(path string) (all []Example, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(data), "\n")
	for n := 0; n < len(lines); n++ {
		info, opens := strings.CutPrefix(lines[n], fence)
		if !opens {
			continue
		}
		begin := n + 1
		for n++; n < len(lines) && lines[n] != fence; n++ {
		}
		if n == len(lines) {
			return nil, fmt.Errorf("check: %s:%d: the block does not end", path, begin)
		}
		language, name, _ := strings.Cut(info, " ")
		if language != "json" {
			continue
		}
		body := []byte(strings.Join(lines[begin:n], "\n"))
		if name == "" || !json.Valid(body) {
			return nil, fmt.Errorf("check: %s:%d: not JSON of a message with a name", path, begin)
		}
		all = append(all, Example{begin, name, body})
	}
	return all, nil
}

// CheckExample holds an example against the message that it names.
func (d *Document) CheckExample(e Example) error {
	m := d.Messages[e.Message]
	switch {
	case m == nil:
		return fmt.Errorf("check: line %d: there is no message %s", e.Line, e.Message)
	case m.Check(nil, nil) != nil && m.headers != nil && m.payload.Validate(nil) == nil:
		// It has headers only.
		var headers map[string]string
		if err := json.Unmarshal(e.Body, &headers); err != nil {
			return fmt.Errorf("check: line %d: %w", e.Line, err)
		}
		all := make(map[string][]string, len(headers))
		for name, value := range headers {
			all[name] = []string{value}
		}
		return m.Check(all, nil)
	}
	return m.Check(nil, e.Body)
}
