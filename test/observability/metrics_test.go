package observability

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/certs"
)

// The pages that these tests compare with the server.
const (
	monitorPage = "../../docs/tasks/monitor.md"
	metricsPage = "../../docs/reference/metrics.md"
)

// TestMetricsAreDocumented compares the served metrics with docs/reference/metrics.md: names,
// types, labels and help.
func TestMetricsAreDocumented(t *testing.T) {
	in := start(t, encrypted(t))
	served := map[string]string{}
	all := in.scrape(t)
	maps.Copy(all, ofCluster(t))
	for name, f := range all {
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			continue // of libraries, which document them
		}
		served[name] = strings.ToLower(f.GetType().String()) + " | " + strings.Join(labelNames(f), " ") + " | " + f.GetHelp()
	}
	text, err := os.ReadFile(metricsPage)
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for row := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(row, "|\n "), " | ")
		if name, ok := strings.CutPrefix(cells[0], "`"); ok && len(cells) == 4 && strings.Contains(name, "_") {
			cells[2] = strings.ReplaceAll(strings.TrimSpace(cells[2]), "`", "")
			documented[strings.TrimSuffix(name, "`")] = strings.Join(cells[1:], " | ")
		}
	}
	if diff := cmp.Diff(documented, served); diff != "" {
		t.Errorf("-docs/reference/metrics.md +served:\n%s", diff)
	}
}

// TestMetricsOfAClusterFollowConventions runs Prometheus' own linter on the metrics of a cluster.
func TestMetricsOfAClusterFollowConventions(t *testing.T) {
	_, body := member(t).get(t, "/metrics")
	problems, err := promlint.New(strings.NewReader(body)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// The metrics of a cluster name each member, and say that it may lose none: the other servers are missing.
func TestMetricsOfACluster(t *testing.T) {
	all := ofCluster(t)
	for name, want := range map[string]float64{
		"fanoutd_cluster_has_leader": 1, "fanoutd_cluster_is_leader": 1, "fanoutd_cluster_lag_entries": 0, "fanoutd_cluster_members": 1,
		"fanoutd_cluster_voters": 1, "fanoutd_cluster_safe": 0, "fanoutd_cluster_list_differs": 1,
	} {
		if got := all.find(t, name, nil).GetGauge().GetValue(); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	if got := all.find(t, "fanoutd_cluster_member_healthy", map[string]string{"member": "node-1"}).GetGauge().GetValue(); got != 1 {
		t.Errorf("the health of node-1: got %v", got)
	}
}

// TestMetricsFollowConventions runs Prometheus' own linter.
func TestMetricsFollowConventions(t *testing.T) {
	_, body := start(t, encrypted(t)).get(t, "/metrics")
	problems, err := promlint.New(strings.NewReader(body)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestClientsCreateNoSeries checks that clients cannot create series, neither with keys,
// selectors and names, nor with unknown methods.
func TestClientsCreateNoSeries(t *testing.T) {
	in := start(t, nil)
	count := func() (n int) {
		for name, f := range in.scrape(t) {
			if strings.HasPrefix(name, "fanoutd_") || strings.HasPrefix(name, "grpc_") {
				n += len(f.GetMetric())
			}
		}
		return n
	}
	before := count()
	for i := range 20 {
		text := fmt.Sprint("x", i)
		in.put(t, text, text)
		in.watch(t, &fanoutv1.WatchRequest{LabelSelector: text + " notin (a)", Scope: &fanoutv1.Scope{Scope: &fanoutv1.Scope_Prefix{Prefix: text}}})
		for _, method := range []string{"/fanout.v1.FanoutService/" + text, "/" + text + ".v1/Get"} {
			if err := in.conn.Invoke(within(t), method, &fanoutv1.GetRequest{}, &fanoutv1.GetResponse{}); status.Code(err) != codes.Unimplemented {
				t.Errorf("%s: %v", method, err)
			}
		}
		if _, err := in.reads.Get(within(t), &fanoutv1.GetRequest{Resource: text, Key: text}); status.Code(err) != codes.NotFound {
			t.Errorf("an unknown resource: got %v", err)
		}
	}
	if after := count(); after != before {
		t.Errorf("got %d series, want %d as before", after, before)
	}
}

// TestCertificateExpiryIsExported checks that the metric has the expiry of the certificate in
// use, also after it is replaced.
func TestCertificateExpiryIsExported(t *testing.T) {
	authority, now := certs.NewAuthority(t), time.Now().Truncate(time.Second)
	first, second := certs.Server, certs.Server
	first.NotAfter, second.NotAfter = now.Add(time.Hour), now.Add(2*time.Hour)
	files := authority.Issue(t, first).Files(t)
	in := start(t, func(cfg *config.Config) { cfg.TLSCertFile, cfg.TLSKeyFile = files.Cert, files.Key })
	const name = "fanoutd_certificate_not_after_timestamp_seconds"
	if at := in.scrape(t).value(t, name, nil); at != float64(first.NotAfter.Unix()) {
		t.Errorf("got expiry %v, want %v", at, first.NotAfter.Unix())
	}
	in.tls.RootCAs = authority.Pool() // trusts both certificates
	files.Replace(t, authority.Issue(t, second))
	in.await(t, name, nil, exactly(float64(second.NotAfter.Unix())))
	if from := in.scrape(t).value(t, "fanoutd_certificate_not_before_timestamp_seconds", nil); from > float64(now.Unix()) {
		t.Errorf("got beginning %v", from)
	}
	if start(t, nil).scrape(t).find(t, name, nil) != nil {
		t.Error("got a certificate metric without TLS")
	}
}

// TestAnEventIsCounted checks that each stage counts an event on its way to the watchers.
func TestAnEventIsCounted(t *testing.T) {
	in := start(t, nil)
	before := in.scrape(t)
	first := in.watch(t, &fanoutv1.WatchRequest{})
	second := in.watch(t, &fanoutv1.WatchRequest{})
	in.put(t, "k", "v")
	for _, w := range []interface {
		Recv() (*fanoutv1.WatchResponse, error)
	}{first, second} {
		if m, err := w.Recv(); err != nil || m.GetKind() != fanoutv1.WatchResponse_KIND_LIVE {
			t.Fatal(m, err)
		}
	}
	// The server counts a message after the transport has accepted it.
	in.await(t, "fanoutd_watch_propagation_seconds", series{"resource": resource}, exactly(2))
	after := in.scrape(t)
	for name, want := range map[string]float64{
		"fanoutd_cacher_changes_total":      1,
		"fanoutd_dispatch_events_total":     1, // both watches have the same interest
		"fanoutd_dispatch_interests":        1,
		"fanoutd_watchers_begun_total":      2,
		"fanoutd_watch_events_total":        2,
		"fanoutd_watch_messages_total":      6, // for each watch: start and end of the catch-up, and the event
		"fanoutd_watch_batch_events":        2,
		"fanoutd_watch_propagation_seconds": 2,
		"fanoutd_cacher_objects":            1,
		"fanoutd_cacher_window_changes":     1,
	} {
		with := series{"resource": resource}
		if got := after.value(t, name, with) - before.value(t, name, with); got != want {
			t.Errorf("%s: got an increase of %v, want %v", name, got, want)
		}
	}
	for _, c := range []struct {
		name string
		with series
		want float64
	}{
		{"fanoutd_watchers", series{"resource": resource, "state": "live"}, 2},
		{"fanoutd_watch_catch_ups_total", series{"kind": "reset", "cause": "begin"}, 2},
		{"fanoutd_watch_catch_ups_total", series{"kind": "reset", "cause": "behind"}, 0},
		{"fanoutd_dispatch_queue_age_seconds", series{"resource": resource}, 0},
		{"fanoutd_watchers_behind", series{"resource": resource}, 0},
		{"fanoutd_resource_following", series{"resource": resource}, 1},
		{"fanoutd_etcd_requests_total", series{"operation": "commit"}, 1},
		{"grpc_server_handled_total", series{"grpc_method": "Put", "grpc_code": "OK"}, 1},
		{"grpc_server_started_total", series{"grpc_method": "Watch", "grpc_service": "fanout.v1.FanoutService"}, 2},
		// The interceptor does not count messages of watches, see docs/reference/metrics.md.
		{"grpc_server_msg_sent_total", series{"grpc_method": "Watch", "grpc_service": "fanout.v1.FanoutService"}, 0},
	} {
		if got := after.value(t, c.name, c.with); got != c.want {
			t.Errorf("%s%v: got %v, want %v", c.name, c.with, got, c.want)
		}
	}
}

// TestMetricsWithoutACache checks that a resource without a cache has the metrics that apply
// to it.
func TestMetricsWithoutACache(t *testing.T) {
	in := start(t, func(cfg *config.Config) { cfg.Resources[0].Cache = false })
	w := in.watch(t, &fanoutv1.WatchRequest{})
	in.put(t, "k", "v")
	next(t, w)
	in.await(t, "fanoutd_watch_events_total", ours, exactly(1))
	s := in.scrape(t)
	for name, want := range map[string]float64{
		"fanoutd_resource_loaded": 1, "fanoutd_resource_following": 1, "fanoutd_decode_failures_total": 0,
		"fanoutd_watch_propagation_seconds": 0, "fanoutd_watch_batch_events": 1,
	} {
		if got := s.value(t, name, ours); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	for name := range s {
		if strings.HasPrefix(name, "fanoutd_cacher_") || strings.HasPrefix(name, "fanoutd_dispatch_") {
			t.Errorf("got %s, want no such metric", name)
		}
	}
}
