package packaging

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience bounds how long three servers may take to accept a write.
const patience = 5 * time.Minute

// newMachines returns clean Debians with these names in one network. Each reaches the others as NAME.example.com.
func newMachines(t *testing.T, names ...string) []system {
	t.Helper()
	var all []system
	for range names {
		all = append(all, newDebian(t)) // skips the test without root
	}
	bridge := keep(t, "ip link add br0 type bridge && ip link set br0 up")
	address := func(i int) string { return fmt.Sprintf("10.20.30.%d", i+1) }
	var hosts strings.Builder
	hosts.WriteString("127.0.0.1 localhost\n")
	for i, name := range names {
		hosts.WriteString(fmt.Sprintf("%s %s.example.com\n", address(i), name))
	}
	for i, s := range all {
		port := fmt.Sprintf("port%d", i)
		run(t, ".", nil, "nsenter", "--target", s.pid, "--net", "--uts", "sh", "-euc", `
			hostname "$1"
			ip link add eth0 type veth peer name "$2"
			ip link set "$2" netns "$3"
			ip address add "$4/24" dev eth0
			ip link set eth0 up`, "-", names[i], port, bridge, address(i))
		run(t, ".", nil, "nsenter", "--target", bridge, "--net", "ip", "link", "set", port, "master", "br0", "up")
		if err := os.WriteFile(filepath.Join(s.root, "etc/hosts"), []byte(hosts.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// shell runs commands of a page as root in a folder.
func (s system) shell(folder, commands string) (string, error) {
	const sudo = `sudo() { if [ "$1" = -u ]; then local user=$2; shift 2; runuser -u "$user" -- "$@"; else "$@"; fi; }`
	cmd := s.command(s.t.Context(), "root", []string{"DEBIAN_FRONTEND=noninteractive"}, "bash", "-c", "cd "+folder+"\n"+sudo+"\nset -euo pipefail\n"+commands)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// The three steps of docs/tasks/cluster.md lead from four clean machines, one of which is the operator's, to three
// protected servers. The loss of one of them does not stop writes.
func TestClusterPage(t *testing.T) {
	names := []string{"node-1", "node-2", "node-3"}
	all := newMachines(t, append(names, "desk")...)
	machines, desk := all[:3], all[3]
	page := codeBlock.FindAllStringSubmatch(string(read(t, "docs/tasks/cluster.md")), -1)
	next := func(language string) string {
		t.Helper()
		if len(page) == 0 || page[0][1] != language {
			t.Fatalf("the next block of the page is not %q: %q", language, page)
		}
		text := page[0][2]
		page = page[1:]
		return text
	}
	do := func(s system, commands string) string {
		t.Helper()
		out, err := s.shell("/root", commands)
		if err != nil {
			t.Fatalf("%s\n%v\n%s", commands, err, out)
		}
		return out
	}
	packages := []string{released(t, "fanoutd_*_amd64.deb"), released(t, "fanoutctl_*_amd64.deb")}
	copyTo := func(s system, paths ...string) {
		t.Helper()
		run(t, ".", nil, "cp", append(append([]string{"-r"}, paths...), filepath.Join(s.root, "root"))...)
	}
	copyTo(desk, packages...)
	do(desk, "apt-get install ./*.deb")

	began := time.Now()
	for _, name := range []string{"fanoutd.yaml", "policy.yaml"} {
		write(t, filepath.Join(desk.root, "root", name), next("yaml"))
	}
	do(desk, next("sh"))
	install, systemctl, ok := strings.Cut(next(""), "sudo systemctl restart --no-block fanoutd\n")
	if !ok || systemctl != "" || strings.Count(install, "\n") != 2 {
		t.Fatalf("step 3 does not consist of three commands: %s", install)
	}
	var servers []*service
	for i, s := range machines {
		copyTo(s, append(packages, filepath.Join(desk.root, "root/certs", names[i]))...)
		do(s, strings.ReplaceAll(install, "node-1/", names[i]+"/"))
		servers = append(servers, s.launch("fanoutd:fanoutd", nil, "/usr/bin/fanoutd", "--config", "/etc/fanoutd/fanoutd.yaml"))
	}
	use := next("sh")
	environment, _, _ := strings.Cut(use, "fanoutctl ")
	awaitWrite := func() {
		t.Helper()
		// The module does not have package poll.
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for {
			out, err := desk.shell("/root", environment+`fanoutctl put config shop/limits '{"rps": 1}'`)
			if err == nil {
				return
			}
			if ctx.Err() != nil {
				t.Fatalf("no write was accepted within %v: %s", patience, out)
			}
		}
	}
	awaitWrite()
	t.Logf("from the first command to the first write: %v", time.Since(began).Round(time.Millisecond))
	for _, s := range servers {
		s.await("READY=1")
	}
	if got := do(desk, use); strings.Count(got, " serving ") != len(names) || !strings.Contains(got, `{"rps": 100}`) {
		t.Errorf("the commands of the page printed\n%s", got)
	}
	next("") // see TestClusterPage of test/readme
	if got := do(desk, environment+next("")); strings.Count(got, "\nnode-") != len(names) {
		t.Errorf("fanoutctl cluster status printed\n%s", got)
	}
	check, _, _ := strings.Cut(next(""), "\n")
	if got := do(machines[1], check); !strings.Contains(got, " valid\n") {
		t.Errorf("%s\nprinted %s", check, got)
	}
	// The last server to join may not vote yet.
	do(desk, environment+next("sh"))

	// Without credentials, or without a certificate of the cluster, nothing is served.
	if out, err := desk.shell("/root", environment+"fanoutctl get config shop/limits --token-file /dev/null"); err == nil {
		t.Errorf("a caller without a token got %s", out)
	}
	if out, err := exec.Command("nsenter", "--target", desk.pid, "--net", "bash", "-c", "exec 3<>/dev/tcp/10.20.30.1/2379; echo GET / HTTP/1.0 >&3; echo >&3; cat <&3").CombinedOutput(); strings.Contains(string(out), "200 OK") {
		t.Errorf("etcd answers a client without a certificate: %s (%v)", out, err)
	}

	if err := servers[0].cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitWrite()
}
