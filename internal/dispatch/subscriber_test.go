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
	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/selector"
	"github.com/fanoutd/fanoutd/internal/wire"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/check/recorded"
)

// subscriber is a client that comes and goes, and records what it is told.
type subscriber struct {
	choose   chooser
	interest dispatch.Interest
	options  dispatch.Options
	byWorker counts        // nil: the worker sends it nothing
	asked    check.History // what it asks for; without streams

	parts    []*part // one for each epoch that it has seen, oldest first
	watcher  reader
	open     *check.Stream   // what the watcher is recorded in; nil: there is no watcher
	of       object.Position // where the server was when the stream was opened
	kind     object.CatchUp  // of the last catch-up
	homeless bool            // no message has come, so that it is not known to which part the stream belongs
	left     time.Time       // when it ceased to listen
	expired  bool            // it was told that its position is too old
}

// part is what a subscriber saw of one epoch.
type part struct {
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
	labels, fields := ofLabels[0], ofFields[0]
	switch c("selector", 4) {
	case 0:
		labels = pick(c, "labels", ofLabels...)
	case 1:
		fields = pick(c, "fields", ofFields...)
	case 2:
		labels, fields = pick(c, "labels", ofLabels...), pick(c, "fields", ofFields...)
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
	if c.often("follows", 5) {
		s.byWorker = counts{}
	}
	s.asked = check.History{
		Watcher:    name,
		Scope:      s.interest.Scope,
		Picks:      func(o *object.Object) bool { return labels.picks(o) && fields.picks(o) },
		Selects:    s.interest.Selector.String(),
		Previous:   s.interest.Projection.Previous,
		OmitValues: s.interest.Projection.OmitValues,
		Latest:     s.options.Latest,
		EveryEvent: s.options.EveryEvent,
		Bookmarks:  s.options.BookmarkInterval,
	}
	return s, nil
}

// begin opens a stream, at the last position if it has one, or elsewhere.
func (s *subscriber) begin(v *server) {
	// A server reads like this first for whoever does not ask for less. What is
	// not reached is an outage.
	state, err := v.cacher.Read(context.Background(), cacher.Consistency{})
	if err != nil {
		state = v.cacher.State()
	}
	stream := &check.Stream{Opened: time.Now(), Ended: time.Now()}
	position, known := s.position()
	var begin dispatch.Begin
	switch n := s.choose("begin", 10); {
	case known && !s.expired && n < 6:
		stream.Begin, stream.Position = check.After, position
		begin = dispatch.After(position)
	case n == 6:
		stream.Begin, stream.NotBefore = check.FromNow, state.Revision()
		begin = dispatch.FromNow(state.Position())
	case n == 7:
		oldest := max(1, state.Replayable()-1)
		stream.Exact = oldest + object.Revision(s.choose("exactly", int(state.Revision()-oldest)+1))
		begin = dispatch.FromExactly(stream.Exact)
	case n == 8:
		begin = dispatch.FromSnapshot(0)
	default:
		stream.NotBefore = state.Revision()
		begin = dispatch.FromSnapshot(stream.NotBefore)
	}
	s.expired = false
	s.open, s.of, s.homeless, s.left = stream, state.Position(), true, time.Now()
	if s.byWorker != nil {
		s.watcher = readByWorker(v.dispatcher, v.queue(), s.interest, begin, s.options, s.byWorker)
	} else {
		s.watcher = v.dispatcher.Pull(v.queue(), s.interest, begin, s.options)
	}
}

// position returns the last position that it was given.
func (s *subscriber) position() (object.Position, bool) {
	if len(s.parts) == 0 {
		return object.Position{}, false
	}
	return s.parts[len(s.parts)-1].Position()
}

// leave ends the stream, as a client does or as a server that says where to resume.
func (s *subscriber) leave() {
	if s.open != nil && !s.homeless && s.choose.often("farewell", 5) {
		s.listen()
		m := check.Message{At: time.Now()}
		m.Kind, m.Position = object.Draining, s.watcher.Position()
		s.open.Ended = m.At
		s.open.Messages = append(s.open.Messages, m)
	}
	s.hangUp()
}

// hangUp ends the stream without a word.
func (s *subscriber) hangUp() {
	if s.open == nil {
		return
	}
	s.watcher.Close()
	if s.homeless && len(s.parts) > 0 && s.open.Begin == check.After {
		s.keep()
	}
	s.open = nil
}

// keep puts the stream among those of the present part.
func (s *subscriber) keep() {
	p := s.parts[len(s.parts)-1]
	p.Streams = append(p.Streams, *s.open)
	s.open, s.homeless = &p.Streams[len(p.Streams)-1], false
}

// place finds the part to which a message belongs.
func (s *subscriber) place(epoch object.Epoch) {
	n := len(s.parts)
	if n > 0 && s.parts[n-1].epoch == epoch {
		if s.homeless {
			s.keep()
		}
		return
	}
	stream := check.Stream{Begin: check.FromNothing, Opened: time.Now(), Ended: time.Now()}
	if s.homeless && s.of.Epoch == epoch && s.open.Begin != check.After {
		stream = *s.open
	} else if s.homeless && n > 0 && s.open.Begin == check.After {
		s.keep() // what it asked for was of the epoch before
	}
	s.parts = append(s.parts, &part{epoch, s.asked})
	s.open, s.homeless = &stream, true
	s.keep()
}

// errNothing says that no message came in time.
var errNothing = errors.New("nothing came")

// listen notes that the subscriber has not listened for a while.
func (s *subscriber) listen() {
	if now := time.Now(); now.After(s.left) {
		s.open.Away = append(s.open.Away, check.Span{From: s.left, To: now})
	}
}

// receive waits for a message. Errors are errNothing and those of a stream that has
// ended, which is then closed.
func (s *subscriber) receive(wait time.Duration) error {
	s.listen()
	ctx, cancel := context.WithTimeoutCause(context.Background(), wait, errNothing)
	defer cancel()
	raw, err := s.watcher.Next(ctx)
	s.left, s.open.Ended = time.Now(), time.Now()
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
	s.place(m.Position.Epoch)
	s.open.Ended = m.At
	s.open.Messages = append(s.open.Messages, m)
	if m.Kind == object.CatchUpBegin {
		s.kind = m.CatchUp
	}
	if m.Kind == object.Synced && s.kind == object.Replay && m.Position.Epoch == s.of.Epoch && m.Position.Revision < s.of.Revision {
		return fmt.Errorf("%s: replayed to %v, the server was at %v when it was asked", s.asked.Watcher, m.Position, s.of)
	}
	return nil
}

// ended notes how the stream ended, and returns an error if it should not have.
func (s *subscriber) ended(err error) error {
	var lost *dispatch.LostError
	var epoch *dispatch.EpochError
	position := s.watcher.Position()
	switch {
	case errors.Is(err, dispatch.ErrStopped):
		err = nil
	case errors.As(err, &lost) && s.open.Exact != 0 && !s.shown():
		if lost.Asked != s.open.Exact || lost.Oldest <= lost.Asked && lost.Asked <= lost.Current {
			return fmt.Errorf("%s: refused exactly %d: %w", s.asked.Watcher, s.open.Exact, err)
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
	s.hangUp()
	if err != nil {
		return fmt.Errorf("%s: %w", s.asked.Watcher, err)
	}
	return errEnded
}

// shown reports whether the snapshot that the stream begins with is complete.
func (s *subscriber) shown() bool {
	return slices.ContainsFunc(s.open.Messages, func(m check.Message) bool { return m.Kind == object.Synced })
}

// errEnded says that the stream has ended for a reason that there may be.
var errEnded = errors.New("the stream has ended")

// read reads a number of messages, with pauses, and returns what must not be.
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
			rest(s.choose)
		}
	}
	return nil
}

// live comes, reads and leaves until everything is written, and then reads all of it.
func (s *subscriber) live(y *system, written <-chan struct{}) error {
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
		rest(s.choose)
	}
}

// catchUp reads until the subscriber is where the store is, at rest.
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
			return fmt.Errorf("%s: rests at %v, the server is at %v", s.asked.Watcher, s.watcher.Position(), y.server().cacher.State().Position())
		default:
			return nil
		}
	}
}

// settled reports whether the last message was a bookmark that says it all, which
// goes on for ever.
func (s *subscriber) settled(y *system) bool {
	if s.open == nil || len(s.open.Messages) == 0 {
		return false
	}
	m := s.open.Messages[len(s.open.Messages)-1]
	return m.Kind == object.Bookmark && m.Position == y.server().cacher.State().Position()
}

// judge compares what the subscriber saw with what happened.
func (s *subscriber) judge(worlds []*world, pasts []*past, met func(pair)) error {
	var all []error
	for _, p := range s.parts {
		i := slices.IndexFunc(worlds, func(w *world) bool { return w.epoch == p.epoch })
		if i < 0 {
			return fmt.Errorf("%s: there was no epoch %q", s.asked.Watcher, p.epoch)
		}
		truth, err := worlds[i].truth(pasts[i])
		if err != nil {
			return err
		}
		all = append(all, check.Validate(&p.History, truth), pasts[i].conforms(&p.History, met), s.delayed(p))
	}
	return errors.Join(all...)
}

// delayed checks that live events keep the distance that was asked for.
func (s *subscriber) delayed(p *part) error {
	delay := s.options.BatchDelay
	if s.options.BookmarkInterval > 0 {
		delay = min(delay, s.options.BookmarkInterval)
	}
	for i, stream := range p.Streams {
		var last time.Time
		for j, m := range stream.Messages {
			if m.Kind != object.Live {
				continue
			}
			if m.At.Sub(last) < delay {
				return fmt.Errorf("%s: stream %d, message %d: live events %v after the last ones, the delay is %v", s.asked.Watcher, i, j, m.At.Sub(last), delay)
			}
			last = m.At
		}
	}
	return nil
}
