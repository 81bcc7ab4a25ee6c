package main

import (
	"strings"
	"testing"
)

// Of several servers one is asked, always the same: what a command has shown the next
// one finds.
func TestOperatorsHaveOneServer(t *testing.T) {
	first, second := server(t, "config"), server(t, "config")
	both := first + "," + second
	inTerminal(t, first, 80, nil, "watch", "config")
	if !eventually(func() bool {
		out, _ := plainly(t, first, nil, "watchers", "-o", "key")
		return out != ""
	}) {
		t.Fatal("nobody watches")
	}
	for range 4 {
		if out, says := plainly(t, both, nil, "watchers"); !strings.Contains(out, "config") || !strings.Contains(says, "This is the server "+first+"; ") {
			t.Fatalf("%s%s", says, out)
		}
		if out, says := plainly(t, both, nil, "resources"); !strings.Contains(out, "config ") || !strings.Contains(says, first) {
			t.Fatalf("%s%s", says, out)
		}
		if out, _ := plainly(t, both, nil, "top"); !strings.Contains(out, both+" ("+first+")") || !strings.Contains(out, "1 watchers") {
			t.Fatal(out)
		}
	}
	id, _ := plainly(t, both, nil, "watchers", "-o", "key")
	plainly(t, both, nil, "watchers", "end", strings.TrimSpace(id))
}
