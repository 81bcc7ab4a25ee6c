package tracing

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/backend"
)

// Limits of the cost of tracing. They are conventions: a trace shows where time goes, and
// 16 of 10,000 deliveries are enough for that.
const (
	maxActiveWrites    = 64              // traced writes of a resource at a time; further writes have no fan-out span
	maxDeliverSpans    = 16              // deliver spans of a write; further deliveries are only counted
	traceDuration      = 5 * time.Second // after this time the fan-out span of a write ends
	bufferedDispatches = 64              // dispatches kept while the revision of a write is unknown
	bufferedDeliveries = 256             // deliveries kept while the revision of a write is unknown
)

// WriteTracer traces the sampled writes of one resource. Without such a write it costs only
// an atomic load. Its methods may be called from any goroutine.
type WriteTracer struct {
	tracer   trace.Tracer
	resource string
	wanted   atomic.Int64 // number of pending and active writes

	mu         sync.Mutex
	pending    int                        // guarded by mu: writes that etcd has not answered yet
	active     map[object.Revision]*write // guarded by mu: answered writes that are traced
	dispatches []feed.Dispatched          // guarded by mu: the latest, while writes are pending
	deliveries []backend.Delivery         // guarded by mu: the latest, while writes are pending
}

var (
	_ backend.WriteTracer = (*WriteTracer)(nil)
	_ feed.Observer       = (*WriteTracer)(nil)
)

func newWriteTracer(tracer trace.Tracer, resource string) *WriteTracer {
	return &WriteTracer{tracer: tracer, resource: resource, active: map[object.Revision]*write{}}
}

// Wants implements [backend.WriteTracer] and [feed.Observer].
func (t *WriteTracer) Wants() bool { return t.wanted.Load() > 0 }

// Writing implements [backend.WriteTracer].
func (t *WriteTracer) Writing(ctx context.Context) func(object.Revision) {
	sampled := trace.SpanContextFromContext(ctx)
	if !sampled.IsSampled() {
		return func(object.Revision) {}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pending+len(t.active) >= maxActiveWrites {
		return func(object.Revision) {}
	}
	t.pending++
	t.wanted.Add(1)
	began := time.Now()
	return func(at object.Revision) { t.start(sampled, began, at) }
}

// start starts the fan-out span of an answered write, and adds the buffered dispatches and
// deliveries to it. Revision 0 means that nothing was written.
func (t *WriteTracer) start(parent trace.SpanContext, began time.Time, at object.Revision) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pending--; t.pending == 0 {
		defer func() { t.dispatches, t.deliveries = nil, nil }()
	}
	if at == 0 || t.active[at] != nil {
		t.wanted.Add(-1)
		return
	}
	w := newWrite(t, parent, began, at)
	t.active[at] = w
	for _, d := range t.dispatches {
		if d.Revision == at {
			w.dispatched(d)
		}
	}
	for _, d := range t.deliveries {
		w.delivered(d)
	}
	w.timer = time.AfterFunc(traceDuration, func() { t.end(at, w) })
}

// Dispatched implements [feed.Observer].
func (t *WriteTracer) Dispatched(d feed.Dispatched) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w := t.active[d.Revision]; w != nil {
		w.dispatched(d)
	} else if t.pending > 0 {
		t.dispatches = appendLatest(t.dispatches, d, bufferedDispatches)
	}
}

// Delivered implements [backend.WriteTracer].
func (t *WriteTracer) Delivered(d backend.Delivery) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range t.active {
		w.delivered(d)
	}
	if t.pending > 0 {
		t.deliveries = appendLatest(t.deliveries, d, bufferedDeliveries)
	}
}

// end ends the fan-out span of a write.
func (t *WriteTracer) end(at object.Revision, w *write) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.active[at] == w {
		delete(t.active, at)
		t.wanted.Add(-1)
		w.end()
	}
}

// close ends the fan-out spans of all writes. The caller calls it after all requests have
// ended.
func (t *WriteTracer) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for at, w := range t.active {
		w.timer.Stop()
		delete(t.active, at)
		t.wanted.Add(-1)
		w.end()
	}
}

// appendLatest appends a value to a buffer, which keeps at most the latest limit values.
func appendLatest[T any](all []T, one T, limit int) []T {
	if len(all) == limit {
		all = all[1:]
	}
	return append(all, one)
}
