package scenario

import (
	"os"

	"google.golang.org/grpc/codes"

	"github.com/fanoutd/fanoutd/conformance/script"
	"github.com/fanoutd/fanoutd/conformance/testclient"
)

// fromNow begins a watch at the present, and then refuses its position. The client cannot begin at the present again,
// because it would miss what has happened meanwhile.
func fromNow(r *run) {
	h := r.history("e1")
	h.Write(script.Put("other/1", "1"))
	r.follow("a", func(c *testclient.Command) { c.FromNow = true })
	w := r.take("the client opens watch a", "a")
	if w.Request.GetFromNow() == nil || w.Request.GetAfter() != nil {
		r.fail("the watch does not begin at the present, but with %v", w.Request)
	}
	w.Send(h.Bookmark(h.Revision()), h.Live("a", h.Write(script.Put("a/1", "1"))))
	r.expect("a", h.Position(h.Revision()))
	w.Cut()
	w = r.accept("a")
	r.beginsAfter(w, h.Position(h.Revision()))
	w.Refuse(script.Refusal(codes.OutOfRange, "POSITION_EXPIRED"))
	w = r.accept("a")
	r.beginsAfter(w, nil)
	h.Write(script.Put("a/2", "1"))
	r.resume(h, w)
}

// everyEvent refuses the position of a watch that must get every event. The program must decide how to go on.
func everyEvent(r *run) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"), script.Put("b/1", "1"))
	for name, reason := range map[string]string{"a": "POSITION_EXPIRED", "b": "EPOCH_CHANGED"} {
		w := r.sync(h, name, func(c *testclient.Command) { c.EveryEvent = true })
		if !w.Request.GetEveryEvent() {
			r.fail("watch %s does not ask for every event", name)
		}
		w.Cut()
		w = r.accept(name)
		r.beginsAfter(w, h.Position(h.Revision()))
		w.Refuse(script.Refusal(codes.OutOfRange, reason))
		if l := r.expectLine(name, testclient.Failed); l.Reason != reason || l.Code != "OUT_OF_RANGE" {
			r.fail("watch %s fails with %q and the reason %q, want OUT_OF_RANGE and %q", name, l.Code, l.Reason, reason)
		}
	}
}

// selected follows a watch with selectors, and interrupts it.
func selected(r *run) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"))
	const labels, fields = "env=eu,tier!=test", "key!=a/9"
	w := r.sync(h, "a", func(c *testclient.Command) { c.LabelSelector, c.FieldSelector = labels, fields })
	for range 2 {
		if got := w.Request; got.GetLabelSelector() != labels || got.GetFieldSelector() != fields {
			r.fail("watch a asks for the labels %q and the fields %q, want %q and %q", got.GetLabelSelector(), got.GetFieldSelector(), labels, fields)
		}
		w.Cut()
		w = r.accept("a")
		r.beginsAfter(w, h.Position(h.Revision()))
		r.resume(h, w)
	}
}

// tokens renews the token of the client. A client whose token is refused tries the next one, and ends if that is refused,
// too.
func tokens(r *run) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"))
	file := r.stateFile("token")
	write := func(token string) {
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			r.fail("write the token: %w", err)
		}
	}
	end := func(w *script.Watch) {
		refusal := script.Refusal(codes.Unauthenticated, "UNAUTHENTICATED")
		w.End(refusal)
		if w.Stream != nil {
			w.Stream.End(refusal)
		}
	}
	write("one")
	w := r.sync(h, "a", func(c *testclient.Command) { c.TokenFile = file })
	r.hasToken(w, "one")
	write("two")
	end(w)
	w = r.accept("a")
	r.hasToken(w, "two")
	r.beginsAfter(w, h.Position(h.Revision()))
	r.resume(h, w)
	end(w)
	w = r.accept("a")
	end(w)
	if l := r.expectLine("a", testclient.Failed); l.Reason != "UNAUTHENTICATED" {
		r.fail("watch a fails with the reason %q, want UNAUTHENTICATED", l.Reason)
	}
}

func (r *run) hasToken(w *script.Watch, token string) {
	if got, want := w.Authorization, "Bearer "+token; got != want {
		r.fail("watch %s has the authorization %q, want %q", w.Name(), got, want)
	}
}
