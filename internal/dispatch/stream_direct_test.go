package dispatch_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
)

// directReader has the messages that a test gives it. It implements [dispatch.DirectReader].
type directReader struct {
	messages chan feed.Message
	failure  error         // of Next when there is a message without a kind
	next     func()        // called by Next; nil: nothing
	hold     chan struct{} // Await returns the end of its context when it is closed; nil: at once

	pending []feed.Message // at most one

	mu       sync.Mutex
	position object.Position // guarded by mu: of the latest message that Next has returned
	made     int             // guarded by mu: calls of Next
	closed   int             // guarded by mu
}

func (w *directReader) Await(ctx context.Context) error {
	if len(w.pending) > 0 {
		return nil
	}
	select {
	case m := <-w.messages:
		w.pending = append(w.pending, m)
		return nil
	case <-ctx.Done():
		if w.hold != nil {
			<-w.hold
		}
		return ctx.Err()
	}
}

func (w *directReader) Next(context.Context) (feed.Message, error) {
	if w.next != nil {
		w.next()
	}
	m := w.pending[0]
	w.pending = nil
	w.mu.Lock()
	defer w.mu.Unlock()
	w.made++
	if m.Header.Kind == 0 {
		return m, w.failure
	}
	w.position = m.Header.Position
	return m, nil
}

func (w *directReader) ReadsSnapshot() bool {
	return len(w.pending) > 0 && (w.pending[0].Header.Kind == object.CatchUpPart || w.pending[0].Header.CatchUp == object.Reset)
}

func (w *directReader) CatchesUp() bool { return w.ReadsSnapshot() }

func (w *directReader) Position() object.Position {
	w.mu.Lock()
	defer w.mu.Unlock()
	return object.Position{Epoch: "e", Revision: w.position.Revision + 100} // nothing has happened up to here
}

func (w *directReader) Quiet(object.Position, object.Revision) bool { return false }

func (w *directReader) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed++
}

func (w *directReader) counts() (made, closed int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.made, w.closed
}

func (w *directReader) put(kind object.MessageKind, revision object.Revision) {
	w.messages <- feed.Message{Header: object.Header{Kind: kind, Position: object.Position{Epoch: "e", Revision: revision}}}
}

func (s *testStream) beginDirect(id uint64) (*dispatch.StreamWatch, *directReader) {
	w, m := &dispatch.StreamWatch{ID: id}, &directReader{messages: make(chan feed.Message, 10)}
	s.StartDirect(w, m)
	return w, m
}

// While the sink has no room, no message is made, however many watches have one. Afterwards each
// watch gets its messages in order.
func TestStreamMakesDirectMessagesOnlyWhenThereIsRoom(t *testing.T) {
	inBubble(t, limits{}, func(t *testing.T, f *fixture) {
		s := f.stream(t, dispatch.StreamConfig{})
		s.setRoom(0)
		var all []*directReader
		for id := range uint64(5) {
			_, m := s.beginDirect(id)
			all = append(all, m)
			m.put(object.Bookmark, 1)
			m.put(object.Live, 2)
		}
		if got := s.take(); len(got) != 0 {
			t.Errorf("got responses %v without room", got)
		}
		for id, m := range all {
			if made, _ := m.counts(); made != 0 {
				t.Errorf("watch %d: %d messages were made without room", id, made)
			}
		}
		s.setRoom(-1)
		got := map[uint64][]object.Revision{}
		for _, r := range s.take() {
			for _, e := range r.entries {
				got[e.ids[0]] = append(got[e.ids[0]], e.message.Position.Revision)
				if e.first != (len(got[e.ids[0]]) == 1) {
					t.Errorf("got first = %v in message %d", e.first, len(got[e.ids[0]]))
				}
			}
		}
		for id := range all {
			if r := got[uint64(id)]; len(r) != 2 || r[0] != 1 || r[1] != 2 {
				t.Errorf("watch %d: got positions %v, want 1 and 2", id, r)
			}
		}
		s.end()
		for id, m := range all {
			if _, closed := m.counts(); closed != 1 {
				t.Errorf("watch %d was closed %d times, want once", id, closed)
			}
		}
	})
}

// A watch that ends with a last message gets the position of its reader, which may be after that
// of its latest message. A watch that is stopped gets no more messages.
func TestStreamEndsDirectWatches(t *testing.T) {
	inBubble(t, limits{}, func(t *testing.T, f *fixture) {
		s := f.stream(t, dispatch.StreamConfig{})
		one, m := s.beginDirect(1)
		m.put(object.Bookmark, 1)
		s.want("1: BOOKMARK")
		s.End(one, dispatch.Ending{Last: true})
		got := s.take()
		if len(got) != 1 || got[0].String() != "1: DRAINING; 1: ended <nil>" || got[0].entries[0].message.Position.Revision != 101 {
			t.Errorf("got %v, want the end with revision 101", got)
		}

		two, m2 := s.beginDirect(2)
		s.take()
		s.setRoom(0)
		m2.put(object.Bookmark, 1)
		s.take()
		s.End(two, dispatch.Ending{Deny: true})
		s.setRoom(-1)
		s.want("2: ended <nil>")

		_, m3 := s.beginDirect(3)
		m3.failure = errors.New("lost")
		m3.put(0, 0)
		s.want("3: refused lost")

		_, m4 := s.beginDirect(4)
		m4.put(object.Bookmark, 1)
		s.want("4: BOOKMARK")
		s.EndAll(dispatch.Ending{Last: true})
		s.want("4: DRAINING; 4: ended <nil>")
		<-s.done
		if s.err != nil {
			t.Errorf("got %v, want no error", s.err)
		}
		for id, m := range []*directReader{m, m2, m3, m4} {
			if _, closed := m.counts(); closed != 1 {
				t.Errorf("watch %d was closed %d times, want once", id+1, closed)
			}
		}
	})
}

// A message that was made and not sent is not covered by the position with which its watch ends. A
// watch that has sent nothing ends with the position at which it began.
func TestStreamEndsDirectWatchesBeforeWhatWasNotSent(t *testing.T) {
	for _, spoke := range []bool{false, true} {
		inBubble(t, limits{}, func(t *testing.T, f *fixture) {
			s := f.stream(t, dispatch.StreamConfig{})
			w, m := s.beginDirect(1)
			want := object.Revision(100) // at which the reader of this test begins
			if spoke {
				m.put(object.Bookmark, 200)
				s.want("1: BOOKMARK")
				want = 200
			}
			m.hold = make(chan struct{})
			m.next = func() { s.locked(func() { s.room = 0 }) }
			m.put(object.Live, 300)
			s.want()
			s.End(w, dispatch.Ending{Last: true})
			s.take()
			s.setRoom(-1)
			s.take()
			close(m.hold)
			got := s.take()
			if len(got) != 1 || got[0].String() != "1: DRAINING; 1: ended <nil>" ||
				got[0].entries[0].message.Position != (object.Position{Epoch: "e", Revision: want}) {
				t.Errorf("got %v at %v, want the end with revision %d", got, got[0].entries[0].message.Position, want)
			}
		})
	}
}

// A watch that reads the store to catch up delays no live message of another watch.
func TestStreamSendsDirectMessagesWhileAnotherWatchCatchesUp(t *testing.T) {
	inBubble(t, limits{}, func(t *testing.T, f *fixture) {
		s := f.stream(t, dispatch.StreamConfig{})
		_, slow := s.beginDirect(1)
		_, m := s.beginDirect(2)
		answered := make(chan struct{})
		answer := sync.OnceFunc(func() { close(answered) })
		t.Cleanup(answer)
		slow.next = func() { <-answered }
		slow.put(object.CatchUpPart, 0)
		s.want()
		m.put(object.Bookmark, 1)
		s.want("2: BOOKMARK")
		m.put(object.Live, 2)
		if got := s.take(); len(got) != 1 {
			t.Errorf("got responses %v, want a live message", got)
		}
		answer()
		s.want("1: part")
	})
}

// The parts of a snapshot wait for the slot. It is released when no watch needs it any more.
func TestStreamAcquiresTheSlotForDirectWatches(t *testing.T) {
	inBubble(t, limits{}, func(t *testing.T, f *fixture) {
		s := f.stream(t, dispatch.StreamConfig{})
		granted := make(chan struct{})
		s.locked(func() {
			s.acquire = func(ctx context.Context, _ bool) error {
				select {
				case <-granted:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		})
		_, m := s.beginDirect(1)
		other, m2 := s.beginDirect(2)
		m.put(object.CatchUpPart, 0)
		m2.put(object.CatchUpPart, 0)
		if got := s.take(); len(got) != 0 {
			t.Errorf("got %v before the slot", got)
		}
		s.End(other, dispatch.Ending{})
		s.want("2: ended <nil>")
		close(granted)
		got := s.take()
		if len(got) != 1 || got[0].String() != "1: part" || !got[0].part {
			t.Errorf("got %v, want a part", got)
		}
		m.put(object.Synced, 1)
		s.want("1: SYNCED")
		s.locked(func() {
			if s.acquired != 1 || s.released != 1 || s.holds {
				t.Errorf("got %d acquisitions and %d releases, want one of each", s.acquired, s.released)
			}
		})
	})
}

// A message that does not fit into a response is not overtaken by the next one of its watch, which
// may be made in another lane.
func TestStreamKeepsTheOrderOfDirectMessagesThatWait(t *testing.T) {
	inBubble(t, limits{}, func(t *testing.T, f *fixture) {
		s := f.stream(t, dispatch.StreamConfig{ResponseBytes: 100})
		_, m := s.beginDirect(1)
		m.next = sync.OnceFunc(func() { s.locked(func() { s.room = 0 }) })
		m.put(object.CatchUpPart, 0)
		m.put(object.Live, 2)
		s.want() // the part is made and waits
		for id := range uint64(10) {
			s.Refuse(100+id, errors.New("refused"))
		}
		s.setRoom(1)
		if got := s.take(); len(got) != 1 {
			t.Fatalf("got responses %v, want one with refusals", got)
		}
		s.setRoom(-1)
		var kinds []object.MessageKind
		for _, r := range s.take() {
			for _, e := range r.entries {
				if e.refused == nil {
					kinds = append(kinds, e.message.Kind)
				}
			}
		}
		if want := []object.MessageKind{object.CatchUpPart, object.Live}; !slices.Equal(kinds, want) {
			t.Errorf("got messages %v, want %v", kinds, want)
		}
	})
}
