package dispatch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/selector"
	"github.com/fanoutd/fanoutd/internal/wire"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/check/recorded"
)

// subscriber is a client that comes and goes, and records the messages that it receives.
type subscriber struct {
	choose   chooser
	interest feed.Interest
	options  dispatch.Options
	happened counts        // to its watches
	asked    check.History // the request, without streams

	records    []*epochRecord     // one for each epoch that it has seen, oldest first
	watcher    reader             // nil: the watch is one of a stream with others
	open       *check.Stream      // the record of the present stream; nil: there is no watcher
	serverAt   object.Position    // of the server when the stream was opened
	kind       object.CatchUpKind // of the last catch-up
	unassigned bool               // no message has come, so the epoch of the stream is not known
	lastRead   time.Time          // the end of the last read
	expired    bool               // its position was refused as too old
	stopped    bool               // its watch of a stream was stopped
}

// epochRecord has the streams of a subscriber in one epoch.
type epochRecord struct {
	epoch object.Epoch
	check.History
}

func newSubscriber(name string, c chooser) (*subscriber, error) {
	s := &subscriber{choose: c}
	var err error
	switch path := pick(c, "scope", "", "", "", "", "a/", "a/b/", "c/", "a/b/0", "c/1", "never"); {
	case path == "":
	case path[len(path)-1] == '/':
		s.interest.Scope, err = object.ParsePrefix(path)
	default:
		s.interest.Scope = object.ExactKey(object.Key(path))
	}
	if err != nil {
		return nil, err
	}
	labels, fields := labelCriteria[0], fieldCriteria[0]
	switch c("selector", 4) {
	case 0:
		labels = pick(c, "labels", labelCriteria...)
	case 1:
		fields = pick(c, "fields", fieldCriteria...)
	case 2:
		labels, fields = pick(c, "labels", labelCriteria...), pick(c, "fields", fieldCriteria...)
	}
	byLabels, err := selector.ParseLabels(labels.text)
	if err != nil {
		return nil, err
	}
	byFields, err := selector.ParseFields(fields.text, schema.Names())
	if err != nil {
		return nil, err
	}
	s.interest.Selector = selector.And(byLabels, byFields)
	s.interest.Projection = object.Projection{Previous: c.often("previous", 3), OmitValues: c.often("omit values", 2)}
	switch c("delivery", 3) {
	case 0:
		s.options.Latest = true
	case 1:
		s.options.EveryEvent = true
	}
	s.options.BookmarkInterval = pick(c, "bookmarks", 0, 200*time.Millisecond, time.Second)
	s.options.BatchDelay = pick(c, "batches", 0, 0, 100*time.Millisecond, 500*time.Millisecond)
	s.happened = counts{}
	s.asked = check.History{
		Watcher:    name,
		Scope:      s.interest.Scope,
		Picks:      func(o *object.Decoded) bool { return labels.picks(o) && fields.picks(o) },
		Selects:    s.interest.Selector.String(),
		Previous:   s.interest.Projection.Previous,
		OmitValues: s.interest.Projection.OmitValues,
		Latest:     s.options.Latest,
		EveryEvent: s.options.EveryEvent,
		Bookmarks:  s.options.BookmarkInterval,
	}
	return s, nil
}

// begin opens a stream.
func (s *subscriber) begin(v *server) {
	begin := s.next(v)
	s.watcher = v.dispatcher.PullCounted(v.queue(), s.interest, begin, s.options, s.happened)
}

// next returns where the next stream begins: after the last position, if there is one, or elsewhere.
func (s *subscriber) next(v *server) catchup.Begin {
	// By default a server asks the store for its revision first. That fails during an outage.
	state, err := v.cacher.Read(context.Background(), object.Consistency{})
	if err != nil {
		state = v.cacher.State()
	}
	stream := &check.Stream{Opened: time.Now(), Ended: time.Now()}
	position, known := s.position()
	var begin catchup.Begin
	switch n := s.choose("begin", 10); {
	case known && !s.expired && n < 6:
		stream.Begin, stream.Position = check.After, position
		begin = catchup.FromPosition(position)
	case n == 6:
		stream.Begin, stream.NotBefore = check.FromNow, state.Revision()
		begin = catchup.FromNow(state.Position())
	case n == 7:
		oldest := max(1, state.Replayable()-1)
		stream.Exact = oldest + object.Revision(s.choose("exactly", int(state.Revision()-oldest)+1))
		begin = catchup.FromExactly(stream.Exact)
	case n == 8:
		begin = catchup.FromSnapshot(0)
	default:
		stream.NotBefore = state.Revision()
		begin = catchup.FromSnapshot(stream.NotBefore)
	}
	s.expired = false
	s.open, s.serverAt, s.unassigned, s.lastRead = stream, state.Position(), true, time.Now()
	return begin
}

// position returns the last position that it received.
func (s *subscriber) position() (object.Position, bool) {
	if len(s.records) == 0 {
		return object.Position{}, false
	}
	return s.records[len(s.records)-1].Position()
}

// leave ends the stream as a client does, or as a draining server does with a last message.
func (s *subscriber) leave() {
	if s.open != nil && !s.unassigned && s.choose.often("drain", 5) {
		s.noteAway()
		m := check.Message{At: time.Now()}
		m.Kind, m.Position = object.Draining, s.watcher.Position()
		s.open.Ended = m.At
		s.open.Messages = append(s.open.Messages, m)
	}
	s.close()
}

// close ends the stream without a last message.
func (s *subscriber) close() {
	if s.open == nil {
		return
	}
	if s.watcher != nil {
		s.watcher.Close()
	}
	if s.unassigned && len(s.records) > 0 && s.open.Begin == check.After {
		s.attach()
	}
	s.open = nil
}

// attach adds the stream to the record of the present epoch.
func (s *subscriber) attach() {
	r := s.records[len(s.records)-1]
	r.Streams = append(r.Streams, *s.open)
	s.open, s.unassigned = &r.Streams[len(r.Streams)-1], false
}

// assign attaches the stream to the record of a message's epoch.
func (s *subscriber) assign(epoch object.Epoch) {
	n := len(s.records)
	if n > 0 && s.records[n-1].epoch == epoch {
		if s.unassigned {
			s.attach()
		}
		return
	}
	stream := check.Stream{Begin: check.FromNothing, Opened: time.Now(), Ended: time.Now()}
	if s.unassigned && s.serverAt.Epoch == epoch && s.open.Begin != check.After {
		stream = *s.open
	} else if s.unassigned && n > 0 && s.open.Begin == check.After {
		s.attach() // the request was for the previous epoch
	}
	s.records = append(s.records, &epochRecord{epoch, s.asked})
	s.open, s.unassigned = &stream, true
	s.attach()
}

// errNothing means that no message came in time.
var errNothing = errors.New("no message")

// noteAway records the time since the last read as a time without reading.
func (s *subscriber) noteAway() {
	if now := time.Now(); now.After(s.lastRead) {
		s.open.Away = append(s.open.Away, check.Span{From: s.lastRead, To: now})
	}
}

// receive waits for a message. It returns errNothing, or closes the stream and returns the
// error of its end.
func (s *subscriber) receive(wait time.Duration) error {
	s.noteAway()
	// The time is that of a bubble.
	ctx, cancel := context.WithTimeoutCause(context.Background(), wait, errNothing)
	defer cancel()
	raw, err := s.watcher.Next(ctx)
	s.lastRead, s.open.Ended = time.Now(), time.Now()
	if err != nil {
		if context.Cause(ctx) == errNothing && errors.Is(err, ctx.Err()) {
			return errNothing
		}
		return s.ended(err)
	}
	var response fanoutv1.WatchResponse
	if err := proto.Unmarshal(append(bytes.Join(raw.Events, nil), wire.AppendHeader(nil, raw.Header)...), &response); err != nil {
		return s.ended(err)
	}
	m, err := recorded.Message(&response)
	if err != nil {
		return s.ended(err)
	}
	m.At = time.Now()
	return s.record(m)
}

// record adds a message to the stream.
func (s *subscriber) record(m check.Message) error {
	s.assign(m.Position.Epoch)
	s.open.Ended = m.At
	s.open.Messages = append(s.open.Messages, m)
	if m.Kind == object.CatchUpBegin {
		s.kind = m.CatchUp
	}
	if m.Kind == object.Synced && s.kind == object.Replay && m.Position.Epoch == s.serverAt.Epoch && m.Position.Revision < s.serverAt.Revision {
		return fmt.Errorf("%s: replayed to %v, but the server was at %v when the stream was opened", s.asked.Watcher, m.Position, s.serverAt)
	}
	return nil
}

// ended records how the stream ended. It returns errEnded, or another error if the stream must
// not end like this.
func (s *subscriber) ended(err error) error {
	var lost *catchup.LostError
	var epoch *catchup.EpochError
	position := s.watcher.Position()
	switch {
	case errors.Is(err, dispatch.ErrStopped):
		err = nil
	case errors.As(err, &lost) && s.open.Exact != 0 && !s.synced():
		if lost.Asked != s.open.Exact || lost.Oldest <= lost.Asked && lost.Asked <= lost.Current {
			return fmt.Errorf("%s: exact revision %d was refused: %w", s.asked.Watcher, s.open.Exact, err)
		}
		err = nil
	case errors.As(err, &lost) && s.options.EveryEvent:
		if lost.Asked != position.Revision || lost.Asked >= lost.Oldest || lost.Oldest > lost.Current {
			return fmt.Errorf("%s: at %v: %+v", s.asked.Watcher, position, lost)
		}
		s.open.Status, s.expired, err = check.StatusPositionExpired, true, nil
	case errors.As(err, &epoch) && s.options.EveryEvent:
		if epoch.Asked != position.Epoch || epoch.Asked == epoch.Current.Epoch {
			return fmt.Errorf("%s: at %v: %+v", s.asked.Watcher, position, epoch)
		}
		s.open.Status, s.expired, err = check.StatusEpochChanged, true, nil
	}
	s.close()
	if err != nil {
		return fmt.Errorf("%s: %w", s.asked.Watcher, err)
	}
	return errEnded
}

// synced reports whether the first snapshot of the stream is complete.
func (s *subscriber) synced() bool {
	return slices.ContainsFunc(s.open.Messages, func(m check.Message) bool { return m.Kind == object.Synced })
}

// errEnded means that the stream has ended for an acceptable reason.
var errEnded = errors.New("the stream has ended")

// read reads a number of messages, with pauses. If the stream ends as it may, or no message
// comes, read returns nil.
func (s *subscriber) read(messages int) error {
	for range messages {
		wait := pick(s.choose, "wait", 1109*time.Microsecond, 149_129*time.Microsecond, 709_143*time.Microsecond, 3_001_159*time.Microsecond)
		switch err := s.receive(wait); {
		case errors.Is(err, errEnded), errors.Is(err, errNothing):
			return nil
		case err != nil:
			return err
		}
		if s.choose.often("pause", 2) {
			pause(s.choose)
		}
	}
	return nil
}

// run comes, reads and leaves until everything is written, and then catches up.
func (s *subscriber) run(y *system, written <-chan struct{}) error {
	for {
		select {
		case <-written:
			return s.catchUp(y)
		default:
		}
		if s.open == nil {
			s.begin(y.server())
		}
		if err := s.read(1 + s.choose("messages", 20)); err != nil {
			return err
		}
		if s.choose.often("leave", 3) {
			s.leave()
		}
		pause(s.choose)
	}
}

// CatchUp reads until the subscriber is at the position of the store, which is idle.
func (s *subscriber) catchUp(y *system) error {
	for {
		if s.open == nil {
			s.begin(y.server())
		}
		var err error
		for err == nil {
			err = s.receive(613_183 * time.Microsecond)
			if err == nil && s.settled(y) {
				return nil
			}
		}
		switch {
		case errors.Is(err, errEnded):
		case !errors.Is(err, errNothing):
			return err
		case s.watcher.Position() != y.server().cacher.State().Position():
			return fmt.Errorf("%s: stays at %v, but the server is at %v", s.asked.Watcher, s.watcher.Position(), y.server().cacher.State().Position())
		default:
			return nil
		}
	}
}

// settled reports whether the last message was a bookmark at the server's position. Bookmarks
// continue for ever, so CatchUp stops at such a message.
func (s *subscriber) settled(y *system) bool {
	if s.open == nil || len(s.open.Messages) == 0 {
		return false
	}
	m := s.open.Messages[len(s.open.Messages)-1]
	return m.Kind == object.Bookmark && m.Position == y.server().cacher.State().Position()
}

// validate compares the messages of the subscriber with the history of each epoch.
func (s *subscriber) validate(epochs []*storeEpoch, histories []*naiveHistory, onPair func(pair)) error {
	var all []error
	for _, r := range s.records {
		i := slices.IndexFunc(epochs, func(e *storeEpoch) bool { return e.name == r.epoch })
		if i < 0 {
			return fmt.Errorf("%s: there was no epoch %q", s.asked.Watcher, r.epoch)
		}
		truth, err := epochs[i].truth(histories[i])
		if err != nil {
			return err
		}
		all = append(all, check.Validate(&r.History, truth), histories[i].validate(&r.History, onPair), s.checkDelay(r))
	}
	return errors.Join(all...)
}

// checkDelay checks that live messages are at least the batch delay apart. A message may have waited
// for a subscriber that did not read.
func (s *subscriber) checkDelay(r *epochRecord) error {
	delay := s.options.BatchDelay
	if s.options.BookmarkInterval > 0 {
		delay = min(delay, s.options.BookmarkInterval)
	}
	for i, stream := range r.Streams {
		var last time.Time
		for j, m := range stream.Messages {
			if m.Kind != object.Live {
				continue
			}
			sentLate := slices.ContainsFunc(stream.Away, func(a check.Span) bool { return !last.Before(a.From) && !last.After(a.To) })
			if m.At.Sub(last) < delay && !sentLate {
				return fmt.Errorf("%s: stream %d, message %d: live events came %v after the previous ones, want at least %v", s.asked.Watcher, i, j, m.At.Sub(last), delay)
			}
			last = m.At
		}
	}
	return nil
}
