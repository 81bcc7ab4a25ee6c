package watch

import (
	"context"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/frames"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
	"github.com/fanoutd/fanoutd/internal/server/transport"
)

// Entry is a watch in the [Registry]. [Entry.Status] returns what ListWatchers shows of it.
type Entry struct {
	// A worker uses the fields of this first block for each message.

	mu         sync.Mutex
	sending    bool            // guarded by mu: the handler is sending a message
	catchingUp bool            // guarded by mu: a catch-up is under way
	complete   bool            // guarded by Registry.mu: see Registry.markComplete
	messages   int64           // guarded by mu: number of messages that gRPC has accepted
	bytes      int64           // guarded by mu: size of these messages
	at         object.Position // guarded by mu: position of the latest message; zero before the first

	registry  *Registry
	number    uint64       // number in the registry; 0: the watch was never registered
	conn      *frames.Conn // the connection of the watch; nil: within the process
	peer      string
	userAgent string
	identity  *access.Identity // of the client
	pass      *access.Pass     // of the credentials that the watch began with
	question  policy.Question  // the policy must grant it as long as the watch lasts
	summary   requestSummary
	since     time.Time
	watcher   backend.Watcher
	sender    *streamSender
	end       func(reason error) // ends the watch; any goroutine may call it
	waiting   *waiting           // guarded by mu: see Entry.lag; nil: no event waits, or lag was not called
}

// waiting describes the oldest event that waits for a watch.
type waiting struct {
	after   object.Position // position of the watch
	arrived time.Time       // when the event arrived, or a later time if that is unknown
}

// describe sets the fields that a complete entry needs. The handler calls it before it marks
// the entry as complete.
func (e *Entry) describe(ctx context.Context, req *fanoutv1.WatchRequest, scope object.Scope, w backend.Watcher, s *streamSender) {
	e.identity, e.pass = &rpc.CallOf(ctx).Identity, rpc.PassOf(ctx)
	e.summary = summarize(req)
	e.watcher, e.sender = w, s
	e.question = policy.Question{Verb: policy.Watch, Resource: req.GetResource(), Scope: scope}
	e.peer, e.userAgent = transport.CallerOf(ctx)
	e.catchingUp = req.GetFromNow() == nil
}

// ID returns the id of the watch in the answers to operators.
func (e *Entry) ID() string { return e.registry.prefix + "-" + strconv.FormatUint(e.number, 10) }

// Number returns the number of the watch. Later watches have higher numbers.
func (e *Entry) Number() uint64 { return e.number }

// Resource returns the name of the resource.
func (e *Entry) Resource() string { return e.question.Resource }

// End ends the watch with a reason. The client gets a last message with its position; see
// handler.serve.
func (e *Entry) End(reason error) { e.end(reason) }

// beginSend records that the handler begins to send a message. gRPC may block the handler.
func (e *Entry) beginSend() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sending = true
}

// note records a message that gRPC has accepted. It returns the revision in the position of
// the previous message, and whether this is the first message of the watch.
func (e *Entry) note(h *object.Header, size int) (before object.Revision, first bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch h.Kind {
	case object.CatchUpBegin:
		e.catchingUp = true
	case object.Synced:
		e.catchingUp = false
	}
	before, first = e.at.Revision, e.messages == 0
	e.at = h.Position
	e.sending = false
	e.messages++
	e.bytes += int64(size)
	return before, first
}

// isBlocked reports whether a message waits for the client.
func (e *Entry) isBlocked() bool {
	e.mu.Lock()
	sending := e.sending
	e.mu.Unlock()
	return e.sender.isBlocked(sending, time.Now())
}

func (e *Entry) position() object.Position {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.at
}

func (e *Entry) isCatchingUp() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.catchingUp
}

// sent returns the number of messages that gRPC has accepted, and their size in bytes.
func (e *Entry) sent() (messages, bytes int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.messages, e.bytes
}

// Status returns what ListWatchers shows of the watch.
func (e *Entry) Status(r *backend.Resource) *fanoutv1.WatcherStatus {
	at := e.position()
	messages, bytes := e.sent()
	s := &fanoutv1.WatcherStatus{
		Id:        e.ID(),
		Peer:      e.peer,
		UserAgent: e.userAgent,
		Identity:  e.identity.Name,
		Request:   e.summary.request(),
		Since:     timestamppb.New(e.since),
		State:     fanoutv1.WatcherStatus_STATE_LIVE,
		Blocked:   e.isBlocked(),
		Position:  &fanoutv1.Position{Epoch: string(at.Epoch), Revision: int64(at.Revision)},
		Messages:  messages,
		Bytes:     bytes,
	}
	if e.isCatchingUp() {
		s.State = fanoutv1.WatcherStatus_STATE_CATCHING_UP
	}
	backlog, lag, ok := e.lag(r, at)
	if !ok {
		return s
	}
	s.LagRevisions, s.Lag, s.LagIsMinimum = &lag.Revisions, durationpb.New(lag.Waited), lag.IsMinimum
	if backlog.Events >= 0 {
		s.LagEvents = new(int64(backlog.Events))
	}
	return s
}

// lag returns the events that wait for the watch after its position, and how far the watch is
// behind. It returns false if that is unknown: without a cache, and within a RESET.
//
// When the oldest waiting event has left the window, the window no longer has the time of its
// arrival. So the entry keeps the earliest time that it has seen there. The lag therefore grows
// until the position changes, although the window moves on.
func (e *Entry) lag(r *backend.Resource, at object.Position) (dispatch.Backlog, backend.Lag, bool) {
	w, ok := e.watcher.(*dispatch.Watcher)
	if !ok || at.Revision == 0 {
		return dispatch.Backlog{}, backend.Lag{}, false
	}
	backlog, lag := r.Backlog(w, at)
	arrived := time.Now().Add(-lag.Waited)
	e.mu.Lock()
	defer e.mu.Unlock()
	switch known := e.waiting; {
	case at != e.at: // another message has been sent meanwhile
	case backlog.Events == 0:
		e.waiting = nil
	case known != nil && known.after == at && lag.IsMinimum && known.arrived.Before(arrived):
		lag.Waited = time.Since(known.arrived)
	default:
		if known == nil {
			e.waiting = new(waiting)
		}
		*e.waiting = waiting{after: at, arrived: arrived}
	}
	return backlog, lag, true
}
