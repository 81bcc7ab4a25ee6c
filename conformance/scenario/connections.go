package scenario

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/fanoutd/fanoutd/conformance/script"
	"github.com/fanoutd/fanoutd/conformance/testclient"
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
		if l.Reason != refusal.reason {
			r.fail("watch %s fails with the reason %q", refusal.reason, l.Reason)
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

// drained ends streams as a server does that stops, one watch after the other: the client resumes at once, on
// another connection.
func drained(r *run) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"))
	w := r.sync(h, "a")
	var gaps []time.Duration
	for range 5 {
		r.pass(1100 * time.Millisecond) // a client may slow down streams that end soon
		w.GoAway()
		r.pass(goAwayTime)
		w.Send(h.Draining(h.Revision(), true))
		ended := time.Now()
		r.endDrained(w, script.Refusal(codes.Unavailable, "DRAINING"))
		next := r.accept("a")
		gaps = append(gaps, next.Opened.Sub(ended))
		if next.Connection == w.Connection {
			r.fail("the client resumes on the connection of the server that ends its watches")
		}
		r.beginsAfter(next, h.Position(h.Revision()))
		h.Write(script.Put("a/1", fmt.Sprint(h.Revision())))
		r.resume(h, next)
		w = next
	}
	slices.Sort(gaps)
	if gaps[len(gaps)/2] > 250*time.Millisecond {
		r.fail("after resume_at_once the client waits %v", gaps)
	}
}

// goAwayTime is enough for a GOAWAY to reach the client.
const goAwayTime = 100 * time.Millisecond

// endDrained ends a watch, and the stream that carries it.
func (r *run) endDrained(w *script.Watch, err error) {
	w.End(err)
	if w.Stream != nil {
		w.Stream.End(err)
	}
}

// limited ends a watch at its time limit, and with a drain that does not spread.
func limited(r *run) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"))
	w := r.sync(h, "a")
	for _, end := range []error{nil, script.Refusal(codes.Unavailable, "DRAINING"), nil} {
		w.Send(h.Draining(h.Revision(), false))
		r.endDrained(w, end)
		w = r.accept("a")
		r.beginsAfter(w, h.Position(h.Revision()))
		h.Write(script.Put("a/1", fmt.Sprint(h.Revision())))
		r.resume(h, w)
	}
}

// silence is the interval of bookmarks of watches whose server falls silent.
const silence = 400 * time.Millisecond

func withSilence(c *testclient.Command) { c.BookmarkMillis = int(silence / time.Millisecond) }

// silent serves a watch that asks for bookmarks, and sends none.
func silent(r *run) {
	died(r, func(*script.Watch) {})
}

// halfOpen makes the connection of a watch silent, as if a machine on the way had been switched off.
func halfOpen(r *run) {
	died(r, func(w *script.Watch) { w.HalfOpen() })
}

func died(r *run, die func(*script.Watch)) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"))
	w := r.sync(h, "a", withSilence)
	if got := w.Request.GetBookmarkInterval().AsDuration(); got != silence {
		r.fail("the client asks for bookmarks every %v, want %v", got, silence)
	}
	// Bookmarks that come keep the watch alive.
	for range 6 {
		r.pass(silence)
		w.Send(h.Bookmark(h.Revision()))
	}
	last := time.Now()
	die(w)
	next := r.accept("a")
	if waited := next.Opened.Sub(last); waited < 2*silence {
		r.fail("the client gives up after %v of silence, and it asked for bookmarks every %v", waited, silence)
	}
	r.beginsAfter(next, h.Position(h.Revision()))
	h.Write(script.Put("a/1", "2"))
	r.resume(h, next)
}

// reconnects cuts the connections of many clients at once, and looks at when they come back.
func reconnects(r *run) {
	const clients = 40
	h := r.history("e1")
	var watches []*script.Watch
	for i := range clients {
		name := fmt.Sprint("w", i)
		h.Write(script.Put(name+"/1", "1"))
		watches = append(watches, r.sync(h, name, func(c *testclient.Command) { c.Client = name }))
	}
	// A busy machine may delay all clients of a process to the same moment, but not again and again.
	spread := time.Duration(0)
	for range spreadAttempts {
		for _, w := range watches {
			w.Cut()
		}
		var times []time.Time
		for i, w := range watches {
			watches[i] = r.accept(w.Name())
			times = append(times, watches[i].Opened)
			r.resume(h, watches[i])
		}
		slices.SortFunc(times, time.Time.Compare)
		if spread = times[clients-2].Sub(times[1]); spread >= leastSpread {
			return
		}
	}
	r.fail("%d clients come back within %v", clients-2, spread)
}

// leastSpread is the least time over which many clients must spread in one of spreadAttempts.
const (
	leastSpread    = 100 * time.Millisecond
	spreadAttempts = 4
)
