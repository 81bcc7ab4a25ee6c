package observability

import (
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

// etcd returns a client of etcd.
func etcd(t *testing.T, address string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, DialTimeout: poll.Patience, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// over configures an external etcd.
func over(address string) func(*config.Config) {
	return func(cfg *config.Config) {
		cfg.EtcdEndpoints, cfg.EmbeddedEtcdListen = []string{address}, ""
	}
}

var ours = series{"resource": resource}

// TestRelistsAreCounted compacts etcd past the server's watch: the relist is counted, and
// streams stay open.
func TestRelistsAreCounted(t *testing.T) {
	address := etcdproc.Start(t, "http")
	way, client := loopback.NewLink(t, address), etcd(t, address)
	in := start(t, over(way.Address))
	w := in.watch(t, &fanoutv1.WatchRequest{})
	way.Cut()
	for range 10 {
		if _, err := client.Put(within(t), "/fanoutd/config/k", "v"); err != nil {
			t.Fatal(err)
		}
	}
	last, err := client.Put(within(t), "/fanoutd/config/k", "w")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Compact(within(t), last.Header.GetRevision(), clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	way.Heal()
	next(t, w)
	s := in.scrape(t)
	if n := s.value(t, "fanoutd_cacher_relists_total", ours); n != 1 {
		t.Errorf("got %v relists", n)
	}
	if n := s.value(t, "fanoutd_cacher_fills_total", ours); n != 1 {
		t.Errorf("got %v fills, want only the first", n)
	}
	if n := s.value(t, "fanoutd_cacher_window_oldest_revision", ours); n != float64(last.Header.GetRevision()) {
		t.Errorf("got a window from revision %v", n)
	}
	if n := s.value(t, "fanoutd_watchers_begun_total", ours); n != 1 {
		t.Errorf("got %v watches, want 1", n)
	}
}

// TestMetricsWhileEtcdIsAway checks that the lag in seconds rises, the lag in revisions is
// absent, and errors are counted. Scrapes still work.
func TestMetricsWhileEtcdIsAway(t *testing.T) {
	m := etcdproc.StartMember(t, "http")
	in := start(t, over(m.Address))
	in.await(t, "fanoutd_resource_following", ours, exactly(1))
	in.await(t, "fanoutd_cacher_lag_revisions", ours, exactly(0))
	if in.scrape(t).find(t, "fanoutd_embedded_etcd_db_bytes", nil) != nil {
		t.Error("got a database size for an external etcd")
	}
	m.Kill(t)
	in.await(t, "fanoutd_resource_following", ours, exactly(0))
	s := in.scrape(t)
	if v := s.value(t, "fanoutd_cacher_lag_seconds", ours); v <= 0 {
		t.Errorf("got a lag of %v s", v)
	}
	if s.find(t, "fanoutd_cacher_lag_revisions", ours) != nil {
		t.Error("got a lag in revisions without etcd")
	}
	if v := s.value(t, "fanoutd_etcd_request_errors_total", series{"operation": "revision"}); v == 0 {
		t.Error("got no counted error of a failed request")
	}
	if in.status(t, "/readyz") != 200 {
		t.Error("the server is not ready, although it can serve the cached state")
	}
	m.Start(t)
	in.await(t, "fanoutd_resource_following", ours, exactly(1))
	in.await(t, "fanoutd_cacher_lag_revisions", ours, exactly(0))
}

// TestWritesToOtherPrefixesAreNoLag checks that a resource that is never written does not look
// behind.
func TestWritesToOtherPrefixesAreNoLag(t *testing.T) {
	in := start(t, nil)
	client := etcd(t, in.etcd)
	var last *clientv3.PutResponse
	for range 100 {
		var err error
		if last, err = client.Put(within(t), "/elsewhere", "v"); err != nil {
			t.Fatal(err)
		}
	}
	s := in.scrape(t)
	if n := s.value(t, "fanoutd_cacher_lag_revisions", ours); n != 0 {
		t.Errorf("got a lag of %v revisions, want 0", n)
	}
	if at, want := s.value(t, "fanoutd_cacher_revision", ours), float64(last.Header.GetRevision()); at < want {
		t.Errorf("got revision %v, want at least %v", at, want)
	}
}

// TestUndecodableValuesAreCounted checks the counters of values that do not decode and of
// skipped keys.
func TestUndecodableValuesAreCounted(t *testing.T) {
	in := start(t, func(cfg *config.Config) { cfg.Resources[0].Codec = "json" })
	client := etcd(t, in.etcd)
	for key, value := range map[string]string{"good": "{}", "bad": "{", "worse": "]", "\xff": "{}"} {
		if _, err := client.Put(within(t), "/fanoutd/config/"+key, value); err != nil {
			t.Fatal(err)
		}
	}
	in.await(t, "fanoutd_cacher_objects", ours, exactly(3))
	s := in.scrape(t)
	if n := s.value(t, "fanoutd_decode_failures_total", ours); n != 2 {
		t.Errorf("got %v undecodable values, want 2", n)
	}
	if n := s.value(t, "fanoutd_left_out_keys", ours); n != 1 {
		t.Errorf("got %v skipped keys, want 1", n)
	}
}

// TestOverflowIsCounted checks the metrics of a watcher that does not read: the number and
// the age of waiting events. When it falls out of the window, an overflow is counted, with
// the kind of catch-up.
func TestOverflowIsCounted(t *testing.T) {
	in := start(t, func(cfg *config.Config) {
		cfg.Resources[0].Window = config.Window{MinEvents: 1, MaxEvents: 10, MaxSize: 64 * config.MiB, Freshness: config.Duration(time.Second)}
	})
	// A window of fixed size: the rest stays in the server.
	conn, err := grpc.NewClient("passthrough:///"+in.server.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(64<<10),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stuck, err := fanoutv1.NewFanoutServiceClient(conn).Watch(within(t), &fanoutv1.WatchRequest{Resource: resource})
	if err != nil {
		t.Fatal(err)
	}
	for next(t, stuck).GetKind() != fanoutv1.WatchResponse_KIND_SYNCED {
	}
	value := strings.Repeat("x", 1<<20)
	var last int64
	for i := range 80 { // feeds may use 64 MiB
		last = in.put(t, "k", value[i:])
	}
	s := in.scrape(t)
	for name, least := range map[string]float64{
		"fanoutd_watchers_blocked":             1,
		"fanoutd_watchers_behind":              1,
		"fanoutd_dispatch_log_evictions_total": 1,
		"fanoutd_dispatch_log_bytes":           1,
	} {
		if v := s.value(t, name, ours); v < least {
			t.Errorf("%s: got %v, want at least %v", name, v, least)
		}
	}
	if v := s.value(t, "fanoutd_watch_lag_max_seconds", ours); v <= 0 {
		t.Errorf("got a lag of %v s", v)
	}
	if n := s.value(t, "fanoutd_watchers_beyond_window", ours); n != 1 {
		t.Errorf("got %v watchers beyond the window, want 1", n)
	}
	behind := series{"cause": "behind", "kind": "delta"}
	if n := s.value(t, "fanoutd_watch_catch_ups_total", behind); n != 0 {
		t.Errorf("got %v overflows before the watcher reads", n)
	}
	for next(t, stuck).GetPosition().GetRevision() < last {
	}
	in.await(t, "fanoutd_watch_catch_ups_total", behind, atLeast(1))
	in.await(t, "fanoutd_watchers_blocked", ours, exactly(0))
	in.await(t, "fanoutd_watchers_behind", ours, exactly(0))
	in.await(t, "fanoutd_watchers_beyond_window", ours, exactly(0))
	in.await(t, "fanoutd_watch_lag_max_seconds", ours, exactly(0))
}
