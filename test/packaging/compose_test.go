package packaging

import (
	"crypto/sha256"
	"fmt"
	"os"
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
	// The certificate is made by a command of the server, in a volume that the servers read.
	certificates := t.TempDir()
	maker := project.Services["certificates"]
	var arguments []string
	for _, argument := range maker.Command {
		arguments = append(arguments, strings.Replace(argument, maker.Volumes[0].Target, certificates, 1))
	}
	run(t, ".", nil, fanoutd(t), arguments...)
	run(t, ".", nil, fanoutd(t), arguments...) // of the next "docker compose up"

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
		files := map[string]string{} // by path in the container
		for _, c := range service.Configs {
			files[c.Target] = project.Configs[c.Source].Content
		}
		volumes, folders := map[string]string{}, map[string]string{}
		for _, v := range service.Volumes {
			volumes[v.Target] = v.Source
			if v.Volume != nil {
				folders[v.Target] = v.Volume.Subpath
			}
		}
		certificate := filepath.Join(certificates, folders["/certificates"])
		if _, err := os.Stat(filepath.Join(certificate, "authority.pem")); err == nil {
			t.Errorf("%s has the key of the authority", name)
		}
		text := files["/etc/fanoutd/fanoutd.yaml"]
		settings := effective(t, text)
		cluster, _ := settings["cluster"].(map[string]any)
		members, _ := cluster["members"].(map[string]any)
		if service.Hostname != name || members[name] != name || len(members) != 3 {
			t.Errorf("%s is called %s, and the members are %v", name, service.Hostname, members)
		}
		if data := fmt.Sprint(settings["data-dir"]); volumes[data] != strings.Replace(name, "fanoutd", "data", 1) {
			t.Errorf("%s has its data in the volume %q", name, volumes[data])
		}
		// With the certificate of the volume, the configuration is valid.
		text = strings.NewReplacer("/certificates/", certificate+"/", "/etc/fanoutd/tokens", filepath.Join(certificates, "tokens"), "/data", t.TempDir()).Replace(text)
		write(t, filepath.Join(certificates, "fanoutd.yaml"), text)
		write(t, filepath.Join(certificates, "tokens"), files[fmt.Sprint(settings["token-file"])])
		run(t, ".", nil, fanoutd(t), "--config", filepath.Join(certificates, "fanoutd.yaml"), "config", "check")
		if volumes["/certificates"] != maker.Volumes[0].Source {
			t.Errorf("%s does not have the volume of the certificate", name)
		}
		for _, key := range []string{"ca-file", "cert-file", "key-file"} {
			path := strings.Replace(fmt.Sprint(cluster[key]), "/certificates", certificate, 1)
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: %v", key, err)
			}
		}

		// The token in the file is that of the only caller.
		token := service.Environment["FANOUTCTL_TOKEN"]
		if token == nil {
			t.Fatalf("%s has no token for its health check", name)
		}
		line := fmt.Sprintf("example sha256:%x\n", sha256.Sum256([]byte(*token)))
		if got := files[fmt.Sprint(settings["token-file"])]; got != line {
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
	if servers != 3 {
		t.Errorf("got %d servers", servers)
	}
}
