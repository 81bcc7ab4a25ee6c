package metrics

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/wire"
	"github.com/fanoutd/fanoutd/test/cachertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// heldEncoder holds the dispatcher in the middle of a round.
type heldEncoder struct {
	wire.Encoder
	reached chan struct{}
	release chan struct{}
}

func (e *heldEncoder) AppendEvent(b []byte, event object.Event, v object.Projection) []byte {
	e.reached <- struct{}{}
	<-e.release
	return e.Encoder.AppendEvent(b, event, v)
}

// A dispatcher that does not come on is seen, and does not hold up who looks.
func TestADispatcherThatIsBehindIsSeen(t *testing.T) {
	codec, err := object.CodecByName("raw")
	if err != nil {
		t.Fatal(err)
	}
	memory := cachertest.NewMemory()
	held := &heldEncoder{reached: make(chan struct{}), release: make(chan struct{})}
	log := slog.New(slog.DiscardHandler)
	c := cacher.New(cacher.Config{Resource: "r", Store: memory, Codec: codec, Preencode: wire.Preencode, Log: log})
	d := dispatch.New(dispatch.Config{Source: c, Encoder: held})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { c.Run(ctx) })
	running.Go(func() { d.Run(ctx) })
	<-c.Ready()
	registry := prometheus.NewRegistry()
	registry.MustRegister(newResourceCollector([]backend.Resource{{Name: "r", Codec: codec, Cacher: c, Dispatcher: d}}))
	look := func() (age, through, revision float64) {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			v := f.GetMetric()[0].GetGauge().GetValue()
			switch f.GetName() {
			case "fanoutd_dispatch_queue_age_seconds":
				age = v
			case "fanoutd_dispatch_revision":
				through = v
			case "fanoutd_cacher_revision":
				revision = v
			}
		}
		return age, through, revision
	}
	for d.Stats().Through.Revision == 0 { // what happens before its first round is in no log
		if age, _, _ := look(); age != 0 {
			t.Fatalf("nothing waits, for %v s", age)
		}
	}
	w := d.Watch(dispatch.Interest{}, dispatch.FromNow(c.State().Position()), dispatch.Options{})
	defer w.Close()
	at := memory.Put("k", "v")
	<-held.reached
	if age, through, revision := look(); age <= 0 || through >= revision || revision != float64(at) {
		t.Errorf("revision %v is dispatched of %v, something waits for %v s", through, revision, age)
	}
	close(held.release)
	for range 2 { // the bookmark and the event
		if _, err := w.Next(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if age, through, _ := look(); age != 0 || through != float64(at) {
		t.Errorf("revision %v is dispatched of %v, something waits for %v s", through, at, age)
	}
}
