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

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/backend"
)

// traces are a trail, and what comes of it.
type traces struct {
	*WriteTracer
	ended   *tracetest.SpanRecorder
	request context.Context // of a write that is sampled
}

func newTraces() *traces {
	recorder := tracetest.NewSpanRecorder()
	tracer := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)).Tracer("test")
	ctx, _ := tracer.Start(context.Background(), "request")
	return &traces{newTrail(tracer, "r"), recorder, ctx}
}

// names counts the spans that have ended, by name.
func (t *traces) names() map[string]int {
	n := map[string]int{}
	for _, s := range t.ended.Ended() {
		n[s.Name()]++
	}
	return n
}

// deliveries returns what the only fan-out says of them.
func (t *traces) deliveries(tt *testing.T) int64 {
	tt.Helper()
	for _, s := range t.ended.Ended() {
		for _, a := range s.Attributes() {
			if s.Name() == "fan-out" && a.Key == attribute.Key(deliveriesAttribute) {
				return a.Value.AsInt64()
			}
		}
	}
	tt.Fatal("there is no fan-out that has ended")
	return 0
}

func dispatched(at object.Revision) dispatch.Dispatched {
	return dispatch.Dispatched{Revision: at, Feeds: 1, Arrived: time.Now(), Applied: time.Now(), Began: time.Now(), Ended: time.Now()}
}

// delivered is a message with an event of the revision, and of others around it.
func delivered(after, at, upto object.Revision) backend.Delivery {
	return backend.Delivery{
		Watch: context.Background(), After: after, Upto: upto, Arrived: time.Now(), Sent: time.Now(),
		Shows: func(asked object.Revision) bool { return asked == at },
	}
}

// The change of a write may be everywhere before etcd has answered, or behind that.
func TestWhatHappensBeforeTheAnswerCounts(t *testing.T) {
	for name, order := range map[string]func(happens, answers func()){
		"before": func(happens, answers func()) { happens(); answers() },
		"behind": func(happens, answers func()) { answers(); happens() },
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTraces()
			done := tr.Writing(tr.request)
			if !tr.Wants() {
				t.Fatal("nobody wants to know what becomes of a sampled write")
			}
			order(func() {
				tr.Dispatched(dispatched(6))
				tr.Dispatched(dispatched(7))
				tr.Delivered(delivered(5, 7, 8))
				tr.Delivered(delivered(5, 6, 8)) // passes by revision 7
				tr.Delivered(delivered(7, 8, 8)) // comes behind it
				tr.Delivered(delivered(5, 7, 6)) // does not come so far
			}, func() { done(7) })
			tr.close()
			if n := tr.names(); n["apply"] != 1 || n["dispatch"] != 1 || n["deliver"] != 1 || n["fan-out"] != 1 {
				t.Errorf("spans: %v", n)
			}
			if n := tr.deliveries(t); n != 1 {
				t.Errorf("%d deliveries, want 1", n)
			}
			if tr.Wants() {
				t.Error("somebody still wants to know")
			}
		})
	}
}

// Nothing is wanted, and nothing kept, of writes that are not sampled, that fail, or
// that are too many.
func TestFollowingIsBounded(t *testing.T) {
	tr := newTraces()
	done := tr.Writing(context.Background())
	if tr.Wants() {
		t.Error("a write that is not sampled is followed")
	}
	done(1)
	tr.Writing(tr.request)(0) // failed
	if tr.Wants() {
		t.Error("a write that has failed is followed")
	}
	tr.Dispatched(dispatched(1))
	tr.Delivered(delivered(0, 1, 1))
	if len(tr.rounds.all)+len(tr.deliveriesKept()) != 0 {
		t.Error("things are remembered for nobody")
	}
	for at := range object.Revision(2 * maxFollowed) {
		tr.Writing(tr.request)(at + 1)
	}
	if n := len(tr.followed); n != maxFollowed {
		t.Errorf("%d writes are followed", n)
	}
	for range 2 * maxDeliverSpans {
		tr.Delivered(delivered(0, 1, 1))
	}
	tr.close()
	if n := tr.names(); n["fan-out"] != maxFollowed || n["deliver"] != maxDeliverSpans {
		t.Errorf("spans: %v", n)
	}
}

func (t *traces) deliveriesKept() []backend.Delivery { return t.WriteTracer.deliveries.all }

// What is remembered while an answer is awaited has an end.
func TestAwaitingIsBounded(t *testing.T) {
	tr := newTraces()
	done := tr.Writing(tr.request)
	const many = 1000
	for at := range object.Revision(many) {
		tr.Dispatched(dispatched(at + 1))
		tr.Delivered(delivered(at, at+1, at+1))
	}
	if r, d := len(tr.rounds.all), len(tr.deliveriesKept()); r != keptRounds || d != keptDeliveries {
		t.Errorf("%d rounds and %d deliveries are remembered", r, d)
	}
	done(many) // the latest are there
	tr.close()
	if n := tr.names(); n["dispatch"] != 1 || n["deliver"] != 1 {
		t.Errorf("spans: %v", n)
	}
	if len(tr.rounds.all)+len(tr.deliveriesKept()) != 0 {
		t.Error("something is still remembered")
	}
}

// A write is followed for a while.
func TestFollowingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTraces()
		tr.Writing(tr.request)(7)
		time.Sleep(linger - 1)
		if !tr.Wants() {
			t.Error("it ends early")
		}
		time.Sleep(2 * time.Nanosecond)
		synctest.Wait()
		if tr.Wants() || tr.names()["fan-out"] != 1 {
			t.Error("it goes on")
		}
		tr.close()
	})
}

// While nothing is followed, asking costs no memory.
func TestAskingCostsNothing(t *testing.T) {
	tr := newTraces()
	if n := testing.AllocsPerRun(100, func() { _ = tr.Wants() }); n != 0 {
		t.Errorf("it allocates %v times", n)
	}
	if !trace.SpanContextFromContext(tr.request).IsSampled() {
		t.Error("the request of these tests is not sampled")
	}
}
