package metrics

import (
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server"
	"github.com/fanoutd/fanoutd/internal/server/registry"
)

// watches sends the state and the counters of watches.
func (s scrape) watches(srv *server.Server) {
	for name, stats := range srv.WatchStats() {
		s.with("resource", name).watchesOf(stats)
	}
	for code, n := range srv.StreamWatchesEnded() {
		counter(s.with("grpc_code", code.String()), "subscribe_watches_ended_total", "Watches of Subscribe that were refused or have ended, by status code. When a stream ends, its watches count with its code.", n)
	}
	counter(s, "slow_requests_total", "Requests, first messages of watches and catch-ups that took longer than slow-request.", srv.SlowRequests())
}

// watchesOf sends those of the watches of a resource.
func (s scrape) watchesOf(stats *registry.Stats) {
	for state, n := range map[string]int{"live": stats.Live, "catching_up": stats.CatchingUp} {
		gauge(s.with("state", state), "watchers", "Open watches by state: live or catching_up.", n)
	}
	gauge(s, "watchers_blocked", "Watches with a message that waits because the client does not read.", stats.Blocked)
	gauge(s, "watchers_behind", "Watches with events that have not been handed to the network yet.", stats.Behind)
	gauge(s, "watchers_beyond_window", "Watches whose oldest waiting event has left the window. Only a minimum of their lag is known.", stats.BeyondWindow)
	gauge(s, "watch_lag_max_seconds", "Age of the oldest event that waits for a watch; 0 if there is none. The age is at least this while watchers_beyond_window is not 0. Watches within a RESET are not included.", stats.Lag.Seconds())
	gauge(s, "watch_backlog_max_events", "Largest known number of events that wait for one watch.", stats.Backlog)
	counter(s, "watchers_begun_total", "Started watches.", stats.Begun)
	counter(s, "watch_messages_total", "Watch messages handed to the network.", stats.Messages)
	counter(s, "watch_events_total", "Events in these messages (deliveries).", stats.Events)
	counter(s, "watch_bytes_total", "Size of these messages.", stats.Bytes)
	for kind := object.NoCatchUp + 1; kind < object.CatchUpKinds; kind++ {
		for cause, because := range map[registry.Cause]string{registry.CauseBegin: "begin", registry.CauseBehind: "behind"} {
			counter(s.with("kind", kind.String()).with("cause", because), "watch_catch_ups_total", "Catch-ups by kind (replay, delta, reset) and cause: begin (start of the watch) or behind (the watch fell behind the retained history, the server lost changes, or the epoch changed).", stats.CatchUps[kind][cause])
		}
	}
	s.applied(&stats.Applied)
	counter(s, "watch_reported_errors_total", "Errors that subscribers have reported. Repetitions of an error do not count.", stats.ReportedErrors)
	histogram(s, "watch_propagation_seconds", "Time from the receipt of a change from etcd until its live message is handed to the network. A message with several changes counts with the first.", &stats.Latency)
	histogram(s, "watch_batch_events", "Number of events in a live message.", &stats.Batches)
}

// appliedLags are the values of the label lag for registry.AppliedLagBounds.
var appliedLags = [len(registry.AppliedLagBounds)]string{"0s", "1s", "10s", "1m", "10m", "1h"}

// applied sends the numbers of watches by their reports.
func (s scrape) applied(stats *registry.AppliedStats) {
	byLag := map[string]int{"more": stats.ByLag[len(appliedLags)], "unknown": stats.UnknownLag, "unreported": stats.Unreported}
	for i, lag := range appliedLags {
		byLag[lag] = stats.ByLag[i]
	}
	for lag, n := range byLag {
		gauge(s.with("lag", lag), "watchers_by_applied_lag", "Open watches by applied lag: how long the oldest event that the subscriber has not applied has waited. 0s: there is none. 1s, 10s, 1m, 10m, 1h: up to this time. more, unknown or unreported: none of these.", n)
	}
	gauge(s, "watchers_failing", "Watches whose last report has an error.", stats.Failing)
}
