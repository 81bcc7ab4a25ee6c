package dispatch

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/work"
)

// cursor is how far the watches of a stream have been served that have the same interest and the
// same options and are live, or one watch that is not live. Everything up to its position has been
// delivered.
//
// Serve owns the reader and announced while the cursor is in the catchUpQueue. Otherwise the worker
// owns them.
type cursor struct {
	// A group uses the first two cache lines for each message of a member.

	catchup.Reader
	timing *Schedule // nil: the watches have neither bookmarks nor a batch delay
	stream *Stream

	// Stream.mu guards the fields below.

	sentPosition object.Position // of the last message that was sent
	messages     int64           // number of messages that were sent
	bytes        int64           // size of their events
	syncedSent   bool            // SYNCED was sent, or the BOOKMARK of a watch that begins now; see state for what was made
	isSending    bool            // a message is being sent, and the client may have received it
	needsSlot    bool            // the cursor is in the catchUpQueue, and needs the slot
	isParked     bool            // the cursor is in catchUpQueue.parked
	abandoned    bool            // the cursor is closed
	mayHave      object.Position // of the message that is being sent

	// Only the worker uses the fields below.

	resource       *streamResource // nil: a watch of StartDirect
	direct         *directCursor   // nil: a watch of Start
	group          *group          // nil: a watch of StartDirect
	next, previous *cursor         // in a list of the group
	index          int32           // in streamResource.cursors
	place          int32           // in the members of the group, from 1; 0: the cursor is not a member
	entered        int32           // number of watches that have entered the feed for the cursor
	due            int32           // place in streamClock.due: events wait for the batch delay; 0: none
	delayed        int32           // place in streamClock.due: the watches wait to share a cursor whose events wait; 0: they do not
	state          cursorState
	marked         bool // the feed may have events for the watches; the cursor is in streamResource.marked
	spoke          bool // a message was made
	sentLast       bool // the last bookmark was made
	watches        []*StreamWatch
	one            [1]*StreamWatch // the memory of watches while there is one
	ids            *IDs            // of several watches, or of a member; nil: not made yet
	resume         object.Position // of the last message that was made
	announced      *object.Header  // of the CATCH_UP_BEGIN that the worker has made; nil: none, or Serve has begun the catch-up
	view           *feed.View      // of the feed; set by streamResource.addLive while it runs

	isMember atomic.Bool // place is not 0

	awaited bool // another cursor has waited for the batch delay, to share this one. Only the worker uses it; here is room
}

// cursorState says who makes the next message of a cursor. docs/dev/watches.md relates it to the other
// states of a watch.
type cursorState uint8

const (
	cursorSettles   cursorState = iota // the worker begins or ends the catch-up; see cursor.settle
	cursorCatchesUp                    // Serve makes the parts of the catch-up
	cursorLive                         // the worker sends events as they come
	cursorClosed                       // nobody: there is no watch any more
)

func newCursor(s *Stream, w *StreamWatch, o *Options) *cursor {
	c := &cursor{stream: s}
	c.one[0] = w
	c.watches = c.one[:]
	if o.BookmarkInterval > 0 || o.BatchDelay > 0 {
		o.LastBookmark = s.clock.lastBookmark
		c.timing = new(NewSchedule(o))
	}
	return c
}

// close removes the watches of the cursor from their dispatcher.
func (c *cursor) close() {
	c.AbandonCatchUp()
	c.dispatcher().exit(c.group, int(c.entered))
}

// dispatcher returns the dispatcher of the feed, or nil for a watch of StartDirect.
func (c *cursor) dispatcher() *Dispatcher {
	if c.group == nil {
		return nil
	}
	return c.group.dispatcher()
}

// mark notes that the feed may have events for the cursor. If the stream has no room, nothing else
// happens.
func (c *cursor) mark() {
	if c.marked || c.isHeld() || c.state != cursorLive {
		return
	}
	c.marked = true
	c.resource.marked = append(c.resource.marked, c)
	s := c.stream
	if !s.isWaiting.Load() && !s.unsent && !s.ready {
		s.ready = true
		s.task.Ready()
	}
}

// holds reports whether live events have to wait for the batch delay, and makes the stream read the
// cursor when the delay is over.
func (c *cursor) holds(now time.Time) bool {
	until, delayed := c.timing.HeldUntil(now)
	if delayed {
		c.stream.clock.due.add(due{at: until, place: &c.due, cursor: c})
	}
	return delayed
}

// isHeld reports whether events wait for the batch delay.
func (c *cursor) isHeld() bool { return c.due > 0 }

// list returns the ids of the watches. Only a list of several ids, or of a member, is worth its memory.
func (c *cursor) list() *IDs {
	if c.ids != nil {
		return c.ids
	}
	list := idsOf(c.watches)
	if len(c.watches) > 1 || c.place > 0 {
		c.ids = list
	}
	return list
}

// entrySize returns an upper limit of the encoded size of an entry with n bytes of events.
func (c *cursor) entrySize(n int) int { return entrySize(len(c.watches), n) }

func idsOf(watches []*StreamWatch) *IDs {
	all := make([]uint64, len(watches))
	for i, w := range watches {
		all[i] = w.ID
	}
	return &IDs{all: all}
}

// addWatch adds a watch.
func (c *cursor) addWatch(w *StreamWatch) {
	w.order = int32(len(c.watches))
	c.watches = append(c.watches, w)
	c.ids = nil
}

// removeWatch removes a watch.
func (c *cursor) removeWatch(w *StreamWatch) {
	last := len(c.watches) - 1
	moved := c.watches[last]
	c.watches[w.order] = moved
	moved.order = w.order
	c.watches[last] = nil
	c.watches = c.watches[:last]
	c.ids = nil
}

// backlog returns the events after the position of the last message. A member has got all of them
// before it became one, even if the log does not reach back to the position.
func (c *cursor) backlog(at object.Position) feed.Backlog {
	b := c.Feed.Backlog(at)
	if b.Events < 0 && c.isMember.Load() {
		return feed.Backlog{}
	}
	return b
}

// isBehind reports whether the log may have events for the watches, or the watches are not live.
func (c *cursor) isBehind() bool {
	return c.state != cursorLive || c.marked || c.isHeld() || c.Skip > 0
}

// position returns the position from which a client of one of the watches can resume.
func (c *cursor) position() object.Position {
	p := c.resume
	if c.direct != nil {
		return p
	}
	if c.state == cursorLive && c.Skip == 0 {
		p = c.Feed.CompleteAfter(c.At())
	}
	if p.Epoch == "" { // the watch ends before its snapshot has begun
		p.Epoch = c.dispatcher().feeds.Config.Source.State().Position().Epoch
	}
	return p
}

// fallBehind goes on with a live cursor whose next events are not in the log any more.
//
// The watch of a stream of its own gets them as live events, if the window has them. The other
// watches of a stream would be live meanwhile. So the cursor begins a catch-up, which is a REPLAY if
// the window has the events. Its CATCH_UP_BEGIN, or the end of the watches, is in the response that
// skips these events. Otherwise the client would take the watches for live.
func (s *Stream) fallBehind(c *cursor, now time.Time) {
	newest := c.dispatcher().feeds.Config.Source.State()
	c.Step = catchup.StepBehind
	if newest.CanReplay(c.At()) {
		if s.solo {
			c.Step = catchup.StepLive
			s.queueCatchUp(c)
			return
		}
		c.Step = catchup.StepResume
	}
	kind, err := c.MoveToCatchUp(newest)
	if err != nil {
		s.endCursor(c, &Ending{Reason: err})
		return
	}
	begin := c.CatchUpBegin(kind)
	c.announced = &begin.Header
	s.addMessage(c, &feed.Batch{Message: begin}, now)
	s.queueCatchUp(c)
}

// recovered ends the watches of a cursor after a panic. It is deferred.
func (c *cursor) recovered() {
	if p := recover(); p != nil {
		c.stream.endCursor(c, &Ending{Reason: work.Panicked(p)})
	}
}

// streamResource is a dispatcher with watches of a stream. Only the worker uses it.
type streamResource struct {
	stream     *Stream
	dispatcher *Dispatcher
	rounds     *workerRounds

	cursors []*cursor
	marked  []*cursor       // the cursors that may have events
	cut     object.Revision // nothing after this revision is sent before all watches have its events; 0: none

	awaitsBound bool             // the resource is in workerRounds.waiting
	tick        *object.Position // a bookmark is due when the bound has reached this position; nil: not due
}

// resourceOf returns the resource of the cursors of a group.
func (s *Stream) resourceOf(g *group) *streamResource {
	for _, res := range s.resources {
		if res.dispatcher == g.dispatcher() {
			return res
		}
	}
	res := &streamResource{stream: s, dispatcher: g.dispatcher(), rounds: g.rounds}
	s.resources = append(s.resources, res)
	g.rounds.resources[res] = struct{}{}
	return res
}

// bound returns the position up to which the watches of the stream may get events. If there is only
// one watch, it need not wait until its worker has marked the others.
func (res *streamResource) bound() object.Position {
	if !res.stream.solo {
		return res.rounds.bound
	}
	p := *res.dispatcher.feeds.DispatchedUpTo.Load()
	if c := res.stream.latest; c != nil && c.state == cursorLive && c.Epoch == p.Epoch {
		p.Revision = max(p.Revision, c.After) // it began at a state that the dispatcher has not reached
	}
	return p
}

// endStopped ends all watches of the resource, because the dispatcher has stopped.
func (res *streamResource) endStopped() {
	e := &Ending{Reason: ErrStopped, Last: true}
	for _, c := range slices.Clone(res.cursors) {
		res.stream.endCursor(c, e)
	}
	res.stream.task.Ready()
}

// add adds a cursor, and links it into its group.
func (res *streamResource) add(c *cursor) {
	c.resource = res
	c.index = int32(len(res.cursors))
	res.cursors = append(res.cursors, c)
	c.group.add(c)
}

// remove removes a cursor. The lists of marked cursors may still have it.
func (res *streamResource) remove(c *cursor) {
	c.group.remove(c)
	last := len(res.cursors) - 1
	moved := res.cursors[last]
	res.cursors[c.index] = moved
	moved.index = c.index
	res.cursors[last] = nil
	res.cursors = res.cursors[:last]
}
