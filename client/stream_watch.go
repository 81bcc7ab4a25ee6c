package client

import (
	"io"
	"sync/atomic"
	"time"

	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// The buffers bound the bytes of the messages that wait for the callers of watches. A watch always
// has room for one message and for minBuffer. It may use up to maxBuffer while the watches of its
// stream have less than allBuffers together, because a short delay of the scheduler must not
// interrupt a snapshot. A watch whose
// buffer is full leaves the shared stream.
const (
	maxBuffer  = 4 << 20
	allBuffers = 16 << 20
)

// streamWatch is a watch on a shared stream. The reader of the stream puts messages into its
// buffer. If the buffer is full, the watch is stopped. The watcher takes what the buffer has, and
// then continues on a stream of its own: its flow control makes the server wait, so a caller that is
// slower than the network makes progress even within a snapshot, which cannot be resumed. When the caller
// has caught up, the watch comes back.
type streamWatch struct {
	inbox
	stream *sharedStream
	id     uint64
	limit  time.Duration // of the silence before the server has answered the start
	unbind func() bool   // from the context of the watch

	// Guarded by the mutex of the stream.
	start     *fanoutv1.WatchRequest // to be written; nil: it was written, or need not be
	unwritten bool                   // the watch was stopped before its start was written
	delayed   bool                   // the watch has waited for its limit before the start was written
	begun     bool                   // the server has answered the start
	gone      bool                   // no further messages follow
	drained   bool                   // no message counts any more
	reportAt  time.Time              // when the watch may report

	reports      *streamReports // set before the first report is queued
	reportQueued atomic.Bool
}

func newStreamWatch(s *sharedStream, req *fanoutv1.WatchRequest) *streamWatch {
	start := proto.CloneOf(req)
	start.Subscriber = nil // that of the stream counts
	return &streamWatch{inbox: newInbox(), stream: s, limit: firstLimit(req.GetBookmarkInterval().AsDuration()), start: start}
}

// Recv implements watchStream.
func (w *streamWatch) Recv(limit time.Duration) (*message, error) {
	for {
		if m, err := w.inbox.take(); m != nil {
			w.account(-m.size)
			return m, nil
		} else if err != nil {
			return nil, err
		}
		if w.wait(limit) {
			continue
		}
		if err := w.stream.silent(w, limit); err != nil {
			return nil, err
		}
	}
}

// put adds a message. It returns false if the buffer is full.
func (w *streamWatch) put(m *message) bool {
	limit := minBuffer
	if w.stream.buffered.Load() < allBuffers {
		limit = maxBuffer
	}
	w.account(m.size)
	if !w.inbox.put(m, limit) {
		w.account(-m.size)
		w.end(errTooSlow)
		return false
	}
	return true
}

// account implements watchStream.
func (w *streamWatch) account(bytes int) { w.stream.buffered.Add(int64(bytes)) }

// discard implements watchStream.
func (w *streamWatch) discard() { w.account(-w.clear()) }

// startReports implements watchStream.
func (w *streamWatch) startReports(r *streamReports) {
	w.reports = r
	r.begin(w)
	w.wakeReports()
}

// wakeReports implements reportCarrier.
func (w *streamWatch) wakeReports() {
	if !w.reportQueued.Load() {
		w.stream.queueReport(w)
	}
}

func (w *streamWatch) server() string { return w.stream.choice.server() }

func (w *streamWatch) shared() bool { return true }

func (w *streamWatch) mayMove() bool { return false }

func (w *streamWatch) close() {
	w.unbind()
	w.stop()
}

// stop ends the watch, and drops what waits for the caller.
func (w *streamWatch) stop() {
	w.stream.mu.Lock()
	w.stream.stop(w)
	w.stream.mu.Unlock()
	w.discard()
}

// endOf returns the error with which the server has ended a watch.
func endOf(s *statuspb.Status) error {
	if codes.Code(s.GetCode()) == codes.OK {
		return io.EOF
	}
	return ErrorOfStatus(s)
}

// sizeOf returns about how many bytes a message takes in memory.
func sizeOf(m *fanoutv1.WatchResponse) int {
	size := 200
	for _, e := range m.GetEvents() {
		size += 100 + sizeOfObject(e.GetObject()) + sizeOfObject(e.GetPrevious())
	}
	return size
}

func sizeOfObject(o *fanoutv1.Object) int {
	if o == nil {
		return 0
	}
	size := 200 + len(o.GetKey()) + len(o.GetText()) + len(o.GetData()) + len(o.GetContentType())
	for name, value := range o.GetLabels() {
		size += 50 + len(name) + len(value)
	}
	return size
}
