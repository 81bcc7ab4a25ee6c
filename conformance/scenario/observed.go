package scenario

import (
	"context"
	"time"

	"github.com/fanoutd/fanoutd/conformance/script"
	"github.com/fanoutd/fanoutd/conformance/testclient"
)

// moment is how long a scenario waits for a line that must not come.
const moment = 500 * time.Millisecond

// syncs delays SYNCED, and then the handler. The informer is synced after both, and not before.
func syncs(r *run) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"), script.Put("a/2", "2"))
	w := r.open("a")
	messages := h.Reset("a", h.Revision())
	r.tell(testclient.Pause, "a", "")
	w.Send(messages[:len(messages)-1]...)
	r.notSynced("a", "the server has sent no SYNCED")
	w.Send(messages[len(messages)-1])
	r.expect("a", h.Position(h.Revision()))
	r.notSynced("a", "its handler has not returned yet")
	r.tell(testclient.Continue, "a", "")
	r.until("the informer a is synced", func() bool { return r.synced["a"] })
	if n := len(r.handled["a"]); n != 2 {
		r.fail("the informer is synced, and its handler was called for %d of 2 objects", n)
	}
}

// notSynced checks that an informer does not say that it is synced.
func (r *run) notSynced(name, because string) {
	r.pass(moment)
	r.checkRest()
	if r.synced[name] {
		r.fail("the informer %s is synced, although %s", name, because)
	}
}

// staleness follows whether a copy is stale: before the first SYNCED, while the server says that it has lost etcd, and
// while the server is silent.
func staleness(r *run) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"))
	w := r.open("a", withSilence)
	r.pass(moment)
	r.checkRest()
	if r.fresh["a"] {
		r.fail("the copy a is not stale, although the server has sent nothing")
	}
	w.Send(h.Reset("a", h.Revision())...)
	r.until("the copy a is fresh", func() bool { return r.fresh["a"] })
	stop := r.bookmark(h, w, time.Hour)
	r.until("the copy a is stale because of the age of the messages", func() bool { return !r.fresh["a"] })
	stop()
	w = r.accept("a") // because of the silence
	w.Send(h.From("a", w.Request.GetAfter())...)
	stop = r.bookmark(h, w, 0)
	r.until("the copy a is fresh again", func() bool { return r.fresh["a"] })
	stop()
	r.until("the copy a is stale after a silence of the server", func() bool { return !r.fresh["a"] })
}

// bookmark sends bookmarks with an age to a watch, more often than it asks for, until stop is called.
func (r *run) bookmark(h *script.History, w *script.Watch, age time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(r.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(silence / 2)
		defer tick.Stop()
		for {
			m := h.Bookmark(h.Revision())
			if age > 0 {
				script.WithAge(m, age)
			}
			w.Send(m)
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// wholeObjects sends objects with all that they can have, in a snapshot and in events.
func wholeObjects(r *run) {
	h := r.history("e1")
	h.Write(
		script.Write{Key: "a/labels", Value: new("1"), Labels: map[string]string{"env": "eu", "tier": ""}},
		script.Write{Key: "a/json", Value: new("{}"), ContentType: "application/json"},
		script.Write{Key: "a/bytes", Data: []byte{0, 0xff, 0xfe, '\n', 0x80}},
	)
	w := r.sync(h, "a")
	w.Send(h.Live("a", h.Write(
		script.Write{Key: "a/labels", Value: new("1"), Labels: map[string]string{"env": "us"}},
		script.Write{Key: "a/json", Value: new("a: 1"), ContentType: "application/yaml", Labels: map[string]string{"env": "eu"}},
		script.Write{Key: "a/bytes", Data: []byte{0xc0, 0xaf}, ContentType: "application/octet-stream"},
	)))
	r.expect("a", h.Position(h.Revision()))
	w.Send(h.Live("a", h.Write(script.Put("a/labels", "1"), script.Put("a/json", ""), script.Put("a/bytes", "text"))))
	r.expect("a", h.Position(h.Revision()))
}

// handlerCalls checks what the handler gets: each version of an object, deletions in events, and those that only the end
// of a RESET shows.
func handlerCalls(r *run) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"), script.Put("a/2", "1"), script.Put("a/3", "1"))
	w := r.sync(h, "a")
	r.expectHandled(h, "a")
	w.Send(h.Live("a", h.Write(script.Put("a/1", "2"), script.Delete("a/2"), script.Put("a/4", "1"))))
	r.expectHandled(h, "a")
	h.Write(script.Delete("a/3"), script.Put("a/1", "3"))
	w.Send(h.Reset("a", h.Revision())...)
	r.expectHandled(h, "a")
	w.Send(h.Live("a", h.Write(script.Put("a/3", "again"))))
	r.expectHandled(h, "a")
	// While the handler is busy, the changes of an object may become one, or none.
	r.tell(testclient.Pause, "a", "")
	for _, writes := range [][]script.Write{
		{script.Put("a/1", "4")},
		{script.Put("a/1", "5"), script.Delete("a/3"), script.Put("a/5", "1"), script.Put("a/6", "1"), script.Delete("a/4")},
		{script.Put("a/5", "2"), script.Delete("a/6"), script.Put("a/4", "again"), script.Delete("a/1")},
	} {
		w.Send(h.Live("a", h.Write(writes...)))
		r.expect("a", h.Position(h.Revision()))
	}
	r.tell(testclient.Continue, "a", "")
	r.expectHandled(h, "a")
}

// expectHandled waits until the handler of an informer has exactly the objects of the present.
func (r *run) expectHandled(h *script.History, name string) {
	want := h.State(name, h.Revision())
	r.until("the handler gets the changes", func() bool {
		has := r.handled[name]
		for key, revision := range has {
			if want[key].GetModRevision() != revision {
				return false
			}
		}
		return len(has) == len(want)
	})
}
