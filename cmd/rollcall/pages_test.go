package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/rollcall-io/rollcall"
)

// pages are all that somebody reads before using rollcall.
func pages(t *testing.T) (paths []string) {
	t.Helper()
	for _, pattern := range []string{"../../README.md", "../../docs/*.md", "../../deploy/*.md", "../../clients/js/README.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, err)
		}
		for _, path := range found {
			if path, err = filepath.Abs(path); err != nil {
				t.Fatal(err)
			}
			paths = append(paths, path)
		}
	}
	return paths
}

func linesOf(t *testing.T, path string) []string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(raw), "\n")
}

// bare is a line of Go without indentation and comment, as far as a snippet is compared.
func bare(line string) string {
	line, _, _ = strings.Cut(strings.TrimSpace(line), "//")
	return strings.Join(strings.Fields(line), " ")
}

func bareLines(lines []string) (all []string) {
	for _, line := range lines {
		if line = bare(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}

// runsOf splits a snippet where it leaves something out.
func runsOf(lines []string, compared func([]string) []string) (runs [][]string) {
	begin := 0
	for n, line := range append(lines, "…") {
		if text := strings.TrimSpace(line); text == "…" || text == "// ..." {
			if run := compared(lines[begin:n]); len(run) > 0 {
				runs = append(runs, run)
			}
			begin = n + 1
		}
	}
	return runs
}

// contains says whether a run of lines is somewhere in a text, all of them, one after the other.
func contains(text, run []string) bool {
	for n := range text {
		if len(run) <= len(text)-n && slices.Equal(text[n:n+len(run)], run) {
			return true
		}
	}
	return false
}

// All Go in the pages is Go that is tested, line by line.
func TestGoOfPages(t *testing.T) {
	var sources [][]string
	examples, err := filepath.Glob("../../*/example_test.go")
	if err != nil || len(examples) == 0 {
		t.Fatal(err)
	}
	for _, path := range append(examples, snippets) {
		sources = append(sources, bareLines(linesOf(t, path)))
	}
	for _, path := range pages(t) {
		for _, b := range blocksOf(linesOf(t, path)) {
			if !slices.Equal(b.words, []string{"go"}) {
				continue
			}
			for _, run := range runsOf(b.lines, bareLines) {
				if !slices.ContainsFunc(sources, func(text []string) bool { return contains(text, run) }) {
					t.Errorf("%s:%d: no example has\n%s", path, b.first, strings.Join(run, "\n"))
				}
			}
		}
	}
}

var (
	aCommand   = regexp.MustCompile(`^(?:\$ )?(?:[A-Z_]+=\S+ )*(?:sudo (?:-u \S+ )?)?(?:/usr/(?:local/)?bin/)?(?:go run \./cmd/rollcall|rollcall) (.*)`)
	aFile      = regexp.MustCompile(`^[\w./-]+\.(?:creds|pem|json|csv|yaml|nk|key|parquet|jwt|secret)$`)
	afterwards = regexp.MustCompile(`\s+(?:#|&&|\||>|2>|&$|<).*`)
)

// All commands in the pages are commands, with flags that they have.
func TestCommandsOfPages(t *testing.T) {
	commands := 0
	for _, path := range pages(t) {
		for _, b := range blocksOf(linesOf(t, path)) {
			text := strings.ReplaceAll(strings.Join(b.lines, "\n"), "\\\n", " ")
			for line := range strings.Lines(text) {
				m := aCommand.FindStringSubmatch(strings.TrimSpace(line))
				if m == nil {
					continue
				}
				commands++
				if err := parses(t, afterwards.ReplaceAllString(m[1]+" ", "")); err != nil {
					t.Errorf("%s:%d: %q: %v", path, b.first, strings.TrimSpace(line), err)
				}
			}
		}
	}
	if commands < 60 {
		t.Errorf("only %d commands found", commands)
	}
	if err := parses(t, "who --viewers me"); err == nil {
		t.Error("anything parses")
	}
}

// parses parses a command line in a directory that has the files it names.
func parses(t *testing.T, line string) (err error) {
	t.Helper()
	t.Chdir(t.TempDir())
	words := split(line)
	for _, w := range words {
		if _, value, ok := strings.Cut(w, "="); ok {
			w = value
		}
		if aFile.MatchString(w) {
			err = errors.Join(err, os.MkdirAll(filepath.Dir(w), 0o700), os.WriteFile(w, nil, 0o600))
		}
	}
	exited := errors.New("exited")
	defer func() { // --help and --version end the process
		if r := recover(); r != nil && r != exited {
			panic(r)
		}
	}()
	parser, err2 := kong.New(&cli{}, kong.Vars{"version": version()}, kong.Writers(newOutput(), newOutput()), kong.Exit(func(int) { panic(exited) }))
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	_, err = parser.Parse(words)
	return err
}

// split splits a line into words as a shell does, as far as the pages need it.
func split(line string) (words []string) {
	for _, m := range regexp.MustCompile(`(?:[^\s"']|"[^"]*"|'[^']*')+`).FindAllString(line, -1) {
		words = append(words, strings.NewReplacer(`"`, "", "'", "").Replace(m))
	}
	return words
}

// Links lead to what is there.
func TestLinksOfPages(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	for _, path := range append(pages(t), "../../ARCHITECTURE.md") {
		for n, line := range linesOf(t, path) {
			for _, m := range link.FindAllStringSubmatch(line, -1) {
				if _, err := os.Stat(filepath.Join(filepath.Dir(path), m[1])); err != nil {
					t.Errorf("%s:%d: %v", path, n+1, err)
				}
			}
		}
	}
}

// The index knows every page.
func TestIndexOfPages(t *testing.T) {
	index := strings.Join(linesOf(t, "../../docs/README.md"), "\n")
	for _, path := range pages(t) {
		if name := filepath.Base(path); name != "README.md" && !strings.Contains(index, "("+name+")") {
			t.Errorf("docs/README.md does not lead to %s", name)
		}
	}
}

// The page of the parameters has those of every preset.
func TestParametersPage(t *testing.T) {
	page := linesOf(t, "../../docs/parameters.md")
	for _, name := range rollcall.FieldNames() {
		row := "| `" + name + "` |"
		for _, preset := range rollcall.PresetNames {
			p, err := rollcall.Preset(preset)
			if err != nil {
				t.Fatal(err)
			}
			value := fmt.Sprint(seconds(t, p)[name])
			if name != "jitter" {
				value = fmt.Sprint(time.Duration(seconds(t, p)[name] * float64(time.Second)))
			}
			row += " " + value + " |"
		}
		if !slices.ContainsFunc(page, func(line string) bool { return strings.HasPrefix(line, row) }) {
			t.Errorf("no row begins with\n%s", row)
		}
	}
}

// seconds are the parameters by name.
func seconds(t *testing.T, p rollcall.Params) (values map[string]float64) {
	t.Helper()
	raw, err := json.Marshal(p)
	if err == nil {
		err = json.Unmarshal(raw, &values)
	}
	if err != nil {
		t.Fatal(err)
	}
	return values
}
