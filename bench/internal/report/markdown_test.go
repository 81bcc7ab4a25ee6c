package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/bench/internal/scenario"
)

// blocks returns an empty place for each of these.
func blocks(names ...string) string {
	var text strings.Builder
	for _, name := range names {
		begin, end := marks(name)
		text.WriteString(begin + "\nold\n" + end + "\n")
	}
	return text.String()
}

// What a suite has measured before is replaced. What people have written stays, and what
// other suites have measured.
func TestADocumentIsWrittenAnew(t *testing.T) {
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
			r := measured(peer, watchers, 0, 3)
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
		t.Errorf("the block of another suite is gone, or its own is not:\n%s", got)
	}
	if err := Write(document, growth); err != nil {
		t.Fatal(err)
	}
	got := readFile(t, document)
	for word, times := range map[string]int{
		"# Title\n": 1, "\nbetween\n": 1, "\nlast\n": 1, "\nold\n": 0, "    make it\n": 2, "By `make it`": 1,
		"| 1000 x 100 | fanoutd | 1 | 4.00 | 3.00 |":                                                            1,
		"| CPU per delivery of the server in front, 1000 x 100 | floor | at most 2.50 | 1.00 | yes |":           1,
		"![cpu saturation 100 on a connection](images/benchmarks/short/cpu-saturation-100-on-a-connection.svg)": 1,
		"(images/benchmarks/growth/told-watchers.svg)":                                                          1,
	} {
		if n := strings.Count(got, word); n != times {
			t.Errorf("%q is there %d times, want %d:\n%s", word, n, times, got)
		}
	}
	for name, there := range map[string]bool{"short/stale.svg": false, "short/cpu-saturation-100-on-a-connection.svg": true, "growth/told-watchers.svg": true} {
		if _, err := os.Stat(filepath.Join(dir, "images", "benchmarks", name)); (err == nil) != there {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A document without a place for a suite stays as it is.
func TestADocumentWithoutAPlace(t *testing.T) {
	document := filepath.Join(t.TempDir(), "benchmarks.md")
	text := blocks("short", "goals of full")
	if err := os.WriteFile(document, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	groups := Groups([]*scenario.Record{measured("fanoutd", 1000, 0, 3)})
	for _, p := range []Part{
		{Suite: "short", Goals: true, Tables: true, Groups: groups},
		{Suite: "full", Goals: true, Tables: true, Groups: groups},
	} {
		if Check(document, p) == nil || Write(document, p) == nil {
			t.Errorf("%s has a place", p.Suite)
		}
	}
	if got := readFile(t, document); got != text {
		t.Errorf("it is now %q", got)
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
