package watch

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/frames"
	"github.com/fanoutd/fanoutd/internal/server/grpcmsg"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/internal/server/registry"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
	"github.com/fanoutd/fanoutd/internal/server/transport"
	"github.com/fanoutd/fanoutd/internal/wire"
	"github.com/fanoutd/fanoutd/test/cachertest"
	"github.com/fanoutd/fanoutd/test/poll"
)

// oneEvent is a message with one event.
func oneEvent() feed.Message {
	o := wire.Preencode(object.Decoded{Key: "key", Value: make([]byte, 200), CreateRevision: 7, ModRevision: 7, Version: 1})
	return feed.Message{
		Events: [][]byte{wire.Encoder{}.AddedEvent(o, object.Projection{})}, Count: 1, Arrived: time.Now(),
		Header: object.Header{Kind: object.Live, Position: object.Position{Epoch: "epoch", Revision: 7}},
	}
}

func TestCountingAllocatesNothing(t *testing.T) {
	m, now := oneEvent(), time.Now()
	var counts registry.Counters
	if n := testing.AllocsPerRun(100, func() {
		counts.Note(&m, 1, 200, false, now)
	}); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}

// noStats is a stats handler that does nothing. gRPC nevertheless allocates an object for it
// for each message.
type noStats struct{}

func (noStats) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (noStats) HandleRPC(context.Context, stats.RPCStats)                         {}
func (noStats) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (noStats) HandleConn(context.Context, stats.ConnStats)                       {}

// noTraces is a write tracer that samples nothing.
type noTraces struct{}

func (noTraces) Writing(context.Context) func(object.Revision) { return func(object.Revision) {} }
func (noTraces) Wants() bool                                   { return false }
func (noTraces) Delivered(backend.Delivery)                    {}

// BenchmarkMessage sends a live message to a client that reads: without counters, with counters,
// and with a tracer that samples nothing.
func BenchmarkMessage(b *testing.B) {
	for _, c := range []struct {
		name    string
		counted bool
		tracer  backend.WriteTracer
		stats   stats.Handler
	}{
		{"uncounted", false, nil, nil},
		{"counted", true, nil, nil},
		{"tracing", true, noTraces{}, noStats{}},
	} {
		b.Run(c.name, func(b *testing.B) {
			stream := openStream(b, c.stats)
			h, counts := &handler{}, &registry.Counters{}
			h.init(stream)
			h.sink.tracer = c.tracer
			m, now := oneEvent(), time.Now()
			p := grpcmsg.Encoded(&feed.Batch{Message: m})
			b.ReportAllocs()
			for b.Loop() {
				if err := stream.SendMsg(p); err != nil {
					b.Fatal(err)
				}
				if c.counted {
					h.sink.trace(&feed.Batch{Message: m}, p.Size(), 6)
					counts.Note(&m, 1, p.Size(), false, now)
				}
			}
		})
	}
}

// BenchmarkCounting counts a bookmark and a live message, without sending them.
func BenchmarkCounting(b *testing.B) {
	for _, kind := range []object.MessageKind{object.Bookmark, object.Live} {
		b.Run(fmt.Sprintf("kind=%d", kind), func(b *testing.B) {
			m, now := oneEvent(), time.Now()
			var counts registry.Counters
			m.Header.Kind = kind
			b.ReportAllocs()
			for b.Loop() {
				counts.Note(&m, 1, 200, false, now)
			}
		})
	}
}

// openStream returns the server's end of a stream whose client reads.
func openStream(b *testing.B, observer stats.Handler) grpc.ServerStream {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	options := []grpc.ServerOption{grpc.ForceServerCodecV2(grpcmsg.NewGRPCCodec()), grpc.WriteBufferSize(transport.WriteBufferSize)}
	if observer != nil {
		options = append(options, grpc.StatsHandler(observer))
	}
	srv := grpc.NewServer(options...)
	streams, done := make(chan grpc.ServerStream), make(chan struct{})
	srv.RegisterService(&grpc.ServiceDesc{
		ServiceName: "s", Streams: []grpc.StreamDesc{{StreamName: "m", ServerStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
			streams <- s
			<-done
			return nil
		}}},
	}, nil)
	var running sync.WaitGroup
	running.Go(func() { _ = srv.Serve(listener) })
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	client, err := conn.NewStream(context.Background(), &grpc.StreamDesc{ServerStreams: true}, "/s/m")
	if err != nil {
		b.Fatal(err)
	}
	running.Go(func() {
		for m := new(fanoutv1.WatchResponse); err == nil; {
			err = client.RecvMsg(m)
		}
		if err != io.EOF {
			b.Error(err)
		}
	})
	b.Cleanup(func() {
		close(done)
		srv.GracefulStop()
		conn.Close()
		running.Wait()
	})
	return <-streams
}

// heldSink is a sink with room for a number of messages.
type heldSink struct {
	*sink
	room atomic.Int32
}

func (s *heldSink) HasRoom() bool  { return s.room.Load() > 0 }
func (*heldSink) TakesBatch() bool { return false }

func (s *heldSink) TrySend(r *dispatch.Response, now time.Time) error {
	if e := messageOf(r); e != nil {
		s.room.Add(-1)
		s.counters.Note(&e.Batch.Message, 1, 100, e.First, now)
	}
	return nil
}

// watched returns a registry with watches that have no connection, and their store. Each watch has
// received its first message, and an event waits for it.
func watched(tb testing.TB, watches int) (*registry.Registry, *cachertest.Memory, map[*watch]*heldSink) {
	tb.Helper()
	codec, err := object.CodecByName("raw")
	if err != nil {
		tb.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	memory := cachertest.NewMemory()
	c := cacher.New(cacher.Config{Resource: "r", Store: memory, Codec: codec, Preencode: wire.Preencode, Log: log})
	d := dispatch.New(feed.Config{Source: c, Encoder: wire.Encoder{}})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	running.Go(func() { d.Run(ctx) })
	r := registry.New(registry.Config{
		Resources:    backend.Resources{"r": {Name: "r", Codec: codec, Cacher: c, Dispatcher: d}},
		Interceptors: &rpc.Interceptors{Limits: quota.New(quota.Limits{}, log), Rights: &rpc.Rights{}},
	})
	tb.Cleanup(func() {
		cancel()
		running.Wait()
		r.Stop()
	})
	<-c.Ready()
	now, sinks := c.State().Position(), map[*watch]*heldSink{}
	for range watches {
		h := &handler{registry: r}
		h.init(nil)
		e, caller := &h.watch, peer.NewContext(tb.Context(), &peer.Peer{Addr: &net.TCPAddr{}})
		h.ctx.Context = caller
		e.caller.Init(caller, false)
		if err := r.Register(e); err != nil {
			tb.Fatal(err)
		}
		if _, err := r.AdmitWatch(caller, e, &fanoutv1.WatchRequest{Resource: "r"}); err != nil {
			tb.Fatal(err)
		}
		h.sink.counters = r.Counters("r", 0)
		s := &heldSink{sink: &h.sink}
		s.room.Store(1)
		h.open(dispatch.StreamConfig{Queue: r.Queues.Of(frames.NewConn(nil, nil)), Sink: s, Solo: true})
		if err := r.Begin(e); err != nil {
			tb.Fatal(err)
		}
		h.start(func() {
			h.out.Start(d, &e.StreamWatch, feed.Interest{}, catchup.FromNow(now), dispatch.Options{})
		})
		running.Go(func() { _ = h.out.Serve() })
		tb.Cleanup(func() { h.out.Abort(context.Canceled) })
		poll.Until(tb, "the first message is sent", func() bool { return e.Progress().Messages == 1 })
		sinks[e] = s
	}
	// An event waits for all of them.
	memory.Put("k", "v")
	poll.Until(tb, "the dispatcher has seen the change", func() bool { return d.Stats().DispatchedUpTo.Revision >= memory.Now() })
	return r, memory, sinks
}

// The statistics of ten thousand watches take as many allocations as those of ten. Only one array
// is larger.
func TestStatsAllocateNothingForEachWatch(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	allocations := func(watches int) float64 {
		srv, _, _ := watched(t, watches)
		if s := srv.Stats()["r"]; s.Live+s.CatchingUp != watches || s.Messages != int64(watches) {
			t.Fatalf("got %+v, want %d watches", s, watches)
		}
		return testing.AllocsPerRun(5, func() { srv.Stats() })
	}
	if few, many := allocations(10), allocations(10_000); many > few+5 {
		t.Errorf("got %v allocations for ten watches and %v for ten thousand", few, many)
	}
}

// BenchmarkStats collects the statistics of many watches, as a scrape does.
func BenchmarkStats(b *testing.B) {
	for _, watches := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("watches=%d", watches), func(b *testing.B) {
			srv, _, _ := watched(b, watches)
			b.ReportAllocs()
			for b.Loop() {
				srv.Stats()
			}
		})
	}
}
