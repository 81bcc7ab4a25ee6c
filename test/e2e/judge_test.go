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
	wrong := 0
	dir := ""
	for _, w := range watchers {
		err := check.Validate(&w.history, truth)
		if err == nil {
			continue
		}
		wrong++
		// What is wrong with many is mostly the same, and seen in a few.
		if wrong <= 3 {
			t.Error(err)
		}
		if dir == "" {
			dir = keep(t)
			write(t, dir, "truth.txt", truth.Print)
		}
		write(t, dir, strings.ReplaceAll(w.name, " ", "-")+".txt", w.history.Print)
	}
	if wrong > 0 {
		t.Errorf("%d of %d watchers saw something wrong", wrong, len(watchers))
	}
}
