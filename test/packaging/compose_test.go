package packaging

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
)

func TestCompose(t *testing.T) {
	options, err := cli.NewProjectOptions([]string{filepath.Join(root, "deploy/compose/compose.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	servers := 0
	for name, service := range project.Services {
		for _, p := range service.Ports {
			if p.HostIP != "127.0.0.1" {
				t.Errorf("port %d of %s is published on all addresses", p.Target, name)
			}
		}
		if !strings.HasPrefix(name, "fanoutd") {
			continue
		}
		servers++
		var environ []string
		for key, value := range service.Environment {
			environ = append(environ, key+"="+*value)
		}
		settings := effective(t, string(read(t, "deploy/docker/fanoutd.yaml")), environ...)
		// The token in the file is that of the only caller.
		token := service.Environment["FANOUTCTL_TOKEN"]
		if len(service.Configs) != 1 || service.Configs[0].Target != settings["token-file"] || token == nil {
			t.Fatalf("%s: got token file %v", name, settings["token-file"])
		}
		line := fmt.Sprintf("example sha256:%x\n", sha256.Sum256([]byte(*token)))
		if got := project.Configs[service.Configs[0].Source].Content; got != line {
			t.Errorf("%s: got tokens %q, want %q", name, got, line)
		}
		if !strings.Contains(string(read(t, "deploy/compose/compose.yaml")), "#   export FANOUTCTL_TOKEN="+*token+"\n") {
			t.Error("the file does not name the token")
		}
		stop := duration(t, settings["drain-period"]) + duration(t, settings["shutdown-grace"])
		if service.StopGracePeriod == nil || stop >= time.Duration(*service.StopGracePeriod) {
			t.Errorf("%s: got stop grace period %v", name, stop)
		}
	}
	if servers != 2 {
		t.Errorf("got %d servers", servers)
	}
}
