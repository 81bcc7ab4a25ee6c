package readme

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

func TestMain(m *testing.M) {
	code := m.Run()
	etcdproc.Clean()
	os.Exit(code)
}

// nodes is how many machines docs/tasks/external-etcd.md has.
const nodes = 3

// machines are the machines of the page. All of them are this one, with other ports and folders.
type machines struct {
	dir            string        // below /tmp, like all paths of a page
	clients, peers [nodes]string // addresses of etcd
}

// on returns the text of a page as it is for one machine.
func (m *machines) on(node int, text string) string {
	name := fmt.Sprintf("node-%d", node+1)
	replace := []string{
		"node=node-1\n", "node=" + name + "\n",
		"0.0.0.0:2379", m.clients[node], "$node.example.com:2379", m.clients[node],
		"0.0.0.0:2380", m.peers[node], "$node.example.com:2380", m.peers[node],
		"/var/lib/etcd", filepath.Join(m.dir, name, "data"),
		"/etc/etcd/node.", filepath.Join(m.dir, name, "node."), "/etc/etcd/", m.dir + "/",
		"/etc/fanoutd/node.", filepath.Join(m.dir, name, "node."), "/etc/fanoutd/", m.dir + "/",
	}
	for i := range nodes {
		other := fmt.Sprintf("node-%d.example.com:", i+1)
		replace = append(replace, other+"2379", m.clients[i], other+"2380", m.peers[i])
	}
	return strings.NewReplacer(replace...).Replace(text)
}

// ips returns the addresses of etcd for certificates, which on the page have the names of the machines.
func (m *machines) ips(t *testing.T) (names string) {
	t.Helper()
	for _, address := range slices.Concat(m.clients[:], m.peers[:]) {
		ip, _, err := net.SplitHostPort(address)
		if err != nil {
			t.Fatal(err)
		}
		names += ",IP:" + ip
	}
	return names
}

// The files and commands of docs/tasks/external-etcd.md make three members of etcd and a protected server in front of
// them, and those of docs/tasks/backup.md restore the members.
func TestExternalEtcdPage(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	if _, err := exec.LookPath("openssl"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("the page needs openssl")
	}
	r := open(t, "docs/tasks/external-etcd.md")
	r.install()
	m := &machines{dir: "/tmp/cluster"}
	dir := filepath.Join(r.temp, "cluster")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range nodes {
		m.clients[i], m.peers[i] = loopback.FreeAddress(t), loopback.FreeAddress(t)
	}
	// The page continues in the folder of its first commands, and sudo changes the user.
	r.prelude += "cd cluster && export FANOUTCTL_SERVER_NAME=localhost\nsudo() { shift 2; \"$@\"; }\n" + etcdproc.Functions(t)
	servers := "node-1.example.com:7420,node-2.example.com:7420,node-3.example.com:7420"
	relative := func(command string) string {
		return strings.NewReplacer("/etc/fanoutd/", "", servers, r.address).Replace(command)
	}

	r.run(strings.ReplaceAll(r.next("sh"), "IP:127.0.0.1", "IP:127.0.0.1"+m.ips(t)))
	r.run(r.next("sh"))
	r.write("cluster/policy.yaml", r.next("yaml"))
	r.write("cluster/fanoutd.yaml", strings.ReplaceAll(m.on(0, r.next("yaml")), m.dir, dir))

	start := r.next("")
	var args [][]string
	for i := range nodes {
		// The shell prints the arguments. The disk of a test need not be safe.
		words := r.run(`etcd() { printf '%s\n' "$@"; }` + "\n" + m.on(i, start))
		args = append(args, append(strings.Fields(words), "--unsafe-no-fsync", "--log-level", "warn"))
	}
	members := etcdproc.StartMembers(t, args...)
	health := m.on(0, r.next(""))
	healthy := func() {
		t.Helper()
		if got := r.run(health + " 2>&1"); strings.Count(got, "is healthy") != nodes {
			t.Errorf("%s\nprinted\n%s", health, got)
		}
	}
	healthy()

	check := relative(r.next("sh"))
	if got, want := r.run(check), r.next("text"); got != want {
		t.Errorf("%s\ngot %q, want %q", check, got, want)
	}
	r.next("") // systemctl
	r.start("exec fanoutd --config fanoutd.yaml").await("msg=serving")
	use := relative(r.next("sh"))
	if got := r.run(use); !strings.Contains(got, " serving ") || !strings.Contains(got, `{"rps": 100}`) {
		t.Errorf("the commands of the page printed\n%s", got)
	}
	for range 3 {
		r.next("") // see TestMoveOfExternalEtcd
	}
	r.end()

	r.turnTo("docs/tasks/backup.md")
	_, own, _ := strings.Cut(r.text, "\n## Restore an etcd of your own\n")
	r.blocks = parse(own)
	environment, _, _ := strings.Cut(use, "fanoutctl ")
	r.prelude += environment
	if got := r.run(m.on(0, r.next(""))); !strings.Contains(got, "REVISION") {
		t.Errorf("the status of the backup is\n%s", got)
	}
	r.run("fanoutctl put config shop/limits '{\"rps\": 200}'")
	for _, member := range members {
		member.Stop(t)
	}
	restore := r.next("")
	for i, member := range members {
		r.run(m.on(i, restore))
		member.Launch(t)
	}
	for _, member := range members {
		member.Await(t)
	}
	healthy()
	poll.Until(t, "restored value", func() bool {
		return strings.Contains(r.run("fanoutctl get config shop/limits"), `{"rps": 100}`)
	})
	r.end()
}

// etcd accepts the commands that give fanoutd's user its rights.
func TestRightsInEtcd(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	r := open(t, "docs/tasks/protect.md")
	i := slices.IndexFunc(r.blocks, func(b block) bool { return strings.HasPrefix(b.text, "etcdctl role add ") })
	if i < 0 {
		t.Fatalf("%s does not create a role", r.page)
	}
	r.prelude = "export ETCDCTL_ENDPOINTS=" + etcdproc.Start(t, "http") + "\n" + etcdproc.Functions(t)
	r.run("set -e\n" + r.blocks[i].text)
	got := r.run("etcdctl user get fanoutd --detail")
	for _, right := range []string{"/config/", "fanoutd-epoch"} {
		if strings.Count(got, right) < 2 { // it may read, and it may write
			t.Errorf("fanoutd's user lacks %s:\n%s", right, got)
		}
	}
}
