package server

import (
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/grpcmsg"
	"github.com/fanoutd/fanoutd/internal/wire"
)

// streamSender sends the messages of a watch to its gRPC stream. It implements
// [dispatch.Sink]: the handler of the watch calls Send, which waits while the client does
// not read, and a worker calls TrySend, which must not wait.
//
// gRPC makes a sender wait when 64 KiB of a stream have not been written to the buffer of
// the connection. So the worker keeps the bytes in flight below that. It appends a write
// fence to some messages, and gRPC releases the fence when it has written them. A client
// that does not read has a few messages in flight and costs the worker nothing.
type streamSender struct {
	stream grpc.ServerStream
	trail  backend.WriteTracer // nil: nobody follows writes

	inFlight int32 // bytes that gRPC may not have written yet; belongs to the owner of the watcher
	covered  int32 // those of them that are written when the fence is released
	broken   bool  // a message could not be sent

	awaited atomic.Bool // the watcher has to be made ready when the fence is released
	fence   flight
	watcher *dispatch.Watcher // nil: of a resource without a cache
	ready   readier           // the watcher

	ends    *ending
	session *session
	of      *watching
}

type readier interface{ Ready() }

const (
	// maxInFlight is how much may be in flight before a worker waits for it to be written.
	// It is far below gRPC's 64 KiB, because each message in flight costs some memory
	// besides the events that it shares with others.
	maxInFlight = 16 << 10

	// fenceBytes is how much may be in flight before a worker appends a fence to a message.
	// A fence costs memory for a moment, so not each message has one.
	fenceBytes = 4 << 10
)

func (s *streamSender) init(of *watching) { s.ends, s.session, s.of = &of.ends, &of.session, of }

// attach sets the watcher, before it is served.
func (s *streamSender) attach(w *dispatch.Watcher) {
	s.watcher, s.ready = w, w
	s.fence.init(s.released)
	s.ends.onEnd(w.Stop)
}

// Reserve implements [dispatch.Sink].
func (s *streamSender) Reserve() error {
	err := s.of.turn.reserve(s.ends)
	if s.watcher != nil {
		s.ends.forget() // nobody else has waited
	}
	return err
}

// Send implements [dispatch.Sink].
func (s *streamSender) Send(m dispatch.Message) error {
	if reason, _ := s.ends.why(); apierr.IsDenied(reason) {
		return reason // the message may have what happened after the right was gone
	}
	message := grpcmsg.Join(m.Events, wire.AppendHeader(nil, m.Header))
	var fence *flight
	if s.watcher != nil {
		fence = &s.fence
		fence.Ref()
		message = append(message, fence)
	}
	w := s.of
	w.turn.before()
	s.session.sending()
	if err := s.stream.SendMsg(message); err != nil {
		s.broken = true
		return err
	}
	if fence != nil && !fence.over() {
		s.inFlight = max(s.inFlight, maxInFlight)
		s.covered = s.inFlight
	}
	first := s.note(&m, message.Size())
	w.tally.note(&m, 1, message.Size(), first, time.Now())
	w.turn.after(&m.Header, fence)
	w.hurry(&m.Header, first)
	return nil
}

// TrySend implements [dispatch.Sink].
func (s *streamSender) TrySend(b *dispatch.Batch, _ time.Time) error {
	if reason, _ := s.ends.why(); reason != nil {
		return reason // the last message is for the handler
	}
	if !s.hasRoom() {
		return dispatch.ErrFull
	}
	p := parcelOf(b)
	var message any = p
	s.inFlight += int32(p.size)
	if s.inFlight >= maxInFlight || s.inFlight >= fenceBytes && s.covered == 0 {
		s.fence.Ref()
		s.covered = s.inFlight
		message = p.with(&s.fence)
	}
	if err := s.stream.SendMsg(message); err != nil {
		s.broken = true
		return err
	}
	s.note(&b.Message, p.size)
	return nil
}

// Sent implements [dispatch.Sink].
func (s *streamSender) Sent(b *dispatch.Batch, n int, now time.Time) {
	s.of.tally.note(&b.Message, n, parcelOf(b).size, false, now)
}

// Prefetch implements [dispatch.Sink].
func (s *streamSender) Prefetch() int {
	seen := 0
	if s.ends.reason.Load() != nil {
		seen++
	}
	if s.stream.Context() != nil {
		seen++
	}
	return seen
}

// hasRoom reports whether another message may be in flight. If not, the watcher is made
// ready when there is room.
func (s *streamSender) hasRoom() bool {
	if s.covered > 0 && s.fence.over() {
		s.inFlight -= s.covered
		s.covered = 0
	}
	if s.inFlight < maxInFlight {
		return true
	}
	s.awaitFence()
	return false
}

// awaitFence makes the watcher ready when the fence is released.
func (s *streamSender) awaitFence() {
	s.awaited.Store(true)
	if s.fence.over() {
		s.released()
	}
}

func (s *streamSender) released() {
	if s.awaited.CompareAndSwap(true, false) {
		s.ready.Ready()
	}
}

// note records that a message was handed to gRPC, and reports whether it is the first.
func (s *streamSender) note(m *dispatch.Message, size int) (first bool) {
	before, first := s.session.note(&m.Header, size)
	if trail := s.trail; trail != nil && m.Header.Kind == object.Live && trail.Wants() {
		s.of.follow(trail, m, before, size)
	}
	return first
}
