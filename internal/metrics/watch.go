package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server"
	"github.com/fanoutd/fanoutd/internal/server/registry"
)

// watchCollector reads the state and the counters of watches.
type watchCollector struct {
	server *server.Server
	families

	watchers, blocked, behind, beyondWindow, lag, backlog *family
	begun, messages, events, bytes, catchUps              *family
	latency, batches, slow                                *family
	byAppliedLag, failing, reportedErrors                 *family
	streamWatchesEnded                                    *family
}

func newWatchCollector(srv *server.Server) *watchCollector {
	c := &watchCollector{server: srv}
	const r = "resource"
	c.watchers = c.gauge("watchers", "Open watches by state: live or catching_up.", r, "state")
	c.blocked = c.gauge("watchers_blocked", "Watches with a message that waits because the client does not read.", r)
	c.behind = c.gauge("watchers_behind", "Watches with events that have not been handed to the network yet.", r)
	c.beyondWindow = c.gauge("watchers_beyond_window", "Watches whose oldest waiting event has left the window. Only a minimum of their lag is known.", r)
	c.lag = c.gauge("watch_lag_max_seconds", "Age of the oldest event that waits for a watch; 0 if there is none. The age is at least this while watchers_beyond_window is not 0. Watches within a RESET are not included.", r)
	c.backlog = c.gauge("watch_backlog_max_events", "Largest known number of events that wait for one watch.", r)
	c.begun = c.counter("watchers_begun_total", "Started watches.", r)
	c.messages = c.counter("watch_messages_total", "Watch messages handed to the network.", r)
	c.events = c.counter("watch_events_total", "Events in these messages (deliveries).", r)
	c.bytes = c.counter("watch_bytes_total", "Size of these messages.", r)
	c.catchUps = c.counter("watch_catch_ups_total", "Catch-ups by kind (replay, delta, reset) and cause: begin (start of the watch) or behind (the watch fell behind the retained history, the server lost changes, or the epoch changed).", r, "kind", "cause")
	c.latency = c.histogram("watch_propagation_seconds", "Time from the receipt of a change from etcd until its live message is handed to the network. A message with several changes counts with the first.", r)
	c.batches = c.histogram("watch_batch_events", "Number of events in a live message.", r)
	c.byAppliedLag = c.gauge("watchers_by_applied_lag", "Open watches by applied lag: how long the oldest event that the subscriber has not applied has waited. 0s: there is none. 1s, 10s, 1m, 10m, 1h: up to this time. more, unknown or unreported: none of these.", r, "lag")
	c.failing = c.gauge("watchers_failing", "Watches whose last report has an error.", r)
	c.reportedErrors = c.counter("watch_reported_errors_total", "Errors that subscribers have reported. Repetitions of an error do not count.", r)
	c.streamWatchesEnded = c.counter("subscribe_watches_ended_total", "Watches of Subscribe that were refused or have ended, by status code. When a stream ends, its watches count with its code.", "grpc_code")
	c.slow = c.counter("slow_requests_total", "Requests, first messages of watches and catch-ups that took longer than slow-request.")
	return c
}

// Describe implements [prometheus.Collector].
func (c *watchCollector) Describe(to chan<- *prometheus.Desc) { c.describe(to) }

// Collect implements [prometheus.Collector].
func (c *watchCollector) Collect(to chan<- prometheus.Metric) {
	for name, s := range c.server.WatchStats() {
		send(to, c.watchers, s.Live, name, "live")
		send(to, c.watchers, s.CatchingUp, name, "catching_up")
		send(to, c.blocked, s.Blocked, name)
		send(to, c.behind, s.Behind, name)
		send(to, c.beyondWindow, s.BeyondWindow, name)
		send(to, c.lag, s.Lag.Seconds(), name)
		send(to, c.backlog, s.Backlog, name)
		send(to, c.begun, s.Begun, name)
		send(to, c.messages, s.Messages, name)
		send(to, c.events, s.Events, name)
		send(to, c.bytes, s.Bytes, name)
		for kind := object.NoCatchUp + 1; kind < object.CatchUpKinds; kind++ {
			for cause, because := range map[registry.Cause]string{registry.CauseBegin: "begin", registry.CauseBehind: "behind"} {
				send(to, c.catchUps, s.CatchUps[kind][cause], name, kind.String(), because)
			}
		}
		c.sendApplied(to, &s.Applied, name)
		send(to, c.reportedErrors, s.ReportedErrors, name)
		sendDistribution(to, c.latency, &s.Latency, name)
		sendDistribution(to, c.batches, &s.Batches, name)
	}
	for code, n := range c.server.StreamWatchesEnded() {
		send(to, c.streamWatchesEnded, n, code.String())
	}
	send(to, c.slow, c.server.SlowRequests())
}

// appliedLags are the values of the label lag for registry.AppliedLagBounds.
var appliedLags = [len(registry.AppliedLagBounds)]string{"0s", "1s", "10s", "1m", "10m", "1h"}

// sendApplied sends the numbers of watches by their reports.
func (c *watchCollector) sendApplied(to chan<- prometheus.Metric, s *registry.AppliedStats, resource string) {
	for i, lag := range appliedLags {
		send(to, c.byAppliedLag, s.ByLag[i], resource, lag)
	}
	send(to, c.byAppliedLag, s.ByLag[len(appliedLags)], resource, "more")
	send(to, c.byAppliedLag, s.UnknownLag, resource, "unknown")
	send(to, c.byAppliedLag, s.Unreported, resource, "unreported")
	send(to, c.failing, s.Failing, resource)
}

// sendDistribution sends a histogram to the registry.
func sendDistribution(to chan<- prometheus.Metric, f *family, d *registry.Distribution, labels ...string) {
	buckets := make(map[float64]uint64, len(d.Bounds))
	total := uint64(0)
	for i, n := range d.Counts {
		total += uint64(n)
		if i < len(d.Bounds) {
			buckets[d.Bounds[i]] = total
		}
	}
	to <- prometheus.MustNewConstHistogram(f.desc, total, d.Sum, buckets, labels...)
}
