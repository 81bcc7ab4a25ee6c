package readme

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

// hosts are the machines of docs/tasks/cluster.md: loopback addresses of this one.
type hosts [nodes]string

func newHosts(t *testing.T) (all hosts) {
	t.Helper()
	for i := range all {
		all[i], _, _ = net.SplitHostPort(loopback.FreeAddress(t))
		if all[i] == "127.0.0.1" {
			t.Skip("three servers with the ports of the page need three loopback addresses")
		}
	}
	return all
}

// on returns the text of the page as it is for one machine, whose files are below a folder.
func (h hosts) on(node int, folder, text string) string {
	name := fmt.Sprintf("node-%d", node+1)
	replace := []string{
		`listen: ":`, `listen: "` + h[node] + ":",
		"cluster:\n", "cluster:\n  name: " + name + "\n",
		"/etc/fanoutd/fanoutd.yaml", filepath.Join(folder, name+".yaml"),
		"/etc/fanoutd/", filepath.Join(folder, "certs", name) + "/",
		"/var/lib/fanoutd/", filepath.Join(folder, "data", name) + "/",
	}
	for i, address := range h {
		replace = append(replace, fmt.Sprintf("node-%d.example.com", i+1), address)
	}
	return strings.NewReplacer(replace...).Replace(text)
}

// clusterPage writes the configuration and the files of docs/tasks/cluster.md for each host.
func (r *reader) clusterPage(h hosts) {
	r.t.Helper()
	// Only the file has settings, and sudo changes the user.
	r.prelude += "unset FANOUTD_LISTEN FANOUTD_ADMIN_LISTEN FANOUTD_DATA_DIR\nsudo() { test $1 != -u || shift 2; \"$@\"; }\n"
	configuration := r.next("yaml")
	r.write("fanoutd.yaml", configuration)
	r.write("policy.yaml", r.next("yaml"))
	r.run(h.on(0, "/tmp", r.next("sh")))
	for i := range h {
		r.write(fmt.Sprintf("node-%d.yaml", i+1), h.on(i, r.temp, configuration))
	}
	r.next("") // apt and systemctl
}

// startNode starts the server of a host.
func (r *reader) startNode(node int) *terminal {
	r.t.Helper()
	return r.start(fmt.Sprintf("exec fanoutd --config node-%d.yaml", node+1))
}

// connect makes fanoutctl use the servers of a page, as its commands do.
func (r *reader) connect(commands string) {
	environment, _, _ := strings.Cut(commands, "fanoutctl ")
	r.prelude += environment
}

// awaitWrites waits until the servers accept writes.
func (r *reader) awaitWrites() {
	r.t.Helper()
	poll.Until(r.t, "a write is accepted", func() bool {
		return r.run("fanoutctl put config shop/banner Welcome >&2 && echo accepted || true") == "accepted\n"
	})
}

// The files and commands of docs/tasks/cluster.md make three protected servers. They also begin without one of
// them, which joins later.
func TestClusterPage(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	h := newHosts(t)
	r := open(t, "docs/tasks/cluster.md")
	r.install()
	r.clusterPage(h)
	var servers []*terminal
	for i := range h {
		servers = append(servers, r.startNode(i))
	}
	for _, s := range servers {
		s.await("msg=serving")
	}
	use := h.on(0, "/tmp", r.next("sh"))
	r.connect(use)
	r.awaitWrites()
	poll.Until(t, "all servers have loaded the resource", func() bool { // which takes a moment longer on a busy machine
		return strings.Count(r.run("fanoutctl resources"), " serving ") == nodes
	})
	if got := r.run(use); strings.Count(got, " serving ") != nodes || !strings.Contains(got, `{"rps": 100}`) {
		t.Errorf("the commands of the page printed\n%s", got)
	}

	without := h.on(0, "/tmp", r.next(""))
	status := r.next("")
	if got := r.run(status); strings.Count(got, "\nnode-") != nodes {
		t.Errorf("%s\nprinted %s", status, got)
	}
	check, _, _ := strings.Cut(h.on(0, "/tmp", r.next("")), "\n")
	if got := r.run(check); !strings.Contains(got, " valid\n") {
		t.Errorf("%s\nprinted %s", check, got)
	}
	safe := r.next("sh")
	if got := r.run(safe); strings.Count(got, "node-") < nodes {
		t.Errorf("%s\nprinted %s", safe, got)
	}
	replace := r.next("")
	r.end()

	for _, s := range servers {
		s.interrupt()
	}
	for _, s := range servers {
		s.wait()
	}
	r.run("rm -r data")
	r.run(without)
	servers = []*terminal{r.startNode(0), r.startNode(1)}
	for _, s := range servers {
		s.await("msg=serving")
	}
	r.awaitWrites()
	third := r.startNode(2)
	third.await("msg=serving")
	r.run(use)

	// The third machine is lost, and another one takes its place.
	if err := third.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = third.cmd.Wait() // it was killed
	r.run("rm -r data/node-3")
	r.run(replace)
	r.startNode(2).await("msg=serving")
	r.run(safe)
}

// The commands of docs/tasks/external-etcd.md move the data of an etcd to a cluster of servers, and back.
func TestMoveOfExternalEtcd(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	h := newHosts(t)
	r := open(t, "docs/tasks/cluster.md")
	r.install()
	r.prelude += etcdproc.Functions(t)
	r.clusterPage(h)
	use := h.on(0, "/tmp", r.next("sh"))
	r.turnTo("docs/tasks/external-etcd.md")
	_, moves, _ := strings.Cut(r.text, "\n## Move to a cluster of servers\n")
	r.blocks = parse(moves)

	external := etcdproc.Start(t, "http")
	over := func(etcd string) *terminal {
		return r.start("exec fanoutd --admin-listen '' --listen " + r.address + " --keyset-file keys.json --etcd-endpoints " + etcd)
	}
	server := over(external)
	server.await("msg=serving")
	r.run("fanoutctl put config shop/limits '{\"rps\": 100}'")
	server.interrupt()
	server.wait()
	r.run(strings.ReplaceAll(r.next(""), "https://node-1.example.com:2379", external))
	restore, _, _ := strings.Cut(r.next(""), "sudo systemctl")
	r.run(h.on(0, "/tmp", restore))

	environment := r.prelude
	r.connect(use)
	var servers []*terminal
	for i := range h {
		servers = append(servers, r.startNode(i))
	}
	for _, s := range servers {
		s.await("msg=serving")
	}
	r.awaitWrites()
	if got := r.run("fanoutctl get config shop/limits"); !strings.Contains(got, `{"rps": 100}`) {
		t.Errorf("got %s from the cluster, want the value of the etcd", got)
	}
	r.run("fanoutctl put config shop/limits '{\"rps\": 200}'")
	r.run("rm backup.db")
	r.run(h.on(0, "/tmp", r.next("")))
	r.end()
	for _, s := range servers {
		s.interrupt()
	}

	r.prelude = environment
	etcd := etcdproc.StartMember(t, "http")
	etcd.Stop(t)
	etcd.Restore(t, filepath.Join(r.temp, "backup.db"))
	etcd.Start(t)
	over(etcd.Address).await("msg=serving")
	if got := r.run("fanoutctl get config shop/limits"); !strings.Contains(got, `{"rps": 200}`) {
		t.Errorf("got %s from the etcd, want the value of the cluster", got)
	}
}
