package leader_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/client/pkg/v3/types"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/proxy/grpcproxy/adapter"
	"go.uber.org/zap"

	"github.com/fanoutd/fanoutd/internal/store/leader"
	"github.com/fanoutd/fanoutd/test/certs"
	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

// own is the index of the member in the process of the test. The others are processes.
const own = 0

// cluster is three members of etcd, and the client of the first one.
type cluster struct {
	*leader.Client
	server    *embed.Etcd
	processes [3]*etcdproc.Member // nil: own
	links     [3]*loopback.Link   // in front of the client listeners; nil: own
	ids       [3]types.ID
	clients   [3]*clientv3.Client // of one member each
}

// start starts a cluster. The files of a pair make the clients use TLS.
func start(t testing.TB, authority string, files *certs.Files) *cluster {
	t.Helper()
	return startWith(t, time.Second, authority, files)
}

// patient is an election timeout with which a busy machine makes no leader lose its office.
const patient = 10 * time.Second

// startWith is start with an election timeout.
func startWith(t testing.TB, election time.Duration, authority string, files *certs.Files) *cluster {
	t.Helper()
	c := &cluster{}
	scheme, security := "http", []string(nil)
	if files != nil {
		scheme = "https"
		security = []string{"--client-cert-auth", "--trusted-ca-file", authority, "--cert-file", files.Cert, "--key-file", files.Key}
	}
	var peers, list, clients [3]string
	for i := range peers {
		peers[i], clients[i] = "http://"+loopback.FreeAddress(t), loopback.FreeAddress(t)
		list[i] = fmt.Sprintf("member-%d=%s", i, peers[i])
	}
	initial := strings.Join(list[:], ",")
	var args [][]string
	for i := 1; i < 3; i++ {
		c.links[i] = loopback.NewLink(t, clients[i])
		args = append(args, append([]string{
			"--name", fmt.Sprintf("member-%d", i), "--data-dir", filepath.Join(t.TempDir(), "etcd"),
			"--listen-peer-urls", peers[i], "--initial-advertise-peer-urls", peers[i],
			"--listen-client-urls", scheme + "://" + clients[i], "--advertise-client-urls", scheme + "://" + c.links[i].Address,
			"--initial-cluster", initial, "--initial-cluster-token", t.Name(), "--unsafe-no-fsync", "--log-level", "warn",
			"--election-timeout", strconv.FormatInt(election.Milliseconds(), 10),
		}, security...))
	}
	copy(c.processes[1:], etcdproc.StartMembers(t, args...))

	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir, cfg.UnsafeNoFsync = "member-0", filepath.Join(t.TempDir(), "etcd"), true
	cfg.ElectionMs = uint(election.Milliseconds())
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = urls(t, peers[own]), urls(t, peers[own])
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = urls(t, "http://"+clients[own]), urls(t, "http://"+clients[own])
	cfg.InitialCluster, cfg.InitialClusterToken = initial, t.Name()
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	<-server.Server.ReadyNotify()
	c.server = server

	config := leader.Config{
		ElectionTimeout: election,
		Raft:            server.Server,
		KV:              adapter.KvServerToKvClient(v3rpc.NewQuotaKVServer(server.Server)),
		Leases:          adapter.LeaseServerToLeaseClient(v3rpc.NewQuotaLeaseServer(server.Server)),
		ClientURLs: func(id types.ID) []string {
			if m := server.Server.Cluster().Member(id); m != nil {
				return m.ClientURLs
			}
			return nil
		},
	}
	var info transport.TLSInfo
	if files != nil {
		info = transport.TLSInfo{TrustedCAFile: authority, CertFile: files.Cert, KeyFile: files.Key}
		config.TLS = info
	}
	for _, m := range server.Server.Cluster().Members() {
		var i int
		if _, err := fmt.Sscanf(m.Name, "member-%d", &i); err != nil {
			t.Fatalf("member %q: %v", m.Name, err)
		}
		c.ids[i] = m.ID
		endpoint := clientv3.Config{Endpoints: []string{scheme + "://" + clients[i]}, Logger: zap.NewNop()}
		if i == own {
			endpoint.Endpoints[0] = "http://" + clients[i]
		} else if files != nil {
			endpoint.Endpoints[0] = "https://" + c.links[i].Address // the certificate has no other
			if endpoint.TLS, err = info.ClientConfig(); err != nil {
				t.Fatal(err)
			}
		}
		if c.clients[i], err = clientv3.New(endpoint); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.clients[i].Close() })
	}
	// A member publishes its client URLs some time after it serves.
	poll.Until(t, "all client URLs are known", func() bool {
		return len(config.ClientURLs(c.ids[1])) > 0 && len(config.ClientURLs(c.ids[2])) > 0
	})
	if c.Client, err = leader.New(t.Context(), config, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func urls(t testing.TB, raw string) []url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return []url.URL{*u}
}

// leader returns the index of the leader as the own member sees it, or -1.
func (c *cluster) leader() int {
	for i, id := range c.ids {
		if id == c.server.Server.Leader() {
			return i
		}
	}
	return -1
}

// lead makes a member the leader.
func (c *cluster) lead(t testing.TB, member int) {
	t.Helper()
	// A transfer fails if the member has not caught up, or if there is another election.
	poll.Until(t, fmt.Sprintf("member %d is the leader", member), func() bool {
		now := c.leader()
		if now >= 0 && now != member {
			ctx, cancel := context.WithTimeout(t.Context(), poll.Patience)
			defer cancel()
			if _, err := c.clients[now].MoveLeader(ctx, uint64(c.ids[member])); err != nil {
				t.Logf("move the leader: %v", err)
			}
		}
		return now == member
	})
}

// value returns the number of times that a key was written, which is 0 if it does not exist.
func (c *cluster) written(t testing.TB, key string) int64 {
	t.Helper()
	resp, err := c.Range(poll.Context(t), &pb.RangeRequest{Key: []byte(key)})
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.GetKvs()) == 0 {
		return 0
	}
	return resp.GetKvs()[0].GetVersion()
}

func put(key string) *pb.PutRequest { return &pb.PutRequest{Key: []byte(key), Value: []byte("value")} }
