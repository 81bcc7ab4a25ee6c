package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/fanoutd/fanoutd/conformance/script"
	"github.com/fanoutd/fanoutd/conformance/testclient"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// many follows many watches, which must share a stream, and ends some of them.
func many(r *run) {
	const watches = 200
	h := r.history("e1")
	var names []string
	for i := range watches {
		names = append(names, fmt.Sprint("w", i))
		h.Write(script.Put(names[i]+"/1", "1"))
	}
	for _, name := range names {
		r.follow(name)
	}
	all := map[string]*script.Watch{}
	for _, name := range names {
		all[name] = r.accept(name)
		all[name].Send(h.Reset(name, h.Revision())...)
	}
	for _, name := range names {
		r.expect(name, h.Position(h.Revision()))
	}
	st := r.streamOf(all[names[0]])
	for _, w := range all {
		if w.Stream != st {
			r.fail("the watches use several streams")
		}
	}

	// One entry for all watches, and one transaction for all in one response.
	var ids []uint64
	for _, w := range all {
		ids = append(ids, w.ID)
	}
	r.respond(st, false, response(h.Bookmark(h.Write(script.Put("other/1", "1"))), ids...))
	for _, name := range names {
		r.expect(name, h.Position(h.Revision()))
	}
	var writes []script.Write
	for _, name := range names {
		writes = append(writes, script.Put(name+"/1", "2"))
	}
	revision := h.Write(writes...)
	var entries []*fanoutv1.SubscribeResponse_Entry
	for _, name := range names {
		entries = append(entries, response(h.Live(name, revision), all[name].ID))
	}
	half := len(entries) / 2
	r.respond(st, true, entries[:half]...)
	r.respond(st, false, entries[half:]...)
	for _, name := range names {
		r.expect(name, h.Position(revision))
	}

	// A watch that ends does not end the others.
	all[names[1]].End(script.Refusal(codes.PermissionDenied, "PERMISSION_DENIED"))
	r.expectLine(names[1], testclient.Failed)
	all[names[2]].Send(h.Draining(h.Revision(), false))
	all[names[2]].End(nil)
	w := r.accept(names[2])
	r.beginsAfter(w, h.Position(h.Revision()))
	r.resume(h, w)
	all[names[2]] = w
	r.command(testclient.Command{Do: testclient.Stop, Name: names[3]})
	r.expectLine(names[3], testclient.Stopped)
	for _, name := range slices.Delete(slices.Clone(names), 1, 4) {
		all[name].Send(h.Live(name, h.Write(script.Put(name+"/1", "3"))))
		r.expect(name, h.Position(h.Revision()))
	}

	// A lost stream is replaced by one stream, and each watch resumes at its own position.
	streams := r.server.Streams()
	all[names[0]].Cut()
	for i, name := range names {
		if i == 1 || i == 3 {
			continue
		}
		w := r.accept(name)
		r.beginsAfter(w, r.position(name))
		r.resume(h, w)
	}
	if n := r.server.Streams() - streams; n > 2 {
		r.fail("after a lost connection the client opens %d streams", n)
	}
}

// streamOf returns the stream that carries a watch.
func (r *run) streamOf(w *script.Watch) *script.Stream {
	if w.Stream == nil {
		r.fail("the client uses Watch, and the server has Subscribe")
	}
	return w.Stream
}

// position returns the position that a watch shows.
func (r *run) position(name string) *fanoutv1.Position {
	s := r.states[name]
	return &fanoutv1.Position{Epoch: s.epoch, Revision: s.revision}
}

func response(m script.Message, ids ...uint64) *fanoutv1.SubscribeResponse_Entry {
	return &fanoutv1.SubscribeResponse_Entry{WatchIds: ids, Content: &fanoutv1.SubscribeResponse_Entry_Response{Response: m}}
}

func (r *run) respond(st *script.Stream, more bool, entries ...*fanoutv1.SubscribeResponse_Entry) {
	if err := st.Send(&fanoutv1.SubscribeResponse{Entries: entries, More: more}); err != nil {
		r.fail("send a response: %w", err)
	}
}

// crossing delays the answer to a stop. Until it comes, entries with the id belong to the old watch, also if the client
// has begun a new one with the same id.
func crossing(r *run) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"), script.Put("b/1", "1"), script.Put("c/1", "1"))
	a, c := r.sync(h, "a"), r.sync(h, "c")
	st := r.streamOf(a)
	st.DelayEnds()
	r.command(testclient.Command{Do: testclient.Stop, Name: "a"})
	r.expectLine("a", testclient.Stopped)
	r.untilGone("the client ends the watch at the server", a)
	r.follow("b")
	b := r.accept("b")
	r.respond(st, false, response(h.Live("a", h.Write(script.Put("a/1", "late"))), a.ID))
	st.SendEnds()
	b.Send(h.Reset("b", h.Revision())...)
	r.expect("b", h.Position(h.Revision()))
	b.Send(h.Live("b", h.Write(script.Put("b/1", "2"))))
	r.expect("b", h.Position(h.Revision()))
	c.Send(h.Live("c", h.Write(script.Put("c/1", "2"))))
	r.expect("c", h.Position(h.Revision()))
	if r.server.Waiting("a")+r.server.Waiting("b") > 0 {
		r.fail("the client opens watches again that have not ended")
	}
}

// back makes the application of a watch slow. When the watch has caught up, it is on the shared stream again.
func back(r *run) {
	h := r.history("e1")
	h.Write(script.Put("slow/1", "1"), script.Put("fast/1", "1"))
	slow, fast := r.sync(h, "slow"), r.sync(h, "fast")
	st := r.streamOf(fast)
	r.tell(testclient.Pause, "slow", "")
	value := strings.Repeat("x", 64<<10)
	left := false
	for sent := 0; sent < 2*maxUnread && !left; sent += len(value) {
		slow.Send(h.Live("slow", h.Write(script.Put("slow/1", fmt.Sprint(sent, value)))))
		select {
		case <-slow.Gone():
			left = true
		default:
		}
	}
	r.untilGone("the slow watch leaves the shared stream", slow)
	r.tell(testclient.Continue, "slow", "")
	for {
		slow = r.accept("slow")
		r.resume(h, slow)
		if slow.Stream != nil {
			break
		}
		slow.Send(h.Bookmark(h.Revision())) // it has caught up
	}
	if slow.Stream != st {
		r.fail("the watch is on another stream")
	}
}

// refusedStart refuses one of the watches of a stream.
func refusedStart(r *run) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"), script.Put("b/1", "1"))
	a := r.sync(h, "a")
	b := r.open("b")
	const delay = 2 * time.Second
	refused := time.Now()
	b.Refuse(script.Unavailable(delay))
	a.Send(h.Live("a", h.Write(script.Put("a/1", "2"))))
	r.expect("a", h.Position(h.Revision()))
	again := r.accept("b")
	if waited := again.Opened.Sub(refused); waited < delay {
		r.fail("the client starts a watch again after %v, and RetryInfo says %v", waited, delay)
	}
	r.resume(h, again)
	if r.server.Waiting("a") > 0 {
		r.fail("the client opens watch a again, which goes on")
	}
}
