package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
)

// makeResponse makes the next response from everything that waits. It returns false if there is
// nothing to send.
//
// A response has answers, then live events, then what begins and ends the catch-ups of watches. The
// parts of catch-ups that Serve has made are in responses of their own, which alternate with those
// that have live events. So a live event waits for at most one response with parts.
func (s *Stream) makeResponse(now time.Time) bool {
	r := &s.response
	clear(r.Entries)
	*r = Response{Entries: r.Entries[:0]}
	s.used = 0
	s.addAnswers()
	if s.isFull() {
		return true
	}
	if !s.addJoins(now) {
		return true // nothing comes before the first message of a watch
	}
	inSequence := s.more
	if s.directs != nil && s.directs.first && !inSequence {
		s.addDirect(now)
	}
	if !s.partsNext || inSequence || !s.addParts(now) {
		s.addLive(now)
		if !s.isFull() {
			s.addAnswers() // the ends of watches that have fallen behind
		}
		if !r.More {
			s.addSettling(now)
			s.addBookmarks(now)
			s.addDirect(now)
			if len(r.Entries) == 0 && !inSequence {
				s.addParts(now)
			}
		}
		s.partsNext = s.parts != nil
	}
	return len(r.Entries) > 0 || inSequence && !r.More
}

// isFull reports whether a stream with one watch has a message in the response. Its sink sends each
// response as a message of its own.
func (s *Stream) isFull() bool { return s.solo && len(s.response.Entries) > 0 }

// room returns how many bytes fit into the response.
func (s *Stream) room() int {
	if s.isFull() {
		return 0
	}
	return s.responseBytes - s.used
}

// add adds an entry with n bytes of events to the response.
func (s *Stream) add(e Entry, n int) {
	s.used += entrySize(e.IDs.Len(), n)
	s.response.Entries = append(s.response.Entries, e)
}

// addMessage adds a message for the watches of a cursor.
func (s *Stream) addMessage(c *cursor, b *feed.Batch, now time.Time) {
	e := Entry{IDs: c.list(), Batch: b, First: !c.spoke, cursor: c}
	e.Dispatcher = c.dispatcher()
	s.add(e, b.Size())
	c.spoke = true
	c.resume = b.Header.Position
	c.recordSent(&b.Header, now)
}

// sizeOf returns the size of a message as ListWatchers shows it. The watches of a stream share
// messages, so only the size of their events is theirs.
func (s *Stream) sizeOf(b *feed.Batch) int {
	if s.solo {
		return s.sink.Size(b)
	}
	return b.Size()
}

// noteSent notes that a message was sent: to the watches that have joined the cursor, or if there are
// none, to all its watches. It took a number of bytes. The caller holds the mutex of the stream.
func (c *cursor) noteSent(b *feed.Batch, size int, joined []*StreamWatch) {
	c.sentPosition, c.isSending = b.Header.Position, false
	if joined != nil {
		for _, w := range joined {
			w.messages++
		}
		return
	}
	c.messages++
	c.bytes += int64(size)
	switch b.Header.Kind {
	case object.CatchUpBegin:
		c.syncedSent = false
	case object.Synced, object.Bookmark, object.Live:
		c.syncedSent = true
	}
}

// StreamSink sends the responses of one stream. Calls never overlap, except those of AcquireSlot.
type StreamSink interface {
	// HasRoom reports whether a response may be sent now: less than the limit is in flight. If
	// not, the sink calls [Stream.Ready] when it has room. The worker asks before it makes a
	// response.
	HasRoom() bool

	// TrySend sends a response from the worker and must not wait. It is called only after HasRoom
	// has returned true. It returns [ErrNeedsServe] if it has not sent the response; Serve then
	// sends this one. Any other error ends Serve with that error. The response, its entries and
	// lists of ids are valid only during the call, but the encoded bytes of batches and of id lists
	// are immutable and may be kept.
	TrySend(r *Response, now time.Time) error

	// Send sends a response from the goroutine of Serve, and may wait for the client. It is
	// called only after TrySend has returned ErrNeedsServe, with the same response.
	Send(r *Response) error

	// AcquireSlot gets the snapshot slot, with which this stream may send parts of RESETs and DELTAs,
	// and may wait. The argument isNew means that only watches that have sent nothing wait for it. The
	// context ends when no watch needs the slot any more. The stream calls AcquireSlot on a goroutine of
	// its own, at most one at a time, and keeps the slot until ReleaseSlot, or until Serve has returned.
	// An error ends the watches that wait for the slot.
	AcquireSlot(ctx context.Context, isNew bool) error

	// HoldsSlot reports whether the stream still has the slot. If not, the stream calls AcquireSlot
	// before the next part.
	HoldsSlot() bool

	// ReleaseSlot gives the slot back: no RESET or DELTA is under way.
	ReleaseSlot()

	// The methods below serve a stream whose only cursor is a member of its group. The worker then
	// sends it the batches of the group, without a Response.

	// TakesBatch reports whether SendBatch may be called now. If not, the sink calls
	// [Stream.Ready] when it has room.
	TakesBatch() bool

	// SendBatch sends a batch from the worker and must not wait, because thousands of other watches
	// wait for the same worker. It returns the size of the message. An error ends [Stream.Serve] with
	// that error.
	SendBatch(b MemberBatch, now time.Time) (bytes int, err error)

	// CountSent counts the messages of several sinks that have sent the batch to n watches with
	// SendBatch. The messages have a number of bytes. These sinks belong to one feed and one worker.
	// The worker calls CountSent of only one of them.
	CountSent(d *Dispatcher, b *feed.Batch, n, bytes int, now time.Time)

	// Prefetch reads the memory that SendBatch will read; see group.prefetch. It must not wait or
	// change anything. The result has no meaning.
	Prefetch() int

	// Size returns the size of a batch as the sink of a stream with one watch sends it.
	Size(b *feed.Batch) int
}

// ErrNeedsServe means that only Serve can send the response, with Send, because the sink may
// have to wait.
var ErrNeedsServe = errors.New("the sink needs the goroutine of Serve")

// Response is one message of the stream.
type Response struct {
	Entries []Entry
	More    bool // the next response has more of the revisions of this one
	Part    bool // the response has parts of a RESET or a DELTA
}

// Entry is one entry of a response: a message for the watches, or Refused, or Ended.
type Entry struct {
	IDs        *IDs
	Dispatcher *Dispatcher    // whose resource; nil: Refused, or a watch of StartDirect
	Batch      *feed.Batch    // nil: Refused or Ended
	First      bool           // the first message of these watches
	Refused    error          // why the start of the id was refused
	Watches    []*StreamWatch // with Ended: the watches that have ended; an id may already have a new watch
	Ended      *Ending        // how the watches have ended; its reason was given to End, or is an error of dispatch
	Unbegun    bool           // with Ended: the watches have failed before their first message, so the start is refused

	cursor  *cursor        // whose message it is; nil: see cursors
	cursors []*cursor      // whose message it is, if there are several
	joined  []*StreamWatch // the message is for these watches of the cursor, which have joined it; nil: for all its watches
}

// IDs is an immutable list of ids.
type IDs struct {
	all     []uint64
	encoded []byte // nil: not encoded yet
}

// Len returns the number of ids.
func (l *IDs) Len() int { return len(l.all) }

// All returns the ids, which must not be modified.
func (l *IDs) All() []uint64 { return l.all }

// Encoded returns the list as the function encodes it. It is encoded once for each list. Only
// StreamSink.TrySend, StreamSink.Send and StreamSink.SendBatch call it.
func (l *IDs) Encoded(encode func([]uint64) []byte) []byte {
	if l.encoded == nil {
		l.encoded = encode(l.all)
	}
	return l.encoded
}

// The largest sizes of an entry besides its events, and of an id in the list of an entry.
const (
	entryBytes = 32
	idBytes    = 10
)

// entrySize returns an upper limit of the encoded size of an entry with some ids and n bytes of
// events.
func entrySize(ids, n int) int { return n + entryBytes + idBytes*ids }
