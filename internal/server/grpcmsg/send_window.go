package grpcmsg

import (
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// SendWindow limits the bytes of a gRPC stream that are in flight: gRPC has accepted them, and
// may not have written them to the buffer of the connection yet. Each entrance has one for each of its
// streams.
//
// gRPC blocks a sender while 64 KiB of its stream have not been written. So a worker, which must
// not wait, limits the bytes in flight. When 4 KiB or more are in flight, the worker appends a
// write fence to a message. While 16 KiB or more are in flight, the worker sends nothing until
// gRPC releases the fence. So if a client does not read, a few of its messages are in flight,
// and it costs the worker nothing.
//
// A fence is overdue if a worker waits for it and gRPC has not released it within a minute.
// Either the client does not read, or gRPC has lost the fence. Then the goroutine of
// dispatch.Stream.Serve, which may wait, sends the messages without fences. It does so until the
// fence is released, or until gRPC has accepted so many bytes after the fence that it must have
// written everything before them. Then gRPC has lost the fence, and the stream ends.
//
// Either the worker or Serve uses a SendWindow, never both at the same time. Any
// goroutine may call CheckFence, IsOverdue and IsBlocked.
type SendWindow struct {
	inFlight     int32        // bytes that gRPC may not have written yet
	beforeFence  int32        // the part of inFlight that was sent up to the fence; 0: gRPC has no fence
	afterOverdue int32        // bytes sent after an overdue fence; counted up to StreamWindow
	awaitsFence  atomic.Bool  // a worker has a message to send when the fence is released
	overdue      atomic.Bool  // the fence was not released within FenceTimeout
	sending      atomic.Bool  // Serve is sending a message
	sentAt       atomic.Int64 // time of the latest message that had a fence or came from Serve; Unix nanoseconds

	fence WriteFence
	ready func() // makes the worker serve the stream again; nil: no worker serves it
}

const (
	// maxInFlight limits the bytes in flight: a worker sends only while fewer bytes are in
	// flight. The limit is far below the 64 KiB of gRPC, because each message in flight costs
	// some memory besides the events that it shares with other watches.
	maxInFlight = 16 << 10

	// fenceBytes is the number of bytes in flight from which a worker appends a fence to a
	// message. A fence costs memory until gRPC has released it, so not every message has one.
	fenceBytes = 4 << 10

	// StreamWindow is how many bytes of a stream gRPC accepts before it blocks the sender.
	StreamWindow = 64 << 10

	// FenceTimeout is how long gRPC may take to release a fence before the fence is overdue.
	// If the peer is gone, the connection has ended by then, because keepalive or the timeout
	// of TCP ends it after 30 s.
	FenceTimeout = time.Minute

	// blockedAfter is how long gRPC may take to write a message to the buffer of the
	// connection before operators see that the watch is blocked.
	blockedAfter = 100 * time.Millisecond
)

// ErrFenceLost ends a stream whose write fence gRPC has lost.
var ErrFenceLost = status.Error(codes.Internal, "internal error: the server does not know whether it sent all messages of this stream; resume from your last position")

// Init sets the function that makes the worker serve the stream again. Without it, the window
// has no fences.
func (w *SendWindow) Init(ready func()) {
	w.ready = ready
	w.fence.Init(w.fenceReleased)
}

// HasRoom reports whether a worker may send another message. If not, the stream becomes ready
// when the fence is released.
func (w *SendWindow) HasRoom() bool {
	// For most messages, gRPC has no fence, and nothing reads the memory of the fence.
	if overdue := w.overdue.Load(); (w.beforeFence > 0 || overdue) && w.fence.Released() {
		if overdue {
			w.overdue.Store(false)
		}
		w.inFlight -= w.beforeFence
		w.beforeFence = 0
	}
	if w.inFlight < maxInFlight {
		return true
	}
	w.awaitFence()
	return false
}

// IsOverdue reports whether the fence is overdue. Any goroutine may call it.
func (w *SendWindow) IsOverdue() bool { return w.overdue.Load() }

// NeedsServe reports whether Serve has to send the next message. While a fence is overdue, it
// sends. If it has sent messages without a fence, it also sends the first
// message after the release of the overdue fence. That message has a fence, from which a worker
// learns when gRPC has written all of them.
func (w *SendWindow) NeedsServe() bool {
	return w.overdue.Load() && (w.afterOverdue > 0 || !w.fence.Released())
}

// BeginTrySend counts a message of the given size that a worker is about to send. It returns
// the fence to append to the message, or nil.
func (w *SendWindow) BeginTrySend(size int, now time.Time) *WriteFence {
	w.inFlight += int32(size)
	if w.inFlight < maxInFlight && (w.inFlight < fenceBytes || w.beforeFence > 0) {
		return nil
	}
	w.sentAt.Store(now.UnixNano())
	w.fence.Ref()
	w.beforeFence = w.inFlight
	return &w.fence
}

// TakesMessage reports whether a worker may call SendShared.
func (w *SendWindow) TakesMessage() bool { return !w.NeedsServe() && w.HasRoom() }

// SendShared sends a message from a worker, which has called TakesMessage.
func (w *SendWindow) SendShared(stream grpc.ServerStream, m *SharedMessage, now time.Time) error {
	if fence := w.BeginTrySend(m.Size(), now); fence != nil {
		return stream.SendMsg(m.WithFence(fence))
	}
	return stream.SendMsg(m)
}

// BeginSend is called when Serve is about to send a message. It returns the fence
// to append to the message, or nil. The caller calls EndSend when gRPC has accepted the
// message.
func (w *SendWindow) BeginSend(now time.Time) *WriteFence {
	w.awaitsFence.Store(false) // no worker serves the stream now
	w.sentAt.Store(now.UnixNano())
	w.sending.Store(true) // after the time, which IsBlocked reads afterwards
	w.endOverdue()
	if w.ready == nil || w.overdue.Load() {
		return nil
	}
	w.fence.Ref()
	return &w.fence
}

// CancelSend is called instead of EndSend when gRPC has refused the message.
func (w *SendWindow) CancelSend() { w.sending.Store(false) }

// EndSend is called when gRPC has accepted a message of Serve. The arguments are
// its size and the result of BeginSend.
func (w *SendWindow) EndSend(size int, fence *WriteFence) error {
	w.sending.Store(false)
	switch {
	case w.ready == nil:
	case fence == nil:
		return w.checkOverdueFence(size)
	case !fence.Released():
		w.inFlight = max(w.inFlight, maxInFlight)
		w.beforeFence = w.inFlight
	}
	return nil
}

// endOverdue makes Serve use fences again when an overdue fence has been released.
// The messages that it has sent meanwhile are in flight without a fence. The fence of its next
// message covers these messages, too.
func (w *SendWindow) endOverdue() {
	if w.overdue.Load() && w.fence.Released() {
		w.inFlight, w.beforeFence, w.afterOverdue = 0, 0, 0
		w.overdue.Store(false)
	}
}

// awaitFence makes the stream ready when the fence is released.
func (w *SendWindow) awaitFence() {
	w.awaitsFence.Store(true)
	if w.fence.Released() {
		w.fenceReleased()
	}
}

func (w *SendWindow) fenceReleased() {
	if w.awaitsFence.CompareAndSwap(true, false) {
		w.ready()
	}
}

// CheckFence makes Serve send the messages if a worker waits for the fence and the
// message with the fence was sent at least FenceTimeout ago.
func (w *SendWindow) CheckFence(now time.Time) {
	// The order matters: a sender stores sentAt before it appends the fence, so this method
	// does not read the time of an earlier message.
	if !w.awaitsFence.Load() || w.fence.Released() || now.Sub(time.Unix(0, w.sentAt.Load())) < FenceTimeout {
		return
	}
	if w.overdue.CompareAndSwap(false, true) {
		w.ready()
	}
}

// checkOverdueFence returns an error if the fence is lost. Serve calls it when gRPC
// has accepted a message of the given size without a fence.
//
// gRPC accepts a message only while less than StreamWindow bytes of its stream are unwritten.
// Suppose that StreamWindow bytes were sent after the fence, and gRPC then accepts another
// message. Then gRPC has written everything before the fence, and should have released the
// fence. If the client does not read, gRPC does not accept this other message, and blocks the
// sender.
func (w *SendWindow) checkOverdueFence(size int) error {
	if w.fence.Released() || w.afterOverdue < StreamWindow {
		w.afterOverdue = min(w.afterOverdue+int32(size), StreamWindow)
		return nil
	}
	return ErrFenceLost
}

// IsBlocked reports whether a message waits for the client. There are three cases: a worker
// has a message and waits for the fence; Serve has been sending a message for at
// least blockedAfter; gRPC has held a message with a fence for at least blockedAfter without
// writing it. A message without a fence does not count once gRPC has accepted it. For most watches,
// the time does not matter, and reading the clock would take longer than the rest.
func (w *SendWindow) IsBlocked(now func() time.Time) bool {
	fenceOut := !w.fence.Released()
	if fenceOut && w.awaitsFence.Load() {
		return true
	}
	return (w.sending.Load() || fenceOut) && now().Sub(time.Unix(0, w.sentAt.Load())) >= blockedAfter
}

// OnWritten calls a function once, when gRPC has written all messages up to the latest fence, or
// at once if it has. If the stream ends earlier, the function may never be called. A later call
// replaces the function of an earlier one.
func (w *SendWindow) OnWritten(then func()) { w.fence.OnRelease(then) }
