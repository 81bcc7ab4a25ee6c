package observability

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/config"
)

const docs = "../../docs/observability.md"

// What docs/observability.md says of metrics is what is served: names, types, labels
// and meaning.
func TestMetricsAreDocumented(t *testing.T) {
	in := start(t, nil)
	served := map[string]string{}
	for name, f := range in.scrape(t) {
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			continue // of the libraries, which document them
		}
		served[name] = strings.ToLower(f.GetType().String()) + " | " + strings.Join(labelNames(f), " ") + " | " + f.GetHelp()
	}
	text, err := os.ReadFile(docs)
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
		t.Errorf("-docs/observability.md +served:\n%s", diff)
	}
}

// An event is counted on all of its way.
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
	// The message is counted after it was handed to the network.
	in.await(t, "fanoutd_watch_propagation_seconds", series{"resource": resource}, exactly(2))
	after := in.scrape(t)
	for name, want := range map[string]float64{
		"fanoutd_cacher_changes_total":      1,
		"fanoutd_dispatch_events_total":     1, // both have the same interest
		"fanoutd_dispatch_interests":        1,
		"fanoutd_watchers_begun_total":      2,
		"fanoutd_watch_events_total":        2,
		"fanoutd_watch_messages_total":      6, // the beginning and the end of the catch-up, and the event
		"fanoutd_watch_batch_events":        2,
		"fanoutd_watch_propagation_seconds": 2,
		"fanoutd_cacher_objects":            1,
		"fanoutd_cacher_window_changes":     1,
	} {
		with := series{"resource": resource}
		if got := after.value(t, name, with) - before.value(t, name, with); got != want {
			t.Errorf("%s has risen by %v, want %v", name, got, want)
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
		// Messages of watches are not counted by the interceptor, see the documentation.
		{"grpc_server_msg_sent_total", series{"grpc_method": "Watch", "grpc_service": "fanout.v1.FanoutService"}, 0},
	} {
		if got := after.value(t, c.name, c.with); got != c.want {
			t.Errorf("%s%v is %v, want %v", c.name, c.with, got, c.want)
		}
	}
}

// A resource without a cache has what there is without one.
func TestAResourceWithoutACacheIsSeen(t *testing.T) {
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
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	for name := range s {
		if strings.HasPrefix(name, "fanoutd_cacher_") || strings.HasPrefix(name, "fanoutd_dispatch_") {
			t.Errorf("there is %s", name)
		}
	}
}
