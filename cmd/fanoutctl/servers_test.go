package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/creack/pty"
)

// ending runs fanoutctl without a terminal and returns what it writes and how it ends.
func ending(t *testing.T, address string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command("fanoutctl", args...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env = []string{"FANOUTCTL_SERVER=" + address, "HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	_ = cmd.Run() // the exit code says more
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// watched starts a watch of config at a server and returns its number.
func watched(t *testing.T, address, path string) string {
	t.Helper()
	inTerminal(t, address, 80, nil, "watch", "config", path)
	var id string
	if !eventually(func() bool {
		out, _ := plainly(t, address, nil, "watchers", "-o", "key")
		id = strings.TrimSpace(out)
		return id != ""
	}) {
		t.Fatal("nobody watches")
	}
	return id
}

// beside returns the second cell of each row of a table that begins with a cell.
func beside(table, first string) string {
	var found []string
	for line := range strings.Lines(table) {
		if cells := strings.Fields(line); len(cells) > 1 && cells[0] == first {
			found = append(found, cells[1])
		}
	}
	return strings.Join(found, ",")
}

// Several servers are asked all, and each says what it knows of itself.
func TestOperatorsSeeAllServers(t *testing.T) {
	first, second := server(t, "config"), server(t, "config", "more")
	both := first + "," + second
	one, other := watched(t, first, "a"), watched(t, second, "b")

	out, _, code := ending(t, both, "resources")
	if got := beside(out, "config"); got != both || !strings.Contains(out, "SERVER") || code != exitOK {
		t.Errorf("exit code %d, config is at %s:\n%s", code, got, out)
	}
	if got := beside(out, "more"); got != second {
		t.Errorf("more is at %s:\n%s", got, out)
	}
	if out, _ := plainly(t, both, nil, "resources", "-o", "key"); strings.Count(out, "config\n") != 1 || !strings.Contains(out, "more\n") {
		t.Errorf("the names are\n%s", out)
	}
	if out, _ := plainly(t, first, nil, "resources"); strings.Contains(out, first) {
		t.Errorf("there is a column for one server:\n%s", out)
	}
	for id, at := range map[string]string{one: first, other: second} {
		if out, _ := plainly(t, both, nil, "watchers"); beside(out, id) != at {
			t.Errorf("the watcher %s is not at %s:\n%s", id, at, out)
		}
	}
	if out, _ := plainly(t, both, nil, "watchers", "--all", "-o", "key"); out != one+"\n"+other+"\n" {
		t.Errorf("in the order in which they began: %q", out)
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
			t.Errorf("%s are of %v:\n%s", what, seen, text)
		}
	}
	if out, _ := plainly(t, both, nil, "top"); !strings.Contains(out, "2 servers ") || !strings.Contains(out, "2 watchers, ") || !strings.Contains(out, one+"  "+first) {
		t.Errorf("top:\n%s", out)
	}
	// A watch is ended at the server that has it, wherever that stands.
	for _, id := range []string{one, other} {
		plainly(t, both, nil, "watchers", "end", id)
		if !eventually(func() bool {
			out, _ := plainly(t, both, nil, "watchers", "-o", "key")
			return !strings.Contains(out, id)
		}) {
			t.Errorf("%s goes on", id)
		}
	}
	if _, errs, code := ending(t, both, "watchers", "end", "nobody"); code != exitNotFound || !strings.Contains(errs, `the watcher "nobody" does not exist at `+both) {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// A server that does not answer, or that refuses, is shown as such, and hides none of the
// others.
func TestOperatorsSeeWhoFailed(t *testing.T) {
	const away = "127.0.0.1:1"
	address := server(t, "config")
	id := watched(t, address, "a")
	for _, target := range []string{away + "," + address, address + "," + away} {
		for _, args := range [][]string{{"resources"}, {"resources", "-o", "json"}, {"watchers"}, {"watchers", "config", "-o", "jsonl"}, {"top"}} {
			out, errs, code := ending(t, target, args...)
			if code != exitPartial || !strings.Contains(out, "config") || !strings.Contains(out, address) {
				t.Errorf("%s: exit code %d: %s", args, code, out)
			}
			if !strings.HasPrefix(errs, "fanoutctl: cannot reach "+away+": ") || !strings.HasSuffix(errs, "fanoutctl: 1 of 2 servers failed\n") || strings.Count(errs, "\n") != 2 {
				t.Errorf("%s: %s", args, errs)
			}
		}
		if _, errs, code := ending(t, target, "watchers", "end", "nobody"); code != exitPartial || !strings.Contains(errs, "1 of 2 servers failed; the watcher \"nobody\" does not exist at the others\n") {
			t.Errorf("exit code %d: %s", code, errs)
		}
		screen := inTerminal(t, target, 140, nil, "top", "--interval", "100ms")
		screen.await(`cannot reach ` + away + `: dial tcp`)
		screen.await(`1 of 2 servers .* 1 watchers`)
		screen.await(`config +` + address + ` +serving`)
		screen.press("q")
		screen.ends(exitOK)
	}
	// What is wrong with one server that answers is said of it, and not that it is silent.
	more := server(t, "more")
	out, errs, code := ending(t, address+","+more, "watchers", "config")
	if code != exitPartial || !strings.Contains(out, id) || !strings.HasPrefix(errs, "fanoutctl: "+more+`: the server has no resource "config"`) || !strings.HasSuffix(errs, "\nfanoutctl: 1 of 2 servers failed\n") {
		t.Errorf("exit code %d: %s%s", code, errs, out)
	}
	if out, errs, code := ending(t, away+",127.0.0.1:2", "resources", "-o", "json"); code != exitUnavailable || out != "" || strings.Count(errs, "\n") != 2 {
		t.Errorf("nobody answers: exit code %d: %s%s", code, errs, out)
	}
	// Once the watch has ended it does not matter who failed.
	plainly(t, away+","+address, nil, "watchers", "end", id)
}

// The size of the terminal may change.
func TestTopFitsItsTerminal(t *testing.T) {
	address := server(t, "config")
	c := inTerminal(t, address, 120, nil, "top")
	c.await(`(?m)^q ends`)
	c.await(`WATCHERS +INTERESTS`)
	c.screen.Resize(40, 5)
	if err := pty.Setsize(c.pty, &pty.Winsize{Cols: 40, Rows: 5}); err != nil {
		t.Fatal(err)
	}
	c.await(`(?s)^` + address + `[^\n]*\n\s*\nNAME[^\n]*\n[^\n]*\nq ends`)
	c.press("\x1b")
	c.ends(exitOK)
}

// A top that is given a time ends by itself.
func TestTopEndsWhenItsTimeIsUp(t *testing.T) {
	inTerminal(t, server(t, "config"), 120, nil, "top", "--timeout", "100ms").ends(exitOK)
}
