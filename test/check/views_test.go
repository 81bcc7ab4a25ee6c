package check_test

import (
	"slices"
	"strconv"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
)

// even makes the watcher see only objects with an even revision: a until revision 7, b from
// 6 on, and c from 4 until its deletion.
func even(h *check.History) {
	h.Selects = "the revision is even"
	h.Picks = func(o *object.Decoded) bool {
		revision, err := strconv.Atoi(o.Labels["revision"])
		return err == nil && revision%2 == 0
	}
}

func previous(h *check.History) { h.Previous = true }

// omitting makes the watcher ask for objects without values.
func omitting(h *check.History) { h.OmitValues = true }

func valueless(all []check.Event) []check.Event {
	all = slices.Clone(all)
	for i := range all {
		all[i].Object.Value = nil
		if p := all[i].Previous; p != nil {
			all[i].Previous = new(*p)
			all[i].Previous.Value = nil
		}
	}
	return all
}

// leaves returns the event at which a stops matching, at 7.
func leaves() []check.Event {
	return changed(change{"a", 4}, func(e *check.Event) { e.Type, e.Revision = object.Deleted, 7 })
}

// startEven returns a correct stream of even, synced at revision 3, with further messages.
func startEven(messages ...check.Message) check.Stream {
	return fromNothing(append([]check.Message{begin(object.Reset, 0), part(0, objects(change{"a", 2})), synced(3)}, messages...)...)
}

func exactly(revision object.Revision, s check.Stream) check.Stream {
	s.Exact = revision
	return s
}

func correctViews() map[string]*check.History {
	return map[string]*check.History{
		"selector": with(all(startEven(live(4, events(change{"a", 4}, change{"c", 4})), bookmark(5),
			live(7, join(events(change{"b", 6}), leaves(), events(change{"c", 7}))), live(8, events(change{"team/x", 8})), bookmark(9))), even),
		"selector, DELTA": with(all(after(4, begin(object.Delta, 4),
			part(4, join(events(change{"b", 6}), gone(change{"c", 7}), events(change{"team/x", 8}), gone(change{"a", 9}))), synced(9))), even),
		"previous": with(all(start(
			live(4, join(before(events(change{"a", 4}), change{"a", 2}), events(change{"c", 4}))),
			live(6, join(before(events(change{"b", 5}), change{"b", 3}), events(change{"b", 6}))))), previous),
		"previous in a selector's view": with(all(startEven(
			live(4, join(before(events(change{"a", 4}), change{"a", 2}), events(change{"c", 4}))),
			live(7, join(events(change{"b", 6}), before(leaves(), change{"a", 4}), before(events(change{"c", 7}), change{"c", 4}))))),
			func(h *check.History) { even(h); previous(h) }),
		"without values": with(all(fromNothing(begin(object.Reset, 0), part(0, valueless(objects(change{"a", 2}, change{"b", 3}))), synced(3),
			live(5, valueless(events(change{"a", 4}, change{"c", 4}, change{"b", 5}))))), omitting),
		"without values, with previous": with(all(after(3, begin(object.Replay, 3),
			part(4, valueless(join(before(events(change{"a", 4}), change{"a", 2}), events(change{"c", 4})))), synced(4))),
			func(h *check.History) { omitting(h); previous(h) }),
		"exactly": all(exactly(4, fromNothing(begin(object.Reset, 0), part(0, objects(change{"a", 4}, change{"b", 3}, change{"c", 4})), synced(4),
			live(5, events(change{"b", 5}))))),
		"exactly now": all(exactly(4, fromNow(bookmark(4), live(5, events(change{"b", 5}))))),
	}
}

func brokenViews() []broken {
	both := events(change{"a", 4}, change{"c", 4})
	return []broken{
		{"modified instead of left", with(all(startEven(live(4, both),
			live(7, join(events(change{"b", 6}, change{"a", 7}, change{"c", 7}))))), even), "filtered", "~a@7 should be -a@7"},
		{"left with the new content", with(all(startEven(live(4, both),
			live(7, join(events(change{"b", 6}), as(object.Deleted, change{"a", 7}), events(change{"c", 7}))))), even), "filtered", `has value "a at 7" instead of "a at 4"`},
		{"modified instead of came", with(all(startEven(live(4, both),
			live(6, as(object.Modified, change{"b", 6})))), even), "filtered", "~b@6 should be +b@6"},
		{"not left", with(all(startEven(live(4, both), live(7, join(events(change{"b", 6}, change{"c", 7}))))), even), "reliable filtered", "-a@7 is missing"},
		{"not for this watcher", with(all(startEven(live(4, both), live(7, join(events(change{"b", 6}), leaves(), events(change{"c", 7}))),
			live(9, events(change{"team/x", 8}, change{"a", 9})))), even), "filtered", "~a@9 is not for a watcher of * where the revision is even"},
		{"snapshot without a filter", with(all(start(live(4, both), live(6, events(change{"b", 6})))), even), "snapshot", `"b" should not be there`},
		{"DELTA without what left", with(all(after(4, begin(object.Delta, 4),
			part(4, join(events(change{"b", 6}), gone(change{"c", 7}), events(change{"team/x", 8}))), synced(9))), even), "resumable filtered", "-a@9 is missing from the DELTA"},
		{"DELTA without a filter", with(all(after(4, begin(object.Delta, 4),
			part(4, join(events(change{"b", 6}), gone(change{"c", 7}), events(change{"team/x", 8}, change{"a", 9}))), synced(9))), even), "filtered", "~a@9 of a DELTA should be -a@9"},

		{"no previous object", with(all(start(live(4, both))), previous), "filtered", "~a@4 comes without the previous object"},
		{"previous object that was not requested", all(start(live(4, join(before(events(change{"a", 4}), change{"a", 2}), both[1:])))), "filtered", "~a@4 comes with a previous object"},
		{"another previous object", with(all(start(live(4, join(before(events(change{"a", 4}), change{"b", 3}), both[1:])))), previous), "filtered", `~a@4 has a previous object that has key b instead of a`},
		{"previous object of an added one", with(all(start(live(4, join(before(events(change{"a", 4}), change{"a", 2}), before(events(change{"c", 4}), change{"b", 3}))))), previous), "filtered", "+c@4 comes with a previous object"},
		{"previous object in a snapshot", with(all(fromNothing(begin(object.Reset, 0), part(0, before(objects(change{"a", 2}), change{"b", 3})), synced(2))), previous), "snapshot", "+a@2 is in a snapshot and comes with a previous object"},
		{"previous object that was not in view", with(all(startEven(live(4, join(before(events(change{"a", 4}), change{"a", 2}), both[1:])),
			live(6, before(events(change{"b", 6}), change{"b", 3})))), func(h *check.History) { even(h); previous(h) }), "filtered", "+b@6 comes with a previous object"},

		{"value that was to be left out", with(all(after(3, begin(object.Replay, 3), part(4, join(both[:1], valueless(both[1:]))), synced(4))), omitting), "filtered", `~a@4 has a value, "a at 4"`},
		{"value in a snapshot", with(all(fromNothing(begin(object.Reset, 0), part(0, objects(change{"a", 2})), synced(2))), omitting), "snapshot filtered", `"a" has a value`},
		{"value of a previous object", with(all(after(3, begin(object.Replay, 3), part(4, join(before(valueless(events(change{"a", 4})), change{"a", 2}), valueless(both[1:]))), synced(4))),
			func(h *check.History) { omitting(h); previous(h) }), "filtered", "previous object that has a value"},
		{"no value", all(start(live(4, join(valueless(both[:1]), both[1:])))), "filtered", `has no value instead of "a at 4"`},

		{"another revision than asked for", all(exactly(4, start())), "snapshot", "the snapshot is of revision 3 instead of the 4 that was asked for"},
		{"another now than asked for", all(exactly(4, fromNow(bookmark(5)))), "snapshot", "now is revision 5 instead of the 4 that was asked for"},
	}
}
