package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/fanoutd/fanoutd/conformance/script"
	"github.com/fanoutd/fanoutd/conformance/testclient"
)

// maxUnread is how much a client may read while its application takes nothing.
const maxUnread = 8 << 20

// stuck is how long nothing must be read for a stream to count as not read.
const stuck = 2 * time.Second

// paused lets the application of one watch take nothing. The client must not read for ever, and its other
// watches go on.
func paused(r *run) {
	h := r.history("e1")
	h.Write(script.Put("slow/1", "1"), script.Put("fast/1", "1"))
	slow, fast := r.sync(h, "slow"), r.sync(h, "fast")
	r.tell(testclient.Pause, "slow", "")
	value := strings.Repeat("x", 64<<10)
	sent := make(chan struct{}, 4*maxUnread/len(value))
	enough, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for range cap(sent) {
			select {
			case <-slow.Gone(): // the client has stopped the watch
				return
			case <-enough:
				return
			default:
			}
			slow.Send(h.Live("slow", h.Write(script.Put("slow/1", fmt.Sprint(len(sent), value)))))
			sent <- struct{}{}
		}
	}()
	for n, reads := 0, true; reads; {
		select {
		case <-done:
			reads = false
		case <-time.After(stuck):
			reads = len(sent) > n
			n = len(sent)
		}
	}
	close(enough)
	if n := len(sent) * len(value); n > maxUnread {
		r.fail("the client reads %d bytes, and its application takes nothing", n)
	}
	// The watch fast shares the connection, and perhaps the stream.
	fast.Send(h.Live("fast", h.Write(script.Put("fast/1", "2"))))
	r.expect("fast", h.Position(h.Revision()))
	// The client may have stopped the watch. Then it gets the last revision when it opens the watch again.
	last := h.Write(script.Put("slow/1", "last"))
	defer r.serve(h, "slow")()
	r.tell(testclient.Continue, "slow", "")
	<-done
	slow.Send(h.Live("slow", last))
	r.expect("slow", h.Position(last))
}

// serve answers each watch of a name that the client opens again, until stop is called.
func (r *run) serve(h *script.History, name string) (stop func()) {
	ctx, cancel := context.WithCancel(r.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			w, err := r.server.Accept(ctx, name)
			if err != nil {
				return
			}
			w.Send(h.From(name, w.Request.GetAfter())...)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// rejected lets the application reject an object.
func rejected(r *run) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"), script.Put("a/2", "1"))
	w := r.sync(h, "a")
	good := h.Revision()
	r.applied(w, good)
	r.tell(testclient.Reject, "a", "a/1")
	bad := h.Write(script.Put("a/1", "bad"))
	w.Send(h.Live("a", bad))
	w.Send(h.Live("a", h.Write(script.Put("a/2", "2"))))
	r.within("the client reports the error", func(ctx context.Context) error {
		return w.AwaitReport(ctx, func(report script.Report) bool {
			return report.Error != nil && codes.Code(report.Error.GetCode()) != codes.OK
		})
	})
	r.namesFailed(w, "a/1")
	// Another version is no better. The first one is not applied either.
	worse := h.Write(script.Put("a/1", "worse"))
	w.Send(h.Live("a", worse))
	r.within("the client reports that it has attempted the next version", func(ctx context.Context) error {
		return w.AwaitReport(ctx, func(report script.Report) bool {
			return report.Error != nil && report.Attempted.GetRevision() >= worse
		})
	})
	for _, report := range w.Reports() {
		if at := report.Applied.GetRevision(); at >= bad {
			r.fail("the client reports revision %d as applied, and its application rejects revision %d", at, bad)
		}
	}
	r.tell(testclient.Accept, "a", "a/1")
	r.within("the client reports without an error", func(ctx context.Context) error {
		return w.AwaitReport(ctx, func(report script.Report) bool { return report.Error == nil && report.Applied.GetRevision() >= worse })
	})
}

// namesFailed waits until the client has reported an error with exactly these failed keys.
func (r *run) namesFailed(w *script.Watch, keys ...string) {
	r.within(fmt.Sprintf("the client reports an error with the failed keys %q", keys), func(ctx context.Context) error {
		return w.AwaitReport(ctx, func(report script.Report) bool {
			return report.Error != nil && slices.Equal(slices.Sorted(slices.Values(report.FailedKeys)), keys)
		})
	})
}

// The most failed keys that a report names, and their bytes.
const (
	maxFailedKeys     = 32
	maxFailedKeyBytes = 4096
)

// rejectedMany lets the application reject more objects than a report names.
func rejectedMany(r *run) {
	h := r.history("e1")
	var writes []script.Write
	for n := range maxFailedKeys + 8 {
		writes = append(writes, script.Put(fmt.Sprintf("a/%02d", n), "1"))
	}
	h.Write(writes...)
	w := r.sync(h, "a")
	r.applied(w, h.Revision())
	for n := range writes {
		r.tell(testclient.Reject, "a", writes[n].Key)
		writes[n].Value = new("bad")
	}
	bad := h.Write(writes...)
	w.Send(h.Live("a", bad))
	r.within("the client reports that it has attempted all objects", func(ctx context.Context) error {
		return w.AwaitReport(ctx, func(report script.Report) bool {
			return report.Error != nil && report.Attempted.GetRevision() >= bad && len(report.FailedKeys) == 0
		})
	})
	for _, write := range writes[2:] {
		r.tell(testclient.Accept, "a", write.Key)
	}
	r.namesFailed(w, writes[0].Key, writes[1].Key)
	for _, report := range w.Reports() {
		size := 0
		for _, key := range report.FailedKeys {
			size += len(key)
		}
		if len(report.FailedKeys) > maxFailedKeys || size > maxFailedKeyBytes {
			r.fail("the client names %d failed keys of %d bytes", len(report.FailedKeys), size)
		}
	}
}

// applied waits until the client has reported a revision.
func (r *run) applied(w *script.Watch, revision int64) {
	r.within(fmt.Sprintf("the client reports revision %d as applied", revision), func(ctx context.Context) error {
		return w.AwaitReport(ctx, func(report script.Report) bool { return report.Applied.GetRevision() >= revision })
	})
}

// reported makes many changes, and looks at how often the client reports.
func reported(r *run) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"))
	w := r.sync(h, "a")
	if !w.Request.GetReports() {
		r.fail("the client does not say at the start of the watch that it reports")
	}
	began := time.Now()
	for range 300 {
		w.Send(h.Live("a", h.Write(script.Put("a/1", time.Now().String()))))
		r.pass(10 * time.Millisecond)
	}
	r.expect("a", h.Position(h.Revision()))
	r.applied(w, h.Revision())
	for _, report := range w.Reports() {
		if report.Applied.GetEpoch() != "" && report.Applied.GetEpoch() != h.Epoch() || report.Applied.GetRevision() > h.Revision() {
			r.fail("the client reports %v, which was not sent", report.Applied)
		}
	}
	if n, most := len(w.Reports()), int(time.Since(began)/time.Second)+2; n > most {
		r.fail("the client has sent %d reports within %v", n, time.Since(began))
	}
}

// pausedReport pauses the application. Updates that it has not taken are not applied.
func pausedReport(r *run) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"))
	w := r.sync(h, "a")
	r.applied(w, h.Revision())
	r.tell(testclient.Pause, "a", "")
	pending := h.Write(script.Put("a/1", "2"))
	w.Send(h.Live("a", pending))
	r.pass(2 * time.Second) // twice the time between reports
	for _, report := range w.Reports() {
		if at := report.Applied.GetRevision(); at >= pending {
			r.fail("the client reports revision %d as applied, which its application has not taken", at)
		}
	}
	r.tell(testclient.Continue, "a", "")
	r.applied(w, pending)
}

// reconnectedReport cuts the connection while the application is paused. The client connects again, and reports
// there what the application takes of the earlier messages.
func reconnectedReport(r *run) {
	h := r.history("e1")
	first := h.Write(script.Put("a/1", "1"))
	w := r.sync(h, "a")
	r.applied(w, first)
	r.tell(testclient.Pause, "a", "")
	for _, text := range []string{"2", "3"} {
		w.Send(h.Live("a", h.Write(script.Put("a/1", text))))
	}
	last := h.Revision()
	r.pass(200 * time.Millisecond) // the client may need only the first message again
	w.Cut()
	next := r.acceptAs("the client opens the watch again while its application is paused", "a")
	r.beginsAfter(next, h.Position(first), h.Position(first+1), h.Position(last))
	next.Send(h.From("a", next.Request.GetAfter())...)
	r.pass(2 * time.Second) // twice the time between reports
	for _, report := range next.Reports() {
		if at := report.Applied.GetRevision(); at > first {
			r.fail("the client reports revision %d as applied, which its application has not taken", at)
		}
	}
	r.tell(testclient.Continue, "a", "")
	r.expect("a", h.Position(last))
	next.Send(h.Live("a", h.Write(script.Put("a/1", "4"))))
	r.applied(next, last)
}

// stopped ends a watch while others go on, and one whose application is busy.
func stopped(r *run) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"), script.Put("b/1", "1"))
	a, b := r.sync(h, "a"), r.sync(h, "b")
	r.command(testclient.Command{Do: testclient.Stop, Name: "a"})
	r.expectLine("a", testclient.Stopped)
	r.untilGone("the client ends the watch at the server", a)
	b.Send(h.Live("b", h.Write(script.Put("b/1", "2"))))
	r.expect("b", h.Position(h.Revision()))
	if r.server.Waiting("a") > 0 {
		r.fail("the client opens the watch again that it has stopped")
	}
	r.tell(testclient.Pause, "b", "")
	b.Send(h.Live("b", h.Write(script.Put("b/1", "3"))))
	r.command(testclient.Command{Do: testclient.Stop, Name: "b"})
	r.expectLine("b", testclient.Stopped)
}
