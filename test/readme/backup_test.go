package readme

import (
	"strings"
	"testing"
)

// stop stops servers at the same time.
func stop(servers ...*terminal) {
	for _, s := range servers {
		s.interrupt()
	}
	for _, s := range servers {
		s.wait()
	}
}

// The commands of docs/tasks/backup.md back up and restore one server, and three servers with the configuration of
// docs/tasks/cluster.md, also with the data of only one of them. See TestExternalEtcdPage for its last section.
func TestBackupPage(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	h := newHosts(t)
	r := open(t, "docs/tasks/cluster.md")
	r.install()
	programs := r.prelude
	r.clusterPage(h)
	onThree := r.prelude + "systemctl() { :; }\n"
	use := h.on(0, "/tmp", r.next("sh"))

	r.turnTo("docs/tasks/backup.md")
	backup := r.next("")
	limit := func(want string) {
		t.Helper()
		if got := r.run("fanoutctl get config shop/limits"); !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}

	// One server.
	r.prelude = programs
	r.data = "data"
	server := r.start("exec fanoutd")
	server.await("msg=serving")
	r.run("fanoutctl put config shop/limits '{\"rps\": 100}'")
	r.run(backup)
	r.run("fanoutctl put config shop/limits '{\"rps\": 200}'")
	stop(server)
	r.run(r.next(""))
	server = r.start("exec fanoutd --keyset-file keys.json")
	server.await("msg=serving")
	limit(`{"rps": 100}`)
	r.run(r.next("sh"))
	stop(server)
	r.run("rm -r data backup.db")

	// Three servers.
	start := func() (servers []*terminal) {
		r.prelude = onThree
		for i := range h {
			servers = append(servers, r.startNode(i))
		}
		for _, s := range servers {
			s.await("msg=serving")
		}
		r.connect(use)
		r.awaitWrites()
		return servers
	}
	on := func(node int, text string) string {
		t.Helper()
		r.prelude = onThree
		return r.run(h.on(node, "/tmp", text))
	}
	servers := start()
	r.run("fanoutctl put config shop/limits '{\"rps\": 100}'")
	r.run(backup)
	r.run("fanoutctl put config shop/limits '{\"rps\": 200}'")
	stop(servers...)
	away, restore := r.next(""), r.next("")
	for i := range h {
		on(i, away)
	}
	on(1, restore)
	servers = start()
	limit(`{"rps": 100}`)
	r.run("fanoutctl put config shop/limits '{\"rps\": 300}'")

	// Only the data of the third one is left.
	stop(servers...)
	r.run("rm -r data/node-1 data/node-2")
	inspect := r.next("")
	printed := strings.Split(r.next("text"), "\n")
	got := on(2, inspect)
	for _, line := range printed {
		if words := strings.Fields(line); len(words) > 0 && !strings.Contains(got, words[0]+" ") && !strings.HasPrefix(words[0], "/") {
			t.Errorf("%s\nprinted\n%s\nwithout %q", inspect, got, words[0])
		}
	}
	on(2, r.next(""))
	servers = start()
	limit(`{"rps": 300}`)
	stop(servers...)
}
