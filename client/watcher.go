package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// watcher is a watch: a series of streams, each of which goes on where the one
// before has ended.
type watcher struct {
	client *Client
	watching
	consistency *fanoutv1.ReadConsistency // of a beginning from nothing

	at    Position // where to resume; revision 0: nowhere
	loose loose
	reset bool // a RESET is under way
	due   bool // SYNCED has come, and what belongs to it has not yet

	retry    retry
	fruitful bool   // the present stream has brought something
	steady   bool   // the last one has, and for some time
	proven   bool   // some stream has
	server   string // of the present stream, or the last one
	avoid    bool   // it has failed
	refused  bool   // the last credentials were refused
}

// steadyAfter is how long a stream has to live for the delays to begin anew. A
// server that takes watches and loses them at once is no better than one that is
// away.
const steadyAfter = 5 * time.Second

// Why a stream has ended, where the server has not said so.
var (
	errEnded  = errors.New("the server has ended the stream")
	errSilent = errors.New("the server is silent")
	errLeft   = errors.New("the caller has left")
)

// run opens streams until ctx ends, the caller leaves (then it returns nil), or
// there is no use in opening another one.
func (w *watcher) run(ctx context.Context, yield func(*Update) bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(w.client.open, func() { cancel(ErrClosed) })()
	if err := invalid(w.request()); err != nil {
		return err // it would never get as far as a server
	}
	for {
		began := time.Now()
		err := w.stream(ctx, yield)
		if errors.Is(err, errLeft) {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if w.isFinal(err) {
			return err
		}
		w.steady = w.fruitful && time.Since(began) >= steadyAfter
		if w.steady {
			w.retry.reset()
		}
		if errors.Is(err, errEnded) && w.fruitful {
			// Its time was over: every watch has one of its own.
			if err := sleep(ctx, w.retry.next()); err != nil {
				return err
			}
			continue
		}
		wait := w.pause(err)
		w.client.log.InfoContext(ctx, "a watch is interrupted",
			"resource", w.req.GetResource(), "server", w.server, "revision", w.at.Revision, "error", err, "wait", wait)
		for _, f := range w.interrupted {
			f(err)
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// stream opens one stream and returns why it has ended.
func (w *watcher) stream(ctx context.Context, yield func(*Update) bool) error {
	ctx, cancel := context.WithCancelCause(untimed{ctx})
	defer cancel(nil)
	// The time in which the caller does something else does not count.
	patience := max(w.patience(), firstPatience)
	silence := time.AfterFunc(patience, func() { cancel(errSilent) })
	defer silence.Stop()

	choice := &choice{}
	if w.avoid {
		choice.avoid = w.server
	}
	w.fruitful, w.due = false, false
	stream, err := w.client.reads.Watch(withChoice(ctx, choice), w.request())
	w.server = choice.server()
	for err == nil {
		var m *fanoutv1.WatchResponse
		silence.Reset(patience)
		m, err = stream.Recv()
		silence.Stop()
		if err != nil {
			break
		}
		patience = w.patience()
		if u := w.take(m); u != nil && !yield(u) {
			return errLeft
		}
	}
	switch {
	case errors.Is(context.Cause(ctx), errSilent):
		return fmt.Errorf("%w: it has not said anything for %v", errSilent, patience)
	case errors.Is(err, io.EOF):
		return errEnded
	}
	return errorOf(err)
}

// untimed is a context that ends when it does, and tells no server when that will be.
// A server that knew would end the stream as well, and if it is the first, that looks
// like an interruption.
type untimed struct{ context.Context }

// Deadline implements context.Context.
func (untimed) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// firstPatience is how long a server may take to its first word, at least: it has to
// be reached, and may have to read first.
const firstPatience = 5 * time.Second

// patience is how long a server may be silent.
func (w *watcher) patience() time.Duration { return 3 * w.bookmarks }

// request returns the request for the next stream.
func (w *watcher) request() *fanoutv1.WatchRequest {
	w.req.Begin, w.req.Consistency = nil, nil
	switch {
	case w.at.Revision > 0:
		w.req.Begin = &fanoutv1.WatchRequest_After{After: &fanoutv1.Position{Epoch: w.at.Epoch, Revision: w.at.Revision}}
		return w.req
	case w.fromNow:
		w.req.Begin = &fanoutv1.WatchRequest_FromNow{FromNow: &fanoutv1.FromNow{}}
	}
	w.req.Consistency = w.consistency
	return w.req
}

// identity returns what says which objects are watched.
func (w *watcher) identity() *fanoutv1.WatchRequest {
	return &fanoutv1.WatchRequest{
		Resource: w.req.GetResource(), Scope: w.req.GetScope(), OmitValues: w.req.GetOmitValues(),
		LabelSelector: w.req.GetLabelSelector(), FieldSelector: w.req.GetFieldSelector(),
	}
}

// take returns what a message has to tell, nil for nothing.
func (w *watcher) take(m *fanoutv1.WatchResponse) *Update {
	u := &Update{Position: positionOf(m.GetPosition())}
	tell := u.Position != w.at
	switch m.GetKind() {
	case fanoutv1.WatchResponse_KIND_CATCH_UP_BEGIN:
		w.reset = m.GetCatchUp() == fanoutv1.WatchResponse_CATCH_UP_RESET
		if w.reset {
			if w.at.Revision > 0 {
				w.lose() // who has half a state needs the other half, and not from now
			}
			w.loose.forget()
			u.Replace, tell = true, true
		} else {
			w.loose.again()
		}
	case fanoutv1.WatchResponse_KIND_SYNCED:
		w.reset, w.due = false, true
		tell, w.fruitful = true, true
	case fanoutv1.WatchResponse_KIND_LIVE, fanoutv1.WatchResponse_KIND_BOOKMARK:
		tell, w.fruitful = true, true
	}
	for _, e := range m.GetEvents() {
		event := Event{Type: EventType(e.GetType()), Object: objectOf(e.GetObject()), Previous: objectOf(e.GetPrevious())}
		if w.reset || w.loose.isNew(event, u.Position.Revision) {
			u.Events, tell = append(u.Events, event), true
		}
	}
	if !w.reset {
		u.Events = append(u.Events, w.loose.settle(u.Position.Revision)...)
	}
	u.Complete = !w.reset && !m.GetPartial() && w.loose.empty()
	// What was told by another server may be ahead of this one. Then the caller has
	// caught up a little later.
	u.Synced = u.Complete && w.due
	w.due = w.due && !u.Complete
	w.at = u.Position
	if w.fruitful {
		w.proven = true
		w.refused, w.avoid = false, false
	}
	if !tell {
		return nil
	}
	return u
}

// isFinal reports whether another stream would end as this one has. It draws the
// conclusions from an error that tells to begin in another way.
func (w *watcher) isFinal(err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return false
	}
	switch e.Code {
	case codes.OutOfRange:
		if errors.Is(e, ErrRevisionInFuture) && w.at.Revision > 0 && !w.req.GetEveryEvent() {
			// The position is of an etcd that is no more, so everything that was
			// built on it is void.
			w.lose()
			return false
		}
		exact := w.consistency.GetExactRevision() > 0 && w.at.Revision == 0
		if errors.Is(e, ErrPositionExpired) && !exact && !w.req.GetEveryEvent() {
			// A snapshot took too long for etcd, which may have more time later.
			w.lose()
			return false
		}
		return true
	case codes.ResourceExhausted:
		return errors.Is(e, ErrRequestTooLarge) // everything else passes
	case codes.Unauthenticated:
		// There may be a newer token or certificate by now.
		again := w.client.renewable && !w.refused
		w.refused = true
		return !again
	case codes.InvalidArgument, codes.NotFound, codes.PermissionDenied, codes.Unimplemented, codes.FailedPrecondition:
		// Without a reason it was something between here and the server that said no.
		// When the same has worked before, that is likely to pass.
		return e.Reason != "" || !w.proven
	}
	return false
}

// lose is for when the position is of no use: the watch begins with nothing again.
// What the caller has asked of its first beginning may not be true of this one.
func (w *watcher) lose() {
	w.at, w.fromNow = Position{}, false
	if w.consistency.GetAny() == nil {
		w.consistency = nil
	}
}

// maxHint bounds how long a server can ask to wait.
const maxHint = time.Minute

// renewal is how long a source of credentials has to come by new ones when the old ones
// have worked until now. Who has never had good ones is told so without delay.
const renewal = 5 * time.Second

// pause returns how long to wait before the next stream.
func (w *watcher) pause(err error) time.Duration {
	w.avoid = true
	var hint time.Duration
	if e, ok := errors.AsType[*Error](err); ok {
		hint = min(e.RetryAfter, maxHint)
		if e.Code == codes.Unauthenticated && w.proven {
			hint = max(hint, renewal)
		}
	}
	if errors.Is(err, ErrDraining) && w.fruitful {
		// There may be other servers, and they should not get everybody at once.
		wait := jitter(max(hint, time.Second))
		if !w.steady {
			wait += w.retry.next()
		}
		return wait
	}
	return hint + w.retry.next()
}

// loose is what a watch has been told beyond its position: of a catch-up or a large
// transaction that is not complete yet. Should the stream break now, the next one
// begins at the position again, and its servers do not know what was told already.
// They repeat it, in a newer form if it has changed meanwhile, or tell that it has
// gone. Only where a server has lost the thread of etcd for a while it does not know
// what came and went in that time, and says nothing of it: whoever was told of that
// half-way, by another server, would have it for ever.
//
// So what is repeated is left out, and what is neither repeated nor replaced by the
// time the position has passed it, is told to be deleted.
type loose struct {
	marks map[string]mark // by key
}

type mark struct {
	revision int64
	deleted  bool
	repeated bool // or not in need of it
}

func (l *loose) empty() bool { return len(l.marks) == 0 }

// forget is for when everything is told anew.
func (l *loose) forget() { l.marks = nil }

// again is for when everything since the position is told again.
func (l *loose) again() {
	for key, m := range l.marks {
		m.repeated = false
		l.marks[key] = m
	}
}

// isNew notes an event that came with a position and reports whether it was not told
// already.
func (l *loose) isNew(e Event, position int64) bool {
	key, revision := e.Object.Key, e.Object.ModRevision
	m, ok := l.marks[key]
	if ok && revision <= m.revision {
		m.repeated = true
		l.marks[key] = m
		return false
	}
	if ok || revision > position {
		if l.marks == nil {
			l.marks = map[string]mark{}
		}
		l.marks[key] = mark{revision: revision, deleted: e.Type == Deleted, repeated: true}
	}
	return true
}

// settle forgets what the position has passed, and returns the deletions of what
// nobody has spoken of again.
func (l *loose) settle(position int64) (deletions []Event) {
	for key, m := range l.marks {
		if m.revision > position {
			continue
		}
		delete(l.marks, key)
		if !m.repeated && !m.deleted {
			deletions = append(deletions, Event{Type: Deleted, Object: &Object{Key: key, ModRevision: position}})
		}
	}
	slices.SortFunc(deletions, func(a, b Event) int { return strings.Compare(a.Object.Key, b.Object.Key) })
	return deletions
}
