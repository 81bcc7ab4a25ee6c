//go:build unix

package shell

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestParseSignal(t *testing.T) {
	for name, want := range map[string]os.Signal{"HUP": unix.SIGHUP, "sigusr1": unix.SIGUSR1} {
		if s, err := ParseSignal(name); s != want || err != nil {
			t.Errorf("%s: got %v, %v, want %v", name, s, err, want)
		}
	}
	if s, err := ParseSignal("NOTHING"); err == nil {
		t.Errorf("got %v for a signal that does not exist, want an error", s)
	}
}
