package server_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/race"
)

// The tests write values of some KiB to a few keys, many at a time.
const (
	slowKeys  = 200
	slowBatch = 25
	slowValue = 2 << 10

	slowMessage = 64 << 10 // bytes of one message
)

// mixedReaders is a server whose watchers share one interest: healthy watchers, which read
// all the time, and slow ones, which a test adds.
type mixedReaders struct {
	*ledger
	here    *fanoutv1.Position // where all watchers begin
	healthy []*healthy
	batches int
	want    digest // of the events for each healthy watcher
}

// digest identifies a sequence of events by their number and a checksum.
type digest struct {
	events int
	sum    uint32
}

func (d *digest) add(kind fanoutv1.Event_Type, key, text string, at int64) {
	d.events++
	b := binary.BigEndian.AppendUint64([]byte(key), uint64(at))
	d.sum = crc32.Update(d.sum, crc32.MakeTable(crc32.Castagnoli), append(append(b, byte(kind)), text...))
}

// healthy is a watcher that reads all the time. It keeps no events, because the tests
// measure the memory of the server in the same process.
type healthy struct {
	mu       sync.Mutex
	received digest        // guarded by mu
	at       int64         // guarded by mu
	catchUps int           // guarded by mu
	err      error         // guarded by mu; how the stream ended
	changed  chan struct{} // guarded by mu; closed and replaced for every message
}

func (h *healthy) read(stream fanoutv1.FanoutService_WatchClient) {
	for {
		m, err := stream.Recv()
		h.mu.Lock()
		h.err = err
		if m.GetKind() == fanoutv1.WatchResponse_KIND_CATCH_UP_BEGIN {
			h.catchUps++
		}
		for _, e := range m.GetEvents() {
			h.received.add(e.GetType(), e.GetObject().GetKey(), e.GetObject().GetText(), e.GetRevision())
		}
		h.at = max(h.at, m.GetPosition().GetRevision())
		close(h.changed)
		h.changed = make(chan struct{})
		h.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// reach waits until the watcher is at the revision.
func (h *healthy) reach(ctx context.Context, t *testing.T, revision int64) {
	t.Helper()
	for {
		h.mu.Lock()
		at, err, changed := h.at, h.err, h.changed
		h.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		if at >= revision {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("got a healthy watcher at revision %d, want %d", at, revision)
		}
	}
}

// startHealthy starts a server whose window has the given number of changes, and count
// healthy watchers. Nothing else runs in the process.
func startHealthy(ctx context.Context, t *testing.T, count, window int, encoder feed.Encoder) *mixedReaders {
	t.Helper()
	in := startOver(t, openEtcdAlone(t, store.EmbeddedConfig{}), settings{
		encoder: encoder, logBytes: 1 << 20, messageBytes: slowMessage,
		window: cacher.WindowLimits{MinChanges: window, MaxChanges: window},
	})
	n := &mixedReaders{ledger: in.ledger(config)}
	n.here = in.list(ctx, t, &fanoutv1.ListRequest{Resource: config}, nothing).at
	const streams = 9 // per connection
	for i := 0; i < count; i += streams {
		reads := fanoutv1.NewFanoutServiceClient(dial(t, in.address))
		for range min(streams, count-i) {
			stream, err := reads.Watch(ctx, &fanoutv1.WatchRequest{Resource: config, Begin: after(n.here)})
			if err != nil {
				t.Fatal(err)
			}
			h := &healthy{changed: make(chan struct{})}
			n.healthy = append(n.healthy, h)
			go h.read(stream)
		}
	}
	return n
}

// write writes batches of changes and returns when all healthy watchers have received
// them. The writer is at most a few batches ahead of the healthy watchers, and does not
// wait for slow ones.
func (n *mixedReaders) write(ctx context.Context, t *testing.T, batches int) {
	t.Helper()
	const ahead = 4
	var revisions []int64
	for range batches {
		if i := len(revisions) - ahead; i >= 0 {
			n.reach(ctx, t, revisions[i])
		}
		texts, before := map[string]*string{}, map[object.Key]*object.Decoded{}
		for i := range slowBatch {
			number := n.batches*slowBatch + i
			key := fmt.Sprintf("key %03d", number%slowKeys)
			before[object.Key(key)] = n.objects[object.Key(key)]
			if texts[key] = nil; number%7 > 0 || before[object.Key(key)] == nil {
				texts[key] = new(fmt.Sprintf("%08d%s", number, strings.Repeat("x", slowValue)))
			}
		}
		known := len(n.changes)
		revisions = append(revisions, n.ledger.write(ctx, t, texts))
		n.batches++
		for _, c := range n.changes[known:] {
			kind, shown := fanoutv1.Event_TYPE_MODIFIED, c.New
			switch old := before[c.Key]; {
			case c.New == nil:
				kind, shown = fanoutv1.Event_TYPE_DELETED, old
			case old == nil:
				kind = fanoutv1.Event_TYPE_ADDED
			}
			n.want.add(kind, string(c.Key), string(shown.Value), n.at)
		}
	}
	n.reach(ctx, t, n.at)
}

func (n *mixedReaders) reach(ctx context.Context, t *testing.T, revision int64) {
	t.Helper()
	for _, h := range n.healthy {
		h.reach(ctx, t, revision)
	}
}

// writeFor writes batches for the given time and returns their number. Before each batch
// it waits until all healthy watchers have received the one before.
func (n *mixedReaders) writeFor(ctx context.Context, t *testing.T, duration time.Duration) int {
	t.Helper()
	// More time means more batches.
	before, end := n.batches, time.After(duration)
	for {
		n.write(ctx, t, 1)
		select {
		case <-end:
			return n.batches - before
		default:
		}
	}
}

// wantUnharmed checks that each healthy watcher has received all events in order, and has
// caught up only once, at the beginning.
func (n *mixedReaders) wantUnharmed(t *testing.T) {
	t.Helper()
	for i, h := range n.healthy {
		h.mu.Lock()
		got, catchUps := h.received, h.catchUps
		h.mu.Unlock()
		if got != n.want || catchUps != 1 {
			t.Errorf("healthy watcher %d: got %+v after %d catch-ups, want %+v after 1", i, got, catchUps, n.want)
		}
	}
}

// heap returns the bytes of memory that are in use.
func heap() int64 {
	// A sync.Pool frees its content at the second collection.
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// stuck is a watcher that stops reading as soon as the server has registered it.
type stuck struct {
	*rawStream
	request *fanoutv1.WatchRequest
	closed  bool // reads from the socket, but its flow-control window is small; otherwise reads nothing
}

// startStuck starts a stuck watcher. Every second one has a closed window, and half of
// them ask for the latest state only.
func (n *mixedReaders) startStuck(ctx context.Context, t *testing.T, i int, request *fanoutv1.WatchRequest) *stuck {
	t.Helper()
	s := &stuck{request: request, closed: i%2 == 0}
	s.request.Resource = config
	if i%4 < 2 {
		s.request.Delivery = fanoutv1.Delivery_DELIVERY_LATEST
	}
	if s.closed {
		s.rawStream = openRaw(ctx, t, n.address, s.request, 4<<10)
		s.readFrames()
	} else {
		s.rawStream = openRaw(ctx, t, n.address, s.request, wideOpen)
	}
	return s
}

// wantCaughtUp checks the events that the watcher received after it was stuck, and the
// kinds of its catch-ups.
func (s *stuck) wantCaughtUp(t *testing.T, all []*fanoutv1.WatchResponse, truth *check.Truth, want ...fanoutv1.WatchResponse_CatchUp) {
	t.Helper()
	if got := kindsIn(all); !slices.Equal(want, got) {
		t.Errorf("%v: got catch-ups of kinds %v, want %v", s.request, got, want)
	}
	begin := s.request.GetAfter()
	h := check.History{
		Watcher: fmt.Sprint("the watcher of ", s.request),
		Latest:  s.request.GetDelivery() == fanoutv1.Delivery_DELIVERY_LATEST,
		Streams: []check.Stream{streamOf(t, check.After, begin, all)},
	}
	if err := check.Validate(&h, truth); err != nil {
		t.Error(err)
	}
}

// A tenth of the watchers do not read. The others receive every change in order, and
// memory does not grow with the changes that the tenth misses. When they read again they
// catch up: with the events (REPLAY) if the window has them, otherwise with the
// difference (DELTA).
func TestBoundedAndIsolatedFromReadersThatStop(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	watchers, changes, more := 100, 500, 8
	if race.Enabled {
		watchers, changes = 50, 250
	}
	remembered := changes + changes/10
	held := map[int]int64{}
	for _, times := range []int{1, more} {
		t.Run(fmt.Sprint(times, " times the changes"), func(t *testing.T) {
			ctx := within(t)
			n := startHealthy(ctx, t, watchers*9/10, remembered, nil)
			var all []*stuck
			for i := range watchers / 10 {
				all = append(all, n.startStuck(ctx, t, i, &fanoutv1.WatchRequest{Begin: after(n.here)}))
			}
			n.write(ctx, t, times*changes/slowBatch)
			while := heap()
			n.wantUnharmed(t)

			truth := n.truth(ctx, t, check.Conditions{Window: remembered, Tombstones: 100_000, MessageBytes: slowMessage})
			for _, s := range all {
				if s.closed {
					inStream := []fanoutv1.WatchResponse_CatchUp{fanoutv1.WatchResponse_CATCH_UP_REPLAY}
					if times > 1 {
						inStream = append(inStream, fanoutv1.WatchResponse_CATCH_UP_DELTA)
					}
					s.grant(t, 1<<30)
					received, err := s.await(ctx, t, "the watcher has caught up", func(s *rawStream) bool { return reached(n.at)(s.all) })
					if err != nil {
						t.Error(err)
					}
					s.wantCaughtUp(t, received, truth, inStream...)
					s.forget()
					continue
				}
				// The server may already have dropped a connection that reads nothing, so
				// this watcher resumes on a new one.
				if err := s.conn.Close(); err != nil {
					t.Error(err)
				}
				again := fanoutv1.WatchResponse_CATCH_UP_REPLAY
				if times > 1 {
					again = fanoutv1.WatchResponse_CATCH_UP_DELTA
				}
				passing, leave := context.WithCancel(ctx)
				received := n.watch(passing, t, s.request).collect().await(ctx, t, reached(n.at))
				leave()
				s.wantCaughtUp(t, received, truth, again)
			}
			n.write(ctx, t, 1)
			held[times] = while - heap()
			t.Logf("after %d changes that %d watchers did not read, %d KiB were in use; these watchers held %d KiB", times*changes, len(all), while>>10, held[times]>>10)
			runtime.KeepAlive(truth)
		})
	}
	// On a busy machine the server holds, for each of them, a waiting message and two earlier
	// ones in the transport. It also holds the rest of each segment that contains a part of
	// them, and buffers. In the first run the feed holds the messages anyway.
	const each = 6 * slowMessage
	if most := int64(watchers / 10 * each); held[1] > most || held[more] > most {
		t.Errorf("watchers that do not read held %d KiB and %d KiB, want at most %d KiB", held[1]>>10, held[more]>>10, most>>10)
	}
	// The bound is well below the additional changes that they missed in the second run.
	// The test would therefore notice if the server kept even one shared copy of them.
	missed := int64((more - 1) * changes * slowValue)
	if grown := held[more] - held[1]; grown > missed*3/4 {
		t.Errorf("got %d KiB more held after %d KiB more were missed, want at most %d KiB", grown>>10, missed>>10, missed*3/4>>10)
	}
}

// Readers that stall, disconnect and come back every half second do not harm others. The
// server frees everything that they held, and does not encode a snapshot for each of
// them. While they are there, healthy watchers receive at least half as many batches as in
// the half seconds without them: the stalled readers cost some work, and the machine may
// be busy.
func TestIsolatedFromReadersThatStallAndComeBack(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	watchers, rounds := 200, 6
	if race.Enabled {
		watchers = 50
	}
	const remembered = 100
	ctx := within(t)
	encoder := newEncodingCounter()
	n := startHealthy(ctx, t, watchers*9/10, remembered, encoder)
	n.write(ctx, t, slowKeys/slowBatch)
	encoder.reset()

	var used []int64
	var goroutines, batches []int
	calm, stalled := 0, 0 // batches that the healthy watchers received
	for round := range rounds {
		calm += n.writeFor(ctx, t, 500*time.Millisecond)
		encoder.reset()
		var all []*stuck
		for i := range watchers / 10 {
			// PreviousObject gives the stalled readers an interest of their own. They begin
			// without a position, at the newest one, or at one that has left the window.
			req := &fanoutv1.WatchRequest{PreviousObject: true}
			switch i / 2 % 3 {
			case 1:
				req.Begin = after(&fanoutv1.Position{Epoch: n.here.GetEpoch(), Revision: n.at})
			case 2:
				req.Begin = after(n.here)
			}
			all = append(all, n.startStuck(ctx, t, i, req))
		}
		stalled += n.writeFor(ctx, t, 500*time.Millisecond)
		for _, s := range all {
			if err := s.conn.Close(); err != nil {
				t.Error(err)
			}
		}
		n.lines.awaitAll(ctx, t, line{"msg": "finished call", "grpc.method": "Watch"}, (round+1)*len(all))
		if left := n.dispatchers[config].Interests(); left != 1 {
			t.Errorf("round %d: got %d interests, want only that of the healthy watchers", round, left)
		}
		different, encoded, _ := encoder.reset()
		// An event is encoded once for each of the two interests, once for a snapshot, once for a
		// difference, and once for a replay from the window, if the machine is so busy that the log
		// no longer has it.
		if most := 5 * different; encoded > most {
			t.Errorf("round %d: got %d encodings of %d different events, want at most %d", round, encoded, different, most)
		}
		used, goroutines, batches = append(used, heap()), append(goroutines, runtime.NumGoroutine()), append(batches, n.batches)
	}
	n.wantUnharmed(t)
	t.Logf("bytes in use after each round: %v; goroutines: %v", used, goroutines)
	t.Logf("the healthy watchers received %d batches while others stalled, and %d in the same time without them", stalled, calm)
	if 2*stalled < calm {
		t.Errorf("got %d batches for healthy watchers in %d half seconds while others stalled, want at least half of %d", stalled, rounds, calm)
	}
	// The first round includes one-time costs. The changes of later rounds remain in
	// memory, in the store and in this test.
	written := int64((batches[rounds-1] - batches[0]) * slowBatch * slowValue)
	if more := used[rounds-1] - used[0]; more > 6*written {
		t.Errorf("memory grew by %d KiB in %d rounds that wrote %d KiB, want at most 6 times the latter", more>>10, rounds-1, written>>10)
	}
	if more := goroutines[rounds-1] - goroutines[0]; more > 10 {
		t.Errorf("got %d more goroutines after %d rounds, want at most 10", more, rounds-1)
	}
}
