package scenario

import (
	"fmt"

	"github.com/fanoutd/fanoutd/conformance/script"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

func snapshot(r *run) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"), script.Put("a/2", "2"), script.Put("b/1", "x"))
	w := r.sync(h, "a")
	for i := range 3 {
		w.Send(h.Live("a", h.Write(script.Put("a/1", fmt.Sprint("new ", i)), script.Delete("a/2"), script.Put("a/3", fmt.Sprint(i)))))
		r.expect("a", h.Position(h.Revision()))
	}
	// A bookmark moves the position, and nothing else.
	w.Send(h.Bookmark(h.Write(script.Put("b/1", "y"))))
	r.expect("a", h.Position(h.Revision()))
}

// fill writes the state at which the cut catch-ups begin, and returns what changes it.
func fill(h *script.History, names []string) (after int64, change func()) {
	for _, name := range names {
		h.Write(script.Put(name+"/keep", "1"), script.Put(name+"/gone", "1"), script.Put(name+"/changed", "1"))
	}
	return h.Revision(), func() {
		for _, name := range names {
			h.Write(script.Put(name+"/changed", "2"), script.Delete(name+"/gone"))
			h.Write(script.Put(name+"/new", "1"))
			h.Write(script.Put(name+"/changed", "3"))
		}
	}
}

// cut sends catch-ups that are cut: each watch gets one message more than the one before, until one gets all
// of its catch-up. Then each watch comes back, and gets the present.
func cut(r *run, catchUp func(h *script.History, name string, after, to int64) []script.Message, again ...option) {
	const watches = 7
	h := r.history("e1")
	var names []string
	for i := range watches {
		names = append(names, fmt.Sprint("w", i))
	}
	after, change := fill(h, names)
	first := map[string]*script.Watch{}
	for _, name := range names {
		first[name] = r.sync(h, name, again...)
	}
	change()
	for _, w := range first {
		w.Cut()
	}
	second := map[string]*script.Watch{}
	sent := map[string][]*fanoutv1.Position{}
	for i, name := range names {
		w := r.accept(name)
		r.beginsAfter(w, h.Position(after))
		messages := catchUp(h, name, after, h.Revision())
		messages = messages[:min(i, len(messages))]
		w.Send(messages...)
		second[name], sent[name] = w, []*fanoutv1.Position{h.Position(after)}
		for _, m := range messages {
			if !m.GetPartial() {
				sent[name] = append(sent[name], m.GetPosition())
			}
		}
	}
	// The last watch has its whole catch-up. So the client has probably read the others.
	r.expect(names[watches-1], h.Position(h.Revision()))
	for _, w := range second {
		w.Cut()
	}
	change()
	for _, name := range names {
		w := r.accept(name)
		r.beginsAfter(w, sent[name]...)
		r.resume(h, w)
	}
}

func cutReset(r *run) {
	cut(r, func(h *script.History, name string, _, to int64) []script.Message { return h.Reset(name, to) })
}

func cutReplay(r *run) {
	cut(r, func(h *script.History, name string, after, to int64) []script.Message {
		return h.Replay(name, after, to)
	})
}

func cutDelta(r *run) {
	cut(r, func(h *script.History, name string, after, to int64) []script.Message {
		return h.Delta(name, after, to)
	})
}

// A RESET that begins inside of another one makes the first one void.
func restartedReset(r *run) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"), script.Put("a/2", "2"), script.Put("a/3", "3"))
	w := r.open("a")
	half := h.Reset("a", h.Revision())[:3]
	w.Send(half...)
	h.Write(script.Delete("a/1"), script.Delete("a/2"))
	w.Send(h.Reset("a", h.Revision())...)
	r.expect("a", h.Position(h.Revision()))
	// So does one that follows a DELTA that was not finished.
	before := h.Revision()
	h.Write(script.Put("a/4", "4"))
	w.Send(h.Delta("a", before, h.Revision())[:2]...)
	h.Write(script.Delete("a/4"))
	w.Send(h.Reset("a", h.Revision())...)
	r.expect("a", h.Position(h.Revision()))
}

// A DELTA deletes keys that the client never had.
func deltaOfUnknownKeys(r *run) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"))
	w := r.sync(h, "a")
	before := h.Revision()
	h.Write(script.Put("a/2", "2"))
	h.Write(script.Delete("a/2"))
	w.Send(h.Delta("a", before, h.Revision())...)
	r.expect("a", h.Position(h.Revision()))
}

// A RESET may repeat objects, and its state may lack some.
func resetOfSynced(r *run) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"), script.Put("a/2", "2"))
	w := r.sync(h, "a")
	h.Write(script.Delete("a/2"))
	w.Send(h.Reset("a", h.Revision())...)
	r.expect("a", h.Position(h.Revision()))
}

// Events of keys that the client does not have, or has already, are applied by key.
func eventsByKey(r *run) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"))
	w := r.sync(h, "a")
	for _, change := range []struct {
		write script.Write
		kind  fanoutv1.Event_Type
	}{
		{script.Put("a/2", "2"), fanoutv1.Event_TYPE_MODIFIED},
		{script.Put("a/1", "2"), fanoutv1.Event_TYPE_ADDED},
	} {
		m := h.Live("a", h.Write(change.write))
		m.Events[0].Type = change.kind
		w.Send(m)
		r.expect("a", h.Position(h.Revision()))
	}
	m := h.Live("a", h.Write(script.Put("b/1", "1")))
	m.Events = []*fanoutv1.Event{{Type: fanoutv1.Event_TYPE_DELETED, Revision: h.Revision(), Object: &fanoutv1.Object{Key: "a/never"}}}
	w.Send(m)
	r.expect("a", h.Position(h.Revision()))
}
