package robustness

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/logs"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

// mixedMember is a member of a cluster: a server, or an etcd 3.6.
type mixedMember struct {
	name, dir, peer, client string
	cmd                     *exec.Cmd
	log                     logs.Buffer
}

// launch starts a program, and kills it at the end of the test.
func (m *mixedMember) launch(t *testing.T, path string, args ...string) {
	t.Helper()
	cmd := exec.Command(path, args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "FANOUTD_") })
	cmd.Stdout, cmd.Stderr = &m.log, &m.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	m.cmd = cmd
	t.Cleanup(func() { m.end(t, cmd, syscall.SIGKILL) })
}

// end ends a process, if it has not ended.
func (m *mixedMember) end(t *testing.T, cmd *exec.Cmd, signal syscall.Signal) {
	t.Helper()
	if cmd.ProcessState == nil {
		_ = cmd.Process.Signal(signal)
		_ = cmd.Wait()
	}
	if t.Failed() {
		t.Logf("%s:\n%s", m.name, m.log.String())
		m.log = logs.Buffer{}
	}
}

func (m *mixedMember) launchEtcd(t *testing.T) {
	t.Helper()
	m.launch(t, etcd36.Path(t), "--name", m.name, "--data-dir", filepath.Join(m.dir, "etcd"), "--log-level", "warn",
		"--listen-peer-urls", "http://"+m.peer, "--initial-advertise-peer-urls", "http://"+m.peer, "--initial-cluster", m.name+"=http://"+m.peer,
		"--listen-client-urls", "http://"+m.client, "--advertise-client-urls", "http://"+m.client)
}

// TestClusterMixedWithEtcd36 lets two servers join an etcd 3.6, as its new members. Each of the three may fail. Then a
// third server takes the place of the etcd 3.6, in its directory.
func TestClusterMixedWithEtcd36(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	clientPort := strconv.Itoa(10_000 + rand.IntN(10_000))
	members := map[string]*mixedMember{}
	var list strings.Builder
	for _, name := range []string{"node-1", "node-2", "node-3"} {
		peer := loopback.FreeAddress(t)
		host, _, err := net.SplitHostPort(peer)
		if err != nil {
			t.Fatal(err)
		}
		members[name] = &mixedMember{name: name, dir: t.TempDir(), peer: peer, client: net.JoinHostPort(host, clientPort)}
		fmt.Fprintf(&list, "    %s: %s\n", name, peer)
	}
	launch := func(name string) fanoutv1.StoreServiceClient {
		t.Helper()
		m := members[name]
		config, address := filepath.Join(t.TempDir(), "fanoutd.yaml"), loopback.FreeAddress(t)
		text := fmt.Sprintf("cluster:\n  name: %s\n  client-port: %s\n  members:\n%sresources:\n  - name: config\n    prefix: /config/\n    codec: raw\n", name, clientPort, list.String())
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		m.launch(t, fanoutd.Path(t), "--config", config, "--listen", address, "--admin-listen", "", "--data-dir", m.dir)
		conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		poll.Until(t, name+" votes", func() bool { return strings.Contains(m.log.String(), "this server votes") })
		return fanoutv1.NewStoreServiceClient(conn)
	}
	acknowledged := map[string]bool{}
	put := func(through fanoutv1.StoreServiceClient) {
		t.Helper()
		key := fmt.Sprintf("key-%02d", len(acknowledged))
		poll.Until(t, "a write is acknowledged", func() bool {
			_, err := through.Put(poll.Context(t), &fanoutv1.PutRequest{
				Resource: "config", Put: &fanoutv1.PutOperation{Key: key, Value: &fanoutv1.PutOperation_Data{Data: []byte(key)}},
			})
			return err == nil
		})
		acknowledged[key] = true
	}

	// check compares a linearizable read of a member with what was acknowledged.
	check := func(name string) {
		t.Helper()
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{members[name].client}, Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		var resp *clientv3.GetResponse
		poll.Until(t, name+" answers", func() bool {
			var err error
			resp, err = client.Get(context.WithoutCancel(poll.Context(t)), "/config/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
			return err == nil
		})
		var got []string
		for _, kv := range resp.Kvs {
			got = append(got, strings.TrimPrefix(string(kv.Key), "/config/"))
		}
		if want := slices.Sorted(maps.Keys(acknowledged)); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}

	old := members["node-3"]
	old.launchEtcd(t)
	first := launch("node-1")
	second := launch("node-2")
	put(first)
	put(second)
	check("node-3")

	old.end(t, old.cmd, syscall.SIGKILL)
	put(first)
	put(second)
	old.launchEtcd(t)
	check("node-3")

	old.end(t, old.cmd, syscall.SIGTERM)
	third := launch("node-3")
	put(third)
	for name := range members {
		check(name)
	}
}
