package watch

import (
	"context"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
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
	failing    bool            // guarded by Registry.mu: see Registry.noteReport
	reports    bool            // guarded by mu: the client has said so, or has reported
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
	resource  *backend.Resource
	scope     object.Scope // the policy must grant the watch of it as long as the watch lasts
	summary   Summary
	since     time.Time
	watcher   backend.Watcher
	sender    *streamSender
	end       func(reason error) // ends the watch; any goroutine may call it
	waiting   *Waiting           // guarded by mu: see Entry.lag; nil: no event waits, or lag was not called

	next       *object.Position // guarded by mu: position of the message that the handler is sending; nil: none
	subscriber *subscriber      // guarded by mu; nil: the client has given no name and has not reported
}

// describe sets the fields that a complete entry needs. The handler calls it before it marks
// the entry as complete.
func (e *Entry) describe(ctx context.Context, req *fanoutv1.WatchRequest, r *backend.Resource, scope object.Scope, w backend.Watcher, s *streamSender) {
	e.identity, e.pass = &rpc.CallOf(ctx).Identity, rpc.PassOf(ctx)
	e.summary = Summarize(req)
	e.watcher, e.sender = w, s
	e.resource, e.scope = r, scope
	e.peer, e.userAgent = transport.CallerOf(ctx)
	e.catchingUp, e.reports = req.GetFromNow() == nil, req.GetReports()
	if name := NameOf(req.GetSubscriber()); name != (SubscriberName{}) {
		e.subscriber = &subscriber{name: name}
	}
}

// ID implements [Watch].
func (e *Entry) ID() string { return e.registry.ID(e.Number()) }

// token returns the token with which the client names the watch in reports.
func (e *Entry) token() string { return e.registry.tokens.of(e.number) }

// OpenedBy reports whether a caller has opened the watch. Callers with the same name are the
// same, however they have shown it, and all anonymous callers are the same.
func (e *Entry) OpenedBy(caller access.Identity) bool {
	return e.identity.Name == caller.Name && e.identity.Anonymous() == caller.Anonymous()
}

// Number implements [Watch].
func (e *Entry) Number() Number { return Number{RPC: e.number} }

// Resource implements [Watch].
func (e *Entry) Resource() string { return e.resource.Name }

// Scope implements [Watch].
func (e *Entry) Scope() object.Scope { return e.scope }

// End implements [Watch]. The client gets a last message with its position; see
// handler.serve.
func (e *Entry) End(reason error) { e.end(reason) }

// beginSend records that the handler begins to send a message. gRPC may block the handler.
func (e *Entry) beginSend(next object.Position) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sending, e.next = true, &next
}

// note records a message that gRPC has accepted, or that a worker is about to send. It returns
// the revision in the position of the previous message, and whether this is the first message
// of the watch.
func (e *Entry) note(h *object.Header, size int) (before object.Revision, first bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch h.Kind {
	case object.CatchUpBegin:
		e.catchingUp = true
		if h.CatchUp == object.Reset && e.subscriber != nil {
			e.subscriber.BeginReset()
		}
	case object.Synced:
		e.catchingUp = false
	}
	before, first = e.at.Revision, e.messages == 0
	e.at = h.Position
	if e.sending {
		e.sending, e.next = false, nil
	}
	e.messages++
	e.bytes += int64(size)
	return before, first
}

// isBlocked reports whether a message waits for the client.
func (e *Entry) isBlocked() bool {
	e.mu.Lock()
	sending := e.sending
	e.mu.Unlock()
	return e.sender.IsBlocked(sending, time.Now)
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

// Status implements [Watch]. No other watch shares the watcher of an entry.
func (e *Entry) Status(Lags) *fanoutv1.WatcherStatus {
	at := e.position()
	messages, bytes := e.sent()
	s := &fanoutv1.WatcherStatus{
		Id:        e.ID(),
		Peer:      e.peer,
		UserAgent: e.userAgent,
		Identity:  e.identity.Name,
		Request:   e.summary.Request(e.scope),
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
	e.addSubscriber(s, at)
	if backlog, lag, ok := e.lag(at); ok {
		SetLag(s, backlog, lag)
	}
	return s
}

// SetLag sets the fields of a status that show how far the watch is behind.
func SetLag(s *fanoutv1.WatcherStatus, backlog dispatch.Backlog, lag backend.Lag) {
	s.LagRevisions, s.Lag, s.LagIsMinimum = &lag.Revisions, durationpb.New(lag.Waited), lag.IsMinimum
	if backlog.Events >= 0 {
		s.LagEvents = new(int64(backlog.Events))
	}
}

// Condition implements [Watch].
func (e *Entry) Condition(Lags) Condition {
	at := e.position()
	c := Condition{CatchingUp: e.isCatchingUp(), Blocked: e.isBlocked(), NoPosition: at.Revision == 0}
	c.Backlog, c.Lag, c.LagKnown = e.lag(at)
	c.Report = e.reportCondition(at, c)
	return c
}

// lag returns the events that wait for the watch after its position, and how far the watch is
// behind. It returns false if that is unknown: without a cache, and within a RESET.
func (e *Entry) lag(at object.Position) (dispatch.Backlog, backend.Lag, bool) {
	w, ok := e.watcher.(*dispatch.Watcher)
	if !ok || at.Revision == 0 {
		return dispatch.Backlog{}, backend.Lag{}, false
	}
	backlog, lag := e.resource.Backlog(w, at)
	e.mu.Lock()
	defer e.mu.Unlock()
	if at == e.at { // no other message has been sent meanwhile
		e.waiting = e.waiting.Observe(at, backlog, &lag)
	}
	return backlog, lag, true
}
