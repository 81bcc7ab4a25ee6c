package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/creack/pty"
)

// runWithExitCode runs fanoutctl without a terminal.
func runWithExitCode(t *testing.T, address string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command("fanoutctl", args...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env = []string{"FANOUTCTL_SERVER=" + address, "HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	_ = cmd.Run() // the exit code is returned
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// startWatch starts a watch on a server without other watches and returns its ID.
func startWatch(t *testing.T, address, path string) string {
	t.Helper()
	inTerminal(t, address, 80, nil, "watch", "config", path)
	var id string
	if !eventually(func() bool {
		out, _ := plainly(t, address, nil, "watchers", "-o", "key")
		id = strings.TrimSpace(out)
		return id != ""
	}) {
		t.Fatal("the watch does not appear")
	}
	return id
}

// secondCells returns the second cell of each table row with the given first cell.
func secondCells(table, first string) string {
	var found []string
	for line := range strings.Lines(table) {
		if cells := strings.Fields(line); len(cells) > 1 && cells[0] == first {
			found = append(found, cells[1])
		}
	}
	return strings.Join(found, ",")
}

// The operator commands query all servers.
func TestOperatorCommandsQueryAllServers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	first, second := server(t, "config"), server(t, "config", "more")
	both := first + "," + second
	one, other := startWatch(t, first, "a"), startWatch(t, second, "b")

	out, _, code := runWithExitCode(t, both, "resources")
	if got := secondCells(out, "config"); got != both || !strings.Contains(out, "SERVER") || code != exitOK {
		t.Errorf("exit code %d, config is on %s:\n%s", code, got, out)
	}
	if got := secondCells(out, "more"); got != second {
		t.Errorf("more is on %s, want %s:\n%s", got, second, out)
	}
	if out, _ := plainly(t, both, nil, "resources", "-o", "key"); strings.Count(out, "config\n") != 1 || !strings.Contains(out, "more\n") {
		t.Errorf("got the names\n%s", out)
	}
	if out, _ := plainly(t, first, nil, "resources"); strings.Contains(out, first) {
		t.Errorf("a single server has a column:\n%s", out)
	}
	for id, at := range map[string]string{one: first, other: second} {
		if out, _ := plainly(t, both, nil, "watchers"); secondCells(out, id) != at {
			t.Errorf("watcher %s is not on %s:\n%s", id, at, out)
		}
	}
	if out, _ := plainly(t, both, nil, "watchers", "--all", "-o", "key"); out != one+"\n"+other+"\n" {
		t.Errorf("watchers in starting order: got %q", out)
	}
	for _, what := range []string{"resources", "watchers"} {
		text, _ := plainly(t, both, nil, what, "-o", "json")
		var rows []struct{ Server string }
		if err := json.Unmarshal([]byte(text), &rows); err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, r := range rows {
			seen[r.Server] = true
		}
		if len(seen) != 2 || !seen[first] || !seen[second] {
			t.Errorf("%s: got servers %v, want both:\n%s", what, seen, text)
		}
	}
	if out, _ := plainly(t, both, nil, "top"); !strings.Contains(out, "2 servers ") || !strings.Contains(out, "2 watchers, ") || !strings.Contains(out, one+"  "+first) {
		t.Errorf("top:\n%s", out)
	}
	// A watch is ended on the server that has it, whatever its position in the list.
	for _, id := range []string{one, other} {
		plainly(t, both, nil, "watchers", "end", id)
		if !eventually(func() bool {
			out, _ := plainly(t, both, nil, "watchers", "-o", "key")
			return !strings.Contains(out, id)
		}) {
			t.Errorf("watch %s was not ended", id)
		}
	}
	if _, errs, code := runWithExitCode(t, both, "watchers", "end", "nobody"); code != exitNotFound || !strings.Contains(errs, `watcher "nobody" not found on `+both) {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// A server that is unreachable, or returns an error, is reported. The others are shown.
func TestOperatorCommandsReportFailedServers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	const down = "127.0.0.1:1"
	address := server(t, "config")
	id := startWatch(t, address, "a")
	for _, target := range []string{down + "," + address, address + "," + down} {
		for _, args := range [][]string{{"resources"}, {"resources", "-o", "json"}, {"watchers"}, {"watchers", "config", "-o", "jsonl"}, {"top"}} {
			out, errs, code := runWithExitCode(t, target, args...)
			if code != exitPartial || !strings.Contains(out, "config") || !strings.Contains(out, address) {
				t.Errorf("%s: exit code %d: %s", args, code, out)
			}
			if !strings.HasPrefix(errs, "fanoutctl: cannot reach "+down+": ") || !strings.HasSuffix(errs, "fanoutctl: 1 of 2 servers failed\n") || strings.Count(errs, "\n") != 2 {
				t.Errorf("%s: %s", args, errs)
			}
		}
		if _, errs, code := runWithExitCode(t, target, "watchers", "end", "nobody"); code != exitPartial || !strings.Contains(errs, "1 of 2 servers failed; watcher \"nobody\" not found on the others\n") {
			t.Errorf("exit code %d: %s", code, errs)
		}
		screen := inTerminal(t, target, 140, nil, "top", "--interval", "100ms")
		screen.await(`cannot reach ` + down + `: dial tcp`)
		screen.await(`1 of 2 servers .* 1 watcher`)
		screen.await(`config +` + address + ` +serving`)
		screen.press("q")
		screen.ends(exitOK)
	}
	// The error of a server that answers is reported, not taken for an unreachable server.
	more := server(t, "more")
	out, errs, code := runWithExitCode(t, address+","+more, "watchers", "config")
	if code != exitPartial || !strings.Contains(out, id) || !strings.HasPrefix(errs, "fanoutctl: "+more+`: resource "config" not found`) || !strings.HasSuffix(errs, "\nfanoutctl: 1 of 2 servers failed\n") {
		t.Errorf("exit code %d: %s%s", code, errs, out)
	}
	if out, errs, code := runWithExitCode(t, down+",127.0.0.1:2", "resources", "-o", "json"); code != exitUnavailable || out != "" || strings.Count(errs, "\n") != 2 {
		t.Errorf("all servers down: exit code %d: %s%s", code, errs, out)
	}
	// Failed servers do not matter if another one has ended the watch.
	plainly(t, down+","+address, nil, "watchers", "end", id)
}

// top follows changes of the terminal size.
func TestTopFollowsTerminalSize(t *testing.T) {
	address := server(t, "config")
	c := inTerminal(t, address, 120, nil, "top")
	c.await(`(?m)^q: quit`)
	c.await(`WATCHERS +FILTERS`)
	c.screen.Resize(40, 5)
	if err := pty.Setsize(c.pty, &pty.Winsize{Cols: 40, Rows: 5}); err != nil {
		t.Fatal(err)
	}
	c.await(`(?s)^` + address + `[^\n]*\n\s*\nNAME[^\n]*\n[^\n]*\nq: quit`)
	c.press("\x1b")
	c.ends(exitOK)
}

// --timeout ends top.
func TestTopEndsAfterTimeout(t *testing.T) {
	inTerminal(t, server(t, "config"), 120, nil, "top", "--timeout", "100ms").ends(exitOK)
}
