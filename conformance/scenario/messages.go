package scenario

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/fanoutd/fanoutd/conformance/script"
	"github.com/fanoutd/fanoutd/conformance/testclient"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// large makes a revision with several events of a watch.
func large(h *script.History, name string) int64 {
	var writes []script.Write
	for i := range 5 {
		writes = append(writes, script.Put(fmt.Sprint(name, "/", i), fmt.Sprint(h.Revision())))
	}
	return h.Write(writes...)
}

// partial cuts a revision that consists of several messages after each of them.
func partial(r *run) {
	h := r.history("e1")
	const watches = 6
	names := []string{}
	for i := range watches {
		names = append(names, fmt.Sprint("w", i))
		large(h, names[i])
	}
	all := map[string]*script.Watch{}
	for _, name := range names {
		all[name] = r.sync(h, name)
	}
	before := map[string]*fanoutv1.Position{}
	whole := h.Position(0)
	for i, name := range names {
		before[name] = h.Position(h.Revision())
		all[name].Send(h.Bookmark(h.Revision()))
		r.expect(name, before[name])
		whole = h.Position(large(h, name))
		all[name].Send(script.Split(h.Live(name, h.Revision()), before[name])[:min(i, 5)]...)
	}
	// The last watch has got its whole revision.
	r.expect(names[watches-1], whole)
	for _, w := range all {
		w.Cut()
	}
	for _, name := range names {
		w := r.accept(name)
		want := before[name]
		if name == names[watches-1] {
			want = whole
		}
		r.beginsAfter(w, want)
		r.resume(h, w)
	}
}

// drainedPartial ends a stream in order while a revision is incomplete.
func drainedPartial(r *run) {
	h := r.history("e1")
	large(h, "a")
	w := r.sync(h, "a")
	before := h.Position(h.Revision())
	large(h, "a")
	w.Send(script.Split(h.Live("a", h.Revision()), before)[:3]...)
	w.Send(h.Draining(before.GetRevision(), false))
	w.End(nil)
	w = r.accept("a")
	r.beginsAfter(w, before)
	r.resume(h, w)
}

// afterDraining sends messages after DRAINING. A RESET and a DELTA are not complete by then.
func afterDraining(r *run) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"), script.Put("a/2", "1"))
	w := r.open("a")
	again := func(at *fanoutv1.Position, before []script.Message, late script.Message) {
		w.Send(before...)
		w.Send(h.Draining(at.GetRevision(), false), late)
		w.End(nil)
		w = r.accept("a")
		r.beginsAfter(w, at)
	}
	again(h.Position(0), h.Reset("a", h.Revision())[:2], h.Synced(h.Revision()))
	r.resume(h, w)

	before := h.Position(h.Revision())
	h.Write(script.Put("a/1", "2"), script.Delete("a/2"))
	again(before, h.Delta("a", before.GetRevision(), h.Revision())[:2], h.Synced(h.Revision()))
	r.resume(h, w)

	before = h.Position(h.Revision())
	again(before, nil, h.Live("a", h.Write(script.Put("a/1", "3"))))
	r.resume(h, w)
}

func latest(c *testclient.Command) { c.Latest = true }

// merged sends merged events, as DELIVERY_LATEST does.
func merged(r *run) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"), script.Put("a/2", "1"))
	w := r.sync(h, "a", latest)
	if w.Request.GetDelivery() != fanoutv1.Delivery_DELIVERY_LATEST {
		r.fail("the client does not ask for DELIVERY_LATEST")
	}
	for range 3 {
		before := h.Revision()
		h.Write(script.Put("a/1", fmt.Sprint(before)))
		h.Write(script.Delete("a/2"))
		h.Write(script.Put("a/2", fmt.Sprint(before)), script.Put("a/3", "x"))
		h.Write(script.Delete("a/3"))
		m := h.Bookmark(h.Revision())
		m.Kind, m.Events = fanoutv1.WatchResponse_KIND_LIVE, h.Merged("a", before, h.Revision())
		w.Send(script.Split(m, h.Position(before))...)
		r.expect("a", h.Position(h.Revision()))
	}
}

// unknownKinds sends what later versions of the protocol may add.
func unknownKinds(r *run) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"))
	w := r.sync(h, "a")
	m := h.Live("a", h.Write(script.Put("a/1", "2")))
	m.Kind = 99
	w.Send(m)
	r.expect("a", h.Position(h.Revision()))

	// An event of an unknown type: here it is undone before its revision is complete.
	before := h.Position(h.Revision())
	m = h.Live("a", h.Write(script.Put("a/1", "3")))
	strange := proto.CloneOf(m)
	strange.Events[0].Type, strange.Partial, strange.Position = 99, true, before
	w.Send(strange, m)
	r.expect("a", h.Position(h.Revision()))

	// Unknown fields, in a message and in an object.
	m = h.Live("a", h.Write(script.Put("a/1", "4")))
	unknown := protowire.AppendString(protowire.AppendTag(nil, 1000, protowire.BytesType), "?")
	m.ProtoReflect().SetUnknown(unknown)
	m = proto.CloneOf(m)
	m.GetEvents()[0].GetObject().ProtoReflect().SetUnknown(unknown)
	w.Send(m)
	r.expect("a", h.Position(h.Revision()))

	// A catch-up of an unknown kind is handled like a REPLAY.
	after := h.Revision()
	h.Write(script.Put("a/2", "1"))
	h.Write(script.Put("a/1", "5"))
	catchUp := h.Replay("a", after, h.Revision())
	catchUp[0].CatchUp = 99
	w.Send(catchUp[:2]...)
	r.expect("a", h.Position(after+1))
	w.Send(catchUp[2:]...)
	r.expect("a", h.Position(h.Revision()))

	// A message without a kind that the client knows, and without events, moves the position.
	m = h.Bookmark(h.Write(script.Put("b/1", "1")))
	m.Kind = 98
	w.Send(m)
	r.expect("a", h.Position(h.Revision()))
}

// unknownEntries sends entries of Subscribe that the client does not know.
func unknownEntries(r *run) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"))
	w := r.sync(h, "a")
	unknown := &fanoutv1.SubscribeResponse_Entry{WatchIds: []uint64{w.ID}}
	unknown.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 1000, protowire.BytesType), "?"))
	nobody := &fanoutv1.SubscribeResponse_Entry{
		WatchIds: []uint64{w.ID + 1000}, Content: &fanoutv1.SubscribeResponse_Entry_Response{Response: h.Bookmark(h.Revision())},
	}
	if err := r.streamOf(w).Send(&fanoutv1.SubscribeResponse{Entries: []*fanoutv1.SubscribeResponse_Entry{unknown, nobody}}); err != nil {
		r.fail("send unknown entries: %w", err)
	}
	w.Send(h.Live("a", h.Write(script.Put("a/1", "2"))))
	r.expect("a", h.Position(h.Revision()))
}

// absentValues sends objects without a value, and with an empty one.
func absentValues(r *run) {
	h := r.history("e1")
	h.Write(script.PutNothing("a/none"), script.Put("a/empty", ""), script.Put("a/text", "x"))
	w := r.sync(h, "a")
	w.Send(h.Live("a", h.Write(script.PutNothing("a/text"), script.Put("a/none", ""), script.PutNothing("a/empty"))))
	r.expect("a", h.Position(h.Revision()))
}

// ages sends messages of a server that has lost etcd. They count like others.
func ages(r *run) {
	h := r.history("e1")
	h.Write(script.Put("a/1", "1"))
	w := r.open("a")
	messages := h.Reset("a", h.Revision())
	script.WithAge(messages[len(messages)-1], time.Hour)
	w.Send(messages...)
	r.expect("a", h.Position(h.Revision()))
	w.Send(script.WithAge(h.Live("a", h.Write(script.Put("a/1", "2"))), time.Minute))
	r.expect("a", h.Position(h.Revision()))
}
