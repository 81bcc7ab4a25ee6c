package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fanoutd/fanoutd/internal/server/backend"
)

// askTimeout is how long a scrape waits for etcd to say where it is. Prometheus itself
// waits for ten seconds; what is not known by then is left out.
const askTimeout = time.Second

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
	c.loaded = c.gauge("resource_loaded", "1 once the resource can be read.", r)
	c.following = c.gauge("resource_following", "1 while the resource hears of etcd; 0 while what is served may be old.", r)
	c.decodeFailures = c.counter("decode_failures_total", "Values in etcd that the codec could not decode, or that could not be decrypted, each key and revision once. The former are served as they are.", r)

	c.leftOut = c.gauge("left_out_keys", "Keys in etcd that are left out because they are empty or not UTF-8. It ends at 1,000.", r)

	c.revision = c.gauge("cacher_revision", "Revision of etcd up to which the cache has every change.", r)
	c.lagRevisions = c.gauge("cacher_lag_revisions", "Revisions that etcd is ahead of the cache; those of other prefixes count, too, until etcd is asked for progress. Missing while etcd does not answer.", r)
	c.lagSeconds = c.gauge("cacher_lag_seconds", "Seconds since the watch of etcd has said anything, if only that there is nothing new. What it says may be old while cacher_lag_revisions is high.", r)
	c.objects = c.gauge("cacher_objects", "Objects in the cache.", r)
	c.undecryptable = c.gauge("cacher_undecryptable_objects", "Objects whose values cannot be decrypted with the keys that there are.", r)
	c.tombstones = c.gauge("cacher_tombstones", "Deletions that are remembered.", r)
	c.windowOldest = c.gauge("cacher_window_oldest_revision", "Oldest revision after which every change is in the window, so that a watch can replay.", r)
	c.windowChanges = c.gauge("cacher_window_changes", "Changes in the window.", r)
	c.windowBytes = c.gauge("cacher_window_bytes", "Memory that the window takes, roughly.", r)
	c.windowSpan = c.gauge("cacher_window_span_seconds", "How far back the window goes: the age of the oldest change in it.", r)
	c.changes = c.counter("cacher_changes_total", "Changes that the cache has applied.", r)
	c.fills = c.counter("cacher_fills_total", "How often the cache was filled from nothing: at start, in a new epoch, after a mismatch.", r)
	c.relists = c.counter("cacher_relists_total", "How often the resource was listed again because etcd had compacted what came next.", r)
	c.interruptions = c.counter("cacher_interruptions_total", "How often etcd was lost and tried again after a pause.", r)
	c.mismatches = c.counter("cacher_mismatches_total", "How often the cache was found to differ from etcd. It never should.", r)

	c.interests = c.gauge("dispatch_interests", "Distinct interests (scope, selectors, view) that are watched.", r)
	c.through = c.gauge("dispatch_revision", "Revision up to which every change is in the logs that watches read.", r)
	c.queueAge = c.gauge("dispatch_queue_age_seconds", "How long the oldest change waits that is in the cache and in no log yet; 0 if none does.", r)
	c.events = c.counter("dispatch_events_total", "Events that were encoded, once for each interest that a change concerns.", r)
	c.eventBytes = c.counter("dispatch_event_bytes_total", "Size of these events.", r)
	c.logBytes = c.gauge("dispatch_log_bytes", "Memory of the logs that watches read.", r)
	c.evictions = c.counter("dispatch_log_evictions_total", "Pieces of logs that were forgotten because all logs together were too large. Who had not read them reads the window.", r)
	c.catchUpBytes = c.gauge("dispatch_catch_up_bytes", "Memory of what those who catch up share.", r)
	c.catchUpStates = c.gauge("dispatch_catch_up_states", "States of the past that are kept for those who catch up.", r)
	return c
}

// Describe implements [prometheus.Collector].
func (c *resourceCollector) Describe(to chan<- *prometheus.Desc) { c.describe(to) }

// Collect implements [prometheus.Collector]. All resources are looked at at the same
// time, because each may have to wait for etcd.
func (c *resourceCollector) Collect(to chan<- prometheus.Metric) {
	var looking sync.WaitGroup
	defer looking.Wait()
	for i := range c.resources {
		looking.Go(func() { c.collect(to, &c.resources[i]) })
	}
}

func (c *resourceCollector) collect(to chan<- prometheus.Metric, r *backend.Resource) {
	if keys, ok := r.Writer.(interface{ OmittedKeys() int }); ok {
		send(to, c.leftOut, keys.OmittedKeys(), r.Name)
	}
	if r.Direct != nil {
		send(to, c.loaded, one(r.Direct.Loaded()), r.Name)
		send(to, c.following, one(r.Direct.Following()), r.Name)
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
	send(to, c.loaded, one(state != nil), r.Name)
	send(to, c.following, one(following), r.Name)
	if heard := r.Cacher.LastContact(); !heard.IsZero() {
		send(to, c.lagSeconds, time.Since(heard).Seconds(), r.Name)
	}
	if state == nil {
		return
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
	if !following {
		return // there is nobody to ask
	}
	// Asked after the state was taken, so that it cannot be behind it.
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	if now, err := r.Cacher.StoreRevision(ctx); err == nil {
		send(to, c.lagRevisions, max(0, int64(now-state.Revision())), r.Name)
	}
}

func (c *resourceCollector) collectDispatch(to chan<- prometheus.Metric, r *backend.Resource) {
	s := r.Dispatcher.Stats()
	send(to, c.interests, s.Interests, r.Name)
	send(to, c.through, int64(s.Through.Revision), r.Name)
	send(to, c.events, s.Events, r.Name)
	send(to, c.eventBytes, s.EventBytes, r.Name)
	send(to, c.logBytes, s.LogBytes, r.Name)
	send(to, c.evictions, s.Evictions, r.Name)
	send(to, c.catchUpBytes, s.CatchUpBytes, r.Name)
	send(to, c.catchUpStates, s.CatchUpStates, r.Name)
	age := 0.0
	if state := r.Cacher.State(); state != nil && s.Through.Epoch == state.Position().Epoch {
		if waiting, ok := state.Arrived(s.Through.Revision); ok {
			age = time.Since(waiting).Seconds()
		}
	}
	send(to, c.queueAge, age, r.Name)
}
