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
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/wire"
	"github.com/fanoutd/fanoutd/test/cachertest"
	"github.com/fanoutd/fanoutd/test/poll"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// heldEncoder blocks the dispatcher while it encodes an event.
type heldEncoder struct {
	wire.Encoder
	reached chan struct{}
	release chan struct{}
}

func (e *heldEncoder) AppendEvent(b []byte, event object.Event, p object.Projection) []byte {
	e.reached <- struct{}{}
	<-e.release
	return e.Encoder.AppendEvent(b, event, p)
}

// written is a store that only the metrics read.
type written struct{ backend.Store }

func (written) OmittedKeys() int { return 0 }

// noRoom is a sink that never has room.
type noRoom struct{ dispatch.StreamSink }

func (noRoom) HasRoom() bool { return false }

// The metrics show a blocked dispatcher, and collecting them does not block.
func TestMetricsShowABlockedDispatcher(t *testing.T) {
	codec, err := object.CodecByName("raw")
	if err != nil {
		t.Fatal(err)
	}
	memory := cachertest.NewMemory()
	held := &heldEncoder{reached: make(chan struct{}), release: make(chan struct{})}
	log := slog.New(slog.DiscardHandler)
	c := cacher.New(cacher.Config{Resource: "r", Store: memory, Codec: codec, Preencode: wire.Preencode, Log: log})
	d := dispatch.New(feed.Config{Source: c, Encoder: held})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { c.Run(ctx) })
	running.Go(func() { d.Run(ctx) })
	<-c.Ready()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector(func(s scrape) {
		s.resources([]backend.Resource{{Name: "r", Codec: codec, Cacher: c, Dispatcher: d, Store: written{}}})
	}))
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
	for d.Stats().DispatchedUpTo.Revision == 0 { // wait for its first round
		if age, _, _ := look(); age != 0 {
			t.Fatalf("got a queue age of %v s, want 0", age)
		}
	}
	workers := sendqueue.Start(1)
	defer workers.Stop()
	s := dispatch.NewStream(dispatch.StreamConfig{Queue: workers.NewQueue(), Sink: noRoom{}})
	var serving sync.WaitGroup
	defer serving.Wait()
	defer s.Abort(context.Canceled)
	serving.Go(func() { _ = s.Serve() })
	s.Start(d, &dispatch.StreamWatch{}, feed.Interest{}, catchup.FromNow(c.State().Position()), dispatch.Options{})
	at := memory.Put("k", "v")
	<-held.reached
	if age, through, revision := look(); age <= 0 || through >= revision || revision != float64(at) {
		t.Errorf("got dispatch revision %v of %v and queue age %v s, want a waiting change", through, revision, age)
	}
	close(held.release)
	poll.Until(t, "the event is dispatched", func() bool { return d.Stats().DispatchedUpTo.Revision >= at })
	if age, through, _ := look(); age != 0 || through != float64(at) {
		t.Errorf("got dispatch revision %v and queue age %v s, want %v and 0", through, age, at)
	}
}
