// Package fanoutdproc builds fanoutd for tests that run it in its own process.
package fanoutdproc

import (
	"testing"

	"github.com/fanoutd/fanoutd/test/program"
	"github.com/fanoutd/fanoutd/test/race"
)

var fanoutd = program.Program{Folder: "cmd/fanoutd", Race: race.Enabled, Sources: []string{"cmd", "gen", "internal"}}

// Program returns the path of fanoutd. It is built with the race detector if the test is.
func Program(t testing.TB) string {
	t.Helper()
	return fanoutd.Path(t)
}

// Clean removes the program. TestMain calls it after the tests.
func Clean() { fanoutd.Clean() }
