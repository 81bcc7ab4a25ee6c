package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fanoutd/fanoutd/internal/server/backend"
)

// revisionTimeout is how long a scrape waits for the current revision of etcd. After it the
// metric is omitted. Prometheus itself waits ten seconds for a scrape.
const revisionTimeout = time.Second

// resourceCollector reads cachers and dispatchers.
type resourceCollector struct {
	resources []backend.Resource
	families

	loaded, following, leftOut                                             *family
	revision, lagRevisions, lagSeconds, objects, undecryptable, tombstones *family
	windowOldest, windowChanges, windowBytes, windowSpan                   *family
	changes, fills, relists, interruptions, mismatches, decodeFailures     *family
	interests, through, queueAge, events, eventBytes, logBytes, evictions  *family
	catchUpBytes, catchUpStates                                            *family
}

func newResourceCollector(resources []backend.Resource) *resourceCollector {
	c := &resourceCollector{resources: resources}
	const r = "resource"
	c.loaded = c.gauge("resource_loaded", "1 if the resource can be read.", r)
	c.following = c.gauge("resource_following", "1 while the resource receives changes from etcd; 0 while its data may be stale.", r)
	c.decodeFailures = c.counter("decode_failures_total", "Values in etcd that could not be decoded or decrypted, counted once per key and revision. Values that cannot be decoded are served as stored.", r)

	c.leftOut = c.gauge("left_out_keys", "Keys in etcd that are omitted because they are empty or not valid UTF-8. Stops at 1,000.", r)

	c.revision = c.gauge("cacher_revision", "Revision of the cache: it has every change up to this etcd revision.", r)
	c.lagRevisions = c.gauge("cacher_lag_revisions", "Number of revisions that etcd has and the cache does not have half a second later. Missing while etcd does not answer.", r)
	c.lagSeconds = c.gauge("cacher_lag_seconds", "Seconds since the etcd watch last sent a change or a progress notification. While cacher_lag_revisions is high, its changes may be old.", r)
	c.objects = c.gauge("cacher_objects", "Objects in the cache.", r)
	c.undecryptable = c.gauge("cacher_undecryptable_objects", "Objects whose values cannot be decrypted with the loaded keys.", r)
	c.tombstones = c.gauge("cacher_tombstones", "Deletions that the cache remembers.", r)
	c.windowOldest = c.gauge("cacher_window_oldest_revision", "Oldest revision from which a watch can replay: the window contains every later change.", r)
	c.windowChanges = c.gauge("cacher_window_changes", "Changes in the window.", r)
	c.windowBytes = c.gauge("cacher_window_bytes", "Approximate memory of the window.", r)
	c.windowSpan = c.gauge("cacher_window_span_seconds", "Age of the oldest change in the window.", r)
	c.changes = c.counter("cacher_changes_total", "Changes that the cache has applied.", r)
	c.fills = c.counter("cacher_fills_total", "Number of times that the cache was filled from scratch: at start, in a new epoch, or after a mismatch.", r)
	c.relists = c.counter("cacher_relists_total", "Number of times that the resource was listed again because etcd had compacted the next change.", r)
	c.interruptions = c.counter("cacher_interruptions_total", "Number of times that the etcd watch was interrupted and retried.", r)
	c.mismatches = c.counter("cacher_mismatches_total", "Number of times that the self-check found a difference between the cache and etcd. Should be 0.", r)

	c.interests = c.gauge("dispatch_interests", "Distinct watched interests (scope, selectors, projection).", r)
	c.through = c.gauge("dispatch_revision", "Revision of the logs of the feeds: they have every change up to this revision.", r)
	c.queueAge = c.gauge("dispatch_queue_age_seconds", "Age of the oldest change that is in the cache but not in the logs of the feeds; 0 if there is none.", r)
	c.events = c.counter("dispatch_events_total", "Encoded events: one per change and interest.", r)
	c.eventBytes = c.counter("dispatch_event_bytes_total", "Size of the encoded events.", r)
	c.logBytes = c.gauge("dispatch_log_bytes", "Memory of the logs of the feeds.", r)
	c.evictions = c.counter("dispatch_log_evictions_total", "Log segments evicted because of the memory limit for all logs. Watches that had not read a segment read the window instead.", r)
	c.catchUpBytes = c.gauge("dispatch_catch_up_bytes", "Memory of catch-up data that is shared between watches.", r)
	c.catchUpStates = c.gauge("dispatch_catch_up_states", "Past states that are retained for catch-ups.", r)
	return c
}

// Describe implements [prometheus.Collector].
func (c *resourceCollector) Describe(to chan<- *prometheus.Desc) { c.describe(to) }

// Collect implements [prometheus.Collector]. It reads all resources concurrently because
// each may wait for etcd.
func (c *resourceCollector) Collect(to chan<- prometheus.Metric) {
	var collecting sync.WaitGroup
	defer collecting.Wait()
	for i := range c.resources {
		collecting.Go(func() { c.collect(to, &c.resources[i]) })
	}
}

func (c *resourceCollector) collect(to chan<- prometheus.Metric, r *backend.Resource) {
	send(to, c.leftOut, r.Store.OmittedKeys(), r.Name)
	if r.Direct != nil {
		send(to, c.loaded, boolValue(r.Direct.Loaded()), r.Name)
		send(to, c.following, boolValue(r.Direct.Following()), r.Name)
		send(to, c.decodeFailures, r.Direct.Opaque(), r.Name)
		return
	}
	c.collectCacher(to, r)
	c.collectDispatch(to, r)
}

func (c *resourceCollector) collectCacher(to chan<- prometheus.Metric, r *backend.Resource) {
	counts := r.Cacher.Counts()
	send(to, c.changes, counts.Changes, r.Name)
	send(to, c.fills, counts.Fills, r.Name)
	send(to, c.relists, counts.Relists, r.Name)
	send(to, c.interruptions, counts.Interruptions, r.Name)
	send(to, c.mismatches, counts.Mismatches, r.Name)
	send(to, c.decodeFailures, counts.Opaque, r.Name)
	state, following := r.Cacher.State(), r.Cacher.Following()
	send(to, c.loaded, boolValue(state != nil), r.Name)
	send(to, c.following, boolValue(following), r.Name)
	if heard := r.Cacher.LastContact(); !heard.IsZero() {
		send(to, c.lagSeconds, time.Since(heard).Seconds(), r.Name)
	}
	if state == nil {
		return
	}
	if following { // else etcd is unreachable
		ctx, cancel := context.WithTimeout(context.Background(), revisionTimeout)
		defer cancel()
		if measured, lag, err := r.Cacher.MeasureLag(ctx); err == nil {
			state = measured
			send(to, c.lagRevisions, lag, r.Name)
		}
	}
	send(to, c.revision, int64(state.Revision()), r.Name)
	send(to, c.objects, state.Len(), r.Name)
	send(to, c.undecryptable, state.Undecryptable(), r.Name)
	send(to, c.tombstones, state.Tombstones(), r.Name)
	send(to, c.windowOldest, int64(state.Replayable()), r.Name)
	send(to, c.windowChanges, state.WindowLen(), r.Name)
	send(to, c.windowBytes, state.WindowBytes(), r.Name)
	span := 0.0
	if oldest, ok := state.Arrived(0); ok {
		span = time.Since(oldest).Seconds()
	}
	send(to, c.windowSpan, span, r.Name)
}

func (c *resourceCollector) collectDispatch(to chan<- prometheus.Metric, r *backend.Resource) {
	s := r.Dispatcher.Stats()
	send(to, c.interests, s.Interests, r.Name)
	send(to, c.through, int64(s.DispatchedUpTo.Revision), r.Name)
	send(to, c.events, s.Events, r.Name)
	send(to, c.eventBytes, s.EventBytes, r.Name)
	send(to, c.logBytes, s.LogBytes, r.Name)
	send(to, c.evictions, s.Evictions, r.Name)
	send(to, c.catchUpBytes, s.CatchUpBytes, r.Name)
	send(to, c.catchUpStates, s.CatchUpStates, r.Name)
	send(to, c.queueAge, r.QueueAge().Seconds(), r.Name)
}
