package dispatch

import (
	"sync/atomic"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Batch is what a worker sends: the bookmark of one watcher, or live events for all watchers
// that need these events next. A batch must not be modified.
type Batch struct {
	Message
	encoded atomic.Value

	start batchStart
	made  time.Time
	first object.Revision // revision of the first event
	end   batchCut
	more  bool         // the view has events after the batch
	keys  atomic.Int32 // cached result of the method distinct; 0: unknown
}

// batchStart is where a batch begins: a view of the log, and a place in the view. Watchers
// with equal starts need the same batch.
type batchStart struct {
	view  *view
	after object.Revision
	skip  int // see reader.skip
}

// Encoded returns the message as the given function encodes it. The first call encodes the
// message; concurrent calls may encode it, too.
func (b *Batch) Encoded(encode func(*Message) any) any {
	encoded := b.encoded.Load()
	if encoded == nil {
		encoded = encode(&b.Message)
		b.encoded.Store(encoded)
	}
	return encoded
}

// follows reports whether the batch is what a watcher needs next. The arguments are
// reader.after and reader.skip. If the batch begins or ends inside a revision, both must
// equal the values in the start of the batch.
func (b *Batch) follows(after object.Revision, skip int) bool {
	if b.start.skip > 0 || b.end.partial {
		return after == b.start.after && skip == b.start.skip
	}
	return skip == 0 && b.start.after <= after && after < b.first
}

// distinct reports whether all pending events have different keys, including the events after
// the batch. Computing the result takes memory, so the result is cached.
func (b *Batch) distinct() bool {
	const different, repeated = 1, 2
	if b.keys.Load() == 0 {
		keys := int32(repeated)
		if b.start.view.distinct(b.start.after) {
			keys = different
		}
		b.keys.Store(keys)
	}
	return b.keys.Load() == different
}

// batch returns a batch with the given start, or nil if the view has no event after the start. A
// batch that a stream has made may end before the limit of a message.
func (f *feed) batch(start batchStart, now time.Time) *Batch {
	if start.view.endsAt(start.after) {
		return nil
	}
	if b := f.batches.find(start, now); b != nil {
		return b
	}
	b := newLiveBatch(start, f.dispatcher.cfg.MessageBytes, allRevisions, f.dispatcher, now)
	if b != nil && f.hadSeveral.Load() {
		f.keepBatch(b)
	}
	return b
}

// newLiveBatch returns a batch of the events after the start, up to and including the revision
// to. The limit is that of their size. It returns nil if there are no events.
func newLiveBatch(start batchStart, limit int, to object.Revision, d *Dispatcher, now time.Time) *Batch {
	pieces, end, first := start.view.read(start.after, start.skip, limit, to)
	if end.taken == 0 {
		return nil
	}
	more := end.hasMore || !start.view.endsAt(end.upTo)
	return &Batch{start: start, made: now, first: first.revision, end: end, more: more, Message: Message{
		Events: pieces, Count: end.taken, Arrived: d.created.Add(first.arrived),
		Header: object.Header{
			Kind: object.Live, Position: object.Position{Epoch: start.view.base.Epoch, Revision: end.upTo}, Partial: end.partial,
			Age: d.liveAge(now, d.created.Add(first.arrived), more),
		},
	}}
}

// batchCache keeps the four latest batches of a feed. Four are enough, because few other
// events arrive while a batch is sent to ten thousand watchers. Each batch holds at most one
// message.
type batchCache struct {
	recent [4]atomic.Pointer[Batch]
	next   atomic.Uint32 // number of batches added so far
}

// find returns the cached batch with the given start, or nil. It ignores batches that were
// made MinStatedAge ago or earlier, because the age that they state is no longer correct.
func (c *batchCache) find(start batchStart, now time.Time) *Batch {
	for i := range c.recent {
		if b := c.recent[i].Load(); b != nil && b.start == start && now.Sub(b.made) < MinStatedAge {
			return b
		}
	}
	return nil
}

// findEvents returns the cached batch with all events of the feed from the revision first to the
// revision last, or nil. Like find, it ignores old batches.
func (c *batchCache) findEvents(epoch object.Epoch, first, last object.Revision, now time.Time) *Batch {
	for i := range c.recent {
		b := c.recent[i].Load()
		if b != nil && b.start.skip == 0 && !b.end.partial && b.first == first && b.end.upTo == last &&
			b.Header.Position.Epoch == epoch && now.Sub(b.made) < MinStatedAge {
			return b
		}
	}
	return nil
}

// add stores a batch and returns the element of the cache that holds the batch.
func (c *batchCache) add(b *Batch) *atomic.Pointer[Batch] {
	p := &c.recent[c.next.Add(1)%uint32(len(c.recent))]
	p.Store(b)
	return p
}

// clear drops all batches. A batch shares memory with the log, so it would keep dropped
// segments in memory.
func (c *batchCache) clear() {
	for i := range c.recent {
		c.recent[i].Store(nil)
	}
}
