package behaviour

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/test/behaviour/driver"
	"github.com/fanoutd/fanoutd/test/poll"
	"github.com/fanoutd/fanoutd/test/program"
)

// patience bounds each wait. Only a broken client reaches it.
const patience = poll.Patience

var goClient = program.Program{Folder: "test/behaviour/goclient", Sources: []string{"client", "gen", "test/behaviour"}}

// commands are the programs of other languages. They need what their `make` targets install.
var commands = map[string][]string{
	"python": {"/usr/bin/python3", "../../clients/python/behaviour.py"},
	"node":   {"node", "../../clients/node/build/behaviour/main.js"},
}

// languages returns the languages that take part.
func languages(t *testing.T) []string {
	t.Helper()
	all := strings.FieldsFunc(os.Getenv("FANOUTD_TEST_CLIENTS"), func(r rune) bool { return r == ',' })
	for _, language := range all {
		if commands[language] == nil {
			t.Fatalf("FANOUTD_TEST_CLIENTS: there is no client for %q", language)
		}
	}
	return append([]string{"go"}, all...)
}

// clientProgram is the program of a client.
type clientProgram struct {
	s      *scene
	pid    int
	stdin  io.Writer
	stderr *strings.Builder // complete when the program has ended

	mu      sync.Mutex
	next    int           // the last ID; guarded by mu
	lines   []driver.Line // guarded by mu
	changed chan struct{} // closed and replaced with each line; guarded by mu
	ended   bool          // guarded by mu
}

// start starts the program, with more environment variables. The end of the test kills it.
func (s *scene) start(environment ...string) *clientProgram {
	s.Helper()
	return s.startIn(nil, environment...)
}

// startIn starts the program as the argument of another one, which changes what the program may do.
func (s *scene) startIn(wrapper []string, environment ...string) *clientProgram {
	s.Helper()
	command := commands[s.language]
	if s.language == "go" {
		command = []string{goClient.Path(s)}
	}
	command = append(slices.Clone(wrapper), command...)
	cmd := exec.Command(command[0], command[1:]...)
	inherited := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.Contains(strings.ToLower(strings.SplitN(v, "=", 2)[0]), "_proxy")
	})
	cmd.Env = append(inherited, environment...)
	p := &clientProgram{s: s, stderr: &strings.Builder{}, changed: make(chan struct{})}
	cmd.Stderr = p.stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		s.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		s.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	p.stdin, p.pid = stdin, cmd.Process.Pid
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.read(stdout)
	}()
	s.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-done
		_ = cmd.Wait() // it was killed
		if s.Failed() {
			s.Logf("the program writes:\n%s", p.stderr)
		}
	})
	return p
}

func (p *clientProgram) read(stdout io.Reader) {
	for lines := bufio.NewReader(stdout); ; {
		text, err := lines.ReadBytes('\n')
		var l driver.Line
		if err == nil {
			err = json.Unmarshal(text, &l)
		}
		p.mu.Lock()
		if err == nil {
			p.lines = append(p.lines, l)
		}
		p.ended = err != nil
		close(p.changed)
		p.changed = make(chan struct{})
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// await waits until a condition of the lines holds.
func (p *clientProgram) await(what string, holds func([]driver.Line) bool) {
	p.s.Helper()
	for gaveUp := time.After(patience); ; { // poll.Patience
		p.mu.Lock()
		ok, ended, changed := holds(p.lines), p.ended, p.changed
		p.mu.Unlock()
		if ok {
			return
		}
		if ended {
			p.s.Fatalf("the program has ended before %s", what)
		}
		select {
		case <-changed:
		case <-gaveUp:
			p.s.Fatalf("gave up waiting for %s; the program wrote %s", what, p.transcript())
		}
	}
}

func (p *clientProgram) transcript() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	for _, l := range p.lines[max(0, len(p.lines)-30):] {
		text, err := json.Marshal(l)
		if err != nil {
			return err.Error()
		}
		fmt.Fprintf(&b, "\n%s", text)
	}
	return b.String()
}

// about returns the lines about a watch or an informer, of one kind.
func (p *clientProgram) about(name, what string) []driver.Line {
	p.mu.Lock()
	defer p.mu.Unlock()
	return about(p.lines, name, what)
}

func about(lines []driver.Line, name, what string) (found []driver.Line) {
	for _, l := range lines {
		if l.ID == 0 && l.Name == name && l.What == what {
			found = append(found, l)
		}
	}
	return found
}

// awaitLines waits until there are so many lines of one kind about a watch or informer, and returns them.
func (p *clientProgram) awaitLines(n int, name, what string) []driver.Line {
	p.s.Helper()
	p.await(fmt.Sprintf("%d lines: %s is %s", n, name, what), func(lines []driver.Line) bool { return len(about(lines, name, what)) >= n })
	return p.about(name, what)
}

// answer is the answer to a command.
type answer struct {
	p *clientProgram
	c driver.Command
}

// begin begins a command.
func (p *clientProgram) begin(c driver.Command) answer {
	p.s.Helper()
	p.mu.Lock()
	p.next++
	c.ID = p.next
	p.mu.Unlock()
	text, err := json.Marshal(c)
	if err == nil {
		_, err = p.stdin.Write(append(text, '\n'))
	}
	if err != nil {
		p.s.Fatalf("%s: %v", c.Do, err)
	}
	return answer{p, c}
}

func (a answer) find(lines []driver.Line) int {
	return slices.IndexFunc(lines, func(l driver.Line) bool { return l.ID == a.c.ID })
}

// wait waits for the answer.
func (a answer) wait() driver.Line {
	a.p.s.Helper()
	a.p.await(fmt.Sprintf("the answer to %s %s%s", a.c.Do, a.c.Key, a.c.Name), func(lines []driver.Line) bool { return a.find(lines) >= 0 })
	a.p.mu.Lock()
	defer a.p.mu.Unlock()
	return a.p.lines[a.find(a.p.lines)]
}

// do waits for a command, which may fail.
func (p *clientProgram) do(c driver.Command) driver.Line {
	p.s.Helper()
	return p.begin(c).wait()
}

// must waits for a command, which must not fail.
func (p *clientProgram) must(c driver.Command) driver.Line {
	p.s.Helper()
	l := p.do(c)
	if l.Code != "" {
		p.s.Fatalf("%s %s%s: %s %s: %s", c.Do, c.Key, c.Name, l.Code, l.Reason, l.Message)
	}
	return l
}

// connect makes a client of servers.
func (p *clientProgram) connect(servers ...string) {
	p.s.Helper()
	p.must(driver.Command{Do: driver.NewClient, Servers: servers})
}
