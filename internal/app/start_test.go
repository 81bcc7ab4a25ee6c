package app_test

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/logs"
)

// A server that starts for the first time, and one that starts again, warn of nothing. Only a slow
// disk may cause warnings.
func TestCleanStartsWarnOfNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	const tries = 3 // what etcd logs depends on its timing
	for range tries {
		cfg := testConfig(t)
		for _, when := range []string{"first start", "second start"} {
			var log logBuffer
			conn, stop := startWith(t, cfg, slog.New(slog.NewJSONHandler(&log, nil)))
			_, err := fanoutv1.NewStoreServiceClient(conn).Put(t.Context(), &fanoutv1.PutRequest{
				Resource: "config",
				Put:      &fanoutv1.PutOperation{Key: "a", Value: &fanoutv1.PutOperation_Text{Text: "1"}},
			})
			if err != nil {
				t.Fatal(err)
			}
			stop()
			for _, line := range log.lines(t) {
				slow := strings.Contains(line.Message, "took too long") || strings.Contains(line.Message, "slow")
				if line.Level >= slog.LevelWarn && !slow {
					t.Errorf("%s: got %s %q: %s", when, line.Level, line.Message, line.raw)
				}
			}
		}
	}
}

// logBuffer collects log lines in JSON.
type logBuffer struct{ logs.Buffer }

type logLine struct {
	Level   slog.Level
	Message string `json:"msg"`
	raw     string
}

func (b *logBuffer) lines(t *testing.T) (all []logLine) {
	t.Helper()
	for raw := range strings.Lines(b.String()) {
		line := logLine{raw: raw}
		if err := json.Unmarshal([]byte(raw), &line); err != nil {
			t.Fatal(err)
		}
		all = append(all, line)
	}
	return all
}
