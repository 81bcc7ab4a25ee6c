package packaging

import (
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
		settings := effective(t, "", environ...)
		stop := duration(t, settings["drain-period"]) + duration(t, settings["shutdown-grace"])
		if service.StopGracePeriod == nil || stop >= time.Duration(*service.StopGracePeriod) {
			t.Errorf("%s: got stop grace period %v", name, stop)
		}
	}
	if servers != 2 {
		t.Errorf("got %d servers", servers)
	}
}
