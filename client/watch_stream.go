package client

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// watchStream brings the messages of one watch to its watcher, until the server ends the watch
// or something fails. It holds a bounded amount of messages that the watcher does not receive, and
// they do not delay other watches.
type watchStream interface {
	// Recv returns the next message, or why there is none. It waits at most for the limit. After DRAINING, only the
	// end of the watch counts, because what was held back is lost: Recv ignores messages, also as signs of life.
	Recv(limit time.Duration) (*message, error)
	// startReports begins to report how far the watch was applied. It is called after Recv has
	// returned the first message.
	startReports(r *streamReports)
	// onEnd makes the stream call f when it has ended. Messages may still wait for Recv. It does so at once,
	// unless so much waits that the flow control of gRPC hides the end from it. f must not wait.
	onEnd(f func())
	// account adds to the bytes that wait for the callers of all watches of a shared stream.
	account(bytes int)
	// discard drops the messages that wait.
	discard()
	// server returns the address of the server, or "" if it is not known yet.
	server() string
	// shared reports whether other watches may use the stream.
	shared() bool
	// mayMove reports whether the watch has a stream of its own, but no longer needs one.
	mayMove() bool
	// close ends the watch on this stream.
	close()
}

// message is a message of the server. Watches of the same interest share one.
type message struct {
	*fanoutv1.WatchResponse
	arrived time.Time // the message did not arrive earlier
	size    int       // in a buffer
	shared  bool      // several watches have the message
	once    sync.Once
	events  []Event
}

// appendEvents appends the events of the message. All watches that share the message get the same
// objects.
func (m *message) appendEvents(to []Event) []Event {
	m.once.Do(func() {
		if len(m.GetEvents()) == 0 {
			return
		}
		m.events = make([]Event, 0, len(m.GetEvents()))
		for _, e := range m.GetEvents() {
			m.events = append(m.events, Event{
				Type: EventType(e.GetType()), Revision: e.GetRevision(), Object: objectOf(e.GetObject()), Previous: objectOf(e.GetPrevious()),
			})
		}
	})
	if len(to) == 0 && !m.shared {
		return m.events
	}
	return append(to, m.events...)
}

// maxStart is the size of the largest request that a shared stream carries. The server allows 64 KiB,
// with everything around it.
const maxStart = 60 << 10

// openWatch opens a stream for a watcher. Nothing else decides what carries the messages: usually
// a stream that carries all watches of the client. Some watches need a stream of their own,
// because
//
//   - their caller is too slow for a shared stream,
//   - metadata of gRPC in the context may give them other rights,
//   - their request is too large for a shared stream, or
//   - the server, or a proxy before it, lacks Subscribe.
//
// While streams fail, openWatch returns the [opening] that the watch must wait for, as an error.
func (c *Client) openWatch(ctx context.Context, avoid string, req *fanoutv1.WatchRequest, tooSlow bool) (watchStream, error) {
	if md, ok := metadata.FromOutgoingContext(ctx); ok && len(md) > 0 || proto.Size(req) > maxStart {
		return newOwnStream(ctx, c, avoid, req), nil
	}
	if tooSlow || !c.streams.subscribes() {
		s := newOwnStream(ctx, c, avoid, req)
		s.moves = true
		return s, nil
	}
	return c.streams.join(ctx, avoid, req)
}

// Reasons for a watch to open its next stream at once. They are not interruptions.
var (
	errTooSlow = restartError("the caller is too slow for a shared stream")
	errUnable  = restartError("the server lacks Subscribe")
)

// restartError is the reason to open the next stream at once.
type restartError string

func (e restartError) Error() string { return string(e) }
