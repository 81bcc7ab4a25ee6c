package readme

import (
	"slices"
	"strings"
	"testing"
)

// The commands of conformance/README.md run. Here, two scenarios are enough, because TestGoClientConforms runs all.
func TestConformancePage(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	r := open(t, "conformance/README.md")
	here := strings.NewReplacer("conformance -- ", "conformance -run 'reset-cut/watch' -- ", "python3 my_test_client.py", "go run ./conformance/goclient")
	lines := strings.Split(here.Replace(r.next("sh")+r.next("sh")), "\n")
	if got := r.run("set -e\n" + strings.Join(slices.Compact(lines), "\n")); !strings.Contains(got, "\nsnapshot: watch/watch\n") {
		t.Errorf("got no list of the scenarios:\n%s", got)
	}
	r.next("json")
	r.next("json")
	r.end()
}
