package robustness

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

const (
	// resource is the only resource of the servers.
	resource = "checked"

	// prefix is where the resource is kept in etcd. otherPrefix is the prefix of another
	// program's keys.
	prefix      = "/checked/"
	otherPrefix = "/otherPrefix/"
)

// cluster is etcd and the servers that use it.
type cluster struct {
	members  []*member        // none if the servers are the members
	client   *clientv3.Client // connected to all members
	replicas []*replica
}

// member is a member of etcd.
type member struct {
	*process
	address string
	dataDir string
	client  *clientv3.Client // connected to this member only
}

// replica is one of several servers over the same etcd. Clients use any of them.
type replica struct {
	*process
	dataDir string // of its etcd; empty if it has none
	conn    *grpc.ClientConn
	fanout  fanoutv1.FanoutServiceClient
	store   fanoutv1.StoreServiceClient
}

// settings are the cache settings of each server. The window of the first one covers a
// whole recording, so it can always replay. The window of the second one is small, so it
// needs other kinds of catch-up. The third one has no cache.
var settings = []string{
	"window: {max-events: 100000}",
	"window: {max-events: 100}",
	"cache: off",
}

// rulesFile has a rule that reads the object that a put replaces, and always holds: no value is put twice.
const rulesFile = `checks: [{rules: [{rule: "oldSelf == null || self != oldSelf", message: was written twice}]}]`

// startCluster starts etcd alone, with this many members. Logs and data are written to
// the directory. With safeChange, writes have a history and are checked.
func startCluster(t *testing.T, dir string, size int, safeChange bool) *cluster {
	t.Helper()
	c := &cluster{}
	var peers, addresses []string
	for i := range size {
		peers = append(peers, fmt.Sprintf("etcd-%d=http://%s", i, loopback.FreeAddress(t)))
	}
	for i := range size {
		m := newMember(t, dir, i, peers)
		c.members = append(c.members, m)
		addresses = append(addresses, m.address)
	}
	c.client = dialEtcd(t, addresses...)
	if err := serve(t.Context(), c.members...); err != nil {
		t.Fatal(err)
	}
	for i := range settings {
		c.replicas = append(c.replicas, newReplica(t, dir, i, safeChange, "", "--etcd-endpoints", strings.Join(addresses, ",")))
	}
	return c
}

// newOwnCluster returns servers that are the members of one etcd cluster. They found it when they start.
func newOwnCluster(t *testing.T, dir string, safeChange bool) *cluster {
	t.Helper()
	var list strings.Builder
	var addresses []string
	clientPort := strconv.Itoa(10_000 + rand.IntN(10_000))
	for i := range settings {
		peer := loopback.FreeAddress(t)
		host, _, err := net.SplitHostPort(peer)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&list, "    node-%d: %s\n", i, peer)
		addresses = append(addresses, "http://"+net.JoinHostPort(host, clientPort))
	}
	c := &cluster{client: dialEtcd(t, addresses...)}
	for i := range settings {
		dataDir := filepath.Join(dir, fmt.Sprintf("node-%d", i))
		more := fmt.Sprintf("cluster:\n  name: node-%d\n  client-port: %s\n  members:\n%s", i, clientPort, list.String())
		r := newReplica(t, dir, i, safeChange, more, "--data-dir", dataDir)
		r.dataDir = filepath.Join(dataDir, "etcd")
		c.replicas = append(c.replicas, r)
	}
	return c
}

// dataDirs returns the directories of all members of etcd.
func (c *cluster) dataDirs() (all []string) {
	for _, m := range c.members {
		all = append(all, m.dataDir)
	}
	for _, r := range c.replicas {
		if r.dataDir != "" {
			all = append(all, r.dataDir)
		}
	}
	return all
}

func newMember(t *testing.T, dir string, i int, peers []string) *member {
	t.Helper()
	name, peer, _ := strings.Cut(peers[i], "=")
	address := "http://" + loopback.FreeAddress(t)
	dataDir := filepath.Join(dir, name)
	return &member{
		process: newProcess(t, dir, name, etcd.Path(t),
			"--name", name, "--data-dir", dataDir,
			"--listen-client-urls", address, "--advertise-client-urls", address,
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
			"--initial-cluster", strings.Join(peers, ","),
			// A killed process loses nothing that it has written to a file, so etcd need not
			// sync. It keeps its write-ahead log from the beginning.
			"--unsafe-no-fsync", "--max-wals", "0", "--log-level", "warn",
		),
		address: address,
		dataDir: dataDir,
		client:  dialEtcd(t, address),
	}
}

func dialEtcd(t *testing.T, addresses ...string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: addresses, DialOptions: []grpc.DialOption{quickly()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// newReplica returns a server with settings and arguments that say where its etcd is.
func newReplica(t *testing.T, dir string, i int, safeChange bool, more string, args ...string) *replica {
	t.Helper()
	name := fmt.Sprintf("fanoutd-%d", i)
	config := filepath.Join(dir, name+".yaml")
	// With the raw codec etcd stores exactly the bytes that clients put.
	cache := settings[i]
	if safeChange {
		rules := filepath.Join(dir, "rules.yaml")
		if err := os.WriteFile(rules, []byte(rulesFile), 0o644); err != nil {
			t.Fatal(err)
		}
		// Nothing is removed: that would be further writes.
		cache += ", history: {versions: 10000}, validation-file: " + rules
	}
	text := fmt.Sprintf("resources:\n  - {name: %s, prefix: %s, codec: raw, %s}\n%s", resource, prefix, cache, more)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	address := loopback.FreeAddress(t)
	conn, err := grpc.NewClient("passthrough:///"+address, quickly(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		// A call waits while its server is starting. gRPC does not retry it after sending
		// it.
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &replica{
		process: newProcess(t, dir, name, fanoutd.Path(t), append(args, "--config", config, "--listen", address, "--admin-listen", "")...),
		conn:    conn,
		fanout:  fanoutv1.NewFanoutServiceClient(conn),
		store:   fanoutv1.NewStoreServiceClient(conn),
	}
}

// quickly makes a client reconnect soon after a server comes back.
func quickly() grpc.DialOption {
	return grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, MaxDelay: 200 * time.Millisecond},
		MinConnectTimeout: 10 * time.Second,
	})
}

// server is a process that reports when it is ready.
type server interface {
	start() error
	end(context.Context, syscall.Signal) error
	ready(context.Context) error
}

// serve starts servers together, and returns when all of them are ready.
func serve[S server](ctx context.Context, servers ...S) error {
	for _, s := range servers {
		if err := s.start(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, poll.Patience, fmt.Errorf("not ready after %v", poll.Patience))
	defer cancel()
	for _, s := range servers {
		if err := s.ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// restart stops all of the servers, and then starts all of them.
func restart[S server](ctx context.Context, signal syscall.Signal, servers ...S) error {
	ending, cancel := context.WithTimeout(ctx, poll.Patience)
	defer cancel()
	for _, s := range servers {
		if err := s.end(ending, signal); err != nil {
			return err
		}
	}
	return serve(ctx, servers...)
}

// ready waits until the member answers, which takes a majority of the members.
func (m *member) ready(ctx context.Context) error {
	for ctx.Err() == nil {
		// Without a majority there is no answer. Further calls follow.
		call, cancel := context.WithTimeout(ctx, time.Second)
		_, err := m.client.Get(call, otherPrefix)
		cancel()
		if err == nil {
			return nil
		}
		if m.gone() {
			return fmt.Errorf("etcd has exited: %v", m.cmd.ProcessState)
		}
	}
	return fmt.Errorf("etcd: %w", context.Cause(ctx))
}

// ready waits until the server serves the resource.
func (r *replica) ready(ctx context.Context) error {
	for ctx.Err() == nil {
		health, err := healthv1.NewHealthClient(r.conn).Watch(ctx, &healthv1.HealthCheckRequest{Service: "resource/" + resource})
		for err == nil {
			var said *healthv1.HealthCheckResponse
			if said, err = health.Recv(); err == nil && said.GetStatus() == healthv1.HealthCheckResponse_SERVING {
				return nil
			}
		}
		if r.gone() {
			return fmt.Errorf("fanoutd has exited: %v", r.cmd.ProcessState)
		}
	}
	return fmt.Errorf("fanoutd: %w", context.Cause(ctx))
}

// stop stops everything, and checks the logs of the servers.
func (c *cluster) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, poll.Patience)
	defer cancel()
	for _, r := range c.replicas {
		if err := r.end(ctx, syscall.SIGTERM); err != nil {
			return err
		}
		log, err := os.ReadFile(r.log)
		if err != nil {
			return err
		}
		if strings.Contains(string(log), "panic") {
			return fmt.Errorf("the log of fanoutd contains a panic: %s", r.log)
		}
	}
	for _, m := range c.members {
		if err := m.end(ctx, syscall.SIGKILL); err != nil {
			return err
		}
	}
	return nil
}
