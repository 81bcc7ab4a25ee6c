package stubs

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/fanoutd/fanoutd/test/inprocess"
	"github.com/fanoutd/fanoutd/test/poll"
	"github.com/fanoutd/fanoutd/test/program"
)

const root = "../.."

var fanoutctl = program.Program{Folder: "cmd/fanoutctl", Sources: []string{"cmd", "client", "gen", "internal"}}

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv("FANOUTD_TEST_STUBS") == "" {
		fmt.Println("skipped: make test-stubs runs these")
		return
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		fanoutctl.Clean()
		os.Exit(code)
	}))
}

// The commands of docs/clients/other.md generate code for each language, and its subscriber prints what the page
// shows. It survives a restart of the server.
func TestPage(t *testing.T) {
	server := inprocess.Start(t, inprocess.Config(t))
	p := readPage(t, server.Address())

	generate, others, watch, put := p.blocks[1], p.blocks[2], p.blocks[3], p.blocks[4]
	p.run(t, generate)
	p.run(t, others)
	for folder, want := range map[string]string{
		".": "FanoutService", "cpp": "class FanoutService", "java": "class FanoutServiceGrpc", "php": "class FanoutServiceClient",
		"csharp": "class SubscribeRequest", "objc": "@interface FANSubscribeRequest",
	} {
		if _, err := p.command(t.Context(), "grep -rqF '"+want+"' stubs/"+folder).Output(); err != nil {
			t.Errorf("stubs/%s has no %q: %v", folder, want, err)
		}
	}

	ctx, cancel := context.WithCancel(poll.Context(t))
	defer cancel()
	subscriber := p.command(ctx, "exec "+watch)
	stdout, err := subscriber.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := subscriber.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	next := func(want string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != want {
			t.Errorf("the subscriber printed %q (%v), want %q", lines.Text(), lines.Err(), want)
		}
	}
	shown := strings.Split(strings.TrimSpace(p.output), "\n")
	next(shown[0])
	p.run(t, put)
	for _, line := range shown[1:] {
		next(line)
	}

	server.Stop()
	server.Start(t)
	p.run(t, strings.Replace(put, "100", "200", 1))
	for lines.Scan() && lines.Text() == "SYNCED" {
	}
	if want := `MODIFIED shop/limits {"rps": 200}`; lines.Text() != want {
		t.Errorf("after a restart, the subscriber printed %q, want %q", lines.Text(), want)
	}
	if err := subscriber.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := subscriber.Wait(); err == nil || ctx.Err() != nil {
		t.Errorf("the subscriber does not end by an interrupt: %v, %v", err, ctx.Err())
	}
}

// page is the page of the documentation, whose commands run in a folder of their own.
type page struct {
	folder string
	blocks []string // the commands
	output string   // what the last one makes the subscriber print
}

func readPage(t *testing.T, address string) *page {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "clients", "other.md"))
	if err != nil {
		t.Fatal(err)
	}
	p := &page{folder: t.TempDir()}
	for name, target := range map[string]string{"proto": "proto", "examples": "examples", "bin/fanoutctl": ""} {
		if target, err = filepath.Abs(filepath.Join(root, target)); err != nil {
			t.Fatal(err)
		}
		if name == "bin/fanoutctl" {
			target = fanoutctl.Path(t)
		}
		name = filepath.Join(p.folder, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
	}
	for i, block := range strings.Split(string(text), "```") {
		language, content, _ := strings.Cut(block, "\n")
		switch {
		case i%2 == 0:
		case language == "sh":
			p.blocks = append(p.blocks, strings.TrimSpace(strings.ReplaceAll(content, "127.0.0.1:7420", address)))
		default:
			p.output = content
		}
	}
	// The first one installs the packages, which the caller of this test has done.
	if len(p.blocks) != 5 {
		t.Fatalf("the page has %d blocks of commands, want 5: %q", len(p.blocks), p.blocks)
	}
	t.Setenv("FANOUTCTL_SERVER", address)
	return p
}

// command returns a command that a shell runs.
func (p *page) command(ctx context.Context, text string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-ec", text)
	cmd.Dir, cmd.Stderr = p.folder, os.Stderr
	return cmd
}

// run runs a command to its end.
func (p *page) run(t *testing.T, text string) {
	t.Helper()
	if out, err := p.command(poll.Context(t), text).Output(); err != nil {
		t.Fatalf("%s\n%v\n%s", text, err, out)
	}
}
