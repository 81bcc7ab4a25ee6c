package e2e

import (
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/internal/check"
)

// judge validates what every watcher saw, and keeps the recordings that are
// wrong.
func judge(t *testing.T, truth *check.Truth, watchers []*watcher) {
	t.Helper()
	dir := ""
	for _, w := range watchers {
		err := check.Validate(&w.history, truth)
		if err == nil {
			continue
		}
		t.Error(err)
		if dir == "" {
			dir = keep(t)
			write(t, dir, "truth.txt", truth.Print)
		}
		write(t, dir, strings.ReplaceAll(w.name, " ", "-")+".txt", w.history.Print)
	}
}
