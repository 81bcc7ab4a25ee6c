package dispatch

import (
	"cmp"
	"runtime"
	"slices"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
	"github.com/fanoutd/fanoutd/internal/work"
)

// group has the cursors of one feed and one worker. The dispatcher hands a group with new events to
// the worker (workerRounds). There are two kinds of cursors:
//
//   - The worker marks the cursors in the lists, and their streams read them later.
//   - The worker sends the next batch to the members at once. A member is the only cursor of its
//     stream, and needs nothing but the batches of the group. Otherwise, the cursor leaves the
//     members, and its stream reads it, until it can join them again.
//
// The group does not record what each member has received. cursor.wants compares a batch with the
// position of the member.
type group struct {
	// These never change.

	feed   *feed.Feed
	rounds *workerRounds

	listed  bool   // guarded by workerRounds.mu: the group is in workerRounds.groups
	watches int    // guarded by the mutex of the feeds
	sibling *group // the next group of the feed; guarded by the mutex of the feeds

	// Only the worker uses the fields below.

	cursors cursorList           // of streams that may have many watches; those that are no members
	shared  map[shareKey]*cursor // the live cursors that watches with equal keys share; nil: the list has at most one cursor

	*memberList // nil: no cursor was a member, and none is of a stream with one watch
}

// memberList has the members of a group. Only the worker uses it.
type memberList struct {
	apart   cursorList      // cursors of streams with one watch that are no members
	at      object.Position // where the group's next batch begins
	skip    int             // number of events of the next revision that were in earlier batches; see Reader.Skip
	members []member
	size    int // number of members that have not left
	sorted  int // the members before this index are in order; see sort
	bounded int // number of members of streams that may have several watches

	fetched        int           // result of the reads in prefetch; without a result, the compiler would remove them
	yieldAllowance time.Duration // time that the method yield may still take; negative: earlier calls took too long
}

// member is a member of a group. It repeats what sorting and sending need, so that they read less of
// the memory of the cursor and the stream.
type member struct {
	cursor *cursor // nil: it has left
	stream *Stream
	sink   StreamSink
	queue  *sendqueue.Queue
	order  uint32 // StreamConfig.Order
}

func (m member) compare(other member) int {
	return cmp.Or(m.queue.Compare(other.queue), cmp.Compare(m.order, other.order))
}

// groupOf returns the feed's group for watches of the given queue. The caller holds the
// mutex of the feeds.
func (d *Dispatcher) groupOf(f *feed.Feed, q *sendqueue.Queue) *group {
	r := d.roundsOf(q)
	first := firstGroup(f)
	for g := first; g != nil; g = g.sibling {
		if g.rounds == r {
			return g
		}
	}
	g := &group{feed: f, rounds: r, sibling: first}
	f.Groups = g
	return g
}

// firstGroup returns the first group of a feed, or nil. The caller holds the mutex of the feeds.
func firstGroup(f *feed.Feed) *group {
	first, _ := f.Groups.(*group)
	return first
}

// dispatcher returns the dispatcher of the feed.
func (g *group) dispatcher() *Dispatcher { return g.rounds.dispatcher }

// add adds a cursor to the lists, so that rounds mark it.
func (g *group) add(c *cursor) {
	if c.stream.solo {
		if g.memberList == nil {
			g.memberList = &memberList{}
		}
		g.apart.add(c)
		return
	}
	if g.cursors.first != nil {
		g.keepShared()
	}
	g.cursors.add(c)
}

// remove removes a cursor that is closed.
func (g *group) remove(c *cursor) {
	switch {
	case c.place > 0:
		g.leave(c)
		g.remove(c)
	case c.stream.solo:
		g.apart.remove(c)
	default:
		g.cursors.remove(c)
	}
}

// mark marks the cursors in the lists.
func (g *group) mark() {
	g.cursors.mark()
	if g.memberList != nil {
		g.apart.mark()
	}
}

// join makes a cursor a member. It had nothing to send when its stream last read it.
func (g *group) join(c *cursor) {
	g.remove(c)
	if g.memberList == nil {
		g.memberList = &memberList{}
	}
	if g.size == 0 {
		g.at, g.skip = c.At(), 0
	}
	s := c.stream
	if !s.solo {
		g.bounded++
	}
	g.members = append(g.members, member{c, s, s.sink, s.task.Queue(), s.order})
	g.size++
	c.place = int32(len(g.members))
	c.isMember.Store(true)
}

// leave makes a member an ordinary cursor again.
func (g *group) leave(c *cursor) {
	g.members[c.place-1].cursor = nil
	g.hasLeft(c)
	g.size--
	if gaps := len(g.members) - g.size; gaps > len(g.members)/2 {
		g.closeGaps()
	}
}

// hasLeft records that a cursor is no longer a member. The caller removes it from the members.
func (g *group) hasLeft(c *cursor) {
	c.place = 0
	c.isMember.Store(false)
	c.resume = c.At()
	g.add(c)
	if c.stream.solo {
		return
	}
	g.bounded--
	if g.shared != nil && c.state == cursorLive {
		c.sharedOrSelf()
	}
}

// run sends the next batch to the members. A panic in member.offer ends only the stream of that
// member. Any other panic ends the streams of all members. The worker continues in both cases.
func (g *group) run(now time.Time) {
	if g.memberList == nil || g.size == 0 {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			err := work.Panicked(p)
			g.dismiss(func(c *cursor) { c.stream.Abort(err) })
		}
	}()
	g.sort()
	v := g.feed.View.Load()
	if !v.Covers(g.at) {
		g.dismiss((*cursor).mark) // their streams read them
		return
	}
	upTo := feed.AllRevisions
	if g.bounded > 0 {
		upTo = g.bound()
	}
	b := g.feed.BatchUpTo(feed.Start{View: v, After: g.at.Revision, Skip: g.skip}, upTo, now)
	if b == nil {
		return
	}
	g.send(b, now)
	g.at.Revision, g.skip = b.End.Advance(g.at.Revision, g.skip)
	if b.More {
		g.rounds.add(g)
	}
}

// bound returns the bound of the worker. A stream that may have several watches gets nothing after it,
// because its next watch may need the same revisions in the same response.
func (g *group) bound() object.Revision {
	if g.rounds.bound.Epoch != g.at.Epoch {
		return 0
	}
	return g.rounds.bound.Revision
}

// membersPerTimestamp is the number of members that share one reading of the clock and one
// call of CountSent.
const membersPerTimestamp = 32

// send offers a batch to all members and removes those that leave.
func (g *group) send(b *feed.Batch, now time.Time) {
	kept := 0
	var receiver StreamSink // the sink of one member that received the batch
	received, bytes := 0, 0 // watches that received it, and the size of their messages
	for i := range g.members {
		if i%membersPerPrefetch == 0 {
			g.prefetch(g.members[i:min(i+membersPerPrefetch, len(g.members))])
		}
		m := g.members[i]
		if m.cursor == nil {
			continue
		}
		if kept > 0 && m.queue != g.members[kept-1].queue {
			now = g.yield(now)
		}
		o := m.offer(b, now)
		if o.watches > 0 {
			receiver = m.sink
			received += o.watches
			bytes += o.bytes
		}
		if o.stays {
			if kept < i {
				g.put(kept, m)
			}
			kept++
		}
		if i%membersPerTimestamp == membersPerTimestamp-1 && received > 0 {
			now = time.Now() // so that the latency includes the time of sending
			receiver.CountSent(g.dispatcher(), b, received, bytes, now)
			received, bytes = 0, 0
		}
	}
	if received > 0 {
		receiver.CountSent(g.dispatcher(), b, received, bytes, time.Now())
	}
	g.truncate(kept, kept)
}

// membersPerPrefetch is the number of members that are prefetched together.
const membersPerPrefetch = 8

// prefetch reads the memory that sending to the members will read. Ten thousand watches do
// not fit into the processor's caches. In prefetch, the processor loads the memory of several
// watches at the same time. Without prefetch, it would wait for the memory of each watch in
// turn. Prefetching saves 13 percent of a delivery to 10,000 watches.
func (g *group) prefetch(members []member) {
	for _, m := range members {
		if m.cursor == nil {
			continue
		}
		g.fetched += m.prefetch() + m.sink.Prefetch()
	}
}

// prefetch reads the memory of the cursor and the stream.
func (m *member) prefetch() int {
	n := m.cursor.Skip + int(m.cursor.messages)
	if m.stream.sink != nil {
		n++
	}
	return n
}

// Writing to a connection takes about ten microseconds. If the method yield takes much
// longer, the machine is busy with other work, and the worker stops yielding for a while.
const (
	yieldPerQueue     = 200 * time.Microsecond // the time that a call of yield may take on average
	maxYieldAllowance = 10 * time.Millisecond  // the time that one call may take if earlier calls were short
)

// yield gives up the processor for a moment, so gRPC writes the messages of the previous
// queue while they are in the processor's caches. This saves 8 percent of a delivery
// to 10,000 watches. The worker does not yield while other queues or groups wait for it: if
// it did, gRPC would write many small pieces. yield returns the current time.
func (g *group) yield(now time.Time) time.Time {
	g.yieldAllowance = min(g.yieldAllowance+yieldPerQueue, maxYieldAllowance)
	if g.yieldAllowance < 0 || !g.rounds.idle() {
		return now
	}
	runtime.Gosched()
	after := time.Now()
	g.yieldAllowance -= after.Sub(now)
	return after
}

// dismiss makes all members ordinary cursors again, and then calls a function with each of them. If the
// method send panics halfway, g.members may still list a cursor that has left, or list a cursor twice,
// because send had moved it forward. Only the element at the cursor's place counts.
func (g *group) dismiss(then func(*cursor)) {
	for i, m := range g.members {
		if c := m.cursor; c != nil && c.place == int32(i+1) {
			g.hasLeft(c)
			then(c)
		}
	}
	g.truncate(0, 0)
}

// closeGaps removes the entries of members that have left.
func (g *group) closeGaps() {
	kept, sorted := 0, 0
	for i, m := range g.members {
		if m.cursor == nil {
			continue
		}
		g.put(kept, m)
		kept++
		if i < g.sorted {
			sorted = kept
		}
	}
	g.truncate(kept, sorted)
}

func (g *group) truncate(kept, sorted int) {
	clear(g.members[kept:])
	g.members, g.sorted, g.size = g.members[:kept], sorted, kept
}

// sort moves the members that joined last to their places in the order of queues and of
// StreamConfig.Order. The members of one connection then follow each other, and their messages
// leave together. Streams that a client opens one after another are often neighbors in gRPC's
// memory, at the server and at the client. Processors read neighbors faster in order: this
// saves 15 percent of a delivery to 10,000 watches, at both ends.
func (g *group) sort() {
	if g.sorted == len(g.members) {
		return
	}
	joined := slices.Clone(g.members[g.sorted:])
	slices.SortFunc(joined, member.compare)
	for i, at := g.sorted, len(g.members); len(joined) > 0; {
		at--
		if last := len(joined) - 1; i > 0 && g.members[i-1].compare(joined[last]) > 0 {
			i--
			g.put(at, g.members[i])
		} else {
			g.put(at, joined[last])
			joined = joined[:last]
		}
	}
	g.sorted = len(g.members)
}

// put stores a member at an index of the list.
func (g *group) put(at int, m member) {
	g.members[at] = m
	if m.cursor != nil {
		m.cursor.place = int32(at + 1)
	}
}

// cursorList is a list of cursors. A cursor is in one list at most.
type cursorList struct{ first *cursor }

func (l *cursorList) add(c *cursor) {
	if c.next = l.first; c.next != nil {
		c.next.previous = c
	}
	l.first = c
}

func (l *cursorList) remove(c *cursor) {
	if c.previous != nil {
		c.previous.next = c.next
	} else {
		l.first = c.next
	}
	if c.next != nil {
		c.next.previous = c.previous
	}
	c.next, c.previous = nil, nil
}

// mark marks the live cursors of the list.
func (l *cursorList) mark() {
	for c := l.first; c != nil; c = c.next {
		c.mark()
	}
}
