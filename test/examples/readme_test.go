package examples

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/fanoutd/fanoutd/test/loopback"
)

// What the README of each example says is done, in the order in which a reader would,
// and what comes out is what is printed there.
func TestReadmes(t *testing.T) {
	for language := range languages {
		t.Run(language, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(root, "examples", language, "README.md"))
			if err != nil {
				t.Fatal(err)
			}
			// Port and files of the README may be in use.
			address, dir := loopback.FreeAddress(t), t.TempDir()
			r := &reader{blocks: strings.Split(string(text), "```"), replace: strings.NewReplacer(
				"127.0.0.1:7420", address,
				"/tmp/shop.json", filepath.Join(dir, "shop.json"),
				"make run", "make run FANOUTD_LISTEN="+address+" FANOUTD_DATA_DIR="+filepath.Join(dir, "data"),
			)}
			r.do(t)
		})
	}
}

// reader is somebody who does what a README says.
type reader struct {
	blocks  []string // text, block, text and so on
	replace *strings.Replacer
}

func (r *reader) do(t *testing.T) {
	install := r.terminal(t, r.next(t, "sh"))
	if code := install.wait(t); code != 0 {
		t.Fatalf("examples/install ended with %d", code)
	}
	makeRun := r.next(t, "sh")
	server := r.terminal(t, makeRun)
	sub := r.terminal(t, r.next(t, "sh"))
	sub.until(t, "synced")
	r.run(t, r.next(t, "sh"))
	sub.read = 0
	r.same(t, sub, r.next(t, "json"))

	server.end(t, syscall.SIGINT)
	r.terminal(t, makeRun)
	r.same(t, sub, r.next(t, "json"))

	sub.end(t, syscall.SIGINT)
	r.run(t, r.next(t, "sh"))
	sub = r.terminal(t, r.next(t, "sh"))
	r.same(t, sub, r.next(t, "json"))
	if len(r.blocks) > 1 {
		t.Errorf("the README has more: %q", r.blocks)
	}
}

// next returns the next block.
func (r *reader) next(t *testing.T, language string) string {
	t.Helper()
	if len(r.blocks) < 2 || !strings.HasPrefix(r.blocks[1], language+"\n") {
		t.Fatalf("the next block of the README is not %s: %q", language, r.blocks)
	}
	text := strings.TrimPrefix(r.blocks[1], language+"\n")
	r.blocks = r.blocks[2:]
	return r.replace.Replace(text)
}

// terminal runs a command as the reader would.
func (r *reader) terminal(t *testing.T, command string) *subscriber {
	t.Helper()
	out := &lines{more: make(chan struct{})}
	return &subscriber{process: start(t, out, "bash", "-c", "cd "+root+" && "+command), lines: out}
}

// run runs a command to its end.
func (r *reader) run(t *testing.T, command string) {
	t.Helper()
	if code := start(t, io.Discard, "bash", "-c", "cd "+root+" && "+command).wait(t); code != 0 {
		t.Fatalf("%s ended with %d", command, code)
	}
}

// same waits for the lines that are printed in the README. Others may be in between,
// and waiting times are random.
func (r *reader) same(t *testing.T, sub *subscriber, printed string) {
	t.Helper()
	for want := json.NewDecoder(strings.NewReader(printed)); ; {
		var w line
		if err := want.Decode(&w); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("the README: %v", err)
		}
		sub.next(t, func(got line) bool { return reflect.DeepEqual(got, w) })
	}
}
