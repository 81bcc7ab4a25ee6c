package packaging

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/unit"
)

// TestSystemd checks the unit with systemd itself, and that it allows enough time for a stop.
func TestSystemd(t *testing.T) {
	text := string(read(t, "deploy/systemd/fanoutd.service"))
	options, err := unit.DeserializeOptions(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	value := func(name string) (found string) {
		for _, o := range options {
			if o.Name == name {
				found = o.Value
			}
		}
		return found
	}
	settings := effective(t, "")
	if stop := duration(t, settings["drain-period"]) + duration(t, settings["shutdown-grace"]); stop >= duration(t, value("TimeoutStopSec")) || stop < time.Second {
		t.Errorf("a stop may take %v, got a timeout of %s", stop, value("TimeoutStopSec"))
	}
	if got := value("Restart") + " " + value("StartLimitIntervalSec"); got != "on-failure 0" {
		t.Errorf("systemd gives up on a server that cannot start: %s", got)
	}
	if value("Type") != "notify" || value("WatchdogSec") == "" {
		t.Error("systemd does not learn when the server is ready, or that it hangs")
	}
	if value("ProcSubset") == "pid" {
		t.Error("/proc/stat is hidden, so the metric process_start_time_seconds is missing")
	}
	// systemd also verifies that the program exists.
	program, arguments, _ := strings.Cut(value("ExecStart"), " ")
	server := fanoutd(t)
	path := filepath.Join(t.TempDir(), "fanoutd.service")
	if err := os.WriteFile(path, []byte(strings.Replace(text, program, server, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, ".", nil, "systemd-analyze", "verify", "--man=no", path)
	for flag := range strings.FieldsSeq(arguments) {
		if strings.HasPrefix(flag, "--") && !strings.Contains(run(t, ".", nil, server, "--help"), flag+" ") {
			t.Errorf("unknown flag %s", flag)
		}
	}
}
