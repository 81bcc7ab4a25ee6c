package dispatch_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
	"github.com/fanoutd/fanoutd/test/check"
)

// testStream is a stream whose sink records the responses. It implements [dispatch.StreamSink].
type testStream struct {
	*dispatch.Stream
	t       testing.TB
	watches map[uint64]*dispatch.StreamWatch // the latest watch of each id
	done    chan struct{}                    // closed when Serve has returned
	err     error                            // of Serve; set before done is closed

	mu        sync.Mutex
	responses []response                          // guarded by mu: those that take has not returned
	room      int                                 // guarded by mu: number of responses that the sink has room for; negative: any
	asked     int                                 // guarded by mu: calls of HasRoom and TakesBatch
	batches   int                                 // guarded by mu: calls of SendBatch
	mayTry    bool                                // guarded by mu: HasRoom has reported room, which only a response takes away
	try       func(r *dispatch.Response) error    // guarded by mu: the result of TrySend; nil: no error
	send      func(r *dispatch.Response) error    // guarded by mu: the result of Send; nil: no error
	acquire   func(context.Context, bool) error   // guarded by mu: nil: no error
	holds     bool                                // guarded by mu
	released  int                                 // guarded by mu: calls of Release
	acquired  int                                 // guarded by mu: calls of AcquireSlot that succeeded
	calls     int                                 // guarded by mu: calls that are running, except those of AcquireSlot
	encodings int                                 // guarded by mu: encoded lists of ids
	seen      func(*dispatch.Response, time.Time) // guarded by mu: called with each response; nil: nothing
}

// response is a recorded response.
type response struct {
	entries []entry
	more    bool
	part    bool
	at      time.Time
}

// entry is a recorded entry.
type entry struct {
	ids     []uint64
	message check.Message // of a message; zero: refused or ended
	first   bool
	refused error
	ended   *dispatch.Ending
	unbegun bool
	watches []*dispatch.StreamWatch
	source  *dispatch.Dispatcher
}

func (r response) String() string {
	var all []string
	for _, e := range r.entries {
		all = append(all, e.String())
	}
	text := strings.Join(all, "; ")
	if r.more {
		text += " (more)"
	}
	return text
}

func (e entry) String() string {
	text := strings.Trim(strings.ReplaceAll(fmt.Sprint(e.ids), " ", ","), "[]") + ": "
	switch {
	case e.refused != nil:
		return text + "refused " + e.refused.Error()
	case e.unbegun:
		return text + fmt.Sprintf("refused %v", e.ended.Reason)
	case e.ended != nil:
		return text + fmt.Sprintf("ended %v", e.ended.Reason)
	}
	switch e.message.Kind {
	case object.CatchUpBegin:
		text += strings.ToUpper(e.message.CatchUp.String())
	case object.CatchUpPart:
		text += "part"
	case object.Synced:
		text += "SYNCED"
	case object.Bookmark:
		text += "BOOKMARK"
	case object.Draining:
		text += "DRAINING"
	}
	if e.message.Partial {
		text += "partial "
	}
	return strings.TrimSpace(strings.TrimSuffix(text, " ") + " " + show(e.message.Events))
}

// stream starts a stream that ends with the test.
func (f *fixture) stream(t testing.TB, c dispatch.StreamConfig) *testStream {
	t.Helper()
	s := newTestStream(t, c, f.workers.NewQueue())
	t.Cleanup(s.end)
	return s
}

func newTestStream(t testing.TB, c dispatch.StreamConfig, q *sendqueue.Queue) *testStream {
	s := &testStream{t: t, watches: map[uint64]*dispatch.StreamWatch{}, done: make(chan struct{}), room: -1}
	c.Queue, c.Sink = q, s
	s.Stream = dispatch.NewStream(c)
	go func() {
		defer close(s.done)
		s.err = s.Serve()
	}()
	return s
}

// end ends the stream, as the loss of its connection does.
func (s *testStream) end() {
	s.Abort(context.Canceled)
	<-s.done
}

// begin starts a watch.
func (s *testStream) begin(d *dispatch.Dispatcher, id uint64, i feed.Interest, b catchup.Begin, o dispatch.Options) *dispatch.StreamWatch {
	w := &dispatch.StreamWatch{ID: id}
	s.watches[id] = w
	s.Start(d, w, i, b, o)
	return w
}

// watchKey starts a watch of a key that begins now.
func (f *fixture) watchKey(s *testStream, id uint64, key object.Key) *dispatch.StreamWatch {
	return s.begin(f.dispatcher, id, feed.Interest{Scope: object.ExactKey(key)}, catchup.FromNow(f.cacher.State().Position()), dispatch.Options{})
}

func (s *testStream) locked(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// setRoom sets how many responses the sink has room for. A response that the stream is making gets the
// room that it was promised.
func (s *testStream) setRoom(n int) {
	s.locked(func() { s.room = n })
	s.Ready()
}

// together makes the stream send the results of several calls in one response.
func (s *testStream) together(do func()) {
	s.setRoom(0)
	do()
	synctest.Wait()
	s.setRoom(-1)
}

// take waits until nothing happens any more, and returns the new responses.
func (s *testStream) take() []response {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.responses
	s.responses = nil
	return all
}

// want checks the new responses.
func (s *testStream) want(want ...string) {
	s.t.Helper()
	got := s.take()
	for i := range max(len(got), len(want)) {
		switch {
		case i == len(want):
			s.t.Fatalf("got response %d %q, want none", i, got[i])
		case i == len(got):
			s.t.Fatalf("got no response %d, want %q", i, want[i])
		case got[i].String() != want[i]:
			s.t.Fatalf("got response %d %q, want %q", i, got[i], want[i])
		}
	}
}

// enter checks that the calls of the sink do not overlap.
func (s *testStream) enter() (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls++; s.calls > 1 {
		s.t.Error("calls of the sink overlap")
	}
	return func() { s.locked(func() { s.calls-- }) }
}

// HasRoom implements [dispatch.StreamSink].
func (s *testStream) HasRoom() bool {
	defer s.enter()()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	s.mayTry = s.room != 0
	return s.mayTry
}

// TrySend implements [dispatch.StreamSink].
func (s *testStream) TrySend(r *dispatch.Response, now time.Time) error {
	defer s.enter()()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mayTry {
		s.t.Error("TrySend was called although HasRoom has not reported room")
	}
	s.mayTry = false
	if s.try != nil {
		if err := s.try(r); err != nil {
			return err
		}
	}
	s.recordLocked(r, now)
	return nil
}

// Send implements [dispatch.StreamSink].
func (s *testStream) Send(r *dispatch.Response) error {
	defer s.enter()()
	s.mu.Lock()
	send := s.send
	s.mu.Unlock()
	if send != nil {
		if err := send(r); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recordLocked(r, time.Now())
	return nil
}

// AcquireSlot implements [dispatch.StreamSink].
func (s *testStream) AcquireSlot(ctx context.Context, isNew bool) error {
	s.mu.Lock()
	acquire := s.acquire
	s.mu.Unlock()
	if acquire != nil {
		if err := acquire(ctx, isNew); err != nil {
			return err
		}
	}
	s.locked(func() {
		s.acquired++
		s.holds = true
	})
	return nil
}

// HoldsSlot implements [dispatch.StreamSink].
func (s *testStream) HoldsSlot() bool {
	defer s.enter()()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holds
}

// ReleaseSlot implements [dispatch.StreamSink].
func (s *testStream) ReleaseSlot() {
	defer s.enter()()
	s.locked(func() {
		s.released++
		s.holds = false
	})
}

// TakesBatch implements [dispatch.StreamSink].
func (s *testStream) TakesBatch() bool {
	defer s.enter()()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	return s.room != 0 && s.try == nil // otherwise, TrySend decides
}

// SendBatch implements [dispatch.StreamSink].
func (s *testStream) SendBatch(b dispatch.MemberBatch, now time.Time) (bytes int, err error) {
	defer s.enter()()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches++
	s.recordLocked(&dispatch.Response{Entries: []dispatch.Entry{{IDs: b.IDs, Dispatcher: b.Dispatcher, Batch: b.Batch}}}, now)
	return b.Batch.Size(), nil
}

// CountSent implements [dispatch.StreamSink].
func (s *testStream) CountSent(*dispatch.Dispatcher, *feed.Batch, int, int, time.Time) {}

// Prefetch implements [dispatch.StreamSink].
func (s *testStream) Prefetch() int { return 0 }

// Size implements [dispatch.StreamSink].
func (s *testStream) Size(*feed.Batch) int { panic("the stream may have several watches") }

func (s *testStream) recordLocked(r *dispatch.Response, now time.Time) {
	if s.room > 0 {
		s.room--
	}
	if s.seen != nil {
		s.seen(r, now)
		return
	}
	one := response{more: r.More, part: r.Part, at: time.Now()}
	for _, e := range r.Entries {
		e.IDs.Encoded(func(all []uint64) []byte {
			s.encodings++
			return fmt.Append(nil, all)
		})
		recorded := entry{ids: e.IDs.All(), first: e.First, refused: e.Refused, ended: e.Ended, unbegun: e.Unbegun, watches: e.Watches, source: e.Dispatcher}
		if e.Batch != nil {
			recorded.message = decode(s.t, e.Batch.Message)
		}
		one.entries = append(one.entries, recorded)
	}
	s.responses = append(s.responses, one)
}

// inBubble runs a test with a dispatcher that has taken its first state.
func inBubble(t *testing.T, l limits, do func(t *testing.T, f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := start(t, l)
		synctest.Wait()
		do(t, f)
	})
}

// relist lets so much time pass that the cacher notices a fault of the store.
func (f *fixture) relist() { time.Sleep(time.Minute) }

// textOf returns what one watch has received.
func textOf(id uint64, all []response) string {
	var parts []string
	for _, r := range all {
		for _, e := range r.entries {
			if slices.Contains(e.ids, id) {
				_, text, _ := strings.Cut(e.String(), ": ")
				parts = append(parts, text)
			}
		}
	}
	return strings.Join(parts, "; ")
}

// pass lets time pass in a bubble of synctest.
func pass(d time.Duration) { time.Sleep(d) }
