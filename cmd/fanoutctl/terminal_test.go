package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"

	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

// terminal is a command in its own terminal. It is killed at the end of the test.
type terminal struct {
	t      *testing.T
	cmd    *exec.Cmd
	pty    *os.File
	screen vt10x.Terminal
	exited chan struct{}

	mu  sync.Mutex // guards raw
	raw strings.Builder
}

// inTerminal starts fanoutctl in a terminal with 24 lines.
func inTerminal(t *testing.T, address string, columns int, environ []string, args ...string) *terminal {
	t.Helper()
	path, err := exec.LookPath("fanoutctl")
	if err != nil {
		t.Fatal(err)
	}
	c := &terminal{
		t: t, cmd: exec.Command(path, args...), exited: make(chan struct{}),
		screen: vt10x.New(vt10x.WithSize(columns, 24)),
	}
	c.cmd.Env = append([]string{"TERM=xterm-256color", "FANOUTCTL_SERVER=" + address, "HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}, environ...)
	if c.pty, err = pty.StartWithSize(c.cmd, &pty.Winsize{Cols: uint16(columns), Rows: 24}); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.exited)
		// Reading fails when the command ends and the terminal is closed.
		_, _ = io.Copy(c, c.pty)
		_ = c.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-c.exited
		c.pty.Close()
	})
	return c
}

// Write receives the output of the command.
func (c *terminal) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw.Write(p)
	return c.screen.Write(p)
}

// bytes returns everything that the command has written.
func (c *terminal) bytes() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.raw.String()
}

// await waits until the screen matches the pattern, and returns the submatches.
func (c *terminal) await(pattern string) []string {
	c.t.Helper()
	re := regexp.MustCompile(pattern)
	var found []string
	if !eventually(func() bool {
		found = re.FindStringSubmatch(c.screen.String())
		return found != nil
	}) {
		c.t.Fatalf("the screen does not show %s:\n%s", pattern, c.screen.String())
	}
	return found
}

// press types keys.
func (c *terminal) press(keys string) {
	c.t.Helper()
	if _, err := c.pty.WriteString(keys); err != nil {
		c.t.Fatal(err)
	}
}

// ends waits for the end of the command and checks its exit code.
func (c *terminal) ends(code int) {
	c.t.Helper()
	select {
	case <-c.exited:
	case <-time.After(poll.Patience):
		c.t.Fatalf("the command did not end:\n%s", c.screen.String())
	}
	if got := c.cmd.ProcessState.ExitCode(); got != code {
		c.t.Fatalf("got exit code %d, want %d:\n%s", got, code, c.screen.String())
	}
}

// plainly runs fanoutctl without a terminal. The command must succeed.
func plainly(t *testing.T, address string, environ []string, args ...string) (stdout, stderr string) {
	t.Helper()
	cmd := exec.Command("fanoutctl", args...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env = append([]string{"TERM=xterm-256color", "FANOUTCTL_SERVER=" + address, "HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}, environ...)
	if err := cmd.Run(); err != nil {
		t.Fatalf("fanoutctl %s: %v\n%s", strings.Join(args, " "), err, errs.String())
	}
	return out.String(), errs.String()
}

const escape = "\x1b["

func TestOnlyTerminalsGetColors(t *testing.T) {
	address := server(t, "config")
	plainly(t, address, nil, "put", "config", "shop/limits", `{"rps": 100, "comment": "`+strings.Repeat("long ", 50)+`"}`)

	c := inTerminal(t, address, 60, nil, "list", "config")
	c.ends(exitOK)
	if !strings.Contains(c.bytes(), escape+"36mshop/limits"+escape) {
		t.Errorf("the key has no color: %q", c.bytes())
	}
	for line := range strings.Lines(strings.TrimRight(c.screen.String(), " \n")) {
		if n := len([]rune(strings.TrimRight(line, " \n"))); n > 60 {
			t.Errorf("a line has %d columns: %q", n, line)
		}
	}
	c.await(`shop/limits +\d+ +- +{"rps":100,.*…`)

	none := inTerminal(t, address, 60, []string{"NO_COLOR=1"}, "list", "config")
	none.ends(exitOK)
	if strings.Contains(none.bytes(), escape+"36m") {
		t.Errorf("got colors with NO_COLOR: %q", none.bytes())
	}
	if out, _ := plainly(t, address, nil, "list", "config"); strings.Contains(out, escape) || !strings.Contains(out, "long long") {
		t.Errorf("without a terminal: got %q", out)
	}
	// Tables remove terminal sequences from values.
	plainly(t, address, nil, "put", "config", "evil", "\x1b]0;title\x07\x1b[2J")
	evil := inTerminal(t, address, 60, nil, "list", "config")
	evil.ends(exitOK)
	if strings.Contains(evil.bytes(), "\x1b]0;") || strings.Contains(evil.bytes(), escape+"2J") {
		t.Errorf("a value controls the terminal: %q", evil.bytes())
	}
}

// queries matches the sequences that a terminal would answer: queries of its colors, type,
// cursor, size, keyboard and modes.
var queries = regexp.MustCompile(`\x1b\][0-9]+;[0-9;]*\?|\x1b\[[?>=]?[0-9;]*[cn]|\x1b\[(1[1-9]|2[01])t|\x1b\[\?u|\x1b\[>[0-9]*q|\x1b\[\?[0-9]*m|\x1b\[\?[0-9]+\$p`)

// A value that is printed on a terminal cannot control it. In a pipe, it is exact.
func TestValuesCannotControlTheTerminal(t *testing.T) {
	address := server(t, "config")
	const value = "a\x1b]0;title\x07b\x1b[2Jc\u009b31md\r\te"
	file := filepath.Join(t.TempDir(), "value")
	if err := os.WriteFile(file, []byte(value), 0o600); err != nil {
		t.Fatal(err)
	}
	plainly(t, address, nil, "put", "config", "evil", "--file", file)
	if out, _ := plainly(t, address, nil, "get", "config", "evil"); out != value {
		t.Errorf("in a pipe: got %q, want %q", out, value)
	}
	for _, args := range [][]string{{"get", "config", "evil"}, {"list", "config", "-o", "value"}} {
		c := inTerminal(t, address, 100, nil, args...)
		c.ends(exitOK)
		if got := c.bytes(); strings.Contains(got, "\x1b]") || strings.Contains(got, "\x1b[2J") || !strings.Contains(got, "a^[]0;title^Gb^[[2Jc\uFFFD31md^M\te") {
			t.Errorf("%v on a terminal: got %q", args, got)
		}
	}
}

// Some terminals do not answer queries, so no command sends any. All commands except top send
// only colors.
func TestNoCommandQueriesTheTerminal(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	address := server(t, "config")
	plainly(t, address, nil, "put", "config", "there", "1")
	for args, shows := range map[string]string{
		"version":                        "fanoutctl",
		"--help":                         `Use "fanoutctl \[command\] --help"`,
		"put config a 1":                 "[0-9]",
		"get config b":                   `object "b" not found`,
		"list config":                    "KEY",
		"resources":                      "NAME",
		"watchers":                       "No watchers found",
		"top --interval 1ms":             "at least 100ms",
		"import config /nowhere":         "no such file",
		"resources --server 127.0.0.1:1": "cannot reach",
	} {
		c := inTerminal(t, address, 80, nil, strings.Fields(args)...)
		<-c.exited
		c.await(shows)
		if rest := colors.ReplaceAllString(c.bytes(), ""); strings.Contains(rest, "\x1b") {
			t.Errorf("%s sent terminal sequences: %q", args, c.bytes())
		}
	}
	c := inTerminal(t, address, 80, nil, "top")
	c.await(`q: quit`)
	c.press("q")
	c.ends(exitOK)
	if sent := queries.FindAllString(c.bytes(), -1); sent != nil {
		t.Errorf("top sent queries: %q", sent)
	}
}

// colors matches changes of the text style.
var colors = regexp.MustCompile(`\x1b\[[0-9;]*m`)

func TestTop(t *testing.T) {
	address := server(t, "config")
	c := inTerminal(t, address, 120, nil, "top", "--interval", "100ms")
	c.await(`NAME +STATE +CODEC +OBJECTS`)
	c.await(`config +serving +object +0 `)
	c.await(`q: quit`)
	plainly(t, address, nil, "put", "config", "a", "1")
	c.await(`config +serving +object +1 `)
	w := inTerminal(t, address, 80, nil, "watch", "config", "shop")
	c.await(`1 watcher, 0 behind, 0 blocked`)
	c.await(`ID +INSTANCE +PEER +RESOURCE +STATE`)
	c.await(`config +live .* shop/`)
	c.press("?")
	c.await(`Keys:`)
	c.press("?s")
	c.await(`s: sort by sent`)
	c.press("/nowhere\r")
	c.await(`/: filter "nowhere"`)
	c.await(`papers .*\n *q: quit`) // no watchers
	c.press("\x1b")
	c.await(`config +live .* shop/`)

	c.press("q")
	c.ends(exitOK)
	c.wantRestored()
	again := inTerminal(t, address, 80, nil, "top")
	again.await(`ID .* FILTER *\n.* live .* shop/`) // all of a line fits into 80 columns
	again.press("\x03")
	again.ends(exitOK)
	// Stopping a watch is not a failure either.
	w.press("\x03")
	w.ends(exitOK)
}

// wantRestored checks that the alternate screen was left and the cursor is visible.
func (c *terminal) wantRestored() {
	c.t.Helper()
	for _, pair := range [][2]string{{"\x1b[?1049h", "\x1b[?1049l"}, {"\x1b[?25l", "\x1b[?25h"}} {
		if shown := c.bytes(); !strings.Contains(shown, pair[0]) || strings.LastIndex(shown, pair[1]) < strings.LastIndex(shown, pair[0]) {
			c.t.Errorf("%q was not undone: %q", pair[0], shown)
		}
	}
}

// top restores the terminal when a signal ends it.
func TestTopRestoresTheTerminalOnSignals(t *testing.T) {
	address := server(t, "config")
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		c := inTerminal(t, address, 120, nil, "top")
		c.await(`q: quit`)
		if err := c.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		c.ends(exitOK)
		c.wantRestored()
	}
}

// A command started by nohup survives SIGHUP.
func TestIgnoredSIGHUPStaysIgnored(t *testing.T) {
	address := server(t, "config")
	cmd := exec.Command("sh", "-c", `trap '' HUP; exec fanoutctl watch config`)
	cmd.Env = append(os.Environ(), "FANOUTCTL_SERVER="+address, "HOME="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	awaitLine := func(part string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), part) {
				return
			}
		}
		t.Fatalf("the command ended without printing %q", part)
	}
	plainly(t, address, nil, "put", "config", "first", "1")
	awaitLine("first")
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	plainly(t, address, nil, "put", "config", "second", "2")
	awaitLine("second")
}

// top shows the error of an unreachable server.
func TestTopShowsUnreachableServer(t *testing.T) {
	c := inTerminal(t, "127.0.0.1:1", 120, nil, "top", "--interval", "100ms")
	c.await(`cannot reach 127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused`)
	c.press("q")
	c.ends(exitOK)
}

// An interrupted import reports its progress, and the next one does the rest.
func TestImportIsContinued(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	address := server(t, "config")
	const objects = 10_000
	file := filepath.Join(t.TempDir(), "many.jsonl")
	var text strings.Builder
	for i := range objects {
		fmt.Fprintf(&text, `{"key":"many/%d","text":"%0400d"}`+"\n", i, i)
	}
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	// The import cannot finish before it is interrupted, however slow the test is.
	link := loopback.NewLink(t, address)
	link.HoldAfter(int64(text.Len() / 2))
	c := inTerminal(t, link.Address, 100, nil, "import", "config", file)
	// The bar stays on the screen, below the notices.
	c.await(`(?s)still waiting for .*Importing into config +\d+%.*\([1-9]\d*/10000`)
	if err := c.cmd.Process.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	link.Release()
	c.ends(exitInterrupted)
	written, err := strconv.Atoi(c.await(`interrupted after (\d+) of 10000 changes; run the same command again to continue`)[1])
	if err != nil {
		t.Fatal(err)
	}
	if written == 0 || written >= objects {
		t.Fatalf("%d objects were written before the interruption, want some", written)
	}

	again := inTerminal(t, address, 100, nil, "import", "config", file)
	again.await(fmt.Sprintf(`%d written, 0 deleted, %d unchanged\.`, objects-written, written))
	again.ends(exitOK)
	again.await(`100%`)
	if out, _ := plainly(t, address, nil, "list", "config", "many", "-o", "key"); strings.Count(out, "\n") != objects {
		t.Errorf("got %d objects, want %d", strings.Count(out, "\n"), objects)
	}
	// Without a terminal there is no progress bar.
	if _, errs := plainly(t, address, nil, "import", "config", file); errs != fmt.Sprintf("0 written, 0 deleted, %d unchanged.\n", objects) {
		t.Errorf("without a terminal: got %q", errs)
	}
}

// An interrupted reencryption reports its progress, and the next one does the rest.
func TestReencryptIsContinued(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	address, keyset, _ := encryptedServer(t, "config")
	const objects = 3000
	file := filepath.Join(t.TempDir(), "many.jsonl")
	var text strings.Builder
	for i := range objects {
		fmt.Fprintf(&text, `{"key":"many/%04d","text":"%d"}`+"\n", i, i)
	}
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	plainly(t, address, nil, "import", "config", file)
	id, err := rotate(keyset)
	if err != nil {
		t.Fatal(err)
	}
	if !eventually(func() bool {
		out, _ := plainly(t, address, nil, "resources", "-o", "json")
		return strings.Contains(out, fmt.Sprintf(`"primaryKeyId": %d`, id))
	}) {
		t.Fatal("the server does not use the new key")
	}
	c := inTerminal(t, address, 100, nil, "reencrypt", "config", "--rate", "500")
	c.await(`Reencrypting config +\d+%.*\([1-9]\d*/3000`)
	if err := c.cmd.Process.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	c.ends(exitInterrupted)
	done, err := strconv.Atoi(c.await(`interrupted after (\d+) of about 3000 objects; run the same command again to continue`)[1])
	if err != nil {
		t.Fatal(err)
	}
	if done == 0 || done >= objects {
		t.Fatalf("%d objects were checked before the interruption, want some", done)
	}
	again := inTerminal(t, address, 100, nil, "reencrypt", "config", "--rate", "0")
	again.await(fmt.Sprintf(`%d of 3000 objects rewritten, encrypted with key %d\.`, objects-done, id))
	again.ends(exitOK)
	again.await(`100%`)
}

// Servers that encrypt with different keys would undo each other's work.
func TestReencryptNeedsTheSameKeyOnAllServers(t *testing.T) {
	one, two := server(t, "config"), server(t, "config")
	c := inTerminal(t, one+","+two, 200, nil, "reencrypt", "config")
	c.await(`encrypts with key \d+ and \S+ with key \d+ .*deploy the same keyset to all servers first`)
	c.ends(exitFailed)
}

// Ctrl-C does not interrupt the command while an editor is open.
func TestEditIsNotInterrupted(t *testing.T) {
	address := server(t, "config")
	plainly(t, address, nil, "put", "config", "a", "before")
	editor := `FANOUTCTL_EDITOR=trap 'echo INT' INT; echo open; until read line; do :; done; printf %s "$line" >"$1"; :`
	c := inTerminal(t, address, 80, []string{editor}, "edit", "config", "a")
	c.await(`open`)
	c.press("\x03")
	c.await(`INT`)
	c.press("\x03")
	c.await(`(?s)INT.*INT`)
	c.press("after\n")
	c.ends(exitOK)
	if out, _ := plainly(t, address, nil, "get", "config", "a"); out != "after" {
		t.Errorf("got value %q, want after", out)
	}
}

// A deletion of many objects asks first. What changes until the answer is kept.
func TestDeletionsAreConfirmed(t *testing.T) {
	address := server(t, "config")
	for i := range 12 {
		plainly(t, address, nil, "put", "config", "old/"+strconv.Itoa(10+i), "x")
	}
	question := regexp.QuoteMeta("  old/10\n") + `(?s:.*)  old/19 *\n  and 2 more *\nDelete 12 objects in config below old\? \[y/N\] `
	refused := inTerminal(t, address, 80, nil, "delete", "config", "old", "-r")
	refused.await(`Delete 12 objects in config below old\? \[y/N\]`)
	refused.press("\r")
	refused.ends(exitFailed)
	refused.await("nothing was deleted")
	if !regexp.MustCompile(question).MatchString(strings.ReplaceAll(refused.bytes(), "\r", "")) {
		t.Errorf("the question is %q", refused.bytes())
	}

	interrupted := inTerminal(t, address, 80, nil, "delete", "config", "old", "-r")
	interrupted.await(`\[y/N\]`)
	interrupted.press("\x03")
	interrupted.ends(exitInterrupted)

	accepted := inTerminal(t, address, 80, nil, "delete", "config", "old", "-r")
	accepted.await(`\[y/N\]`)
	plainly(t, address, nil, "put", "config", "old/15", "changed")
	accepted.press("y\r")
	accepted.ends(exitConflict)
	accepted.await(`"old/15" has changed meanwhile and is kept`)
	accepted.await(`11 of 12 objects deleted`)
	if out, _ := plainly(t, address, nil, "list", "config", "-o", "key"); out != "old/15\n" {
		t.Errorf("left are %q, want old/15", out)
	}
}
