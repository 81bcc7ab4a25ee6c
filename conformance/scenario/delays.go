package scenario

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/conformance/script"
	"github.com/fanoutd/fanoutd/conformance/testclient"
)

// growing refuses many clients again and again, without RetryInfo. Their delays grow. After streams that have lasted,
// the delays are short again.
func growing(r *run) {
	h, watches := r.manyClients()
	const attempts = 6
	r.server.Refuse(script.Refusal(codes.Unavailable, "A_REASON_OF_LATER_VERSIONS"))
	for _, w := range watches {
		w.Cut()
	}
	for _, w := range watches {
		r.within("the client tries watch "+w.Name()+" again and again", func(ctx context.Context) error {
			return r.server.AwaitAttemptsOf(ctx, w.Name(), attempts)
		})
	}
	first, last := r.gaps(1), r.gaps(attempts-1)
	if last-first < leastGrowth {
		r.fail("the mean delay of many clients is %v at first and %v after %d attempts", first, last, attempts)
	}
	r.server.Refuse(nil)
	for i, w := range watches {
		watches[i] = r.accept(w.Name())
		r.resume(h, watches[i])
	}
	r.pass(lastingStream)
	began := time.Now()
	for _, w := range watches {
		w.Cut()
	}
	var sum time.Duration
	for _, away := range r.returns(h, watches, began) {
		sum += away
	}
	if mean := sum / time.Duration(len(watches)); mean > max(last/2, r.scaled(shortReturn)) {
		r.fail("the mean delay of many clients is %v after %d refusals, and %v after streams that have lasted", last, attempts, mean)
	}
}

// leastGrowth is how much longer the mean delay of many clients must be after some attempts. With the limits of the
// documentation it is a second and a half.
const leastGrowth = 600 * time.Millisecond

// shortReturn is more than the mean of short delays, and less than that of grown ones.
const shortReturn = 500 * time.Millisecond

// lastingStream is longer than a stream must last for short delays.
const lastingStream = 6 * time.Second

// gaps returns the mean time of the watches between their attempt n and the one before it.
func (r *run) gaps(n int) time.Duration {
	all := map[string][]time.Time{}
	for _, a := range r.server.Attempts() {
		all[a.Name] = append(all[a.Name], a.At)
	}
	var sum time.Duration
	for _, times := range all {
		sum += times[n].Sub(times[n-1])
	}
	return sum / time.Duration(len(all))
}

// The longest RetryInfo that a client obeys, and how long it may take to come back after a longer one.
const (
	longestDelay = time.Minute
	latestReturn = longestDelay + 15*time.Second
)

// endless names a delay of a year. A fault of a server must not keep a client away for ever.
func endless(r *run) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"))
	w := r.sync(h, "a")
	w.End(script.Unavailable(365 * 24 * time.Hour))
	ended := time.Now()
	w = r.acceptAs("the client comes back although RetryInfo says a year", "a")
	if away := w.Opened.Sub(ended); away < longestDelay || away > r.scaled(latestReturn) {
		r.fail("the client comes back after %v, want %v to %v", away, longestDelay, latestReturn)
	}
	r.resume(h, w)
}

// proxied answers as a proxy does that has lost its servers: with errors without a reason. They end only a watch that has
// not worked before.
func proxied(r *run) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"), script.Put("b/1", "1"))
	a := r.sync(h, "a")
	b := r.open("b")
	b.Refuse(status.Error(codes.PermissionDenied, "an error of a proxy"))
	if l := r.expectLine("b", testclient.Failed); l.Reason != "" || l.Code != "PERMISSION_DENIED" {
		r.fail("watch b fails with %q and the reason %q, want PERMISSION_DENIED and none", l.Code, l.Reason)
	}
	for _, c := range []codes.Code{codes.PermissionDenied, codes.NotFound, codes.Unimplemented, codes.Unknown} {
		refusal := status.Error(c, "an error of a proxy")
		if c == codes.NotFound { // some have reasons of their own
			refusal = script.OtherRefusal(c, "proxy.example", "NO_BACKEND")
		}
		a.End(refusal)
		if a.Stream != nil && c != codes.Unimplemented {
			a.Stream.End(refusal)
		}
		a = r.accept("a")
		r.beginsAfter(a, h.Position(h.Revision()))
		h.Write(script.Put("a/1", c.String()))
		r.resume(h, a)
	}
}

// latestPing is how long a client may take to notice a dead connection whose watch asks for rare bookmarks.
const latestPing = time.Minute

// keepalive makes the connection of a watch silent, long before the client misses a bookmark.
func keepalive(r *run) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"))
	w := r.sync(h, "a")
	w.HalfOpen()
	died := time.Now()
	next := r.acceptAs("the client pings, and opens watch a on another connection", "a")
	if took := next.Opened.Sub(died); took > r.scaled(latestPing) {
		r.fail("the client notices a dead connection after %v, want at most %v: it must ping", took, latestPing)
	}
	r.resumesElsewhere(w, next, h.Position(h.Revision()))
	r.resume(h, next)
}
