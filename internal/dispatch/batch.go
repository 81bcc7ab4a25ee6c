package dispatch

import (
	"sync/atomic"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Batch is what a worker sends: live events, shared by all watchers that need them next, or
// the bookmark of one watcher. A batch must not be modified.
type Batch struct {
	Message
	encoded atomic.Value

	start batchStart
	made  time.Time
	first object.Revision // of the first event
	end   batchCut
	keys  atomic.Int32 // cached result of distinct; 0: unknown
}

// batchStart says from which view a batch is read and where in the view the batch begins.
// Watchers with equal starts need the same batch.
type batchStart struct {
	view   *view
	cursor object.Revision
	sent   int // see Watcher.sent
}

// Encoded returns the message as it crosses the network. The first caller
// encodes it; concurrent callers may do so, too.
func (b *Batch) Encoded(encode func(*Message) any) any {
	encoded := b.encoded.Load()
	if encoded == nil {
		encoded = encode(&b.Message)
		b.encoded.Store(encoded)
	}
	return encoded
}

// follows reports whether the batch is what a watcher needs next, given Watcher.cursor and
// Watcher.sent. A batch with only a part of a revision must begin exactly at both.
func (b *Batch) follows(cursor object.Revision, sent int) bool {
	if b.start.sent > 0 || b.end.partial {
		return cursor == b.start.cursor && sent == b.start.sent
	}
	return sent == 0 && b.start.cursor <= cursor && cursor < b.first
}

// distinct reports whether all pending events, in the batch and after it, have different
// keys. The answer takes memory to compute, so it is cached.
func (b *Batch) distinct() bool {
	const different, repeated = 1, 2
	if b.keys.Load() == 0 {
		keys := int32(repeated)
		if b.start.view.distinct(b.start.cursor) {
			keys = different
		}
		b.keys.Store(keys)
	}
	return b.keys.Load() == different
}

// batch returns the batch that begins at the start, or nil if the view ends there.
func (f *feed) batch(start batchStart, d *Dispatcher, now time.Time) *Batch {
	if start.view.endsAt(start.cursor) {
		return nil
	}
	if b := f.batches.find(start, now); b != nil {
		return b
	}
	pieces, end, first := start.view.read(start.cursor, start.sent, d.cfg.MessageBytes)
	if end.taken == 0 {
		return nil
	}
	b := &Batch{start: start, made: now, first: first.revision, end: end, Message: Message{
		Events: pieces, Count: end.taken, Arrived: d.created.Add(first.arrived),
		Header: object.Header{
			Kind: object.Live, Position: object.Position{Epoch: start.view.base.Epoch, Revision: end.upTo}, Partial: end.partial,
			Age: d.liveAge(now, d.created.Add(first.arrived), end.hasMore),
		},
	}}
	if f.hadSeveral.Load() {
		f.keepBatch(b)
	}
	return b
}

// batchCache keeps the latest batches of a feed. Four are enough: few other events arrive
// while a batch is sent to ten thousand watchers. Each batch holds at most one message.
type batchCache struct {
	recent [4]atomic.Pointer[Batch]
	next   atomic.Uint32 // counts additions
}

// find returns the batch with the start, or nil. It ignores batches that are so old that they
// do not state their age correctly.
func (c *batchCache) find(start batchStart, now time.Time) *Batch {
	for i := range c.recent {
		if b := c.recent[i].Load(); b != nil && b.start == start && now.Sub(b.made) < MinStatedAge {
			return b
		}
	}
	return nil
}

// add keeps a batch and returns the element of the cache that has it.
func (c *batchCache) add(b *Batch) *atomic.Pointer[Batch] {
	p := &c.recent[c.next.Add(1)%uint32(len(c.recent))]
	p.Store(b)
	return p
}

// clear drops all batches. Otherwise they would hold memory that the log has dropped.
func (c *batchCache) clear() {
	for i := range c.recent {
		c.recent[i].Store(nil)
	}
}
