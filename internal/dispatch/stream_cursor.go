package dispatch

import (
	"runtime/debug"
	"slices"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// streamCursor serves one watch of a stream, or several that have the same interest and the same
// options and are live. It is a Watcher without a sink: the worker or Serve reads it for the
// stream.
//
// Serve owns the Watcher and announced while the cursor is in the catchUpQueue. Otherwise the worker
// owns them.
type streamCursor struct {
	Watcher
	announced *object.Header // of the CATCH_UP_BEGIN that the worker has made; nil: none, or Serve has begun the catch-up

	stream *Stream
	source *streamSource // nil: a watch of StartDirect
	direct *directCursor // nil: a watch of Start

	// Only the worker uses the fields below.

	next, previous *streamCursor // in the list that begins with group.firstCursor
	index          int32         // in streamSource.cursors
	joined         int32         // number of watches that have joined the feed for the cursor
	due            int32         // place in streamClock.due: events wait for the batch delay; 0: none
	delayed        int32         // place in a list of Stream.delayed; 0: none
	state          cursorState
	marked         bool // the feed may have events for the watches; the cursor is in streamSource.marked
	spoke          bool // a message was made
	sentLast       bool // the last bookmark was made
	timing         *Schedule
	watches        []*StreamWatch
	one            [1]*StreamWatch // the memory of watches while there is one
	ids            *IDs            // of several watches; nil: not made yet
	resume         object.Position // of the last message that was made
	view           *view           // of the feed; set by streamSource.addLive while it runs

	// Stream.mu guards the fields below.

	transfersState bool // the cursor is in the catchUpQueue, and needs the reservation
	isParked       bool // the cursor is in catchUpQueue.parked
	abandoned      bool // the cursor is closed
	isLive         bool
	sentPosition   object.Position // of the last message that was sent
	mayHave        object.Position // of the last message that the client may have received
	messages       int64           // number of messages that were sent
	bytes          int64           // size of their events
}

// cursorState is the next step of a cursor.
type cursorState uint8

const (
	cursorSettles   cursorState = iota // the worker begins or ends the catch-up; see streamCursor.settle
	cursorCatchesUp                    // Serve makes the parts of the catch-up
	cursorLive                         // the worker sends events as they come
	cursorClosed                       // nobody: there is no watch any more
)

func newStreamCursor(s *Stream, w *StreamWatch, o *Options) *streamCursor {
	c := &streamCursor{stream: s}
	c.one[0] = w
	c.watches = c.one[:]
	if o.BookmarkInterval > 0 || o.BatchDelay > 0 {
		o.LastBookmark = s.clock.lastBookmark
		c.timing = new(NewSchedule(o))
	}
	return c
}

// Close removes the watches of the cursor from their dispatcher.
func (c *streamCursor) Close() {
	c.abandonCatchUp()
	c.dispatcher.leaveStream(c.group, int(c.joined))
}

// link adds the cursor to the list of its group, so that rounds mark it.
func (c *streamCursor) link() {
	g := c.group
	if c.next = g.firstCursor; c.next != nil {
		c.next.previous = c
		g.keepShared()
	}
	g.firstCursor = c
}

// unlink removes the cursor from the list of its group.
func (c *streamCursor) unlink() {
	if c.previous != nil {
		c.previous.next = c.next
	} else {
		c.group.firstCursor = c.next
	}
	if c.next != nil {
		c.next.previous = c.previous
	}
	c.next, c.previous = nil, nil
}

// markStreams marks the live cursors of the group.
func (g *group) markStreams() {
	for c := g.firstCursor; c != nil; c = c.next {
		c.mark()
	}
}

// mark notes that the feed may have events for the cursor. If the stream has no room, nothing else
// happens.
func (c *streamCursor) mark() {
	if c.marked || c.isHeld() || c.state != cursorLive {
		return
	}
	c.marked = true
	c.source.marked = append(c.source.marked, c)
	s := c.stream
	if !s.noRoom && !s.handlerSends && !s.ready {
		s.ready = true
		s.task.Ready()
	}
}

// isHeld reports whether events wait for the batch delay.
func (c *streamCursor) isHeld() bool { return c.due > 0 }

// list returns the ids of the watches. Only a list of several ids is worth its memory.
func (c *streamCursor) list() *IDs {
	if len(c.watches) == 1 {
		return idsOf(c.watches)
	}
	if c.ids == nil {
		c.ids = idsOf(c.watches)
	}
	return c.ids
}

// entrySize returns an upper limit of the encoded size of an entry with n bytes of events.
func (c *streamCursor) entrySize(n int) int { return entrySize(len(c.watches), n) }

func idsOf(watches []*StreamWatch) *IDs {
	all := make([]uint64, len(watches))
	for i, w := range watches {
		all[i] = w.ID
	}
	return &IDs{all: all}
}

// addWatch adds a watch.
func (c *streamCursor) addWatch(w *StreamWatch) {
	w.order = int32(len(c.watches))
	c.watches = append(c.watches, w)
	c.ids = nil
}

// removeWatch removes a watch.
func (c *streamCursor) removeWatch(w *StreamWatch) {
	last := len(c.watches) - 1
	moved := c.watches[last]
	c.watches[w.order] = moved
	moved.order = w.order
	c.watches[last] = nil
	c.watches = c.watches[:last]
	c.ids = nil
}

// isBehind reports whether the log may have events for the watches, or the watches are not live.
func (c *streamCursor) isBehind() bool {
	return c.state != cursorLive || c.marked || c.isHeld() || c.sent > 0
}

// position returns the position from which a client of one of the watches can resume.
func (c *streamCursor) position() object.Position {
	p := c.resume
	if c.direct != nil {
		return p
	}
	if c.state == cursorLive && c.sent == 0 {
		p = c.completeAfter(c.at())
	}
	if p.Epoch == "" && c.dispatcher != nil { // the watch ends before its snapshot has begun
		p.Epoch = c.dispatcher.cfg.Source.State().Position().Epoch
	}
	return p
}

// fallBehind begins a catch-up of a live cursor whose events are not in the log any more. The
// catch-up is a REPLAY if the window has the events. Its CATCH_UP_BEGIN, or the end of the watches,
// is in the response that skips these events. Otherwise the client would take the watches for live.
func (s *Stream) fallBehind(c *streamCursor, now time.Time) {
	c.step = stepBehind
	newest := c.dispatcher.cfg.Source.State()
	if newest.Position().Epoch == c.epoch && c.cursor >= newest.Replayable() {
		c.step = stepResume
	}
	kind, err := c.moveToCatchUp(newest)
	if err != nil {
		s.endCursor(c, &Ending{Reason: err})
		return
	}
	begin := c.catchUpBegin(kind)
	c.announced = &begin.Header
	s.addMessage(c, &Batch{Message: begin}, now)
	s.catchUp(c)
}

// recovered ends the watches of a cursor after a panic. It is deferred.
func (c *streamCursor) recovered() {
	if p := recover(); p != nil {
		c.stream.endCursor(c, &Ending{Reason: &PanicError{p, debug.Stack()}})
	}
}

// streamSource is a dispatcher with watches of a stream. Only the worker uses it.
type streamSource struct {
	stream     *Stream
	dispatcher *Dispatcher
	rounds     *workerRounds

	cursors []*streamCursor
	marked  []*streamCursor // the cursors that may have events
	cut     object.Revision // nothing after this revision is sent before all watches have its events; 0: none

	awaitsBound bool             // the source is in workerRounds.waiting
	tick        *object.Position // a bookmark is due when the bound has reached this position; nil: not due
}

// sourceOf returns the source of the cursors of a group.
func (s *Stream) sourceOf(g *group) *streamSource {
	for _, src := range s.sources {
		if src.dispatcher == g.dispatcher {
			return src
		}
	}
	src := &streamSource{stream: s, dispatcher: g.dispatcher, rounds: g.rounds}
	s.sources = append(s.sources, src)
	g.rounds.sources[src] = struct{}{}
	return src
}

// endStopped ends all watches of the source, because the dispatcher has stopped.
func (src *streamSource) endStopped() {
	e := &Ending{Reason: ErrStopped, Last: true}
	for _, c := range src.all() {
		src.stream.endCursor(c, e)
	}
	src.stream.task.Ready()
}

// add adds a cursor, and links it into its group.
func (src *streamSource) add(c *streamCursor) {
	c.source = src
	c.index = int32(len(src.cursors))
	src.cursors = append(src.cursors, c)
	c.link()
}

// remove removes a cursor. The lists of marked cursors may still have it.
func (src *streamSource) remove(c *streamCursor) {
	c.unlink()
	last := len(src.cursors) - 1
	moved := src.cursors[last]
	src.cursors[c.index] = moved
	moved.index = c.index
	src.cursors[last] = nil
	src.cursors = src.cursors[:last]
}

// all returns a copy of the list of cursors.
func (src *streamSource) all() []*streamCursor { return slices.Clone(src.cursors) }
