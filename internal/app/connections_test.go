package app

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/internal/config"
)

// The limit of open files bounds connections. An address always leaves some to others, and all
// clients some to operators.
func TestOpenFilesBoundConnections(t *testing.T) {
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	for _, c := range []struct {
		configured, perClient, openFiles, reserved int
		want                                       connectionLimits
	}{
		{50_000, 10_000, 1 << 20, 100, connectionLimits{50_000, 10_000, 16}},
		{50_000, 10_000, 1024, 100, connectionLimits{924, 693, 16}},
		{924, 10_000, 1024, 100, connectionLimits{924, 693, 16}},
		{0, 10_000, 1024, 100, connectionLimits{924, 693, 16}},
		{50_000, 100, 1024, 100, connectionLimits{924, 100, 16}},
		{50_000, 0, 1024, 100, connectionLimits{924, 0, 16}},
		{50_000, 10_000, 256, 100, connectionLimits{156, 117, 16}},
		{80, 80, 1024, 100, connectionLimits{80, 60, 10}},
		{8, 8, 1024, 100, connectionLimits{8, 6, 1}},
		{7, 8, 1024, 100, connectionLimits{7, 6, 0}},
		{2, 8, 1024, 100, connectionLimits{2, 1, 0}},
		{10, 10, 101, 100, connectionLimits{1, 1, 0}},
	} {
		cfg := config.Config{MaxConnections: c.configured, MaxConnectionsPerClient: c.perClient, ReservedFiles: c.reserved, AdminListen: ":7421"}
		if got, err := limitConnections(cfg, c.openFiles, log); err != nil || got != c.want {
			t.Errorf("%+v: got %+v, %v", c, got, err)
		}
		cfg.AdminListen = ""
		if got, err := limitConnections(cfg, c.openFiles, log); err != nil || got.total != c.want.total || got.operators != 0 {
			t.Errorf("without HTTP, %+v: got %+v, %v", c, got, err)
		}
	}
	cfg := config.Config{MaxConnections: 50_000, ReservedFiles: 100}
	if _, err := limitConnections(cfg, 100, log); err == nil || !strings.Contains(err.Error(), "ulimit -n") {
		t.Errorf("got %v, want an error that names ulimit -n", err)
	}
}
