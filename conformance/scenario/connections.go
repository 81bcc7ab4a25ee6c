package scenario

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"

	"github.com/fanoutd/fanoutd/conformance/script"
	"github.com/fanoutd/fanoutd/conformance/testclient"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// stormDelay is the delay of RetryInfo in a storm.
const stormDelay = 700 * time.Millisecond

// storm refuses the client for a while, as an overloaded server does.
func storm(r *run) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"))
	r.server.Refuse(script.Unavailable(stormDelay))
	r.follow("a")
	r.within("the client tries again and again", func(ctx context.Context) error { return r.server.AwaitAttempts(ctx, 4) })
	attempts := r.server.Attempts()
	for i := 1; i < len(attempts); i++ {
		if gap := attempts[i].At.Sub(attempts[i-1].At); gap < stormDelay {
			r.fail("attempt %d follows after %v, and RetryInfo says %v", i+1, gap, stormDelay)
		}
	}
	r.server.Refuse(nil)
	w := r.accept("a")
	r.beginsAfter(w, nil)
	r.resume(h, w)
}

// refusals without RetryInfo: the client must not try again at once, and its delays grow.
func refusals(r *run) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"))
	r.server.Refuse(script.Refusal(codes.Unavailable, "A_REASON_OF_LATER_VERSIONS"))
	r.follow("a")
	const attempts = 6
	r.within("the client tries again", func(ctx context.Context) error { return r.server.AwaitAttempts(ctx, attempts) })
	all := r.server.Attempts()
	if took := all[attempts-1].At.Sub(all[0].At); took < attempts*50*time.Millisecond {
		r.fail("%d attempts take only %v", attempts, took)
	}
	r.server.Refuse(nil)
	r.resume(h, r.accept("a"))
}

// final refuses the client with errors that no retry can help.
func final(r *run) {
	h := r.history("e1")
	h.Write(script.Put("ok/1", "1"))
	ok := r.sync(h, "ok")
	for _, refusal := range []struct {
		code   codes.Code
		reason string
	}{
		{codes.PermissionDenied, "PERMISSION_DENIED"},
		{codes.NotFound, "UNKNOWN_RESOURCE"},
		{codes.InvalidArgument, "INVALID_REQUEST"},
	} {
		w := r.open(refusal.reason)
		w.Refuse(script.Refusal(refusal.code, refusal.reason))
		l := r.expectLine(refusal.reason, testclient.Failed)
		if want := code.Code(refusal.code).String(); l.Reason != refusal.reason || l.Code != want {
			r.fail("watch %s fails with %q and the reason %q, want %q", refusal.reason, l.Code, l.Reason, want)
		}
	}
	// The right is lost while the watch is open.
	h.Write(script.Put("revoked/1", "1"))
	r.sync(h, "revoked").End(script.Refusal(codes.PermissionDenied, "PERMISSION_DENIED"))
	r.expectLine("revoked", testclient.Failed)
	// The others go on.
	ok.Send(h.Live("ok", h.Write(script.Put("ok/1", "2"))))
	r.expect("ok", h.Position(h.Revision()))
	for _, name := range []string{"PERMISSION_DENIED", "UNKNOWN_RESOURCE", "INVALID_REQUEST", "revoked"} {
		if r.server.Waiting(name) > 0 {
			r.fail("the client tries watch %s again", name)
		}
	}
}

// drained ends streams as a server does that stops, one after the other: the client resumes at once, on another
// connection. The connection stays open until its last stream has ended.
func drained(r *run) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"), script.Put("b/1", "1"))
	streams := [][]*script.Watch{{r.sync(h, "a")}, {r.sync(h, "b")}}
	if r.Subscribe {
		streams = [][]*script.Watch{{streams[0][0], streams[1][0]}} // both are on one stream
	}
	var gaps []time.Duration
	for range 5 {
		r.pass(1100 * time.Millisecond) // a client may slow down streams that end soon
		goAway(slices.Concat(streams...))
		for _, watches := range streams {
			at := h.Position(h.Revision())
			ended := r.drain(h, watches, true)
			for i, w := range watches {
				next := r.acceptAs("the client resumes watch "+w.Name()+" on another connection", w.Name())
				gaps = append(gaps, next.Opened.Sub(ended))
				r.resumesElsewhere(w, next, at)
				watches[i] = next
			}
			for _, w := range watches {
				h.Write(script.Put(w.Name()+"/1", fmt.Sprint(h.Revision())))
				r.resume(h, w)
			}
		}
	}
	slices.Sort(gaps)
	if gaps[len(gaps)/2] > r.scaled(250*time.Millisecond) {
		r.fail("after resume_at_once the client waits %v", gaps)
	}
}

// goAway sends GOAWAY on each connection of the watches.
func goAway(watches []*script.Watch) {
	seen := map[int]bool{}
	for _, w := range watches {
		if !seen[w.Connection] {
			seen[w.Connection] = true
			w.GoAway()
		}
	}
}

// drain ends watches and the streams that carry them, and returns when it began.
func (r *run) drain(h *script.History, watches []*script.Watch, atOnce bool) (began time.Time) {
	began = time.Now()
	for _, w := range watches {
		w.Send(h.Draining(h.Revision(), atOnce))
	}
	refusal := script.Refusal(codes.Unavailable, "DRAINING")
	for _, w := range watches {
		w.End(refusal)
	}
	seen := map[*script.Stream]bool{nil: true}
	for _, w := range watches {
		if !seen[w.Stream] {
			seen[w.Stream] = true
			w.Stream.End(refusal)
		}
	}
	return began
}

// resumesElsewhere checks that a watch resumes on another connection.
func (r *run) resumesElsewhere(old, resumed *script.Watch, at *fanoutv1.Position) {
	if resumed.Connection == old.Connection {
		r.fail("watch %s does not resume on another connection, but on the same one", old.Name())
	}
	r.beginsAfter(resumed, at)
}

// limited ends a watch at its time limit, and with a drain that does not spread.
func limited(r *run) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"))
	w := r.sync(h, "a")
	for _, end := range []error{nil, script.Refusal(codes.Unavailable, "DRAINING"), nil} {
		w.Send(h.Draining(h.Revision(), false))
		w.End(end)
		if w.Stream != nil {
			w.Stream.End(end)
		}
		w = r.accept("a")
		r.beginsAfter(w, h.Position(h.Revision()))
		h.Write(script.Put("a/1", fmt.Sprint(h.Revision())))
		r.resume(h, w)
	}
}

// silence is the interval of bookmarks of watches whose server falls silent.
const silence = 800 * time.Millisecond

// A silent server counts as dead after three intervals. The client then waits for a random delay and connects,
// on a machine that may be busy. maxSilence is also less than firstResponse, which clients must not wait for
// after the first message.
const (
	minSilence    = 2 * silence
	maxSilence    = 6 * silence
	firstResponse = 5 * time.Second
)

func withSilence(c *testclient.Command) { c.BookmarkMillis = int(silence / time.Millisecond) }

// silent serves a watch that asks for bookmarks, and sends none. The next server takes longer for its first message
// than the client may wait for a later one.
func silent(r *run) {
	h, w := r.silence(func(*script.Watch) {})
	select {
	case <-w.Gone():
		r.fail("the client gives up %v after it has opened a stream, and the first message may take %v",
			time.Since(w.Opened).Round(time.Millisecond), firstResponse)
	case <-time.After(time.Until(w.Opened.Add(4 * silence))): // the client may have begun to count earlier
	case <-r.ctx.Done():
		r.fail("%w", context.Cause(r.ctx))
	}
	r.resume(h, w)
}

// halfOpen makes the connection of a watch silent, as if a machine on the way had been switched off.
func halfOpen(r *run) {
	h, w := r.silence(func(w *script.Watch) { w.HalfOpen() })
	r.resume(h, w)
}

// silence makes the server of a watch fall silent, and returns the watch that replaces it.
func (r *run) silence(die func(*script.Watch)) (*script.History, *script.Watch) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"))
	w := r.sync(h, "a", withSilence)
	if got := w.Request.GetBookmarkInterval().AsDuration(); got != silence {
		r.fail("the client asks for bookmarks every %v, want %v", got, silence)
	}
	// Bookmarks that come keep the watch alive.
	var last time.Time // before the last one is sent: on a busy machine, the client may get it before Send returns
	for range 4 {
		r.pass(silence)
		last = time.Now()
		w.Send(h.Bookmark(h.Revision()))
	}
	at := h.Position(h.Revision())
	die(w)
	next := r.acceptAs("the client opens watch a on another connection after a silence", "a")
	if waited := next.Opened.Sub(last); waited < minSilence || waited > r.scaled(maxSilence) {
		r.fail("the client gives up after %v of silence, want %v to %v: it asked for bookmarks every %v",
			waited.Round(time.Millisecond), minSilence, maxSilence, silence)
	}
	r.resumesElsewhere(w, next, at)
	h.Write(script.Put("a/1", "2"))
	return h, next
}

// reconnects cuts the connections of many clients at once, and looks at when they come back.
func reconnects(r *run) {
	h, watches := r.manyClients()
	r.untilSpread(leastSpread, 6, func() (returns [][]time.Duration) {
		began := time.Now()
		for _, w := range watches {
			w.Cut()
		}
		return append(returns, r.returns(h, watches, began))
	})
}

// reconnectsDrained drains many clients at once: with resume_at_once, when they may return together, and
// without.
func reconnectsDrained(r *run) {
	h, watches := r.manyClients()
	drain := func(atOnce bool) []time.Duration {
		r.pass(1100 * time.Millisecond) // a client may slow down streams that end soon
		if atOnce {
			goAway(watches)
		}
		return r.returns(h, watches, r.drain(h, watches, atOnce))
	}
	old, at := slices.Clone(watches), h.Position(h.Revision())
	drain(true)
	for i, w := range watches {
		r.resumesElsewhere(old[i], w, at)
	}
	r.untilSpread(leastDrainSpread, 10, func() (returns [][]time.Duration) { return append(returns, drain(false)) })
}

// reconnectsStorm ends the watches of many clients at once with the delay of RetryInfo, and then refuses each
// client with the same delay. The clients must wait for it, and must not return together after it.
func reconnectsStorm(r *run) {
	h, watches := r.manyClients()
	refusal := script.Unavailable(stormDelay)
	r.untilSpread(leastSpread, 6, func() (returns [][]time.Duration) {
		r.server.Refuse(refusal)
		known := len(r.server.Attempts())
		before := map[string]time.Time{} // the last error of each client
		for _, w := range watches {
			before[w.Name()] = time.Now()
			w.End(refusal)
		}
		for _, w := range watches {
			r.within("the client tries watch "+w.Name()+" again", func(ctx context.Context) error {
				return r.server.AwaitAttempt(ctx, w.Name(), known)
			})
		}
		r.server.Refuse(nil)
		attempts := r.server.Attempts()[known:]
		for i, w := range watches {
			watches[i] = r.accept(w.Name())
			attempts = append(attempts, script.Attempt{Name: w.Name(), At: watches[i].Opened})
			r.resume(h, watches[i])
		}
		returns = make([][]time.Duration, 2) // after the end of the watch, and after the refusal
		count := map[string]int{}
		for _, a := range attempts {
			delay := a.At.Sub(before[a.Name])
			if delay < stormDelay {
				r.fail("watch %s returns after %v, and RetryInfo says %v", a.Name, delay, stormDelay)
			}
			if n := count[a.Name]; n < len(returns) {
				returns[n] = append(returns[n], delay)
			}
			before[a.Name] = a.At
			count[a.Name]++
		}
		return returns
	})
}

// manyClients returns a watch of each of many clients.
func (r *run) manyClients() (*script.History, []*script.Watch) {
	const clients = 24
	h := r.history("e1")
	var watches []*script.Watch
	for i := range clients {
		name := fmt.Sprint("w", i)
		h.Write(script.Put(name+"/1", "1"))
		watches = append(watches, r.sync(h, name, func(c *testclient.Command) { c.Client = name }))
	}
	return h, watches
}

// returns waits until all watches have resumed. It replaces the watches, and returns how long each was away.
func (r *run) returns(h *script.History, watches []*script.Watch, began time.Time) []time.Duration {
	var delays []time.Duration
	for i, w := range watches {
		watches[i] = r.accept(w.Name())
		delays = append(delays, watches[i].Opened.Sub(began))
		r.resume(h, watches[i])
	}
	return delays
}

// The least time over which the middle half of many clients must spread. A busy machine delays a few clients, so
// the others do not count.
const (
	leastSpread      = 100 * time.Millisecond
	leastDrainSpread = 200 * time.Millisecond // of clients that wait for a random fraction of a second
)

// spreadReturns is how often the clients must have spread.
const spreadReturns = 2

// untilSpread makes many clients return until they have spread often enough. The function returns how long each
// client was away, for one or more returns. On a busy machine, all clients of a process may wait for a processor
// and then return together, so they have several attempts. Clients without random delays spread in none.
func (r *run) untilSpread(least time.Duration, attempts int, again func() [][]time.Duration) {
	var spreads []time.Duration
	for good := 0; len(spreads) < attempts; {
		for _, delays := range again() {
			slices.Sort(delays)
			n := len(delays)
			spread := delays[n*3/4] - delays[n/4]
			spreads = append(spreads, spread)
			if spread >= least {
				good++
			}
		}
		if good >= spreadReturns {
			return
		}
	}
	r.fail("the middle half of many clients returns within %v, want at least %v twice", spreads, least)
}
