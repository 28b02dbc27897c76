package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What the pages show in JavaScript are pieces of these, which the tests of the client run.
var scripts = []string{"../../clients/js/test/snippets.ts", "../../clients/js/test/react/snippets.jsx"}

var (
	javaScript = []string{"js", "jsx", "ts", "tsx", "javascript", "typescript"}
	anImport   = regexp.MustCompile(`^import \{ (.*) \} from (".*");`)
)

// A script is what is compared of lines of JavaScript: what is imported, as `name from
// "module"`, and the others without indentation.
type script struct{ imports, lines []string }

func scriptOf(lines []string) (s script) {
	for _, line := range lines {
		if m := anImport.FindStringSubmatch(line); m != nil {
			for name := range strings.SplitSeq(m[1], ", ") {
				s.imports = append(s.imports, name+" from "+m[2])
			}
		} else if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "/**") { // types for a page without
			s.lines = append(s.lines, line)
		}
	}
	return s
}

// shows says whether all lines of a block are in the script.
func (s script) shows(block []string) bool {
	for _, name := range scriptOf(block).imports {
		if !slices.Contains(s.imports, name) {
			return false
		}
	}
	for _, run := range runsOf(block, func(lines []string) []string { return scriptOf(lines).lines }) {
		if !contains(s.lines, run) {
			return false
		}
	}
	return true
}

// All JavaScript in the pages is JavaScript that is tested, line by line.
func TestJavaScriptOfPages(t *testing.T) {
	var tested []script
	for _, path := range scripts {
		tested = append(tested, scriptOf(linesOf(t, path)))
	}
	found := 0
	for _, path := range pages(t) {
		for _, b := range blocksOf(linesOf(t, path)) {
			if len(b.words) == 0 || !slices.Contains(javaScript, b.words[0]) {
				continue
			}
			found++
			if !slices.ContainsFunc(tested, func(s script) bool { return s.shows(b.lines) }) {
				t.Errorf("%s:%d: none of %v has\n%s", path, b.first, scripts, strings.Join(b.lines, "\n"))
			}
		}
	}
	if found < 7 {
		t.Errorf("only %d blocks found", found)
	}
}
