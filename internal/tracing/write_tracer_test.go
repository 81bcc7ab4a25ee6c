package tracing

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/backend"
)

// traces is a WriteTracer and the spans that it has ended.
type traces struct {
	*WriteTracer
	ended   *tracetest.SpanRecorder
	request context.Context // of a sampled write
}

func newTraces() *traces {
	recorder := tracetest.NewSpanRecorder()
	tracer := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)).Tracer("test")
	ctx, _ := tracer.Start(context.Background(), "request")
	return &traces{newWriteTracer(tracer, "r"), recorder, ctx}
}

// names returns the number of ended spans by name.
func (t *traces) names() map[string]int {
	n := map[string]int{}
	for _, s := range t.ended.Ended() {
		n[s.Name()]++
	}
	return n
}

// deliveries returns the number of deliveries in the only fan-out span.
func (t *traces) deliveries(tt *testing.T) int64 {
	tt.Helper()
	for _, s := range t.ended.Ended() {
		for _, a := range s.Attributes() {
			if s.Name() == "fan-out" && a.Key == attribute.Key(deliveriesAttribute) {
				return a.Value.AsInt64()
			}
		}
	}
	tt.Fatal("no fan-out span has ended")
	return 0
}

func dispatched(at object.Revision) feed.Dispatched {
	return feed.Dispatched{Revision: at, Feeds: 1, Arrived: time.Now(), Applied: time.Now(), Began: time.Now(), Ended: time.Now()}
}

// delivered returns a message for (after, upto] with an event of the revision at.
func delivered(after, at, upto object.Revision) backend.Delivery {
	return backend.Delivery{
		Watch: context.Background(), After: after, Upto: upto, Arrived: time.Now(), Sent: time.Now(),
		Shows: func(asked object.Revision) bool { return asked == at },
	}
}

// A change may be dispatched and delivered before or after etcd answers the write.
func TestDeliveriesBeforeTheAnswerAreTraced(t *testing.T) {
	for name, order := range map[string]func(happens, answers func()){
		"before": func(happens, answers func()) { happens(); answers() },
		"after":  func(happens, answers func()) { answers(); happens() },
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTraces()
			done := tr.Writing(tr.request)
			if !tr.Wants() {
				t.Fatal("got Wants false for a sampled write, want true")
			}
			order(func() {
				tr.Dispatched(dispatched(6))
				tr.Dispatched(dispatched(7))
				tr.Delivered(delivered(5, 7, 8))
				tr.Delivered(delivered(5, 6, 8)) // has no event of revision 7
				tr.Delivered(delivered(7, 8, 8)) // starts after revision 7
				tr.Delivered(delivered(5, 7, 6)) // ends before revision 7
			}, func() { done(7) })
			tr.close()
			if n := tr.names(); n["apply"] != 1 || n["dispatch"] != 1 || n["deliver"] != 1 || n["fan-out"] != 1 {
				t.Errorf("got the spans %v, want one of each kind", n)
			}
			if n := tr.deliveries(t); n != 1 {
				t.Errorf("got %d deliveries, want 1", n)
			}
			if tr.Wants() {
				t.Error("got Wants true after the last write, want false")
			}
		})
	}
}

// Unsampled writes, failed writes and writes above the limit are not traced and need no
// memory.
func TestActiveWritesAreBounded(t *testing.T) {
	tr := newTraces()
	done := tr.Writing(context.Background())
	if tr.Wants() {
		t.Error("an unsampled write is traced")
	}
	done(1)
	tr.Writing(tr.request)(0) // failed
	if tr.Wants() {
		t.Error("a failed write is traced")
	}
	tr.Dispatched(dispatched(1))
	tr.Delivered(delivered(0, 1, 1))
	if len(tr.dispatches)+len(tr.buffered()) != 0 {
		t.Error("dispatches or deliveries are buffered without a pending write")
	}
	for at := range object.Revision(2 * maxActiveWrites) {
		tr.Writing(tr.request)(at + 1)
	}
	if n := len(tr.active); n != maxActiveWrites {
		t.Errorf("got %d traced writes, want %d", n, maxActiveWrites)
	}
	for range 2 * maxDeliverSpans {
		tr.Delivered(delivered(0, 1, 1))
	}
	tr.close()
	if n := tr.names(); n["fan-out"] != maxActiveWrites || n["deliver"] != maxDeliverSpans {
		t.Errorf("got the spans %v", n)
	}
}

func (t *traces) buffered() []backend.Delivery { return t.WriteTracer.deliveries }

// The buffers for pending writes are bounded and keep the latest values.
func TestBuffersAreBounded(t *testing.T) {
	tr := newTraces()
	done := tr.Writing(tr.request)
	const many = 1000
	for at := range object.Revision(many) {
		tr.Dispatched(dispatched(at + 1))
		tr.Delivered(delivered(at, at+1, at+1))
	}
	if r, d := len(tr.dispatches), len(tr.buffered()); r != bufferedDispatches || d != bufferedDeliveries {
		t.Errorf("got %d buffered dispatches and %d deliveries, want %d and %d", r, d, bufferedDispatches, bufferedDeliveries)
	}
	done(many) // the buffers contain the latest revision
	tr.close()
	if n := tr.names(); n["dispatch"] != 1 || n["deliver"] != 1 {
		t.Errorf("got the spans %v", n)
	}
	if len(tr.dispatches)+len(tr.buffered()) != 0 {
		t.Error("the buffers are not empty after the last pending write")
	}
}

// The trace of a write ends after traceDuration.
func TestTraceOfAWriteEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTraces()
		tr.Writing(tr.request)(7)
		time.Sleep(traceDuration - 1)
		if !tr.Wants() {
			t.Error("the trace ended early")
		}
		time.Sleep(2 * time.Nanosecond)
		synctest.Wait()
		if tr.Wants() || tr.names()["fan-out"] != 1 {
			t.Error("the trace did not end in time")
		}
		tr.close()
	})
}

func TestWantsDoesNotAllocate(t *testing.T) {
	tr := newTraces()
	if n := testing.AllocsPerRun(100, func() { _ = tr.Wants() }); n != 0 {
		t.Errorf("got %v allocations, want none", n)
	}
	if !trace.SpanContextFromContext(tr.request).IsSampled() {
		t.Error("the request of these tests is not sampled")
	}
}
