package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/bench/internal/scenario"
)

// What was measured before is replaced, and what people have written stays.
func TestADocumentIsWrittenAnew(t *testing.T) {
	document := filepath.Join(t.TempDir(), "benchmarks.md")
	text := "# Title\n" + begin + "\nold\n" + end + "\nlast\n"
	if err := os.WriteFile(document, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	groups := Groups([]*scenario.Record{measured("fanoutd", 1000, 0, 3)})
	for range 2 {
		now, err := Markdown(groups, "make it", "pictures", []string{"cpu-of-all.svg"})
		if err != nil {
			t.Fatal(err)
		}
		if err := Replace(document, now); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	for word, times := range map[string]int{
		"# Title\n": 1, "\nlast\n": 1, "old": 0, begin: 1, end: 1, "    make it\n": 1,
		"| 1000 x 100 | fanoutd | 1 | 4.00 | 3.00 |": 1, "![cpu of all](pictures/cpu-of-all.svg)": 1,
	} {
		if n := strings.Count(string(got), word); n != times {
			t.Errorf("%q is there %d times, want %d:\n%s", word, n, times, got)
		}
	}
	if err := os.WriteFile(document, []byte("# Title\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Replace(document, nil); err == nil {
		t.Error("a document without a place for it is no error")
	}
}
