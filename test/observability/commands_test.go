package observability

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/internal/admin"
	"github.com/fanoutd/fanoutd/internal/config"
)

// Channelz must be on before the first connection.
func init() { admin.EnableChannelz() }

// TestDocumentedCommandsWork runs the commands in docs/tasks/monitor.md.
func TestDocumentedCommandsWork(t *testing.T) {
	text, err := os.ReadFile(monitorPage)
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)\n```sh\n(.*?)```\n").FindAllStringSubmatch(string(text), -1)
	if len(blocks) == 0 {
		t.Fatal("got no commands")
	}
	in := start(t, func(cfg *config.Config) { cfg.Channelz = true })
	var script strings.Builder
	script.WriteString(`grpcurl() { go tool -modfile=tools/go.mod grpcurl "$@"; }` + "\n")
	if _, err := exec.LookPath("curl"); err != nil {
		script.WriteString(`curl() { go run ./test/curl "$@"; }` + "\n")
	}
	for _, b := range blocks {
		script.WriteString(strings.ReplaceAll(b[1], "127.0.0.1:7421", in.admin))
	}
	cmd := exec.CommandContext(within(t), "bash", "-euo", "pipefail", "-c", script.String())
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "PPROF_TMPDIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"ok\n", "fanoutd_cacher_lag_revisions{", "flat%", `"serverId"`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("got no %q in\n%s", want, out)
		}
	}
}
