package cluster_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/app"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/logs"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

// testConfig returns the settings of a server without a cluster.
func testConfig(t *testing.T) config.Config {
	cfg := config.Defaults()
	cfg.AdminListen, cfg.EmbeddedEtcdUnsafe = "", true
	cfg.Listen, cfg.DataDir = loopback.FreeAddress(t), filepath.Join(t.TempDir(), "data")
	return cfg
}

// start starts a server without a cluster.
func start(t *testing.T, cfg config.Config) (conn *grpc.ClientConn, stop func()) {
	t.Helper()
	m := launch(t, cfg)
	return m.serving(t), func() { m.stop(t) }
}

// machines returns the configurations of the servers of a cluster, by name, each with a loopback address
// of its own.
func machines(t *testing.T, names ...string) map[string]config.Config {
	t.Helper()
	all := config.NewCluster()
	all.ClientPort = 10_000 + rand.IntN(10_000)
	all.Members = map[string]string{}
	for _, name := range names {
		all.Members[name] = loopback.FreeAddress(t)
	}
	configs := map[string]config.Config{}
	for _, name := range names {
		cfg := testConfig(t)
		own := *all
		own.Name = name
		cfg.Cluster = &own
		if problems := cfg.Problems(); len(problems) > 0 {
			t.Fatal(problems)
		}
		configs[name] = cfg
	}
	return configs
}

// machine is a running server of a cluster, or one that waits for others.
type machine struct {
	log    logs.Buffer
	conn   *grpc.ClientConn
	cancel context.CancelFunc
	done   chan error
}

// launch starts a server without waiting for others.
func launch(t *testing.T, cfg config.Config) *machine {
	t.Helper()
	return launchLogging(t, cfg, slog.LevelInfo)
}

// launchLogging is launch with a level for the log.
func launchLogging(t *testing.T, cfg config.Config, level slog.Level) *machine {
	t.Helper()
	m := &machine{done: make(chan error, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	m.cancel = cancel
	log := slog.New(slog.NewTextHandler(&m.log, &slog.HandlerOptions{Level: level}))
	go func() {
		a, err := app.Build(ctx, cfg, log)
		switch {
		case err == nil:
			err = a.Run(ctx)
		case ctx.Err() != nil && errors.Is(err, context.Canceled):
			err = nil // stopped before it served; the program ends with success, too
		}
		m.done <- err
	}()
	conn, err := grpc.NewClient(cfg.Listen, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	m.conn = conn
	t.Cleanup(func() {
		conn.Close()
		cancel()
		if t.Failed() {
			t.Logf("%s:\n%s", cfg.Listen, m.log.String())
		}
	})
	return m
}

// launchAll starts servers in the order of these names.
func launchAll(t *testing.T, configs map[string]config.Config, order ...string) map[string]*machine {
	t.Helper()
	running := map[string]*machine{}
	for _, name := range order {
		running[name] = launch(t, configs[name])
	}
	return running
}

// stop stops a server.
func (m *machine) stop(t *testing.T) {
	t.Helper()
	m.cancel()
	if err := <-m.done; err != nil {
		t.Errorf("stop: %v\n%s", err, m.log.String())
	}
}

// stopAll stops servers at the same time, as a cluster does on which the power fails.
func stopAll(t *testing.T, running map[string]*machine) {
	t.Helper()
	for _, m := range running {
		m.cancel()
	}
	for _, name := range slices.Sorted(maps.Keys(running)) {
		running[name].stop(t)
	}
}

// says waits until the log of a server contains a text.
func (m *machine) says(t *testing.T, text string) {
	t.Helper()
	poll.Until(t, "the log contains "+text, func() bool { return strings.Contains(m.log.String(), text) })
}

// put writes an object, and tries again while the cluster is formed or has no leader.
func (m *machine) put(t *testing.T, key, value string) (revision int64) {
	t.Helper()
	poll.Until(t, "a write succeeds", func() bool {
		resp, err := fanoutv1.NewStoreServiceClient(m.conn).Put(poll.Context(t), putRequest(key, value))
		if err != nil {
			return false
		}
		revision = resp.GetRevision()
		return true
	})
	return revision
}

// serving waits until the server waits for no others, and returns a connection to it.
func (m *machine) serving(t *testing.T) *grpc.ClientConn {
	t.Helper()
	poll.Until(t, "the server serves", func() bool {
		resp, err := healthpb.NewHealthClient(m.conn).Check(poll.Context(t), &healthpb.HealthCheckRequest{})
		return err == nil && resp.GetStatus() == healthpb.HealthCheckResponse_SERVING
	})
	return m.conn
}

// get returns the value of an object, as new as any write before.
func (m *machine) get(t *testing.T, key string) string {
	t.Helper()
	resp, err := fanoutv1.NewFanoutServiceClient(m.serving(t)).Get(poll.Context(t), &fanoutv1.GetRequest{Resource: "config", Key: key})
	if err != nil {
		t.Errorf("get %s: %v", key, err)
	}
	return resp.GetObject().GetText()
}

// refuses waits until a server ends with an error that contains each of the texts.
func (m *machine) refuses(t *testing.T, texts ...string) {
	t.Helper()
	err := <-m.done
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want an error with %q", err, text)
		}
	}
}

// formed returns a cluster of three.
func formed(t *testing.T) (map[string]config.Config, map[string]*machine) {
	t.Helper()
	configs := machines(t, "node-1", "node-2", "node-3")
	running := launchAll(t, configs, "node-1", "node-2", "node-3")
	for _, m := range running {
		m.says(t, "this server votes")
	}
	return configs, running
}

func putRequest(key, value string) *fanoutv1.PutRequest {
	return &fanoutv1.PutRequest{
		Resource: "config", Put: &fanoutv1.PutOperation{Key: key, Value: &fanoutv1.PutOperation_Text{Text: value}},
	}
}

// put writes an object to a server that accepts writes.
func put(t *testing.T, conn *grpc.ClientConn, key, value string) {
	t.Helper()
	if _, err := fanoutv1.NewStoreServiceClient(conn).Put(poll.Context(t), putRequest(key, value)); err != nil {
		t.Fatal(err)
	}
}

// snapshot returns the position of the present state.
func snapshot(t *testing.T, conn *grpc.ClientConn) *fanoutv1.Position {
	t.Helper()
	resp, err := fanoutv1.NewFanoutServiceClient(conn).List(poll.Context(t), &fanoutv1.ListRequest{Resource: "config"})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetPosition()
}

// epoch returns the epoch of a server.
func (m *machine) epoch(t *testing.T) string {
	t.Helper()
	return snapshot(t, m.serving(t)).GetEpoch()
}

// etcdClientOf returns a client of the etcd of a server.
func etcdClientOf(t *testing.T, cfg config.Config) *clientv3.Client {
	t.Helper()
	host, _ := cfg.Cluster.Address(cfg.Cluster.Name)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{net.JoinHostPort(host, strconv.Itoa(cfg.Cluster.ClientPort))}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// reasonOf returns the reason of a refused request.
func reasonOf(s *status.Status) string {
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return ""
}

// removeMember removes a member. etcd does so only once the others have been connected for five seconds.
func removeMember(t *testing.T, client *clientv3.Client, id uint64) {
	t.Helper()
	poll.Until(t, "the member is removed", func() bool {
		_, err := client.MemberRemove(poll.Context(t), id)
		return err == nil || errors.Is(err, rpctypes.ErrMemberNotFound)
	})
}
