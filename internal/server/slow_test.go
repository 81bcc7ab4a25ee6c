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
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/race"
)

// What is written in a neighbourhood: values of some KiB under a few keys, many of
// them at a time.
const (
	slowKeys  = 200
	slowBatch = 25
	slowValue = 2 << 10

	slowMessage = 64 << 10 // bytes of one message
)

// neighbourhood is a server with watchers of one interest: healthy ones, who read
// from the beginning to the end, and what the test adds.
type neighbourhood struct {
	*ledger
	here    *fanoutv1.Position // where everybody begins
	healthy []*healthy
	batches int
	told    told // what the healthy ones have to be told
}

// told stands for all events that somebody was told, in their order.
type told struct {
	events int
	sum    uint32
}

func (d *told) add(kind fanoutv1.Event_Type, key, text string, at int64) {
	d.events++
	b := binary.BigEndian.AppendUint64([]byte(key), uint64(at))
	d.sum = crc32.Update(d.sum, crc32.MakeTable(crc32.Castagnoli), append(append(b, byte(kind)), text...))
}

// healthy is a watcher who reads at once. It keeps nothing, so that what memory is
// used is the server's.
type healthy struct {
	mu       sync.Mutex
	told     told          // guarded by mu
	at       int64         // guarded by mu
	catchUps int           // guarded by mu
	err      error         // guarded by mu; how the stream ended
	changed  chan struct{} // guarded by mu; closed and replaced with every message
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
			h.told.add(e.GetType(), e.GetObject().GetKey(), e.GetObject().GetText(), e.GetRevision())
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
			t.Fatalf("a healthy watcher is at revision %d, want %d", at, revision)
		}
	}
}

// settle starts a neighbourhood with so many healthy watchers, on a server that
// remembers so many changes. Nothing else runs in the process.
func settle(ctx context.Context, t *testing.T, count, window int, encoder dispatch.Encoder) *neighbourhood {
	t.Helper()
	in := startOver(t, openEtcdAlone(t, store.EmbeddedConfig{}), settings{
		encoder: encoder, feedBytes: 1 << 20, messageBytes: slowMessage,
		window: cacher.WindowLimits{MinChanges: window, MaxChanges: window},
	})
	n := &neighbourhood{ledger: in.ledger(config)}
	n.here = in.list(ctx, t, &fanoutv1.ListRequest{Resource: config}, nothing).at
	const streams = 9 // on one connection
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

// write makes so many batches of changes, and returns when the healthy ones have
// been told. A batch waits until they have been told an earlier one; nobody waits
// for the others.
func (n *neighbourhood) write(ctx context.Context, t *testing.T, batches int) {
	t.Helper()
	const ahead = 4
	var revisions []int64
	for range batches {
		if i := len(revisions) - ahead; i >= 0 {
			n.reach(ctx, t, revisions[i])
		}
		texts, before := map[string]*string{}, map[object.Key]*object.Object{}
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
			n.told.add(kind, string(c.Key), string(shown.Value), n.at)
		}
	}
	n.reach(ctx, t, n.at)
}

func (n *neighbourhood) reach(ctx context.Context, t *testing.T, revision int64) {
	t.Helper()
	for _, h := range n.healthy {
		h.reach(ctx, t, revision)
	}
}

// writeFor writes batch after batch until it has been long enough, each when the
// healthy ones have been told the one before, and returns how many those were.
func (n *neighbourhood) writeFor(ctx context.Context, t *testing.T, long time.Duration) int {
	t.Helper()
	before, enough := n.batches, time.After(long)
	for {
		n.write(ctx, t, 1)
		select {
		case <-enough:
			return n.batches - before
		default:
		}
	}
}

// wantUnharmed checks that the healthy ones have been told everything in order, by
// nothing but the catch-up that they began with.
func (n *neighbourhood) wantUnharmed(t *testing.T) {
	t.Helper()
	for i, h := range n.healthy {
		h.mu.Lock()
		got, catchUps := h.told, h.catchUps
		h.mu.Unlock()
		if got != n.told || catchUps != 1 {
			t.Errorf("healthy watcher %d was told %+v in %d catch-ups, want %+v in one", i, got, catchUps, n.told)
		}
	}
}

// heap returns the bytes of memory that are in use.
func heap() int64 {
	// What is in a pool is given up by the second collection.
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// stuck is a watcher who stops reading as soon as it has been registered: of one
// half the window of the stream is closed, of the other nobody reads from the socket.
type stuck struct {
	*rawStream
	request *fanoutv1.WatchRequest
	closed  bool // the window is; what comes in it is read
}

func (n *neighbourhood) stick(ctx context.Context, t *testing.T, i int, request *fanoutv1.WatchRequest) *stuck {
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

// wantCaughtUp checks what one who was stuck has been told in the end.
func (s *stuck) wantCaughtUp(t *testing.T, all []*fanoutv1.WatchResponse, truth *check.Truth, want ...fanoutv1.WatchResponse_CatchUp) {
	t.Helper()
	if got := kindsIn(all); !slices.Equal(want, got) {
		t.Errorf("%v: catch-ups of kind %v, want %v", s.request, got, want)
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

// A tenth of the watchers never reads. The others are told every change in order,
// and memory does not grow with what the tenth misses. When it reads again it is
// brought to the present: by the events where the server remembers them, else by
// the difference.
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
			ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
			defer cancel()
			n := settle(ctx, t, watchers*9/10, remembered, nil)
			var all []*stuck
			for i := range watchers / 10 {
				all = append(all, n.stick(ctx, t, i, &fanoutv1.WatchRequest{Begin: after(n.here)}))
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
					received, err := s.await(ctx, t, "it has caught up", func(s *rawStream) bool { return reached(n.at)(s.all) })
					if err != nil {
						t.Error(err)
					}
					s.wantCaughtUp(t, received, truth, inStream...)
					s.forget()
					continue
				}
				// The server gives up a connection that takes nothing, sooner or
				// later. So this one comes again.
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
			t.Logf("%d changes, of which %d watchers took nothing: %d KiB were in use, of which they held %d", times*changes, len(all), while>>10, held[times]>>10)
			runtime.KeepAlive(truth)
		})
	}
	// What is on its way to each of them, if the machine is busy: a message that waits,
	// the two that the transport has taken before it, the rest of the segments that
	// these begin and end in, and buffers. In the first run the feed has them anyway.
	const each = 6 * slowMessage
	if most := int64(watchers / 10 * each); held[1] > most || held[more] > most {
		t.Errorf("those who do not read held %d KiB and %d KiB, want at most %d KiB", held[1]>>10, held[more]>>10, most>>10)
	}
	// Clearly less than what each of them has missed more in the second run. So it is
	// noticed if that is kept, be it only once for all of them.
	missed := int64((more - 1) * changes * slowValue)
	if grown := held[more] - held[1]; grown > missed*3/4 {
		t.Errorf("who misses %d KiB more holds %d KiB more", missed>>10, grown>>10)
	}
}

// Readers that stall, hang up and come back every half second harm nobody either.
// What they leave behind is gone when the server has noticed, and the server does
// not make more and more snapshots for them. The others are told as much as in the
// half seconds in between, in which there are no such readers; half of it would do,
// because there is work to be done for them, and the machine may be busy.
func TestIsolatedFromReadersThatStallAndComeBack(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	watchers, rounds := 200, 6
	if race.Enabled {
		watchers = 50
	}
	const remembered = 100
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	encoder := newEncodingCounter()
	n := settle(ctx, t, watchers*9/10, remembered, encoder)
	n.write(ctx, t, slowKeys/slowBatch)
	encoder.reset()

	var used []int64
	var goroutines, batches []int
	calm, stalled := 0, 0 // batches that the healthy ones were told
	for round := range rounds {
		calm += n.writeFor(ctx, t, 500*time.Millisecond)
		encoder.reset()
		var all []*stuck
		for i := range watchers / 10 {
			// They have an interest of their own, and begin with nothing, with the
			// present, or with what is long gone.
			req := &fanoutv1.WatchRequest{PreviousObject: true}
			switch i / 2 % 3 {
			case 1:
				req.Begin = after(&fanoutv1.Position{Epoch: n.here.GetEpoch(), Revision: n.at})
			case 2:
				req.Begin = after(n.here)
			}
			all = append(all, n.stick(ctx, t, i, req))
		}
		stalled += n.writeFor(ctx, t, 500*time.Millisecond)
		for _, s := range all {
			if err := s.conn.Close(); err != nil {
				t.Error(err)
			}
		}
		n.lines.awaitAll(ctx, t, line{"msg": "finished call", "grpc.method": "Watch"}, (round+1)*len(all))
		if left := n.dispatchers[config].Interests(); left != 1 {
			t.Errorf("round %d: %d interests are watched, want only that of the healthy ones", round, left)
		}
		different, encoded, _ := encoder.reset()
		// Once for each of the two interests; and once for those who begin with a
		// snapshot, and for those who begin with a difference.
		if most := 4 * different; encoded > most {
			t.Errorf("round %d: %d different events were encoded %d times, want at most %d", round, different, encoded, most)
		}
		used, goroutines, batches = append(used, heap()), append(goroutines, runtime.NumGoroutine()), append(batches, n.batches)
	}
	n.wantUnharmed(t)
	t.Logf("bytes in use after each round: %v; goroutines: %v", used, goroutines)
	t.Logf("the healthy ones were told %d batches while others stalled, and %d in the same time without them", stalled, calm)
	if 2*stalled < calm {
		t.Errorf("in %d half seconds in which others stalled the healthy ones were told %d batches, without them %d", rounds, stalled, calm)
	}
	// The first round pays for what is done only once. Later ones may leave in
	// memory what they wrote: in the store and, here, in the test.
	written := int64((batches[rounds-1] - batches[0]) * slowBatch * slowValue)
	if more := used[rounds-1] - used[0]; more > 6*written {
		t.Errorf("%d rounds in which %d KiB were written cost %d KiB", rounds-1, written>>10, more>>10)
	}
	if more := goroutines[rounds-1] - goroutines[0]; more > 10 {
		t.Errorf("%d rounds leave %d goroutines behind", rounds-1, more)
	}
}
