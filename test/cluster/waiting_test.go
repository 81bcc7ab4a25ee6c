package cluster_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/logs"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

// withHTTP makes all servers serve HTTP.
func withHTTP(t *testing.T, configs map[string]config.Config) {
	t.Helper()
	for name, cfg := range configs {
		cfg.AdminListen = loopback.FreeAddress(t)
		configs[name] = cfg
	}
}

// read returns the answer to a GET, or an empty one if the server does not answer.
func read(t *testing.T, cfg config.Config, path string) (code int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(poll.Context(t), http.MethodGet, "http://"+cfg.AdminListen+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, ""
	}
	return resp.StatusCode, string(text)
}

// health returns the health of a service, or UNKNOWN.
func (m *machine) health(t *testing.T, service string) healthpb.HealthCheckResponse_ServingStatus {
	t.Helper()
	resp, err := healthpb.NewHealthClient(m.conn).Check(poll.Context(t), &healthpb.HealthCheckRequest{Service: service})
	if err != nil {
		return healthpb.HealthCheckResponse_UNKNOWN
	}
	return resp.GetStatus()
}

// waits checks that a server is alive, not ready, and refuses requests with the names of the servers for which it waits.
func (m *machine) waits(t *testing.T, cfg config.Config, names string) {
	t.Helper()
	poll.Until(t, "/readyz names "+names, func() bool {
		code, body := read(t, cfg, "/readyz")
		return code == http.StatusServiceUnavailable && strings.HasSuffix(body, "it waits for "+names+"\n")
	})
	if code, body := read(t, cfg, "/healthz"); code != http.StatusOK {
		t.Errorf("/healthz: got %d %q", code, body)
	}
	for _, path := range []string{"/v1/resources", "/metrics", "/v1/rights?resource=config"} {
		if code, body := read(t, cfg, path); code != http.StatusServiceUnavailable || !strings.Contains(body, "CLUSTER_FORMING") || !strings.Contains(body, names) {
			t.Errorf("%s: got %d %q", path, code, body)
		}
	}
	if code, _ := read(t, cfg, "/"); code != http.StatusOK {
		t.Errorf("the list of paths: got %d", code)
	}
	for _, service := range []string{"", "resource/config"} {
		poll.Until(t, "the health is NOT_SERVING", func() bool { return m.health(t, service) == healthpb.HealthCheckResponse_NOT_SERVING })
	}
	poll.Until(t, "a request is refused", func() bool {
		_, err := fanoutv1.NewFanoutServiceClient(m.conn).Get(poll.Context(t), &fanoutv1.GetRequest{Resource: "config", Key: "a"})
		s := status.Convert(err)
		retry := false
		for _, d := range s.Details() {
			_, ok := d.(*errdetails.RetryInfo)
			retry = retry || ok
		}
		return s.Code() == codes.Unavailable && reasonOf(s) == "CLUSTER_FORMING" && strings.HasSuffix(s.Message(), names) && retry
	})
}

// A server that waits for others says so to probes, to systemd and to clients. Its clients are served on the same port
// when it waits no more.
func TestAServerThatWaitsAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	reports := systemd(t) // for the process, so the test runs alone
	configs := machines(t, "node-1", "node-2", "node-3")
	withHTTP(t, configs)
	running := launchAll(t, configs, "node-1")
	running["node-1"].waits(t, configs["node-1"], "node-2, node-3")
	poll.Until(t, "systemd hears STATUS=waiting for node-2 (", func() bool { return strings.Contains(reports.String(), "STATUS=waiting for node-2 (") })
	running["node-2"] = launch(t, configs["node-2"])
	running["node-1"].waits(t, configs["node-1"], "node-3")
	running["node-3"] = launch(t, configs["node-3"])
	running["node-1"].put(t, "app/limits", "1")
	for name, m := range running {
		if got := m.get(t, "app/limits"); got != "1" {
			t.Errorf("%s has %q", name, got)
		}
		poll.Until(t, "it is ready", func() bool {
			code, _ := read(t, configs[name], "/readyz")
			return code == http.StatusOK
		})
	}
	poll.Until(t, "systemd hears READY=1", func() bool { return strings.Contains(reports.String(), "READY=1") })
	stopAll(t, running)
}

// systemd receives reports, one a line.
func systemd(t *testing.T) *logs.Buffer {
	t.Helper()
	path := t.TempDir() + "/notify"
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("NOTIFY_SOCKET", path)
	reports := &logs.Buffer{}
	var receiving sync.WaitGroup
	receiving.Go(func() {
		buffer := make([]byte, 4096)
		for {
			n, err := conn.Read(buffer)
			if err != nil {
				return
			}
			_, _ = reports.Write(append(buffer[:n], '\n'))
		}
	})
	t.Cleanup(func() {
		conn.Close()
		receiving.Wait()
	})
	return reports
}

// A server that starts alone after a stop of all names the others, and can be stopped at once.
func TestAServerThatWaitsForAMajorityAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	configs := machines(t, "node-1", "node-2", "node-3")
	withHTTP(t, configs)
	running := launchAll(t, configs, "node-1", "node-2", "node-3")
	for _, m := range running {
		m.says(t, "this server votes")
	}
	stopAll(t, running)
	alone := launch(t, configs["node-1"])
	alone.waits(t, configs["node-1"], "node-2, node-3")
	alone.cancel()
	if err := <-alone.done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	running = launchAll(t, configs, "node-1", "node-2")
	for name, m := range running {
		m.serving(t)
		poll.Until(t, name+" is ready", func() bool {
			code, _ := read(t, configs[name], "/readyz")
			return code == http.StatusOK
		})
	}
	stopAll(t, running)
}

// Without a majority, a running server stays alive and serves stale reads, and its resources are NOT_SERVING until there
// is a leader again.
func TestLossOfTheMajority(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	configs, running := formed(t)
	running["node-3"].put(t, "app/limits", "1")
	left := running["node-3"]
	left.get(t, "app/limits")
	running["node-1"].stop(t)
	running["node-2"].stop(t)
	poll.Until(t, "the resource is NOT_SERVING", func() bool {
		return left.health(t, "resource/config") == healthpb.HealthCheckResponse_NOT_SERVING
	})
	if got := left.health(t, ""); got != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("the server is %v", got)
	}
	resp, err := fanoutv1.NewFanoutServiceClient(left.conn).Get(poll.Context(t), &fanoutv1.GetRequest{
		Resource: "config", Key: "app/limits", Consistency: &fanoutv1.ReadConsistency{Level: &fanoutv1.ReadConsistency_Any{Any: &fanoutv1.AnyRevision{}}},
	})
	if err != nil || resp.GetObject().GetText() != "1" {
		t.Errorf("a stale read: got %v, %v", resp, err)
	}
	running["node-1"] = launch(t, configs["node-1"])
	delete(running, "node-2")
	poll.Until(t, "the resource serves again", func() bool {
		return left.health(t, "resource/config") == healthpb.HealthCheckResponse_SERVING
	})
	running["node-1"].says(t, "msg=serving address")
	stopAll(t, running)
}

// Two servers that do not see each other at their start may both found or grow a cluster. Neither accepts writes, and
// each says that there is another cluster as soon as it can be seen.
func TestTwoClustersFindEachOther(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	configs := machines(t, "node-1", "node-2", "node-3")
	for _, name := range []string{"node-1", "node-2"} {
		single := configs[name]
		single.Cluster = nil
		conn, stop := start(t, single)
		put(t, conn, "app/of", name)
		stop()
	}
	var links []*loopback.Link
	for name, other := range map[string]string{"node-1": "node-2", "node-2": "node-1"} {
		link := loopback.NewLink(t, configs[name].Cluster.Members[other])
		link.Cut()
		links = append(links, link)
		own := *configs[name].Cluster
		own.Members = maps.Clone(own.Members)
		own.Members[other] = link.Address
		cfg := configs[name]
		cfg.Cluster = &own
		configs[name] = cfg
	}
	running := launchAll(t, configs, "node-1", "node-2")
	for _, m := range running {
		m.serving(t)
	}
	for _, link := range links {
		link.Heal()
	}
	for name, m := range running {
		m.says(t, "there is another cluster")
		_, err := fanoutv1.NewStoreServiceClient(m.conn).Put(poll.Context(t), putRequest("app/of", "3"))
		if reasonOf(status.Convert(err)) != "CLUSTER_FORMING" {
			t.Errorf("%s: got %v", name, err)
		}
	}
	stopAll(t, running)
}

// An empty server waits for one whose list has other servers, and says so. In a running cluster, a server with another
// list goes on, because the list of etcd counts, and says how they differ.
func TestListThatDiffersOnOneServer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	configs := machines(t, "node-1", "node-2", "node-3")
	different := configs["node-3"]
	list := *different.Cluster
	list.Members = maps.Clone(list.Members)
	list.Members["node-4"] = loopback.FreeAddress(t)
	different.Cluster = &list
	running := launchAll(t, configs, "node-1", "node-2")
	running["node-3"] = launch(t, different)
	running["node-1"].says(t, "waiting for node-3, which has other servers in cluster.members")
	running["node-2"].says(t, "waiting for node-3, which has other servers in cluster.members")
	running["node-3"].cancel()
	<-running["node-3"].done // it has waited
	running["node-3"] = launch(t, configs["node-3"])
	for _, m := range running {
		m.says(t, "this server votes")
	}
	running["node-1"].put(t, "app/limits", "1")

	running["node-3"].stop(t)
	running["node-3"] = launch(t, different)
	if got := running["node-3"].get(t, "app/limits"); got != "1" {
		t.Errorf("got %q", got)
	}
	running["node-3"].put(t, "app/limits", "2")
	running["node-3"].says(t, "cluster.members differs from the members of etcd")
	running["node-3"].says(t, "only_in_cluster_members=\"[node-4 "+list.Members["node-4"])
	stopAll(t, running)
}
