package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/csv"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "modernc.org/sqlite"
)

var updateDoc = flag.Bool("update-doc", false, "write what the commands of the pages say into them")

const onlineTime = "../../docs/online-time.md"

// A block is a fenced part of a page: its lines without the fence, and the words after
// the fence that opens it.
type block struct {
	first, end int // lines of the page
	words      []string
	lines      []string
}

func blocksOf(page []string) (blocks []block) {
	for n := 0; n < len(page); n++ {
		info, opens := strings.CutPrefix(page[n], "```")
		if !opens {
			continue
		}
		b := block{first: n + 1, words: strings.Fields(info)}
		for n++; n < len(page) && page[n] != "```"; n++ {
			b.lines = append(b.lines, page[n])
		}
		b.end = n
		blocks = append(blocks, b)
	}
	return blocks
}

// A follower does what the page says, in an empty directory, with a command called
// rollcall.
type follower struct {
	dir, bin string
	here     *strings.Replacer // addresses of the page by those of here, if they differ
	exports  string            // lines of the page that count for all that follow
	db       *sql.DB
	answer   [][]string // of the last question in SQL
}

func followLedger(t *testing.T, place string) *follower {
	t.Helper()
	f := &follower{dir: t.TempDir(), bin: t.TempDir()}
	build := exec.Command("go", "build", "-o", filepath.Join(f.bin, "rollcall"), ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// A key that is known makes the same pseudonyms as in the page.
	if err := os.Mkdir(filepath.Join(f.dir, "rollcall-data"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(f.dir, "rollcall-data", "device.key"), []byte(strings.Repeat("5a", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if place == "" {
		f.db, err = sql.Open("sqlite", filepath.Join(f.dir, "rollcall-data", "ledger.db"))
	} else {
		t.Setenv("ROLLCALL_LEDGER", place)
		f.db, err = sql.Open("pgx", place)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.db.Close() })
	return f
}

// shell is a line of a shell as olga types it. What goes on in the background ends with
// the test.
func (f *follower) shell(ctx context.Context, t *testing.T, line string) *exec.Cmd {
	if strings.HasPrefix(line, "export ") {
		f.exports += line + "\n"
	}
	script := f.exports + line
	if f.here != nil {
		script = f.here.Replace(script)
	}
	command := exec.CommandContext(ctx, "sh", "-c", script)
	command.Dir = f.dir
	command.Env = append(os.Environ(), "PATH="+f.bin+":"+os.Getenv("PATH"), "SUDO_USER=olga", "TZ=UTC")
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	t.Cleanup(func() {
		if command.Process != nil {
			syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
		}
	})
	return command
}

// run runs a line to its end and gives what it writes.
func (f *follower) run(t *testing.T, line string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := f.shell(ctx, t, line)
	out, err := command.CombinedOutput()
	if err != nil && command.ProcessState.ExitCode() < 0 {
		t.Fatalf("%s: %v", line, err)
	}
	return linesIn(string(out))
}

// start starts what goes on until Ctrl-C and gives what it writes, as soon as that is what
// the page shows.
func (f *follower) start(t *testing.T, line string, shown []string) (got []string) {
	t.Helper()
	out := newOutput()
	ended := make(chan struct{})
	t.Cleanup(func() { <-ended }) // after the kill, before its directory is removed
	command := f.shell(context.Background(), t, line)
	command.Stdout, command.Stderr = out, out
	if err := command.Start(); err != nil {
		close(ended)
		t.Fatal(err)
	}
	go func() {
		defer close(ended)
		command.Wait()
	}()
	late := time.After(20 * time.Second)
	for {
		got = linesIn(out.String())
		for n := range got {
			if alike(shown, got[:n+1]) {
				return shown
			}
		}
		select {
		case <-out.more:
			continue
		case <-ended:
		case <-late:
		}
		return linesIn(out.String())
	}
}

func linesIn(text string) []string {
	if text = strings.TrimRight(text, "\n"); text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// console runs the commands of a block and gives it as it must be.
func (f *follower) console(t *testing.T, b block) (lines []string) {
	t.Helper()
	for n := 0; n < len(b.lines); n++ {
		line, ok := strings.CutPrefix(b.lines[n], "$ ")
		if !ok {
			continue
		}
		lines = append(lines, b.lines[n])
		for strings.HasSuffix(line, `\`) && n+1 < len(b.lines) {
			n++
			lines = append(lines, b.lines[n])
			line += "\n" + b.lines[n]
		}
		shown := b.lines[n+1:]
		if end := slices.IndexFunc(shown, func(line string) bool { return strings.HasPrefix(line, "$ ") }); end >= 0 {
			shown = shown[:end]
		}
		if strings.Contains(strings.Join(shown, "\n"), "Ctrl-C") && !strings.Contains(line, "--for ") {
			lines = append(lines, f.start(t, line, shown)...)
		} else {
			lines = append(lines, f.run(t, line)...)
		}
	}
	return lines
}

func (f *follower) ask(t *testing.T, b block) {
	t.Helper()
	rows, err := f.db.QueryContext(t.Context(), strings.Join(b.lines, "\n"))
	if err != nil {
		t.Fatalf("line %d: %v", b.first, err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	f.answer = [][]string{names}
	for rows.Next() {
		cells, at := make([]string, len(names)), make([]any, len(names))
		for k := range cells {
			at[k] = &cells[k]
		}
		if err := rows.Scan(at...); err != nil {
			t.Fatalf("line %d: %v", b.first, err)
		}
		f.answer = append(f.answer, cells)
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("line %d: %v", b.first, err)
	}
}

func (f *follower) answered(t *testing.T) []string {
	t.Helper()
	var out bytes.Buffer
	if err := csv.NewWriter(&out).WriteAll(f.answer); err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
}

// do does what a block says and gives it as it must be: console blocks are commands with
// what they say; yaml and csv with a name are files; sql is asked, and csv without a name
// is the answer. What says postgres is for PostgreSQL only.
func (f *follower) do(t *testing.T, b block, postgres bool) []string {
	t.Helper()
	kind := strings.Join(b.words, " ")
	switch {
	case kind == "console":
		return f.console(t, b)
	case kind == "sql" || kind == "sql postgres" && postgres:
		f.ask(t, b)
	case kind == "csv" || kind == "csv postgres" && postgres:
		return f.answered(t)
	case len(b.words) == 2 && strings.HasSuffix(b.words[1], "."+b.words[0]): // history.csv, rules.yaml
		if err := os.WriteFile(filepath.Join(f.dir, b.words[1]), []byte(strings.Join(b.lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	case len(b.words) > 0 && b.words[0] == "json": // docs/check and others hold it against what is really said
	case !slices.Contains([]string{"sql postgres", "csv postgres", "text", "go", ""}, kind):
		t.Errorf("line %d: nobody knows what to do with %q", b.first, kind)
	}
	return b.lines
}

var spaces = regexp.MustCompile(` {2,}`)

// like says whether lines are those of the page: an ellipsis stands for what differs from run
// to run, and the width of a column depends on it.
func like(want, got string) bool {
	want, got = spaces.ReplaceAllString(want, "  "), spaces.ReplaceAllString(got, "  ")
	pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimRight(want, " ")), "…", ".*")
	return regexp.MustCompile("^" + pattern + "$").MatchString(strings.TrimRight(got, " "))
}

// alike says whether a block is as the page shows it, where an ellipsis that is alone on
// its line stands for any lines.
func alike(want, got []string) bool {
	for n, line := range want {
		if line == "…" {
			for k := n; k <= len(got); k++ {
				if alike(want[n+1:], got[k:]) {
					return true
				}
			}
			return false
		}
		if n >= len(got) || !like(line, got[n]) {
			return false
		}
	}
	return len(want) == len(got)
}

// follow does all that a page shows, in its order.
func (f *follower) follow(t *testing.T, path string, postgres bool) {
	t.Helper()
	page := linesOf(t, path)
	blocks := blocksOf(page)
	must := make([][]string, len(blocks))
	for k, b := range blocks {
		must[k] = f.do(t, b, postgres)
		if !alike(b.lines, must[k]) && !*updateDoc {
			t.Errorf("%s:%d says\n%s\nbut it is\n%s", path, b.first, strings.Join(b.lines, "\n"), strings.Join(must[k], "\n"))
		}
	}
	if *updateDoc && !postgres {
		for k, b := range slices.Backward(blocks) {
			if !alike(b.lines, must[k]) {
				page = slices.Replace(page, b.first, b.end, must[k]...)
			}
		}
		if err := os.WriteFile(path, []byte(strings.Join(page, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// followOnlineTime does everything that docs/online-time.md shows, in its order.
func followOnlineTime(t *testing.T, place string) *follower {
	t.Helper()
	f := followLedger(t, place)
	f.follow(t, onlineTime, place != "")
	return f
}

// What docs/online-time.md shows is what happens.
func TestOnlineTimePage(t *testing.T) {
	f := followOnlineTime(t, "")
	raw, err := os.ReadFile(onlineTime)
	if err != nil {
		t.Fatal(err)
	}
	// It knows every table and every column.
	rows, err := f.db.QueryContext(t.Context(), `select m.name, c.name from sqlite_master m, pragma_table_info(m.name) c
		where m.type in ('table', 'view') and m.name not like 'sqlite_%' order by 1, c.cid`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns := map[string][]string{}
	for rows.Next() {
		var table, column string
		if err := rows.Scan(&table, &column); err != nil {
			t.Fatal(err)
		}
		columns[table] = append(columns[table], column)
	}
	if err := rows.Err(); err != nil || len(columns) == 0 {
		t.Fatal(columns, err)
	}
	for table, names := range columns {
		if line := fmt.Sprintf("| `%s` | `%s` |", table, strings.Join(names, "`, `")); !strings.Contains(string(raw), line) {
			t.Errorf("the page has no line\n%s", line)
		}
	}
	// And every command of the ledger.
	for _, name := range ledgerCommands(t) {
		if !strings.Contains(string(raw), "ledger "+name) {
			t.Errorf("the page does not know 'ledger %s'", name)
		}
	}
}
