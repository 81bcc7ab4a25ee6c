package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/internal/server/backend"
)

// revisionTimeout is how long a scrape waits for the current revision of etcd. After it the
// metric is omitted. Prometheus itself waits ten seconds for a scrape.
const revisionTimeout = time.Second

// resources sends the state of cachers and dispatchers. It reads all resources concurrently
// because each may wait for etcd.
func (s scrape) resources(resources []backend.Resource) {
	var collecting sync.WaitGroup
	defer collecting.Wait()
	for i := range resources {
		collecting.Go(func() { s.with("resource", resources[i].Name).resource(&resources[i]) })
	}
}

func (s scrape) resource(r *backend.Resource) {
	s.validation(r)
	s.history(r)
	gauge(s, "left_out_keys", "Keys in etcd that are omitted because they are empty or not valid UTF-8. Stops at 1,000.", r.Store.OmittedKeys())
	if r.Direct != nil {
		s.readable(r.Direct.Loaded(), r.Direct.Following(), r.Direct.Opaque())
		return
	}
	s.cacher(r)
	s.dispatch(r)
}

// validation sends the rules that writes are checked with. A server without rules sends a hash as well, so that
// it differs from those that have some.
func (s scrape) validation(r *backend.Resource) {
	const none = "none"
	if r.Validation == nil {
		s.with("hash", none).validationInfo()
		return
	}
	s.with("hash", r.Validation.Set().Hash()).validationInfo()
	gauge(s, "validation_file_unusable", "1 while the present content of the validation file or of its schemas cannot be used, and earlier rules are in force.", boolValue(r.Validation.Problem() != ""))
	counter(s, "validation_refusals_total", "Writes that the validation rules of the resource have refused, including those that asked for validation only.", r.Validation.Refused())
}

func (s scrape) validationInfo() {
	gauge(s, "validation_info", "1. The label hash identifies the validation rules that are in force; it is none without rules. It should be the same on all servers.", 1)
}

// history sends the metrics of a history. What is in it is known from the last search for old records.
func (s scrape) history(r *backend.Resource) {
	if r.History == nil {
		return
	}
	counts := r.History.Pruner.Counts()
	counter(s, "history_records_written_total", "Records that this server has written to the history, one for each key of a write.", r.History.Recorder.Written())
	counter(s, "history_records_removed_total", "Records that this server has removed from the history because of its limits.", counts.Removed)
	gauge(s, "history_records", "Records in the history when this server last searched for old ones; 0 before the first search.", counts.Records)
	gauge(s, "history_bytes", "Bytes of the records in the history, as of the same search. The setting max-bytes limits them.", counts.Bytes)
	counter(s, "history_prune_failures_total", "Searches for old records that failed, for example because etcd was unreachable.", counts.Failures)
	if !counts.Last.IsZero() { // a server without writes removes nothing
		gauge(s, "history_prune_lag_seconds", "Seconds since this server last finished a search for old records, or since its start. Up to 15 minutes are normal.", time.Since(counts.Last).Seconds())
	}
}

func (s scrape) readable(loaded, following bool, decodeFailures int64) {
	gauge(s, "resource_loaded", "1 if the resource can be read.", boolValue(loaded))
	gauge(s, "resource_following", "1 while the resource receives changes from etcd; 0 while its data may be stale.", boolValue(following))
	counter(s, "decode_failures_total", "Values in etcd that could not be decoded or decrypted, counted once per key and revision. Values that cannot be decoded are served as stored.", decodeFailures)
}

func (s scrape) cacher(r *backend.Resource) {
	counts := r.Cacher.Counts()
	counter(s, "cacher_changes_total", "Changes that the cache has applied.", counts.Changes)
	counter(s, "cacher_fills_total", "Number of times that the cache was filled from scratch: at start, in a new epoch, or after a mismatch.", counts.Fills)
	counter(s, "cacher_relists_total", "Number of times that the resource was listed again because etcd had compacted the next change.", counts.Relists)
	counter(s, "cacher_interruptions_total", "Number of times that the etcd watch was interrupted and retried.", counts.Interruptions)
	counter(s, "cacher_mismatches_total", "Number of times that the self-check found a difference between the cache and etcd. Should be 0.", counts.Mismatches)
	state, following := r.Cacher.State(), r.Cacher.Following()
	s.readable(state != nil, following, counts.Opaque)
	if heard := r.Cacher.LastContact(); !heard.IsZero() {
		gauge(s, "cacher_lag_seconds", "Seconds since the etcd watch last sent a change or a progress notification. While cacher_lag_revisions is high, its changes may be old.", time.Since(heard).Seconds())
	}
	if state == nil {
		return
	}
	if following { // else etcd is unreachable
		ctx, cancel := context.WithTimeout(context.Background(), revisionTimeout)
		defer cancel()
		if measured, lag, err := r.Cacher.MeasureLag(ctx); err == nil {
			state = measured
			gauge(s, "cacher_lag_revisions", "Number of revisions that etcd has and the cache does not have half a second later. Missing while etcd does not answer.", lag)
		}
	}
	gauge(s, "cacher_revision", "Revision of the cache: it has every change up to this etcd revision.", state.Revision())
	gauge(s, "cacher_objects", "Objects in the cache.", state.Len())
	gauge(s, "cacher_undecryptable_objects", "Objects whose values cannot be decrypted with the loaded keys.", state.Undecryptable())
	gauge(s, "cacher_tombstones", "Deletions that the cache remembers.", state.Tombstones())
	gauge(s, "cacher_window_oldest_revision", "Oldest revision from which a watch can replay: the window contains every later change.", state.Replayable())
	gauge(s, "cacher_window_changes", "Changes in the window.", state.WindowLen())
	gauge(s, "cacher_window_bytes", "Approximate memory of the window.", state.WindowBytes())
	span := 0.0
	if oldest, ok := state.Arrived(0); ok {
		span = time.Since(oldest).Seconds()
	}
	gauge(s, "cacher_window_span_seconds", "Age of the oldest change in the window.", span)
}

func (s scrape) dispatch(r *backend.Resource) {
	stats := r.Dispatcher.Stats()
	gauge(s, "dispatch_interests", "Distinct watched interests (scope, selectors, projection).", stats.Interests)
	gauge(s, "dispatch_revision", "Revision of the logs of the feeds: they have every change up to this revision.", stats.DispatchedUpTo.Revision)
	counter(s, "dispatch_events_total", "Encoded events: one per change and interest.", stats.Events)
	counter(s, "dispatch_event_bytes_total", "Size of the encoded events.", stats.EventBytes)
	gauge(s, "dispatch_log_bytes", "Memory of the logs of the feeds.", stats.LogBytes)
	counter(s, "dispatch_log_evictions_total", "Log segments evicted because of the memory limit for all logs. Watches that had not read a segment read the window instead.", stats.Evictions)
	gauge(s, "dispatch_catch_up_bytes", "Memory of catch-up data that is shared between watches.", stats.CatchUpBytes)
	gauge(s, "dispatch_catch_up_states", "Past states that are retained for catch-ups.", stats.CatchUpStates)
	gauge(s, "dispatch_queue_age_seconds", "Age of the oldest change that is in the cache but not in the logs of the feeds; 0 if there is none.", r.DispatchLag().Seconds())
}
