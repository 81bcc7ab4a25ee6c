package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/test/poll"
)

// TestMain fails if a server leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// process is a run of the program.
type process struct {
	t       *testing.T
	stdin   *io.PipeWriter
	lines   *bufio.Scanner
	ended   chan int
	address string
}

func begin(t *testing.T, args ...string) *process {
	t.Helper()
	commands, stdin := io.Pipe()
	output, stdout := io.Pipe()
	p := &process{t: t, stdin: stdin, lines: bufio.NewScanner(output), ended: make(chan int, 1)}
	go func() {
		code := run(t.Context(), args, commands, stdout, t.Output())
		_ = stdout.Close()
		p.ended <- code
	}()
	var started struct{ Address string }
	if err := json.Unmarshal([]byte(p.line()), &started); err != nil {
		t.Fatal(err)
	}
	p.address = started.Address
	return p
}

func (p *process) line() string {
	p.t.Helper()
	if !p.lines.Scan() {
		p.t.Fatal("the output has ended")
	}
	return p.lines.Text()
}

// obeys sends a command, and expects an answer.
func (p *process) obeys(command, answer string) {
	p.t.Helper()
	if _, err := io.WriteString(p.stdin, command+"\n"); err != nil {
		p.t.Fatal(err)
	}
	if got := p.line(); !strings.Contains(got, answer) {
		p.t.Errorf("%s: got %s, want %s", command, got, answer)
	}
}

// ends closes the input.
func (p *process) ends() {
	p.t.Helper()
	_ = p.stdin.Close()
	if code := <-p.ended; code != 0 {
		p.t.Errorf("got exit code %d", code)
	}
}

func (p *process) client() *client.Client {
	p.t.Helper()
	c, err := client.New(p.address)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = c.Close() })
	return c
}

// The watch of a client sees what each command does, and the server keeps its port.
func TestCommands(t *testing.T) {
	p := begin(t, "--resource", "config", "--resource", "other")
	defer p.ends()
	c := p.client()
	if _, err := c.Resource("other").Count(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := c.Resource("config")
	if _, err := r.Put(t.Context(), "a", client.Text("1")); err != nil {
		t.Fatal(err)
	}
	interruptions := make(chan error, 1)
	updates := make(chan *client.Update, 1)
	ctx := poll.Context(t)
	go func() {
		for u, err := range r.Watch(ctx, client.OnInterruption(func(err error) {
			select {
			case interruptions <- err:
			default:
			}
		})) {
			if err != nil {
				return
			}
			select {
			case updates <- u:
			case <-ctx.Done():
				return
			}
		}
	}()
	next := func(what string, match func(*client.Update) bool) {
		t.Helper()
		for {
			select {
			case u := <-updates:
				if match(u) {
					return
				}
			case <-ctx.Done():
				t.Fatalf("no %s", what)
			}
		}
	}
	reset := func(u *client.Update) bool { return u.Phase == client.PhaseReset }
	interrupted := func() {
		t.Helper()
		select {
		case <-interruptions:
		case <-ctx.Done():
			t.Fatal("the watch was not interrupted")
		}
	}
	next("first state", reset)
	next("end of the first state", func(u *client.Update) bool { return u.Phase.Complete() })

	p.obeys(`{"command": "cut_connections"}`, `{}`)
	interrupted()
	p.obeys(`{"command": "stop"}`, `{}`)
	interrupted()
	if conn, err := net.Dial("tcp", p.address); err == nil {
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Error("a stopped server answers")
		}
		_ = conn.Close()
	}
	p.obeys(`{"command": "start"}`, `{}`)
	p.obeys(`{"command": "refuse", "code": "UNAVAILABLE", "reason": "NOT_READY"}`, `{}`)
	// Another client has no connection that was cut.
	if _, err := p.client().Resource("config").Put(ctx, "a", client.Text("2")); !errors.Is(err, client.ErrNotReady) {
		t.Errorf("got %v, want a refusal", err)
	}
	p.obeys(`{"command": "accept"}`, `{}`)
	p.obeys(`{"command": "expire_positions"}`, `{}`)
	next("state after the positions expired", reset)
	p.obeys(`{"command": "new_epoch"}`, `{}`)
	next("state of the new epoch", reset)
	p.obeys(`{"command": "stop_etcd"}`, `{}`)
	if _, err := p.client().Resource("config").Put(ctx, "a", client.Text("2")); !errors.Is(err, client.ErrStoreUnavailable) {
		t.Errorf("got %v without etcd", err)
	}
	p.obeys(`{"command": "start_etcd"}`, `{}`)

	p.obeys(`{"command": "explode"}`, `unknown command \"explode\"`)
	p.obeys(`{"command": "stop", "when": "now"}`, `unknown field \"when\"`)
	p.obeys(`stop`, `cannot read the command`)
	p.obeys(`{"command": "refuse"}`, `refuse with OK`)
	p.obeys(`{"command": "refuse", "code": "NO_SUCH"}`, `cannot read the command`)
}

// The program ends with its input, also when its server is stopped or a watch is open.
func TestItEndsWithItsInput(t *testing.T) {
	for _, command := range []string{"", `{"command": "stop"}`, `{"command": "stop_etcd"}`} {
		p := begin(t)
		if command != "" {
			p.obeys(command, `{}`)
		}
		p.ends()
	}
}

// The program links neither etcd nor what a server has for operators.
func TestItDoesNotLinkEtcd(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.FieldsSeq(string(out)) {
		for _, heavy := range []string{"testing", "go.etcd.io/", "github.com/prometheus/", "go.opentelemetry.io/", "github.com/grpc-ecosystem/grpc-gateway/"} {
			if path == heavy || strings.HasSuffix(heavy, "/") && strings.HasPrefix(path, heavy) {
				t.Errorf("the program depends on %s", path)
			}
		}
	}
}
