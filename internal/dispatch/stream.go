package dispatch

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
)

// Stream sends the messages of many watches, of one or more dispatchers, through one sink.
//
// One worker, that of the queue, makes and sends all responses, so the watches of a stream never
// wait for each other's clients, locks or goroutines. Start, Refuse, End, EndAll, Finish and Ready
// only put something into the inbox of the stream and wake the worker. Any goroutine may call
// them, and they never wait for the client. (Start also takes the mutex of the feeds.)
//
// Serve is the only goroutine of a stream, apart from those that wait for a slot or serve
// a watch of StartDirect. It makes the parts of catch-ups and gives them to the worker, closes
// cursors, and sends when the sink needs a sender that may wait.
type Stream struct {
	// A group uses the first cache line for each message of a member.

	mu     sync.Mutex
	ended  bool                  // guarded by mu: Serve has to return
	unsent bool                  // response was made and not sent; Serve sends it. Only the worker uses it
	solo   bool                  // see StreamConfig.Solo; never changes
	inbox  []func(now time.Time) // guarded by mu: what the worker has to do before anything else
	sink   StreamSink            // never changes

	// These never change.

	responseBytes int
	order         uint32         // see StreamConfig.Order
	task          sendqueue.Task // calls run
	wakeServe     chan struct{}  // capacity 1: Serve has something to do
	waits         sync.WaitGroup // for the goroutines that Serve has to wait for

	isWaiting atomic.Bool // the stream has something to send, and the sink had no room when it was last asked

	cause    error              // guarded by mu: the result of Serve
	released bool               // guarded by mu: the worker does not use the stream any more
	ctx      context.Context    // guarded by mu: ends when Serve returns; nil: nobody has needed it
	cancel   context.CancelFunc // guarded by mu: ends ctx
	toClose  []*cursor          // guarded by mu: Serve has to close these
	toSend   *Response          // guarded by mu: Serve has to send this; nil: nothing
	answers  answerCount        // guarded by mu
	catchUps catchUpQueue       // guarded by mu

	// Only the worker uses the fields below.

	resources []*streamResource // one for each dispatcher that has watches of the stream
	settling  []*cursor         // cursors that are about to become live; see cursor.settle
	watches   int               // number of watches that have not ended

	latest     *cursor   // of the latest watch that got a cursor of its own; nil: none, or it is closed
	joins      []join    // watches that have joined a live cursor and have got no message yet
	candidates []*cursor // live cursors whose watches may move to a shared one

	directs *directCursors // the watches of StartDirect; nil: there was none

	waitingAnswers []answer
	parts          *madeParts // made by Serve, and not sent yet; nil: none
	partsNext      bool       // the parts are sent before live events
	used           int        // upper limit of the size of the response
	response       Response   // the memory of the response
	ready          bool       // the task is ready because a cursor was marked
	more           bool       // the last response had More
	finishing      bool       // Serve returns when the last watch has ended
	soloEnd        error      // of a stream with one watch: why the watch has ended
	endAll         *Ending    // how all watches have ended; nil: EndAll was not called
	clock          streamClock
}

// StreamConfig configures a stream. Queue and Sink are required.
type StreamConfig struct {
	Queue *sendqueue.Queue // of the connection; its worker sends
	Sink  StreamSink

	// Solo means that Start or StartDirect is called once. Each response has one message at most, and
	// an end.
	Solo bool

	// Order orders the streams of one queue. When several members of a group get the same message,
	// those with a lower Order get it first. A stream that the client opened later should have a
	// higher one.
	Order uint32

	// ResponseBytes limits a response. A single event above it has a response of its own.
	// Default 1 MiB (Config.MessageBytes of the dispatchers should not exceed it).
	ResponseBytes int

	// LastBookmark is when every watch that is up to date gets its last bookmark, because the
	// deadline of the stream is near. Zero: never.
	LastBookmark time.Time
}

// NewStream returns a stream. The caller calls Serve, and waits for it.
func NewStream(c StreamConfig) *Stream {
	s := &Stream{
		sink: c.Sink, solo: c.Solo, order: c.Order,
		responseBytes: cmp.Or(c.ResponseBytes, 1<<20),
		wakeServe:     make(chan struct{}, 1),
	}
	s.task = c.Queue.NewTask(s.run)
	s.clock = streamClock{lastBookmark: c.LastBookmark}
	return s
}

// Finish makes Serve return nil when the last watch has ended and all is sent. No Start may
// follow.
func (s *Stream) Finish() {
	s.post(func(time.Time) { s.finishing = true })
}

// Ready makes the worker try again. The sink calls it when it has room again. Any goroutine may
// call Ready.
func (s *Stream) Ready() { s.task.Ready() }

// Start starts a watch. The caller has waited until the source is as fresh as
// begin requires. Options.LastBookmark is ignored (see
// StreamConfig.LastBookmark). Until the entry with Ended has been sent, the watch has its id: the
// caller may start another StreamWatch with the same id after End(w). All messages and the Ended
// of the old watch leave before those of the new one.
//
// Ends and refusals are answered in the order of the calls.
func (s *Stream) Start(d *Dispatcher, w *StreamWatch, i feed.Interest, b catchup.Begin, o Options) {
	if s.isEnded() {
		return
	}
	g := d.enter(&i, s.task.Queue())
	if !s.post(func(now time.Time) { s.begin(w, g, b, &o, now) }) {
		d.exit(g, 1)
	}
}

// Refuse answers a start that was refused: an entry with Refused for the id.
func (s *Stream) Refuse(id uint64, reason error) {
	s.postAnswers(1, func(time.Time) { s.waitingAnswers = append(s.waitingAnswers, answer{id: id, refused: reason}) })
}

// End ends a watch. A watch that has ended or is ending is left alone: the first call counts.
func (s *Stream) End(w *StreamWatch, e Ending) {
	if w.beginEnding() {
		s.postAnswers(1, func(time.Time) { s.end(w, &e) })
	}
}

// EndAt ends a watch at a time, unless it ends earlier. One timer of the stream serves all
// watches. EndAt may be called once for each watch.
func (s *Stream) EndAt(w *StreamWatch, at time.Time, e Ending) {
	s.post(func(time.Time) {
		if !w.isEnding() {
			s.clock.due.add(due{at: at, place: &w.due, watch: w, ending: &e})
		}
	})
}

// EndAll ends all watches, and then the stream, as Finish does. Watches at one position share the
// DRAINING message.
func (s *Stream) EndAll(e Ending) {
	s.post(func(time.Time) {
		if s.endAll != nil {
			return
		}
		s.finishing, s.endAll = !s.solo, &e // Start follows, if the one watch has not begun
		for _, c := range s.cursors() {
			s.endCursor(c, &e)
		}
	})
}

// post makes the worker call a function. It returns false if the stream has ended.
func (s *Stream) post(do func(now time.Time)) bool { return s.postAnswers(0, do) }

// postAnswers makes the worker call a function that adds a number of answers.
func (s *Stream) postAnswers(n int, do func(now time.Time)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.answers.waiting += n
	s.inbox = append(s.inbox, do)
	s.task.Ready()
	return true
}

// cursors returns all cursors of the stream.
func (s *Stream) cursors() (all []*cursor) {
	for _, res := range s.resources {
		all = append(all, res.cursors...)
	}
	if s.directs != nil {
		all = append(all, s.directs.all...)
	}
	return all
}

// contextLocked returns a context that ends when Serve returns.
func (s *Stream) contextLocked() context.Context {
	if s.ctx == nil {
		s.ctx, s.cancel = context.WithCancel(context.Background())
	}
	return s.ctx
}

// Abort makes Serve return the cause soon: the client has gone or must get nothing more. Nothing
// is sent afterwards, except what is being sent. The caller ends a call of [StreamSink.Send] that
// waits.
func (s *Stream) Abort(cause error) {
	s.mu.Lock()
	if !s.ended {
		s.ended, s.cause = true, cause
	}
	s.mu.Unlock()
	s.signal()
}

func (s *Stream) isEnded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// signal makes Serve look for something to do.
func (s *Stream) signal() {
	select {
	case s.wakeServe <- struct{}{}:
	default:
	}
}
