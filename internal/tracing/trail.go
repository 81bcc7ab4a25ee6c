package tracing

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/backend"
)

// The bounds of what following costs. All are conventions: a trace is to show where
// time goes, and sixteen of ten thousand deliveries show that.
const (
	maxFollowed     = 64              // writes of a resource at the same time; others have no fan-out
	maxDeliverSpans = 16              // of a write; others are counted
	linger          = 5 * time.Second // a write is followed for so long
	keptRounds      = 64              // of what was dispatched while the revision of a write was not known
	keptDeliveries  = 256             // of what was delivered meanwhile
)

// WriteTracer follows the sampled writes of one resource. While there are none, asking
// whether there are is all that it costs.
type WriteTracer struct {
	tracer   trace.Tracer
	resource string
	wanted   atomic.Int64 // writes that are awaited or followed

	mu         sync.Mutex
	awaited    int                        // guarded by mu: writes that etcd has not answered yet
	followed   map[object.Revision]*write // guarded by mu
	rounds     ring[dispatch.Dispatched]  // guarded by mu: the latest, while there are awaited writes
	deliveries ring[backend.Delivery]     // guarded by mu: the same
}

var (
	_ backend.WriteTracer = (*WriteTracer)(nil)
	_ dispatch.Observer   = (*WriteTracer)(nil)
)

func newTrail(tracer trace.Tracer, resource string) *WriteTracer {
	return &WriteTracer{
		tracer: tracer, resource: resource, followed: map[object.Revision]*write{},
		rounds: ring[dispatch.Dispatched]{limit: keptRounds}, deliveries: ring[backend.Delivery]{limit: keptDeliveries},
	}
}

// Wants implements [server.Trail] and [dispatch.Observer].
func (t *WriteTracer) Wants() bool { return t.wanted.Load() > 0 }

// Writing implements [server.Trail].
func (t *WriteTracer) Writing(ctx context.Context) func(object.Revision) {
	sampled := trace.SpanContextFromContext(ctx)
	if !sampled.IsSampled() {
		return func(object.Revision) {}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.awaited+len(t.followed) >= maxFollowed {
		return func(object.Revision) {}
	}
	t.awaited++
	t.wanted.Add(1)
	began := time.Now()
	return func(at object.Revision) { t.written(sampled, began, at) }
}

// written begins to follow a write, and gives it what has happened already.
func (t *WriteTracer) written(parent trace.SpanContext, began time.Time, at object.Revision) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.awaited--; t.awaited == 0 {
		defer t.rounds.clear()
		defer t.deliveries.clear()
	}
	if at == 0 || t.followed[at] != nil {
		t.wanted.Add(-1)
		return
	}
	w := newWrite(t, parent, began, at)
	t.followed[at] = w
	for _, d := range t.rounds.all {
		if d.Revision == at {
			w.dispatched(d)
		}
	}
	for _, d := range t.deliveries.all {
		w.delivered(d)
	}
	w.timer = time.AfterFunc(linger, func() { t.end(at, w) })
}

// Dispatched implements [dispatch.Observer].
func (t *WriteTracer) Dispatched(d dispatch.Dispatched) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w := t.followed[d.Revision]; w != nil {
		w.dispatched(d)
	} else if t.awaited > 0 {
		t.rounds.add(d)
	}
}

// Delivered implements [server.Trail].
func (t *WriteTracer) Delivered(d backend.Delivery) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range t.followed {
		w.delivered(d)
	}
	if t.awaited > 0 {
		t.deliveries.add(d)
	}
}

// end stops following a write.
func (t *WriteTracer) end(at object.Revision, w *write) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.followed[at] == w {
		delete(t.followed, at)
		t.wanted.Add(-1)
		w.end()
	}
}

// close stops following. Requests have ended.
func (t *WriteTracer) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for at, w := range t.followed {
		w.timer.Stop()
		delete(t.followed, at)
		t.wanted.Add(-1)
		w.end()
	}
}

// ring remembers the latest of what is added to it.
type ring[T any] struct {
	limit int
	all   []T
	next  int // where the oldest is, once it is full
}

func (r *ring[T]) add(one T) {
	if len(r.all) < r.limit {
		r.all = append(r.all, one)
		return
	}
	r.all[r.next] = one
	r.next = (r.next + 1) % r.limit
}

func (r *ring[T]) clear() { r.all, r.next = nil, 0 }
