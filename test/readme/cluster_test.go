package readme

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/test/etcdproc"
)

func TestMain(m *testing.M) {
	code := m.Run()
	etcdproc.Clean()
	os.Exit(code)
}

// The files and commands of docs/tasks/cluster.md make a protected server in front of an etcd that has the
// flags of the page. It runs one member and one server, because a test has a single machine.
func TestClusterPage(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	if _, err := exec.LookPath("openssl"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("the page needs openssl")
	}
	r := open(t, "docs/tasks/cluster.md")
	r.run("make build")
	bin, err := filepath.Abs(filepath.Join(root, "bin"))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(r.temp, "cluster")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	// The page continues in the folder of its first commands, and sudo changes the user.
	r.prelude = "cd " + dir + " && export PATH=" + bin + ":$PATH FANOUTCTL_SERVER_NAME=localhost\nsudo() { shift 2; \"$@\"; }"
	servers := "node-1.example.com:7420,node-2.example.com:7420,node-3.example.com:7420"
	relative := func(command string) string {
		return strings.NewReplacer("/etc/fanoutd/", "", servers, r.address).Replace(command)
	}
	local := func(text string) string {
		return strings.NewReplacer(
			"/etc/etcd/node.", dir+"/node-1/node.", "/etc/fanoutd/node.", dir+"/node-1/node.",
			"/etc/etcd/", dir+"/", "/etc/fanoutd/", dir+"/").Replace(text)
	}

	r.run(r.next("sh"))
	r.run(r.next("sh"))
	r.write("cluster/policy.yaml", r.next("yaml"))
	configuration := r.next("yaml")

	_, flags, ok := strings.Cut(r.next(""), "--initial-cluster-state new")
	if !ok {
		t.Fatalf("%s starts etcd in another way", r.page)
	}
	member := etcdproc.Start(t, "https", strings.Fields(strings.ReplaceAll(local(flags), "\\\n", ""))...)
	r.next("") // etcdctl
	endpoint := regexp.MustCompile(`node-\d\.example\.com:2379`)
	r.write("cluster/fanoutd.yaml", endpoint.ReplaceAllString(local(configuration), member)+"etcd-server-name: localhost\n")

	check := relative(r.next("sh"))
	if got, want := r.run(check), r.next("text"); got != want {
		t.Errorf("%s\ngot %q, want %q", check, got, want)
	}
	r.next("") // systemctl
	r.start("exec fanoutd --config fanoutd.yaml").await("msg=serving")
	if got := r.run(relative(r.next("sh"))); !strings.Contains(got, " serving ") || !strings.Contains(got, `{"rps": 100}`) {
		t.Errorf("the commands of the page printed\n%s", got)
	}
	r.end()
}
