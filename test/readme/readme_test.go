package readme

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/test/loopback"
)

const (
	root           = "../.."
	printedAddress = "127.0.0.1:7420"
	printedHTTP    = "127.0.0.1:7421"
)

func TestTour(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	r := open(t, "README.md")
	server := r.start(r.next("sh"))
	server.await("msg=serving")
	// This test is part of the second command, so only compare its text.
	if all := r.next("sh"); all != "make test\n" {
		t.Errorf("got %q as the second command of README.md", all)
	}

	// fanoutctl survives a restart of the server.
	r.run(r.next("sh"))
	watch := r.follow()
	r.change(watch)
	server.interrupt()
	server.wait()
	r.start(r.next("sh")).await("msg=serving")
	r.change(watch)

	program := r.goProgram(r.next("go"))
	r.prelude = curl()
	r.answers()
	program.prints("ADDED shop/limits {\"rps\": 300}\n")
	r.answers()
	r.begins(r.next("sh"))

	hello := r.next("sh")
	r.prelude, _, _ = strings.Cut(hello, "\n")
	if services := r.run(hello); !strings.Contains(services, "fanout.v1.FanoutService") {
		t.Errorf("got services %q", services)
	}
	r.begins(r.next("sh"))
	r.end()
}

// The commands and the program of docs/getting-started.md print what the page shows, and so do those of the
// pages that continue with its server.
func TestGettingStarted(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	r := open(t, "docs/getting-started.md")
	r.start(r.next("sh")).await("msg=serving")
	r.run(r.next("sh"))
	watch := r.follow()
	r.change(watch)

	r.run(r.next("sh"))
	r.write("shop/main.go", r.next("go"))
	program := r.follow()
	r.change(program)
	r.end()

	r.turnTo("docs/tasks/subscribe.md")
	r.prelude = curl()
	r.next("python") // test/rules compares these two with the pages of the clients
	r.next("js")
	for _, kind := range []string{"RESET", "KIND_CATCH_UP_BEGIN", "CATCH_UP_RESET"} {
		var first json.RawMessage
		if err := r.start(r.next("sh")).messages.Decode(&first); err != nil || !strings.Contains(string(first), kind) {
			t.Errorf("%s: got first message %s (%v), want %s", r.page, first, err, kind)
		}
	}
	r.end()

	r.turnTo("docs/tasks/files.md")
	r.write("backends.tmpl", r.next("template"))
	r.run(r.next("sh"))
	render := r.follow()
	r.change(render)
	r.run(r.next("sh"))
	r.write("value.tmpl", r.next("template"))
	r.run(r.next("sh"))
	if got, err := os.ReadFile(filepath.Join(r.temp, "a.json")); err != nil || !strings.Contains(string(got), "10.0.0.1") {
		t.Errorf("%s: got file %q (%v)", r.page, got, err)
	}
	r.end()

	r.turnTo("docs/tasks/history.md")
	r.past()
	r.end()
}

// reader follows a page.
type reader struct {
	t       *testing.T
	page    string
	text    string
	blocks  []block // not used yet
	temp    string  // replaces /tmp
	address string  // replaces the printed one, which may be in use
	http    string  // address of HTTP
	data    string  // data directory of the server
	prelude string  // setup of each shell
}

// open opens a page of the repository.
func open(t *testing.T, page string) *reader {
	t.Helper()
	r := &reader{t: t, temp: t.TempDir(), address: loopback.FreeAddress(t), http: loopback.FreeAddress(t), data: t.TempDir()}
	r.turnTo(page)
	return r
}

// turnTo opens another page, while everything that was started keeps running.
func (r *reader) turnTo(page string) {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		r.t.Fatal(err)
	}
	r.page, r.text, r.blocks = page, string(text), parse(string(text))
}

// install builds the programs. Later commands find them, and run in the folder /tmp of the page.
func (r *reader) install() {
	r.t.Helper()
	r.run("make build")
	bin, err := filepath.Abs(filepath.Join(root, "bin"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.prelude = "cd " + r.temp + " && export PATH=" + bin + ":$PATH\n"
}

// end fails if a block of the page was not used.
func (r *reader) end() {
	r.t.Helper()
	if len(r.blocks) > 0 {
		r.t.Errorf("%s has further blocks: %v", r.page, r.blocks)
	}
}

// write writes a file of the page, which is below /tmp.
func (r *reader) write(name, content string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.temp, name), []byte(strings.ReplaceAll(content, printedAddress, r.address)), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// block is a fenced block of a page.
type block struct{ language, text string }

func parse(text string) []block {
	var blocks []block
	parts := strings.Split(text, "```")
	for i := 1; i < len(parts); i += 2 {
		language, body, _ := strings.Cut(parts[i], "\n")
		blocks = append(blocks, block{language, body})
	}
	return blocks
}

// goProgram runs the body of a main function.
func (r *reader) goProgram(body string) *terminal {
	r.t.Helper()
	r.write("main.go", fmt.Sprintf(`package main

import (
	"context"
	"fmt"
	"log"

	"github.com/fanoutd/fanoutd/client"
)

func main() {
	ctx := context.Background()
	%s
}
`, body))
	return r.start("go run /tmp/main.go")
}

// next returns the next block.
func (r *reader) next(language string) string {
	r.t.Helper()
	if len(r.blocks) == 0 || r.blocks[0].language != language {
		r.t.Fatalf("the next block of %s is not %s: %v", r.page, language, r.blocks)
	}
	text := r.blocks[0].text
	r.blocks = r.blocks[1:]
	return text
}

// answers runs a command, and compares its output with the block after it.
func (r *reader) answers() {
	r.t.Helper()
	out := r.run(r.next("sh"))
	r.same(json.NewDecoder(strings.NewReader(out)), r.next("json"))
}

// same compares real with printed output, value by value.
func (r *reader) same(got *json.Decoder, printed string) {
	r.t.Helper()
	want := json.NewDecoder(strings.NewReader(printed))
	for {
		var w, g any
		if err := want.Decode(&w); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			r.t.Fatalf("%s: %v", r.page, err)
		}
		if err := got.Decode(&g); err != nil {
			r.t.Fatalf("got %v, want %v", err, w)
		}
		if diff := cmp.Diff(w, g); diff != "" {
			r.t.Errorf("%s differs (-printed +real):\n%s", r.page, diff)
		}
	}
}
