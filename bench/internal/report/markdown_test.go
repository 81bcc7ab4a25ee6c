package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/bench/internal/scenario"
)

// blocks returns the marker lines of these blocks, with a line between each pair.
func blocks(names ...string) string {
	var text strings.Builder
	for _, name := range names {
		begin, end := marks(name)
		text.WriteString(begin + "\nold\n" + end + "\n")
	}
	return text.String()
}

// Write replaces the block of a suite and its plots. It keeps the rest of the document,
// including the blocks of other suites.
func TestWriteReplacesTheBlocksOfASuite(t *testing.T) {
	dir := t.TempDir()
	document := filepath.Join(dir, "benchmarks.md")
	text := "# Title\n" + blocks("goals of short", "short") + "between\n" + blocks("growth") + "last\n"
	if err := os.WriteFile(document, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	stale := filepath.Join(dir, "images", "benchmarks", "short", "stale.svg")
	if err := os.MkdirAll(filepath.Dir(stale), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(stale, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var records []*scenario.Record
	for _, watchers := range []int{1000, 10000} {
		for _, peer := range []string{"floor", "fanoutd"} {
			r := fakeRecord(peer, watchers, 0, 3)
			r.Suite, r.Command = "short", "make it"
			records = append(records, r)
		}
	}
	short := Part{Suite: "short", Tables: true, Goals: true, Groups: Groups(records)}
	growth := Part{Suite: "growth", Curves: true, Groups: Groups(records)}
	for range 2 {
		if err := Write(document, short); err != nil {
			t.Fatal(err)
		}
	}
	if got := readFile(t, document); strings.Count(got, "\nold\n") != 1 {
		t.Errorf("got a document in which not just the blocks of the suite were replaced:\n%s", got)
	}
	if err := Write(document, growth); err != nil {
		t.Fatal(err)
	}
	got := readFile(t, document)
	for text, want := range map[string]int{
		"# Title\n": 1, "\nbetween\n": 1, "\nlast\n": 1, "\nold\n": 0, "    make it\n": 2, "By `make it`": 1,
		"| 1000 x 100 | fanoutd | 1 | 4.00 | 3.00 |":                                                            1,
		"| CPU per delivery of the front server, 1000 x 100 | floor | at most 2.50 | 1.00 | yes |":              1,
		"![cpu saturation 100 on a connection](images/benchmarks/short/cpu-saturation-100-on-a-connection.svg)": 1,
		"(images/benchmarks/growth/receiving-watchers.svg)":                                                     1,
	} {
		if n := strings.Count(got, text); n != want {
			t.Errorf("got %q %d times, want %d:\n%s", text, n, want, got)
		}
	}
	for name, exists := range map[string]bool{"short/stale.svg": false, "short/cpu-saturation-100-on-a-connection.svg": true, "growth/receiving-watchers.svg": true} {
		if _, err := os.Stat(filepath.Join(dir, "images", "benchmarks", name)); (err == nil) != exists {
			t.Errorf("%s: got error %v, want the file to exist: %v", name, err, exists)
		}
	}
}

func TestWriteNeedsTheBlocksOfASuite(t *testing.T) {
	document := filepath.Join(t.TempDir(), "benchmarks.md")
	text := blocks("short", "goals of full")
	if err := os.WriteFile(document, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	groups := Groups([]*scenario.Record{fakeRecord("fanoutd", 1000, 0, 3)})
	for _, p := range []Part{
		{Suite: "short", Goals: true, Tables: true, Groups: groups},
		{Suite: "full", Goals: true, Tables: true, Groups: groups},
	} {
		if Check(document, p) == nil || Write(document, p) == nil {
			t.Errorf("suite %s: got no error, want one for the missing block", p.Suite)
		}
	}
	if got := readFile(t, document); got != text {
		t.Errorf("got document %q, want %q", got, text)
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
