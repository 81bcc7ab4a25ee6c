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

// The commands of each README, run in its order, print the output that it shows.
func TestReadmes(t *testing.T) {
	for language := range languages {
		t.Run(language, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(root, "examples", language, "README.md"))
			if err != nil {
				t.Fatal(err)
			}
			// The port and files of the README may be in use.
			address, dir := loopback.FreeAddress(t), t.TempDir()
			r := &reader{blocks: strings.Split(string(text), "```"), replace: strings.NewReplacer(
				"127.0.0.1:7420", address,
				"/tmp/shop.json", filepath.Join(dir, "shop.json"),
				"make run", "make run FANOUTD_LISTEN="+address+" FANOUTD_DATA_DIR="+filepath.Join(dir, "data"),
			)}
			r.follow(t)
		})
	}
}

// reader follows the instructions of a README.
type reader struct {
	blocks  []string // text and code blocks in turn; those that were used are gone
	replace *strings.Replacer
}

func (r *reader) follow(t *testing.T) {
	install := r.terminal(t, r.next(t, "sh"))
	if code := install.wait(t); code != 0 {
		t.Fatalf("examples/install: got exit code %d, want 0", code)
	}
	makeRun := r.next(t, "sh")
	server := r.terminal(t, makeRun)
	sub := r.terminal(t, r.next(t, "sh"))
	sub.until(t, "synced")
	r.run(t, r.next(t, "sh"))
	sub.read = 0
	r.awaitOutput(t, sub, r.next(t, "json"))

	server.end(t, syscall.SIGINT)
	r.terminal(t, makeRun)
	r.awaitOutput(t, sub, r.next(t, "json"))

	sub.end(t, syscall.SIGINT)
	r.run(t, r.next(t, "sh"))
	sub = r.terminal(t, r.next(t, "sh"))
	r.awaitOutput(t, sub, r.next(t, "json"))
	if len(r.blocks) > 1 {
		t.Errorf("the README has more blocks than this test knows: %q", r.blocks)
	}
}

// next returns the next code block.
func (r *reader) next(t *testing.T, language string) string {
	t.Helper()
	if len(r.blocks) < 2 || !strings.HasPrefix(r.blocks[1], language+"\n") {
		t.Fatalf("got blocks %q, want one of %s next", r.blocks, language)
	}
	text := strings.TrimPrefix(r.blocks[1], language+"\n")
	r.blocks = r.blocks[2:]
	return r.replace.Replace(text)
}

// terminal starts a command in the root of the repository.
func (r *reader) terminal(t *testing.T, command string) *subscriber {
	t.Helper()
	out := &lines{more: make(chan struct{})}
	return &subscriber{process: start(t, out, "bash", "-c", "cd "+root+" && "+command), lines: out}
}

// run runs a command and waits for its end.
func (r *reader) run(t *testing.T, command string) {
	t.Helper()
	if code := start(t, io.Discard, "bash", "-c", "cd "+root+" && "+command).wait(t); code != 0 {
		t.Fatalf("%s: got exit code %d, want 0", command, code)
	}
}

// awaitOutput waits for the lines that the README shows. Other lines may come between them,
// and the random delays are ignored.
func (r *reader) awaitOutput(t *testing.T, sub *subscriber, shown string) {
	t.Helper()
	for want := json.NewDecoder(strings.NewReader(shown)); ; {
		var w line
		if err := want.Decode(&w); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("the output in the README: %v", err)
		}
		sub.next(t, func(got line) bool { return reflect.DeepEqual(got, w) })
	}
}
