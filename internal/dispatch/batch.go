package dispatch

import (
	"sync/atomic"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Batch is what a worker sends: live events, shared by all watchers that need them next, or
// the bookmark of one watcher. It must not be modified.
type Batch struct {
	Message
	encoded atomic.Value

	start batchStart
	first object.Revision // of the first event
	end   batchCut
	keys  atomic.Int32 // cached result of distinct; 0: unknown
}

// batchStart is the place where a batch begins and the view that it was read from. Watchers with equal
// starts need the same batch.
type batchStart struct {
	view   *view
	cursor object.Revision
	sent   int
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

// follows reports whether the batch is what a watcher at the cursor needs next. sent is the
// number of events of the next revision that the watcher has delivered. A part of a revision
// only fits a watcher that is at exactly the same place.
func (b *Batch) follows(cursor object.Revision, sent int) bool {
	if b.start.sent > 0 || b.end.partial {
		return cursor == b.start.cursor && sent == b.start.sent
	}
	return sent == 0 && b.start.cursor <= cursor && cursor < b.first
}

// distinct reports whether all pending events, in the batch and after it, have different
// keys. Finding out takes memory, so the result is kept.
func (b *Batch) distinct() bool {
	const different, repeated = 1, 2
	if b.keys.Load() == 0 {
		found := int32(repeated)
		if b.start.view.distinct(b.start.cursor) {
			found = different
		}
		b.keys.Store(found)
	}
	return b.keys.Load() == different
}

// batch returns the batch that begins at the start, or nil if the view ends there.
func (f *feed) batch(start batchStart, d *Dispatcher) *Batch {
	if start.view.endsAt(start.cursor) {
		return nil
	}
	if b := f.batches.find(start); b != nil {
		return b
	}
	pieces, end, first := start.view.read(start.cursor, start.sent, d.cfg.MessageBytes)
	if end.taken == 0 {
		return nil
	}
	b := &Batch{start: start, first: first.revision, end: end, Message: Message{
		Events: pieces, Count: end.taken, Arrived: d.created.Add(first.arrived),
		Header: object.Header{
			Kind: object.Live, Position: object.Position{Epoch: start.view.after.Epoch, Revision: end.upto}, Partial: end.partial,
		},
	}}
	if f.shared.Load() {
		f.share(b)
	}
	return b
}

// batchCache keeps the latest batches of a feed. While a batch is sent to ten thousand
// watchers, few other events arrive, so four are enough. Each holds at most one message.
type batchCache struct {
	recent [4]atomic.Pointer[Batch]
	next   atomic.Uint32 // counts additions
}

// find returns the batch with the start, or nil.
func (c *batchCache) find(start batchStart) *Batch {
	for i := range c.recent {
		if b := c.recent[i].Load(); b != nil && b.start == start {
			return b
		}
	}
	return nil
}

// add keeps a batch and returns where.
func (c *batchCache) add(b *Batch) *atomic.Pointer[Batch] {
	p := &c.recent[c.next.Add(1)%uint32(len(c.recent))]
	p.Store(b)
	return p
}

// clear drops all batches, so that they do not hold memory that the log has dropped.
func (c *batchCache) clear() {
	for i := range c.recent {
		c.recent[i].Store(nil)
	}
}
