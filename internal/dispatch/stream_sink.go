package dispatch

import (
	"context"
	"errors"
	"time"
)

// StreamSink sends the responses of one stream. Calls never overlap, except those of Reserve.
type StreamSink interface {
	// HasRoom reports whether a response may be sent now: less than the limit is in flight. If
	// not, the sink calls [Stream.Ready] when it has room. The worker asks before it makes a
	// response.
	HasRoom() bool

	// TrySend sends a response from the worker and must not wait. It returns [ErrFull] or
	// [ErrNeedsHandler] if it has not sent the response; the stream keeps this one response.
	// After ErrFull, the sink calls Stream.Ready when it has room. Any other error ends Serve
	// with that error. The response, its entries and lists of ids are valid only during the
	// call, but the encoded bytes of batches and of id lists are immutable and may be kept.
	TrySend(r *Response, now time.Time) error

	// Send sends a response from the goroutine of Serve, and may wait for the client. It is
	// called only after TrySend has returned ErrNeedsHandler, with the same response.
	Send(r *Response) error

	// Reserve gets the permission to send parts of RESETs and DELTAs of this stream, and may
	// wait. The argument isNew means that only watches that have sent nothing wait for it. The
	// context ends when no watch needs the permission any more. The stream calls Reserve on a
	// goroutine of its own, at most one at a time, and keeps the permission until Release, or until Serve has returned. An
	// error ends the watches that wait for the permission.
	Reserve(ctx context.Context, isNew bool) error

	// HoldsReservation reports whether the stream still has the permission. If not, the stream
	// calls Reserve before the next part.
	HoldsReservation() bool

	// Release gives the permission back: no RESET or DELTA is under way.
	Release()
}

var (
	// ErrFull means that a sink has no room for a response.
	ErrFull = errors.New("the sink is full")

	// ErrNeedsHandler means that only Serve can send the response, with Send, because the sink may
	// have to wait.
	ErrNeedsHandler = errors.New("the sink needs the handler")
)

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
	Batch      *Batch         // nil: Refused or Ended
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
// StreamSink.TrySend and StreamSink.Send call it.
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
