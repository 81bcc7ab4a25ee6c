// Package fanoutdproc builds fanoutd for tests that run it in processes of its own.
package fanoutdproc

import (
	"testing"

	"github.com/fanoutd/fanoutd/test/program"
	"github.com/fanoutd/fanoutd/test/race"
)

var fanoutd = program.Program{Package: "./cmd/fanoutd", Flags: flags(), Sources: []string{"cmd", "gen", "internal"}}

func flags() []string {
	if race.Enabled {
		return []string{"-race"}
	}
	return nil
}

// Program returns the path of fanoutd, which is built with the race detector if the
// test is.
func Program(t testing.TB) string {
	t.Helper()
	return fanoutd.Path(t)
}

// Clean removes the program. TestMain calls it when the tests have run.
func Clean() { fanoutd.Clean() }
