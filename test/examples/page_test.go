package examples

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fanoutd/fanoutd/test/loopback"
)

// page is a page of the documentation. The reader follows it from top to bottom.
type page struct {
	blocks  []string // text and code blocks in turn; those that were used are gone
	replace *strings.Replacer
	address string // of the server, in place of that of the page
}

// open opens a page. Its files are below a folder of the test, and its server is at a free address.
func open(t *testing.T, path ...string) *page {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	address, dir := loopback.FreeAddress(t), t.TempDir()
	return &page{blocks: strings.Split(string(text), "```"), address: address, replace: strings.NewReplacer(
		"127.0.0.1:7420", address,
		"/tmp/", dir+"/",
		"make run", "make run FANOUTD_LISTEN="+address+" FANOUTD_ADMIN_LISTEN="+loopback.FreeAddress(t)+" FANOUTD_DATA_DIR="+filepath.Join(dir, "data"),
	)}
}

// next returns the next code block of the language.
func (p *page) next(t *testing.T, language string) string {
	t.Helper()
	for len(p.blocks) > 1 {
		text, ok := strings.CutPrefix(p.blocks[1], language+"\n")
		p.blocks = p.blocks[2:]
		if ok {
			return p.replace.Replace(text)
		}
	}
	t.Fatalf("the page has no further block of %q", language)
	return ""
}

// start starts a command in the root of the repository.
func (p *page) start(t *testing.T, command string) (*process, *output) {
	t.Helper()
	out := newOutput()
	return start(t, out, "env", "FANOUTCTL_SERVER="+p.address, "PYTHONUNBUFFERED=1", "bash", "-ec", "cd "+root+" && "+command), out
}

// run runs a command to its end.
func (p *page) run(t *testing.T, command string) {
	t.Helper()
	done := start(t, io.Discard, "env", "FANOUTCTL_SERVER="+p.address, "PYTHONUNBUFFERED=1", "bash", "-ec", "cd "+root+" && "+command)
	if code := done.wait(t); code != 0 {
		t.Fatalf("%s\ngot exit code %d, want 0:\n%s", command, code, done.errors.String())
	}
}

// serve starts the server of the page, and waits until it answers.
func (p *page) serve(t *testing.T, command string) *process {
	t.Helper()
	server, _ := p.start(t, command)
	server.errors.await(t, server, "serving")
	return server
}

// The commands of each page of a client print what the page shows: install the package, start a server, run
// the program of five lines, change something.
func TestPages(t *testing.T) {
	for name, c := range map[string]struct{ language, file string }{
		"clients/go.md":     {"go", "/tmp/shop/main.go"},
		"clients/python.md": {"python", "/tmp/shop/shop.py"},
		"clients/node.md":   {"js", "/tmp/shop/shop.mjs"},
	} {
		t.Run(name, func(t *testing.T) {
			p := open(t, "docs", name)
			program := p.next(t, c.language)
			if err := os.MkdirAll(filepath.Dir(p.replace.Replace(c.file)), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(p.replace.Replace(c.file), []byte(program), 0o600); err != nil {
				t.Fatal(err)
			}
			p.run(t, p.next(t, "sh"))
			p.serve(t, p.next(t, "sh"))
			subscriber, out := p.start(t, p.next(t, "sh"))
			p.run(t, p.next(t, "sh"))
			out.await(t, subscriber, p.next(t, ""))
		})
	}
}

// The programs do what examples/README.md shows, also when the server restarts.
func TestExamples(t *testing.T) {
	open(t, "examples", "README.md").run(t, "examples/install")
	for n, name := range []string{"go", "python", "node"} {
		t.Run(name, func(t *testing.T) {
			p := open(t, "examples", "README.md")
			p.next(t, "sh") // the installation
			serve := p.next(t, "sh")
			server := p.serve(t, serve)
			subscribe := []string{p.next(t, "sh"), p.next(t, "sh"), p.next(t, "sh")}[n]
			subscriber, out := p.start(t, subscribe)
			put := p.next(t, "sh")
			p.run(t, put)
			out.await(t, subscriber, p.next(t, ""))

			server.end(t, syscall.SIGINT)
			server = p.serve(t, serve)
			p.run(t, strings.Replace(put, "limits", "others", 1))
			out.await(t, subscriber, "added shop/others")
			subscriber.end(t, syscall.SIGINT)

			p.run(t, p.next(t, "sh"))
			subscriber, out = p.start(t, subscribe)
			missed := strings.Split(strings.TrimSpace(p.next(t, "")), "\n")
			out.await(t, subscriber, strings.SplitN(missed[1], " ", 2)[1])
			queue, out := p.start(t, p.next(t, "sh"))
			out.await(t, queue, p.next(t, ""))
			server.end(t, syscall.SIGINT)
		})
	}
}

// The pages of the clients have the same sections in the same order. A client may lack an optional one.
func TestPagesHaveTheSameStructure(t *testing.T) {
	order := []string{
		"Install", "What it costs to import", "Where the servers are", "Read and write", "History", "Validation", "Watches",
		"What a watch does when something fails", "One stream for all watches", "Informers", "Handlers", "Shared watches",
		"Reports", "The last known good state", "Each of several servers", "Waiting for subscribers", "Errors", "TLS and tokens",
		"Metrics and traces", "Unit tests", "Without asyncio", "Close and fork",
	}
	optional := map[string]bool{"Each of several servers": true, "Without asyncio": true, "Close and fork": true}
	for _, name := range []string{"clients/go.md", "clients/python.md", "clients/node.md"} {
		text, err := os.ReadFile(filepath.Join(root, "docs", name))
		if err != nil {
			t.Fatal(err)
		}
		missing := order
		for line := range strings.Lines(string(text)) {
			title, ok := strings.CutPrefix(strings.TrimSpace(line), "## ")
			if !ok {
				continue
			}
			for len(missing) > 0 && missing[0] != title && optional[missing[0]] {
				missing = missing[1:]
			}
			if len(missing) == 0 || missing[0] != title {
				t.Fatalf("%s: section %q is not in its place: want one of %q", name, title, missing)
			}
			missing = missing[1:]
		}
		for _, title := range missing {
			if !optional[title] {
				t.Errorf("%s lacks the section %q", name, title)
			}
		}
	}
}
