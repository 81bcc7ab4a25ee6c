package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/seed"
)

// Subscribers start and stop watches on a few streams while a writer writes, sinks are full, and
// faults happen. The checkers and the naive model then verify what each watch received, and
// wholeRevisions verifies each stream.
func TestStreamGuarantees(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	first := seed.New(t)
	seen := counts{}
	for round := range seed.Seed(18) {
		synctest.Test(t, func(t *testing.T) {
			m := newStreamModel(t, first+round, seen)
			defer m.explain(first + round)
			for range 250 {
				m.step()
			}
			m.finish()
		})
	}
	for _, what := range slices.Sorted(maps.Keys(seen)) {
		t.Logf("%7d %s", seen[what], what)
	}
	for _, what := range []string{
		"RESET at the beginning", "REPLAY in the stream", "DELTA in the stream", "RESET in the stream", "partial REPLAY", "bookmark",
		"shared entry", "several watches at one revision", "restart of an id that is ending", "refusal", "ended: " + check.StatusPositionExpired,
	} {
		if seen[what] == 0 {
			t.Errorf("the test is too easy: %q never happened", what)
		}
	}
}

// streamModel is a system with streams. Only the goroutine of the test uses it.
type streamModel struct {
	*system
	t           *testing.T
	choose      chooser
	seen        counts
	subscribers []*streamSubscriber
	streams     []*modelStream
	closed      []*modelStream
	stops       int // number of answers that the test has asked for, for their errors
}

// streamSubscriber has at most one watch at a time.
type streamSubscriber struct {
	*subscriber
	watch *modelWatch // whose end was not sent yet; nil: none
}

// modelWatch is a watch of a stream.
type modelWatch struct {
	of       *streamSubscriber
	started  *dispatch.StreamWatch
	source   *dispatch.Dispatcher
	messages int
	streams  []*check.Stream // the records of its messages, one for each epoch
}

// modelStream is a stream with what happened to it.
type modelStream struct {
	*testStream
	byID       map[uint64][]*modelWatch // whose end was not sent yet, in the order of their starts
	log        []loggedResponse
	lastAnswer int // the number of the latest answer that the test has asked for

	obstructed time.Time     // since when the stream may have to wait; zero: it need not
	gate       chan struct{} // nil, or calls of Send and AcquireSlot wait until it is closed
}

// loggedResponse is a response with the watches to which it belongs.
type loggedResponse struct {
	more    bool
	entries []loggedEntry
}

type loggedEntry struct {
	watches []*modelWatch
	message check.Message // zero: the watches have ended
}

const (
	modelStreams = 2
	modelIDs     = 6
)

func newStreamModel(t *testing.T, random seed.Seed, seen counts) *streamModel {
	rng := random.Rand(0)
	m := &streamModel{t: t, choose: func(_ string, n int) int { return rng.IntN(n) }, seen: seen}
	limits := smallLimits(m.choose)
	limits.dispatch.MessageBytes = []int{200, 600, 2000}[random%3] // the rounds of a test have all of them
	m.system = newSystem(limits)
	m.concurrent = true
	for i := range 16 {
		s, err := newSubscriber(fmt.Sprint("subscriber ", i), m.choose)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 && m.choose.often("twin", 6) {
			// A twin has the same interest and options, so both share a cursor.
			twin := m.subscribers[m.choose("twin of", i)]
			name := s.asked.Watcher
			s.interest, s.options, s.asked = twin.interest, twin.options, twin.asked
			s.asked.Watcher = name
		}
		m.subscribers = append(m.subscribers, &streamSubscriber{subscriber: s})
	}
	for range modelStreams {
		m.open()
	}
	return m
}

// open opens a stream.
func (m *streamModel) open() {
	s := &modelStream{byID: map[uint64][]*modelWatch{}}
	bytes := max(m.limits.dispatch.MessageBytes, pick(m.choose, "response", 400, 400, 1500, 1<<20))
	s.testStream = newTestStream(m.t, dispatch.StreamConfig{ResponseBytes: bytes}, m.server().queue())
	m.streams = append(m.streams, s)
}

// close ends a stream as a drain does, or as a lost connection does.
func (m *streamModel) close(s *modelStream) {
	if m.choose.often("drain", 5) {
		m.free(s)
		s.EndAll(dispatch.Ending{Reason: m.ownReason(), Last: true})
		<-s.done
	} else {
		m.noteAway(s)
		s.openGate() // ends calls that wait
		s.end()
	}
	m.read(s)
	for _, id := range slices.Sorted(maps.Keys(s.byID)) {
		for _, w := range s.byID[id] {
			m.gone(w)
		}
	}
	m.streams = slices.DeleteFunc(m.streams, func(other *modelStream) bool { return other == s })
	m.closed = append(m.closed, s)
}

// ownReason returns the reason of an answer that the test asks for. Answers come in the order of
// the requests for them.
func (m *streamModel) ownReason() error {
	m.stops++
	return ownAnswer(m.stops)
}

type ownAnswer int

func (n ownAnswer) Error() string { return fmt.Sprint("answer ", int(n)) }

// step lets one thing happen.
func (m *streamModel) step() {
	stream := pick(m.choose, "stream", m.streams...)
	id := uint64(m.choose("id", modelIDs))
	switch n := m.choose("step", 100); {
	case n < 25:
		m.write(m.choose, 1+m.choose("commits", 4))
	case n < 28:
		m.write(m.choose, 10+m.choose("commits", 20))
	case n < 38:
		pause(m.choose)
	case n < 58:
		m.start(stream, id)
	case n < 63:
		m.stop(stream, id)
	case n < 70: // the id is used again at once
		m.stop(stream, id)
		m.start(stream, id)
	case n < 80:
		stream.obstruct(m)
	case n < 88:
		m.free(stream)
	case n < 90:
		stream.locked(func() { stream.holds = false })
	case n < 92:
		stream.Refuse(id, m.ownReason())
	case n < 96:
		for _, s := range m.streams {
			m.read(s)
		}
	case n < 98:
		m.close(stream)
		m.open()
	default:
		m.fault()
	}
	if m.choose.often("wait", 4) {
		m.read(stream)
	}
}

// fault lets the store or the server fail. Bookmarks need not come from a stream that waits.
func (m *streamModel) fault() {
	pick(m.choose, "fault", m.silence, m.outage, m.restore, m.restart)(m.choose)
}

// start starts the watch of a subscriber that has none, if the id is free or its watch is ending.
func (m *streamModel) start(stream *modelStream, id uint64) {
	others := stream.byID[id]
	if n := len(others); n > 0 && !others[n-1].stopping() {
		return
	}
	s := pick(m.choose, "subscriber", m.subscribers...)
	if s.watch != nil {
		return
	}
	if len(others) > 0 {
		m.seen["restart of an id that is ending"]++
	}
	server := m.server()
	w := &modelWatch{of: s, source: server.dispatcher}
	s.watch = w
	begin := s.next(server)
	stream.byID[id] = append(stream.byID[id], w)
	w.started = stream.begin(server.dispatcher, id, s.interest, begin, s.options)
	if m.choose.often("end at a time", 1) {
		stream.EndAt(w.started, time.Now().Add(1+pick(m.choose, "time", 0, 77*time.Millisecond, 5*time.Second)), dispatch.Ending{Last: true})
	}
}

// stopping reports whether the watch was stopped.
func (w *modelWatch) stopping() bool { return w.of.stopped }

// stop stops the watch that has the id.
func (m *streamModel) stop(stream *modelStream, id uint64) {
	all := stream.byID[id]
	if len(all) == 0 || all[len(all)-1].stopping() {
		return
	}
	w := all[len(all)-1]
	w.of.stopped = true
	e := dispatch.Ending{Reason: m.ownReason()}
	switch m.choose("how", 3) {
	case 0:
		e.Last = true
	case 1:
		e.Deny = true
	}
	stream.End(w.started, e)
}

// obstruct makes the stream wait: for room, for its goroutine, or for the slot.
func (s *modelStream) obstruct(m *streamModel) {
	if s.obstructed.IsZero() {
		s.obstructed = time.Now()
	}
	if s.gate == nil {
		s.gate = make(chan struct{})
	}
	gate := s.gate
	switch m.choose("obstacle", 4) {
	case 0:
		synctest.Wait() // the worker asks before it sends
		s.setRoom(0)
	case 1:
		synctest.Wait()
		s.setRoom(1 + m.choose("room", 4))
	case 2:
		s.locked(func() {
			s.try = func(*dispatch.Response) error { return dispatch.ErrNeedsServe }
			s.send = func(*dispatch.Response) error { <-gate; return nil }
		})
	case 3:
		failure := pick(m.choose, "slot", nil, nil, errNoSlot)
		s.locked(func() {
			s.acquire = func(ctx context.Context, _ bool) error {
				select {
				case <-gate:
					return failure
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		})
	}
}

// errNoSlot ends watches that wait for the slot.
var errNoSlot = errors.New("no slot")

func (s *modelStream) openGate() {
	if s.gate != nil {
		close(s.gate)
		s.gate = nil
	}
}

// noteAway records the time with obstacles as a time without reading.
func (m *streamModel) noteAway(s *modelStream) {
	if s.obstructed.IsZero() {
		return
	}
	m.read(s)
	away := check.Span{From: s.obstructed, To: time.Now()}
	for _, id := range slices.Sorted(maps.Keys(s.byID)) {
		for _, w := range s.byID[id] {
			w.noteAway(away)
		}
	}
	s.obstructed = time.Time{}
}

func (w *modelWatch) noteAway(away check.Span) {
	if n := len(w.streams); n == 0 || w.streams[n-1] != w.of.open {
		w.streams = append(w.streams, w.of.open)
	}
	for _, s := range w.streams {
		s.Away = append(s.Away, away)
	}
}

// free removes all obstacles.
func (m *streamModel) free(s *modelStream) {
	m.noteAway(s)
	s.locked(func() { s.room, s.try, s.send, s.acquire = -1, nil, nil, nil })
	s.openGate()
	s.Ready()
}

// read reads the new responses of a stream.
func (m *streamModel) read(s *modelStream) {
	for _, r := range s.take() {
		logged := loggedResponse{more: r.more}
		if r.more {
			m.seen["response with more"]++
		}
		for i := range r.entries {
			if e, ok := m.readEntry(s, &r.entries[i], r.at); ok {
				logged.entries = append(logged.entries, e)
			}
		}
		s.log = append(s.log, logged)
	}
}

func (m *streamModel) readEntry(s *modelStream, e *entry, at time.Time) (loggedEntry, bool) {
	if e.refused != nil {
		m.seen["refusal"]++
		m.answered(s, e.refused)
		return loggedEntry{}, false
	}
	logged := loggedEntry{message: e.message}
	logged.message.At = at
	if len(e.ids) > 1 {
		m.seen["shared entry"]++
	}
	for i, id := range e.ids {
		if len(s.byID[id]) == 0 {
			m.t.Fatalf("there is no watch %d, got %v", id, e)
		}
		w := s.byID[id][0]
		logged.watches = append(logged.watches, w)
		if e.ended != nil {
			if e.watches[i] != w.started {
				m.t.Fatalf("the end of watch %d is not that of its oldest watch", id)
			}
			s.byID[id] = s.byID[id][1:]
			isFailure := e.ended.Reason != nil && !e.ended.Last && !e.ended.Deny
			if e.unbegun != (isFailure && w.messages == 0) {
				m.t.Fatalf("watch %d has ended with %+v after %d messages: unbegun is %v", id, e.ended, w.messages, e.unbegun)
			}
			m.answered(s, e.ended.Reason)
			m.ended(s, w, e.ended, at)
			continue
		}
		if e.first != (w.messages == 0) && e.message.Kind != object.Draining {
			m.t.Fatalf("watch %d: got first = %v in message %d", id, e.first, w.messages)
		}
		w.messages++
		if err := w.of.record(logged.message); err != nil {
			m.t.Fatal(err)
		}
		if n := len(w.streams); n == 0 || w.streams[n-1] != w.of.open {
			w.streams = append(w.streams, w.of.open)
		}
	}
	return logged, true
}

// answered checks the order of the answers that the test has asked for.
func (m *streamModel) answered(s *modelStream, reason error) {
	n, ok := errors.AsType[ownAnswer](reason)
	if ok && int(n) < s.lastAnswer {
		m.t.Errorf("got answer %d after answer %d", n, s.lastAnswer)
	}
	s.lastAnswer = max(s.lastAnswer, int(n))
}

// ended records the end of a watch.
func (m *streamModel) ended(stream *modelStream, w *modelWatch, e *dispatch.Ending, at time.Time) {
	s := w.of
	if !stream.obstructed.IsZero() {
		w.noteAway(check.Span{From: stream.obstructed, To: at})
	}
	s.open.Ended = at
	_, own := errors.AsType[ownAnswer](e.Reason)
	lost, isLost := errors.AsType[*catchup.LostError](e.Reason)
	_, isEpoch := errors.AsType[*catchup.EpochError](e.Reason)
	position, _ := s.position()
	switch {
	case own, e.Reason == nil, errors.Is(e.Reason, dispatch.ErrStopped), errors.Is(e.Reason, errNoSlot):
	case isLost && s.open.Exact != 0 && !s.synced():
		if lost.Asked != s.open.Exact || lost.Oldest <= lost.Asked && lost.Asked <= lost.Current {
			m.t.Errorf("%s: exact revision %d was refused: %v", s.asked.Watcher, s.open.Exact, lost)
		}
	case isLost && s.options.EveryEvent:
		if lost.Asked < position.Revision || lost.Asked >= lost.Oldest {
			m.t.Errorf("%s: at %v: %v", s.asked.Watcher, position, lost)
		}
		s.open.Status, s.expired = check.StatusPositionExpired, true
	case isEpoch && s.options.EveryEvent:
		s.open.Status, s.expired = check.StatusEpochChanged, true
	default:
		m.t.Errorf("%s: ended with %v", s.asked.Watcher, e.Reason)
	}
	m.gone(w)
}

// gone notes that a watch is over.
func (m *streamModel) gone(w *modelWatch) {
	w.of.close()
	w.of.watch, w.of.stopped = nil, false
}

// finish lets all streams catch up, and checks everything.
func (m *streamModel) finish() {
	for _, s := range m.streams {
		m.free(s)
	}
	m.settle()
	for range 2 {
		writes := map[object.Key][]byte{}
		for _, key := range keys {
			writes[key] = content(m.choose)
		}
		m.store.Commit(writes)
		time.Sleep(20 * time.Second) // longer than the batch delays of all parts of the revision
		for _, s := range m.streams {
			m.read(s)
		}
	}
	var open []*modelWatch
	for _, s := range m.subscribers {
		if s.watch != nil {
			open = append(open, s.watch)
			m.checkStatus(s)
		}
	}
	m.checkShared()
	positions := map[*modelWatch]object.Position{}
	for _, w := range open {
		positions[w], _ = w.of.position()
	}
	for _, s := range slices.Clone(m.streams) {
		m.close(s)
	}
	m.concurrent = false // so that the times of bookmarks are checked
	m.end()
	for _, e := range m.epochs {
		e.Patience *= 2 // a stream looks for silent watches in intervals
	}
	m.checkAll(open, positions)
}

// checkStatus compares the status of a watch with what it received.
func (m *streamModel) checkStatus(s *streamSubscriber) {
	st := s.watch.started.Status()
	at, _ := s.position()
	// Another watch may have got a later message before both shared a cursor. The sequence of events is
	// checked elsewhere.
	if st.Messages != int64(s.watch.messages) || st.Sent.Epoch != at.Epoch || st.Sent.Revision < at.Revision || st.CatchingUp || st.Backlog.Events != 0 {
		m.t.Errorf("%s: got status %+v after %d messages, and the position %v", s.asked.Watcher, st, s.watch.messages, at)
	}
}

// checkShared checks that each stream sends an event once for all watches that have the same
// interest and the same options.
func (m *streamModel) checkShared() {
	for _, s := range m.streams {
		if len(s.log) == 0 {
			continue
		}
		last := s.log[len(s.log)-1]
		seen := map[string]bool{}
		for _, e := range last.entries {
			w := e.watches[0].of
			shape := fmt.Sprint(w.asked.Scope, w.asked.Selects, w.interest.Projection, w.options)
			if e.message.Kind == object.Live && seen[shape] && !e.message.Partial {
				m.t.Errorf("a stream has sent the same events twice: %v", shape)
			}
			seen[shape] = true
		}
	}
}

// checkAll checks everything that was received. The watches that were open at the end must have
// reached the end of the history.
func (m *streamModel) checkAll(open []*modelWatch, positions map[*modelWatch]object.Position) {
	var subscribers []*subscriber
	for _, s := range m.subscribers {
		subscribers = append(subscribers, s.subscriber)
	}
	m.seen.validate(m.t, m.system, subscribers)
	histories := map[object.Epoch]*naiveHistory{}
	for _, e := range m.epochs {
		histories[e.name] = newNaiveHistory(e.history)
	}
	for _, w := range open {
		if at := positions[w]; at.Epoch != m.epoch().name {
			m.t.Errorf("%s: stays in epoch %s", w.of.asked.Watcher, at.Epoch)
		} else if missing := histories[at.Epoch].missing(w.of.subscriber, at.Revision, object.Revision(len(m.epoch().history))); len(missing) > 0 {
			m.t.Errorf("%s: stays at %v without %v\n%s", w.of.asked.Watcher, at, &missing[0], w.of.text())
		}
	}
	for _, s := range m.closed {
		if err := wholeRevisions(s.log, histories, m.seen); err != nil {
			m.t.Error(err)
		}
	}
}

// text returns everything that the subscriber received.
func (s *streamSubscriber) text() string {
	var b strings.Builder
	for _, r := range s.records {
		_ = r.Print(&b)
	}
	return b.String()
}

// explain prints what a failed test needs.
func (m *streamModel) explain(round seed.Seed) {
	if !m.t.Failed() {
		return
	}
	m.t.Logf("repeat the round with %s=%d", seed.Variable, round)
	for i, s := range m.closed {
		m.t.Logf("stream %d:\n%s", i, text(s.log))
	}
}
