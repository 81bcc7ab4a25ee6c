package grpcmsg

import (
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/mem"

	"github.com/fanoutd/fanoutd/internal/sendqueue"
)

// stream is a send window with the messages that gRPC has accepted and not written yet. Only the test
// uses it. The test calls send as Serve would, and trySend as a worker would. Each
// message has 2 KiB.
type stream struct {
	SendWindow
	pending []mem.BufferSlice
	bytes   int
}

var (
	errFull       = errors.New("the window is full")
	errNeedsServe = errors.New("only Serve may send")
	errWouldBlock = errors.New("gRPC would block the sender")
)

const messageBytes = 2 << 10

func newStream() *stream {
	s := &stream{}
	s.Init(func() {})
	return s
}

// accept passes a message to gRPC.
func (s *stream) accept(fence *WriteFence) error {
	if s.bytes >= StreamWindow {
		return errWouldBlock
	}
	m := mem.BufferSlice{mem.SliceBuffer(make([]byte, messageBytes))}
	if fence != nil {
		m = append(m, fence)
	}
	s.pending, s.bytes = append(s.pending, m), s.bytes+messageBytes
	return nil
}

func (s *stream) send() error {
	fence := s.BeginSend(time.Now())
	if err := s.accept(fence); err != nil {
		return err
	}
	return s.EndSend(messageBytes, fence)
}

func (s *stream) trySend() error {
	switch {
	case s.NeedsServe():
		return errNeedsServe
	case !s.HasRoom():
		return errFull
	}
	return s.accept(s.BeginTrySend(messageBytes, time.Now()))
}

// write writes everything, as if the client had read.
func (s *stream) write() {
	for len(s.pending) > 0 {
		s.writeFirst()
	}
}

// writeFirst writes the first message, as if the client had read a little.
func (s *stream) writeFirst() {
	first := s.pending[0]
	s.pending, s.bytes = s.pending[1:], s.bytes-messageBytes
	first.Free()
}

// When an overdue fence is released, the messages that the handler sent after the fence still
// count as in flight. Otherwise gRPC would block the worker.
func TestReleaseOfAnOverdueFenceLeavesLaterMessagesInFlight(t *testing.T) {
	s := newStream()
	if err := s.send(); err != nil {
		t.Fatal(err)
	}
	if err := s.trySend(); !errors.Is(err, errFull) {
		t.Fatalf("got %v from the worker while the fence is out, want %v", err, errFull)
	}
	s.CheckFence(time.Now().Add(2 * FenceTimeout))
	for s.bytes < StreamWindow-4<<10 {
		if err := s.send(); err != nil {
			t.Fatal(err)
		}
	}
	s.writeFirst() // the message with the fence, and nothing else
	if !s.fence.Released() {
		t.Fatal("the fence is not released")
	}
	if err := s.trySend(); !errors.Is(err, errNeedsServe) {
		t.Errorf("got %v from the worker after the fence is released, want %v", err, errNeedsServe)
	}
	if err := s.send(); err != nil {
		t.Fatal(err)
	}
	if err := s.trySend(); !errors.Is(err, errFull) {
		t.Errorf("got %v from the worker after a message of the handler, want %v", err, errFull)
	}
	s.write()
	if err := s.trySend(); err != nil {
		t.Errorf("got %v from the worker after everything is written, want no error", err)
	}
}

// A fence is overdue only if a worker waits for it when the whole timeout has passed since the
// message with the fence was sent.
func TestNewFenceIsNotOverdue(t *testing.T) {
	s := newStream()
	if err := s.send(); err != nil {
		t.Fatal(err)
	}
	if err := s.trySend(); !errors.Is(err, errFull) {
		t.Fatalf("got %v from the worker while the fence is out, want %v", err, errFull)
	}
	s.write()
	s.sentAt.Add(-int64(FenceTimeout)) // the first fence went out long ago
	// The handler goes first, with a catch-up.
	for range 3 {
		if err := s.send(); err != nil {
			t.Fatal(err)
		}
	}
	if s.CheckFence(time.Now().Add(FenceTimeout - time.Second)); s.overdue.Load() {
		t.Error("the handler's fence is overdue at once")
	}
	if s.CheckFence(time.Now().Add(2 * FenceTimeout)); s.overdue.Load() {
		t.Error("a fence is overdue although no worker waits for it")
	}
	// A worker waited, but the handler has the watch again and sends.
	if err := s.trySend(); !errors.Is(err, errFull) {
		t.Fatalf("got %v from the worker while the fence is out, want %v", err, errFull)
	}
	if err := s.send(); err != nil {
		t.Fatal(err)
	}
	if s.CheckFence(time.Now().Add(2 * FenceTimeout)); s.overdue.Load() {
		t.Error("a fence is overdue although the handler sends")
	}
}

// A watch is blocked while a message waits for its client, but not merely because it sends a
// message.
func TestBlockedMeansThatAMessageWaits(t *testing.T) {
	s := newStream()
	check := func(what string, after time.Duration, want bool) {
		t.Helper()
		if got := s.IsBlocked(func() time.Time { return time.Now().Add(after) }); got != want {
			t.Errorf("%s: got blocked %v, want %v", what, got, want)
		}
	}
	check("before the first message", 0, false)
	if err := s.send(); err != nil {
		t.Fatal(err)
	}
	check("a message was just sent", 0, false)
	check("gRPC does not write a message", time.Second, true)
	if err := s.trySend(); !errors.Is(err, errFull) {
		t.Fatalf("got %v from the worker while the fence is out, want %v", err, errFull)
	}
	check("a worker has a message and waits", 0, true)
	s.write()
	check("everything is written", time.Second, false)
	if fence := s.BeginSend(time.Now()); fence != nil {
		fence.Free() // gRPC has written it, but has not accepted the message
	}
	check("the handler sends", 0, false)
	check("the handler is blocked without a fence", time.Second, true)
	s.CancelSend()
	check("the message was refused", time.Second, false)
	fence := s.BeginSend(time.Now())
	if err := s.EndSend(1, fence); err != nil {
		t.Fatal(err)
	}
	fence.Free()
	check("the handler has sent", time.Second, false)
}

// A sender that waits for its fence becomes ready when the fence is released, even if that
// happens just before it begins to wait. A sender that does not wait does not become ready.
func TestNoReleaseOfAFenceIsMissed(t *testing.T) {
	workers := sendqueue.Start(1)
	t.Cleanup(workers.Stop)
	on := workers.NewQueue()
	ran := make(chan struct{}, 10)
	s := &SendWindow{}
	ready := on.NewTask(func(time.Time) { ran <- struct{}{} })
	s.Init(ready.Ready)
	runs := func() int {
		done := make(chan struct{})
		last := on.NewTask(func(time.Time) { close(done) })
		last.Ready()
		<-done
		n := len(ran)
		for range n {
			<-ran
		}
		return n
	}
	s.fence.Ref()
	s.fence.Free()
	if n := runs(); n != 0 {
		t.Errorf("got %d runs although the sender does not wait", n)
	}
	s.awaitFence()
	if n := runs(); n != 1 {
		t.Errorf("got %d runs for a fence that was released, want 1", n)
	}
	s.fence.Ref()
	s.fence.Ref()
	s.awaitFence()
	s.fence.Free()
	if n := runs(); n != 0 {
		t.Errorf("got %d runs while a message is in flight, want none", n)
	}
	s.fence.Free()
	if n := runs(); n != 1 {
		t.Errorf("got %d runs after the release, want 1", n)
	}
}

// OnRelease calls its function once, even if the fence is already released.
func TestOnReleaseCallsOnce(t *testing.T) {
	f, calls := &WriteFence{}, 0
	f.Init(func() {})
	f.OnRelease(func() { calls++ })
	if calls != 1 {
		t.Errorf("got %d calls for a released fence, want 1", calls)
	}
	f.Ref()
	f.OnRelease(func() { calls++ })
	f.Ref()
	f.Free()
	if calls != 1 {
		t.Errorf("got %d calls while a message is in flight, want 1", calls)
	}
	f.Free()
	f.Ref()
	f.Free()
	if calls != 2 {
		t.Errorf("got %d calls, want one for each OnRelease", calls)
	}
}
