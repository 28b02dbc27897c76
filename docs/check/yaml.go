package check

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// ParseYAML reads the part of YAML in which the document is written: block mappings and
// sequences, plain and quoted scalars on one line, folded and literal blocks that end
// without a line break (">-", "|-"), flow sequences of plain scalars, and comments on
// lines of their own. Everything else is an error.
func ParseYAML(data []byte) (value any, err error) {
	p := &yamlParser{}
	for n, text := range strings.Split(string(data), "\n") {
		p.lines = append(p.lines, yamlLine{n + 1, len(text) - len(strings.TrimLeft(text, " ")), strings.TrimSpace(text)})
	}
	defer func() {
		if r := recover(); r != nil {
			bad, ok := r.(yamlError)
			if !ok {
				panic(r)
			}
			value, err = nil, bad
		}
	}()
	value = p.block(0)
	if line, more := p.peek(); more {
		p.fail(line, "indented unlike the lines before")
	}
	return value, nil
}

type yamlLine struct {
	number, indent int
	text           string
}

type yamlError struct {
	line   int
	reason string
}

func (e yamlError) Error() string { return fmt.Sprintf("check: line %d: %s", e.line, e.reason) }

type yamlParser struct{ lines []yamlLine }

func (p *yamlParser) fail(l yamlLine, format string, args ...any) {
	panic(yamlError{l.number, fmt.Sprintf(format, args...)})
}

// peek is the next line that says something.
func (p *yamlParser) peek() (yamlLine, bool) {
	for len(p.lines) > 0 {
		if l := p.lines[0]; l.text != "" && l.text[0] != '#' {
			return l, true
		}
		p.lines = p.lines[1:]
	}
	return yamlLine{}, false
}

func isItem(text string) bool { return text == "-" || strings.HasPrefix(text, "- ") }

// block reads the mapping or sequence at exactly this indent.
func (p *yamlParser) block(indent int) any {
	l, _ := p.peek()
	if isItem(l.text) {
		return p.sequence(indent)
	}
	return p.mapping(indent)
}

func (p *yamlParser) sequence(indent int) any {
	all := []any{}
	for {
		l, more := p.peek()
		if !more || l.indent != indent || !isItem(l.text) {
			return all
		}
		rest := strings.TrimLeft(l.text[1:], " ")
		inner := indent + len(l.text) - len(rest)
		if _, _, pair := splitPair(rest); !pair {
			p.lines = p.lines[1:]
			all = append(all, p.value(l, rest, indent))
			continue
		}
		// A mapping that begins beside the dash.
		p.lines[0] = yamlLine{l.number, inner, rest}
		all = append(all, p.mapping(inner))
	}
}

func (p *yamlParser) mapping(indent int) any {
	all := map[string]any{}
	for {
		l, more := p.peek()
		if !more || l.indent != indent {
			return all
		}
		name, rest, pair := splitPair(l.text)
		if !pair {
			p.fail(l, "neither a mapping nor a sequence")
		}
		key := fmt.Sprint(p.scalar(l, name))
		if _, twice := all[key]; twice {
			p.fail(l, "%s for the second time", key)
		}
		p.lines = p.lines[1:]
		all[key] = p.value(l, rest, indent)
	}
}

// splitPair splits "key: rest".
func splitPair(text string) (key, rest string, ok bool) {
	end := 0
	if text != "" && (text[0] == '\'' || text[0] == '"') {
		end = strings.IndexByte(text[1:], text[0]) + 2
	}
	colon := strings.Index(text[end:]+" ", ": ")
	if colon < 0 || strings.HasPrefix(text, "[") {
		return "", "", false
	}
	colon += end
	return text[:colon], strings.TrimSpace(text[min(colon+1, len(text)):]), true
}

// value reads what stands behind a key or a dash, or in the lines below it.
func (p *yamlParser) value(l yamlLine, rest string, indent int) any {
	switch rest {
	case "":
		below, more := p.peek()
		if more && (below.indent > indent || below.indent == indent && isItem(below.text) && !isItem(l.text)) {
			return p.block(below.indent)
		}
		return nil
	case ">-", "|-":
		return p.text(indent, rest == ">-")
	}
	return p.scalar(l, rest)
}

// text reads a folded or literal block. Lines that are indented further than the first
// are not folded.
func (p *yamlParser) text(indent int, folded bool) string {
	var b strings.Builder
	base, gap, deeper := -1, 0, false
	for ; len(p.lines) > 0; p.lines = p.lines[1:] {
		l := p.lines[0]
		if l.text == "" {
			gap++
			continue
		}
		if l.indent <= indent {
			break
		}
		if base < 0 {
			base = l.indent
		}
		further := l.indent > base
		switch {
		case b.Len() == 0:
		case gap == 0 && folded && !further && !deeper:
			b.WriteByte(' ')
		case folded && !further && !deeper:
			b.WriteString(strings.Repeat("\n", gap))
		default:
			b.WriteString(strings.Repeat("\n", gap+1))
		}
		b.WriteString(strings.Repeat(" ", l.indent-base) + l.text)
		gap, deeper = 0, further
	}
	return b.String()
}

func (p *yamlParser) scalar(l yamlLine, text string) any {
	switch text[0] {
	case '"':
		var s string
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			p.fail(l, "%s: %v", text, err)
		}
		return s
	case '\'':
		if len(text) < 2 || text[len(text)-1] != '\'' || strings.Contains(text[1:len(text)-1], "'") {
			p.fail(l, "%s is not one quoted scalar", text)
		}
		return text[1 : len(text)-1]
	case '[':
		return p.flow(l, text)
	case '{', '&', '*', '!', '|', '>', '%', '@', '`', ']', '}', ',':
		p.fail(l, "%s is beyond this reader", text)
	}
	if strings.Contains(text, " #") || strings.Contains(text, ": ") {
		p.fail(l, "%s needs quotes, or the comment a line of its own", text)
	}
	switch text {
	case "null", "~":
		return nil
	case "true", "false":
		return text == "true"
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	return text
}

func (p *yamlParser) flow(l yamlLine, text string) any {
	inner, closed := strings.CutSuffix(text[1:], "]")
	if !closed || strings.ContainsAny(inner, "[]{}") {
		p.fail(l, "%s is beyond this reader", text)
	}
	all := []any{}
	for part := range strings.SplitSeq(inner, ",") {
		if part = strings.TrimSpace(part); part != "" {
			all = append(all, p.scalar(l, part))
		}
	}
	return all
}
