package feed

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch/parts"
	"github.com/fanoutd/fanoutd/internal/object"
)

// Batch is a message that a worker sends: live events for all watches that need these events
// next, or a message of one watch, such as its bookmark or a part of its catch-up. A batch must
// not be modified.
type Batch struct {
	Message
	encoded atomic.Value

	start Start
	made  time.Time
	first object.Revision // revision of the first event
	End   parts.Cut       // where the batch ends
	More  bool            // the view has events after the batch
	keys  atomic.Int32    // cached result of the method distinct; 0: unknown
}

// Start is where a batch begins: a view of the log, and a place in the view. Watches
// with equal starts need the same batch.
type Start struct {
	View  *View
	After object.Revision
	Skip  int // see catchup.Reader
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

// Follows reports whether the batch is what a watch needs next. The arguments are
// Reader.After and Reader.Skip. If the batch begins or ends inside a revision, both must
// equal the values in the start of the batch.
func (b *Batch) Follows(after object.Revision, skip int) bool {
	if b.SplitsRevision() {
		return after == b.start.After && skip == b.start.Skip
	}
	return skip == 0 && b.start.After <= after && after < b.first
}

// IsBefore reports whether a watch at the given place has got all events of the batch already.
func (b *Batch) IsBefore(after object.Revision, skip int) bool {
	return skip == 0 && !b.SplitsRevision() && after >= b.End.UpTo
}

// SplitsRevision reports whether the batch begins or ends inside a revision.
func (b *Batch) SplitsRevision() bool { return b.start.Skip > 0 || b.End.Partial }

// Distinct reports whether all pending events have different keys, including the events after
// the batch. Computing the result takes memory, so the result is cached.
func (b *Batch) Distinct() bool {
	const different, repeated = 1, 2
	if b.keys.Load() == 0 {
		keys := int32(repeated)
		if b.start.View.Distinct(b.start.After) {
			keys = different
		}
		b.keys.Store(keys)
	}
	return b.keys.Load() == different
}

// Batch returns a Batch with the given start, or nil if the view has no event after the start. A
// Batch that a stream has made may end before the limit of a message.
func (f *Feed) Batch(start Start, now time.Time) *Batch { return f.BatchUpTo(start, AllRevisions, now) }

// BatchUpTo is Batch without the events after the revision to.
func (f *Feed) BatchUpTo(start Start, to object.Revision, now time.Time) *Batch {
	if start.View.EndsAt(start.After) {
		return nil
	}
	if b := f.batches.find(now, func(b *Batch) bool { return b.start == start && b.Header.Position.Revision <= to }); b != nil {
		return b
	}
	return f.newBatch(start, f.Feeds.Config.MessageBytes, to, true, now)
}

// BatchTo returns the batch of the events after the start, up to the cut. If possible, it is one that
// other watches of the interest have sent. The limit is that of the size of the events.
func (f *Feed) BatchTo(start Start, cut object.Revision, limit int, now time.Time) *Batch {
	shareable := start.Skip == 0 && limit == math.MaxInt
	if shareable {
		first, _ := start.View.Next(start.After)
		end := object.Position{Epoch: start.View.base.Epoch, Revision: start.View.last(cut)}
		if b := f.batches.find(now, func(b *Batch) bool {
			return b.first == first && b.Header.Position == end && !b.SplitsRevision()
		}); b != nil {
			return b
		}
	}
	return f.newBatch(start, limit, cut, shareable, now)
}

// newBatch returns a batch of the events after the start, up to and including the revision to. The limit
// is that of their size. It returns nil if there are no events. A shareable batch is kept if there have
// been several watches.
func (f *Feed) newBatch(start Start, limit int, to object.Revision, shareable bool, now time.Time) *Batch {
	pieces, end, first := start.View.Read(start.After, start.Skip, limit, to)
	if end.Taken == 0 {
		return nil
	}
	more := end.HasMore || !start.View.EndsAt(end.UpTo)
	arrived := f.Feeds.Created.Add(first.Arrived)
	b := &Batch{start: start, made: now, first: first.revision, End: end, More: more, Message: Message{
		Events: pieces, Count: end.Taken, Arrived: arrived,
		Header: object.Header{
			Kind: object.Live, Position: object.Position{Epoch: start.View.base.Epoch, Revision: end.UpTo}, Partial: end.Partial,
			Age: f.Feeds.LiveAge(now, arrived, more),
		},
	}}
	if shareable && f.hadSeveral.Load() {
		f.keepBatch(b)
	}
	return b
}

// batchCache keeps the four latest batches of a feed. Four are enough, because few other
// events arrive while a batch is sent to ten thousand watches. Each batch holds at most one
// message.
type batchCache struct {
	recent [4]atomic.Pointer[Batch]
	next   atomic.Uint32 // number of batches added so far
}

// find returns a cached batch that the function accepts, or nil. It ignores batches that were
// made MinStatedAge ago or earlier, because the age that they state is no longer correct.
func (c *batchCache) find(now time.Time, accepts func(*Batch) bool) *Batch {
	for i := range c.recent {
		if b := c.recent[i].Load(); b != nil && now.Sub(b.made) < MinStatedAge && accepts(b) {
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
