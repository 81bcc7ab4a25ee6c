package client

import (
	"context"
	"errors"
	"io"
	"runtime"
	"time"

	"google.golang.org/grpc/codes"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// watcher runs one watch. A watch is a series of streams; each stream resumes where the
// previous one ended. The watcher belongs to the goroutine that iterates over the watch, and at times
// to that of [ahead].
//
// The events of a DELTA all lie after the position from which a broken stream
// resumes, and so do those of a partial message. The next stream may come from another
// replica, which need not know every key that the first one sent: a replica that
// listed etcd again does not know what was created and deleted in between. A caller
// that had applied such a key would keep it forever. So the watcher holds these events
// back until their position is reached, and drops them if the stream breaks first.
// A REPLAY is passed on as it arrives, because its position advances with its events.
// A RESET is passed on as well: its first update is in PhaseReset, and a broken one is
// followed by another.
type watcher struct {
	client *Client
	watchConfig
	consistency *fanoutv1.ReadConsistency // applies to a start without a position
	reporter    *reporter

	callerMayBeBusy bool        // the watch reports what its caller has applied
	ahead           *ahead      // nil: the caller is never busy
	interrupted     func(error) // is called when a stream is lost

	at      Position                       // where to resume; revision 0 is no position
	asOf    time.Time                      // when the state at the position was last known to be current
	catchUp fanoutv1.WatchResponse_CatchUp // the catch-up that the stream is in; 0 is none
	held    []Event                        // events after the position, not passed on yet

	stream   watchStream    // nil: the next one is to be opened
	reports  *streamReports // of the stream
	answered bool           // the stream has sent a message
	received int            // the bytes of the message of the latest step
	limit    time.Duration  // how long the server may be silent
	moves    bool           // the watch leaves the stream when the caller has the latest update

	began      time.Time // when the stream was requested
	backoff    backoff
	progressed bool   // the stream was synced, or sent events, a bookmark or a message of an unknown kind
	drained    bool   // the server said that it drains
	atOnce     bool   // the server said that the client may resume at once
	steady     bool   // the previous stream progressed and lasted for steadyAfter
	hurried    int    // how often the watch has resumed at once after a stream shorter than resumeAfter
	proven     bool   // some stream has progressed
	server     string // the address of the server of the latest stream
	avoid      bool   // the next stream goes to another server, if there is one
	refused    bool   // the latest credentials were refused
	tooSlow    bool   // the caller is too slow for a shared stream
}

// steadyAfter is how long a stream must last to reset the backoff. A server that
// accepts watches and loses them at once is no better than an unreachable one.
const steadyAfter = 5 * time.Second

// A client resumes at once if the server allows it. After streams that were shorter than
// resumeAfter, it does so at most maxHurried times in a row. Otherwise a server that ends each
// watch as soon as it begins would keep the client busy.
const (
	resumeAfter = time.Second
	maxHurried  = 3
)

// Reasons for the end of a stream that do not come from the server.
var (
	errStreamEnded = errors.New("the server ended the stream")
	errSilent      = errors.New("the server is silent")
)

// run opens one stream after another. It returns nil when the caller stops iterating,
// and an error when ctx ends or when another stream would fail as well.
func (w *watcher) run(ctx context.Context, yield func(*Update) bool) error {
	if w.client.open.Err() != nil {
		return ErrClosed
	}
	if err := onFreshStack(func() error { return checkUTF8(w.request()) }); err != nil {
		w.observeEnd(err)
		return err
	}
	defer w.closeStream()
	w.interrupted = w.callOnInterruption
	next, begin := func() (*Update, error) { return w.step(ctx) }, func() {}
	if w.callerMayBeBusy {
		w.ahead = newAhead(ctx, w)
		defer w.ahead.stop()
		next, begin = w.ahead.next, w.ahead.begin
	}
	for {
		u, err := next()
		if err != nil {
			return err
		}
		if u != nil {
			begin()
			if !yield(u) {
				return nil
			}
		}
	}
}

// step opens a stream, or handles the next message of the stream or its end. It returns the update that
// follows, if there is one, or an error if the watch has ended.
func (w *watcher) step(ctx context.Context) (*Update, error) {
	w.received = 0
	if w.moves {
		w.closeStream()
		w.moves, w.tooSlow = false, false
	}
	if w.stream == nil {
		if err := w.openStream(ctx); err != nil {
			return nil, w.streamEnded(ctx, err)
		}
	}
	m, err := w.stream.Recv(w.limit)
	if _, restart := errors.AsType[restartError](err); !restart {
		w.server = w.stream.server()
	}
	if err != nil {
		w.closeStream()
		if errors.Is(err, io.EOF) {
			err = errStreamEnded
		}
		return nil, w.streamEnded(ctx, err)
	}
	w.received, w.limit = m.size, w.silenceAfter(m)
	w.noteAge(m)
	w.observeMessage(m)
	u := w.receive(m)
	if w.reporter.progress != nil {
		w.reports.received(m, w.at)
		if !w.answered {
			w.stream.startReports(w.reports)
		}
	}
	w.answered = true
	// The watch moves when the caller has the update.
	w.moves = m.GetKind() == fanoutv1.WatchResponse_KIND_BOOKMARK && w.stream.mayMove()
	return u, nil
}

// openStream opens a stream at the position.
func (w *watcher) openStream(ctx context.Context) error {
	w.progressed, w.drained, w.atOnce, w.catchUp, w.held, w.answered = false, false, false, 0, nil, false
	w.limit = firstLimit(w.bookmarks)
	w.reports = w.reports.following(w.at)
	for last := (*opening)(nil); ; {
		w.began = time.Now()
		err := onFreshStack(func() error {
			stream, err := w.client.openWatch(ctx, w.avoided(), w.request(), w.tooSlow)
			if err == nil {
				w.stream = stream
			}
			return err
		})
		if last != nil {
			last.leave() // the watch has joined its stream, or waits again
		}
		if o, ok := errors.AsType[*opening](err); ok {
			if err = w.wait(ctx, o); err == nil {
				last = o
				continue
			}
			o.leave()
		}
		if err == nil && w.ahead != nil {
			w.ahead.follow(w.stream)
		}
		return err
	}
}

// avoided returns the server that the next stream avoids, or "".
func (w *watcher) avoided() string {
	if w.avoid {
		return w.server
	}
	return ""
}

// wait waits for the next stream of all watches.
func (w *watcher) wait(ctx context.Context, o *opening) error {
	avoid, err := o.wait(ctx, len(w.onInterruption) > 0 || w.client.observer.WatchInterrupted != nil)
	if avoid != "" {
		w.server = avoid
	}
	return err
}

// closeStream ends the watch on its stream.
func (w *watcher) closeStream() {
	if w.stream != nil {
		w.reports.end()
		w.stream.close()
		w.stream = nil
	}
}

// streamEnded waits until the next stream may be opened. It returns an error if there will be none.
func (w *watcher) streamEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if w.client.open.Err() != nil {
		return ErrClosed
	}
	if _, ok := errors.AsType[restartError](err); ok {
		w.tooSlow = errors.Is(err, errTooSlow)
		return nil
	}
	lost, _ := errors.AsType[*lostStream](err)
	if lost != nil {
		err = lost.err
	}
	if w.isFinal(err) {
		w.observeEnd(err)
		return err
	}
	lasted := time.Since(w.began)
	w.steady = w.progressed && lasted >= steadyAfter
	if lasted >= resumeAfter {
		w.hurried = 0
	} else if w.atOnce {
		w.hurried++
	}
	if w.steady {
		w.backoff.reset()
	}
	wait := w.delay(err)
	pooled := lost != nil && lost.pooled && !w.drained
	if pooled {
		wait = lost.wait
	}
	if errors.Is(err, errStreamEnded) {
		return w.client.sleep(ctx, wait) // the time limit of the watch: not an interruption
	}
	w.logInterruption(ctx, lost, err, wait)
	w.interrupted(err)
	w.observeInterruption(err, wait)
	if pooled {
		return nil
	}
	return w.client.sleep(ctx, wait)
}

func (w *watcher) callOnInterruption(err error) {
	for _, f := range w.onInterruption {
		f(err)
	}
}

// logInterruption logs why the watch was interrupted. Of the watches that were lost together, one
// logs for all.
func (w *watcher) logInterruption(ctx context.Context, lost *lostStream, err error, wait time.Duration) {
	if lost != nil && lost.watches > 1 {
		if lost.logged.CompareAndSwap(false, true) {
			w.client.log.InfoContext(ctx, "watches interrupted", "watches", lost.watches, "server", w.server, "error", err, "retry_in", wait)
		}
		return
	}
	w.client.log.InfoContext(ctx, "watch interrupted",
		"resource", w.req.GetResource(), "server", w.server, "revision", w.at.Revision, "error", err, "retry_in", wait)
}

// freshStacks bounds the watches of the process that open their streams at once. If a program begins or resumes many
// watches together, all others wait here, and not for a processor: otherwise the goroutines that read and write
// connections would wait for one among all of them, until connections count as dead.
var freshStacks = make(chan struct{}, 4*runtime.GOMAXPROCS(0))

// onFreshStack calls f in another goroutine and waits for it. To encode and to check a request takes
// more stack than all that a watch does later, and a stack that has grown rarely shrinks. f must not wait.
func onFreshStack(f func() error) error {
	freshStacks <- struct{}{}
	done := make(chan error)
	go func() {
		err := f()
		<-freshStacks
		done <- err
	}()
	return <-done
}

// minFirstResponse is the least time that a server has for its first message: the
// client may have to connect, and the server may have to read from etcd.
const minFirstResponse = 5 * time.Second

// firstLimit returns how long a server may be silent before its first message.
func firstLimit(bookmarks time.Duration) time.Duration { return max(3*bookmarks, minFirstResponse) }

// maxSilence returns how long a server may be silent before it counts as dead.
func (w *watcher) maxSilence() time.Duration { return 3 * w.bookmarks }

// freshFor returns how long a state counts as current after a server has confirmed it: three
// bookmark intervals. A server confirms it once per interval, so a state may be as old as two of them,
// and transit is counted for each message. That takes longer than three short intervals.
func (w *watcher) freshFor() time.Duration { return max(w.maxSilence(), 2*(w.bookmarks+transit)) }

// silenceAfter returns how long the server may be silent after a message. The age of the message
// counts as silence, so the client leaves a server that has just lost etcd when its state becomes
// stale. If the state is stale already, the server gets the whole time: other servers may have
// lost etcd, too.
func (w *watcher) silenceAfter(m *message) time.Duration {
	if left := w.freshFor() - m.GetAge().AsDuration(); left > 0 {
		// A server that sends many old events also states an age. It must not be left between two
		// of them.
		return min(max(left, minFirstResponse), w.maxSilence())
	}
	return w.maxSilence()
}

// transit is added to the age that a message states. It covers the time that the message was on
// its way, and ages of less than a second, which servers do not state.
const transit = time.Second

// noteAge updates asOf after a message.
func (w *watcher) noteAge(m *message) {
	switch m.GetKind() {
	case fanoutv1.WatchResponse_KIND_SYNCED, fanoutv1.WatchResponse_KIND_LIVE, fanoutv1.WatchResponse_KIND_BOOKMARK:
	default:
		return
	}
	if m.GetPartial() {
		return // its events are not part of the state yet
	}
	confirmed := m.arrived.Add(-m.GetAge().AsDuration())
	asOf := confirmed.Add(-transit)
	if m.GetKind() == fanoutv1.WatchResponse_KIND_SYNCED && asOf.Before(w.began) {
		// The server has asked etcd since the stream was requested, unless it states an age
		// from before.
		linearizable := w.req.GetAfter() == nil && w.req.GetConsistency() == nil
		if linearizable || m.GetAge() == nil || !confirmed.Before(w.began) {
			asOf = w.began
		}
	}
	if w.asOf.Before(asOf) {
		w.asOf = asOf
	}
}

// request returns the request of the next stream.
func (w *watcher) request() *fanoutv1.WatchRequest {
	w.req.Begin, w.req.Consistency = nil, nil
	w.req.Reports = w.reporter.progress != nil
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

// identity returns the part of the request that decides which objects are watched.
func (w *watcher) identity() *fanoutv1.WatchRequest {
	return &fanoutv1.WatchRequest{
		Resource: w.req.GetResource(), Scope: w.req.GetScope(), OmitValues: w.req.GetOmitValues(), JsonValues: w.req.GetJsonValues(),
		LabelSelector: w.req.GetLabelSelector(), FieldSelector: w.req.GetFieldSelector(),
	}
}

// receive handles a message of the server. It returns the update for the caller, or
// nil if the message has nothing to report yet.
func (w *watcher) receive(m *message) *Update {
	u := &Update{Phase: PhaseLive, Position: positionOf(m.GetPosition()), AsOf: w.asOf}
	report := u.Position != w.at
	switch m.GetKind() {
	case fanoutv1.WatchResponse_KIND_CATCH_UP_BEGIN:
		w.catchUp, w.held = m.GetCatchUp(), nil
		if w.catchUp == fanoutv1.WatchResponse_CATCH_UP_RESET {
			if w.at.Revision > 0 {
				w.dropPosition() // a broken RESET must be followed by another one
			}
			u.Phase, report = PhaseReset, true
			w.asOf = time.Time{} // the new state may come from a server that has lost etcd
		}
	case fanoutv1.WatchResponse_KIND_SYNCED:
		u.Delta = w.catchUp == fanoutv1.WatchResponse_CATCH_UP_DELTA
		w.catchUp = fanoutv1.WatchResponse_CATCH_UP_UNSPECIFIED
		u.Phase, report, w.progressed = PhaseSynced, true, true
	case fanoutv1.WatchResponse_KIND_LIVE, fanoutv1.WatchResponse_KIND_BOOKMARK:
		report, w.progressed = true, true
	case fanoutv1.WatchResponse_KIND_DRAINING:
		w.held = nil // the rest of them will not come
		w.drained, w.atOnce = true, m.GetResumeAtOnce()
	case fanoutv1.WatchResponse_KIND_CATCH_UP_PART:
	default: // of a later version of the protocol
		w.progressed = true
	}
	if w.progressed {
		w.proven, w.refused, w.avoid = true, false, false
	}
	w.held = m.appendEvents(w.held)
	if len(w.held) > 0 && (m.GetPartial() || w.catchUp == fanoutv1.WatchResponse_CATCH_UP_DELTA) {
		return nil
	}
	u.Events, w.held = w.held, nil
	if w.catchUp != fanoutv1.WatchResponse_CATCH_UP_UNSPECIFIED {
		u.AsOf = time.Time{} // until the end of the catch-up
		if u.Phase == PhaseLive {
			u.Phase = PhaseCatchingUp
			if w.catchUp == fanoutv1.WatchResponse_CATCH_UP_RESET {
				u.Phase = PhaseSnapshot
			}
		}
	}
	w.at = u.Position
	if !report && len(u.Events) == 0 {
		return nil
	}
	return u
}

// isFinal reports whether another stream would end with the same error. If the watch
// can go on without its position, isFinal drops the position.
func (w *watcher) isFinal(err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return false
	}
	switch e.Code {
	case codes.OutOfRange:
		exact := w.consistency.GetExactRevision() > 0 && w.at.Revision == 0
		if w.req.GetEveryEvent() || exact || w.at.Revision == 0 && !errors.Is(e, ErrPositionExpired) {
			return true
		}
		// No server can go on from the position: it belongs to an etcd that no longer exists, or what
		// follows it is forgotten. A snapshot may also take longer than etcd keeps its history; the next
		// attempt may be faster.
		w.dropPosition()
		return false
	case codes.ResourceExhausted:
		return errors.Is(e, ErrRequestTooLarge) // all other limits are temporary
	case codes.Unauthenticated:
		// Try once more: there may be a newer token or certificate by now.
		again := w.client.renewable && !w.refused
		w.refused = true
		return !again
	case codes.InvalidArgument, codes.NotFound, codes.PermissionDenied, codes.Unimplemented, codes.FailedPrecondition:
		// An error without a reason comes from a proxy. If the watch has worked
		// before, that is likely to pass.
		return e.Reason != "" || !w.proven
	}
	return false
}

// dropPosition makes the next stream begin without a position. Options for the first
// start of the watch do not apply to it: the revisions that they name may belong to
// another epoch.
func (w *watcher) dropPosition() {
	w.at, w.fromNow = Position{}, false
	if w.consistency.GetAny() == nil {
		w.consistency = nil
	}
}

// mayBeBetterElsewhere reports whether another server may do what the one of a failed stream did not. The others
// would not take the position or the credentials either.
func mayBeBetterElsewhere(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return !ok || e.Code != codes.OutOfRange && e.Code != codes.Unauthenticated
}

// maxRetryAfter bounds the delay that a server can ask for.
const maxRetryAfter = time.Minute

// renewalDelay is the time for a source of credentials to get new ones after the old
// ones stopped working. If no credentials have ever worked, the client does not wait.
const renewalDelay = 5 * time.Second

// delay returns how long to wait before the next stream.
func (w *watcher) delay(err error) time.Duration {
	ended := errors.Is(err, errStreamEnded)
	w.avoid = w.atOnce || !ended && mayBeBetterElsewhere(err)
	var least, renewal time.Duration
	if e, ok := errors.AsType[*Error](err); ok {
		least = min(e.RetryAfter, maxRetryAfter)
		if e.Code == codes.Unauthenticated && w.proven {
			renewal = renewalDelay
		}
	}
	switch {
	case w.atOnce && w.hurried <= maxHurried:
		return 0 // the server spreads its clients
	case !w.atOnce && (w.drained || errors.Is(err, ErrDraining)) && w.progressed && !ended:
		// Spread the clients of a stopping server over a second, so that they do not
		// all reach the other servers at once.
		wait := jitter(max(least, time.Second))
		if !w.steady {
			wait += w.backoff.next()
		}
		return renewal + wait
	}
	return renewal + least + w.backoff.next()
}
