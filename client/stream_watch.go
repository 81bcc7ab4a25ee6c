package client

import (
	"io"
	"sync"
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
	minBuffer  = 256 << 10
	maxBuffer  = 4 << 20
	allBuffers = 16 << 20
)

// streamWatch is a watch on a shared stream. The reader of the stream puts messages into its
// buffer. If the buffer is full, the watch is stopped. The watcher takes what the buffer has, and
// then continues on a stream of its own: its flow control makes the server wait, so a caller that is
// slower than the network makes progress even within a snapshot, which cannot be resumed. When the caller
// has caught up, the watch comes back.
type streamWatch struct {
	stream *sharedStream
	id     uint64
	ready  chan struct{} // wakes the watcher; buffers one signal

	answered bool        // the watch has received a message; belongs to the watcher
	timer    *time.Timer // belongs to the watcher
	unbind   func() bool // from the context of the watch

	// Guarded by the mutex of the stream.
	start    *fanoutv1.WatchRequest // to be written; nil: it was written
	gone     bool                   // no further messages follow
	drained  bool                   // no message counts any more
	reportAt time.Time              // when the watch may report

	reports      *streamReports // set before the first report is queued
	reportQueued atomic.Bool

	mu    sync.Mutex
	first *message   // guarded by mu
	more  []*message // after the first; guarded by mu
	bytes int        // of all messages; guarded by mu
	err   error      // after the messages; guarded by mu
	ended func()     // is called when err is set; guarded by mu
}

func newStreamWatch(s *sharedStream, req *fanoutv1.WatchRequest) *streamWatch {
	start := proto.CloneOf(req)
	start.Subscriber = nil // that of the stream counts
	return &streamWatch{stream: s, start: start, ready: make(chan struct{}, 1)}
}

// Recv implements watchStream.
func (w *streamWatch) Recv(limit time.Duration) (*message, error) {
	m, err := w.take()
	if m == nil && err == nil {
		m, err = w.wait(limit)
	}
	if m != nil {
		w.answered = true
	}
	return m, err
}

// wait returns the next message as soon as it arrives. The timer runs only here, so time that the caller spends on an
// update does not count as silence of the server.
func (w *streamWatch) wait(limit time.Duration) (*message, error) {
	if w.timer == nil {
		w.timer = time.NewTimer(limit)
	} else {
		w.timer.Reset(limit)
	}
	defer w.timer.Stop()
	for {
		select {
		case <-w.ready:
		case <-w.timer.C:
			if err := w.stream.silent(limit, w.answered); err != nil {
				return nil, err
			}
			continue // the stream fails
		}
		if m, err := w.take(); m != nil || err != nil {
			return m, err
		}
	}
}

// take returns the first message. If there is none, it returns the error, if that is known.
func (w *streamWatch) take() (*message, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.first
	if m == nil {
		return nil, w.err
	}
	w.bytes -= m.size
	w.account(-m.size)
	w.first = nil
	if len(w.more) > 0 {
		w.first, w.more[0] = w.more[0], nil
		if w.more = w.more[1:]; len(w.more) == 0 {
			w.more = nil
		}
	}
	return m, nil
}

// put adds a message. It returns false if the buffer is full.
func (w *streamWatch) put(m *message) bool {
	limit := minBuffer
	if w.stream.buffered.Load() < allBuffers {
		limit = maxBuffer
	}
	w.mu.Lock()
	switch {
	case w.first == nil:
		w.first = m
	case w.bytes+m.size > limit:
		w.mu.Unlock()
		w.end(errTooSlow)
		return false
	default:
		w.more = append(w.more, m)
	}
	w.bytes += m.size
	w.mu.Unlock()
	w.account(m.size)
	w.wake()
	return true
}

// end sets the error after the last message.
func (w *streamWatch) end(err error) {
	w.mu.Lock()
	w.err = err
	ended := w.ended
	w.mu.Unlock()
	w.wake()
	if ended != nil {
		ended()
	}
}

// onEnd implements watchStream.
func (w *streamWatch) onEnd(f func()) {
	w.mu.Lock()
	w.ended = f
	over := w.err != nil
	w.mu.Unlock()
	if over {
		f()
	}
}

// discard implements watchStream.
func (w *streamWatch) discard() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.account(-w.bytes)
	w.first, w.more, w.bytes = nil, nil, 0
}

// account implements watchStream.
func (w *streamWatch) account(bytes int) { w.stream.buffered.Add(int64(bytes)) }

func (w *streamWatch) wake() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

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
