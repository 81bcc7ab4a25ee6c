package app

import (
	"log/slog"
	"strings"
	"testing"
)

func TestOpenFilesBoundConnections(t *testing.T) {
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	for _, c := range []struct{ configured, openFiles, reserved, want int }{
		{configured: 50_000, openFiles: 1 << 20, reserved: 100, want: 50_000},
		{configured: 50_000, openFiles: 1024, reserved: 100, want: 924},
		{configured: 924, openFiles: 1024, reserved: 100, want: 924},
		{configured: 0, openFiles: 1024, reserved: 100, want: 924},
		{configured: 10, openFiles: 101, reserved: 100, want: 1},
	} {
		if got, err := limitConnections(c.configured, c.openFiles, c.reserved, log); err != nil || got != c.want {
			t.Errorf("%+v: got %d, %v", c, got, err)
		}
	}
	if _, err := limitConnections(50_000, 100, 100, log); err == nil || !strings.Contains(err.Error(), "ulimit -n") {
		t.Errorf("got %v, want an error that names ulimit -n", err)
	}
}
