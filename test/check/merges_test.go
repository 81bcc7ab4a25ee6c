package check_test

import (
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
)

func latest(h *check.History) *check.History {
	return with(h, func(h *check.History) { h.Latest = true })
}

// merged returns the history of a watcher whose events are merged, synced at revision 3.
func merged(messages ...check.Message) *check.History { return latest(all(start(messages...))) }

func correctMerges() map[string]*check.History {
	previous := func(h *check.History) { h.Previous = true }
	return map[string]*check.History{
		"one at a time": merged(live(4, events(change{"a", 4}, change{"c", 4})), live(5, events(change{"b", 5})),
			live(6, events(change{"b", 6})), live(7, events(change{"a", 7}, change{"c", 7}))),
		"all at once":   merged(live(9, join(as(object.Modified, change{"b", 6}), events(change{"team/x", 8}, change{"a", 9})))),
		"deleted":       merged(live(5, events(change{"a", 4}, change{"c", 4}, change{"b", 5}))),
		"created again": merged(live(6, join(events(change{"a", 4}, change{"c", 4}), as(object.Modified, change{"b", 6})))),
		"in parts": merged(partial(live(3, as(object.Modified, change{"b", 6}))), partial(live(3, events(change{"team/x", 8}))),
			live(9, events(change{"a", 9}))),
		"in parts that are given up": latest(all(
			start(partial(live(3, as(object.Modified, change{"b", 6}))), draining(3)),
			after(3, begin(object.Replay, 3), part(4, events(change{"a", 4}, change{"c", 4})), synced(4)),
		)),
		"in parts that a delta replaces": merged(partial(live(3, as(object.Modified, change{"b", 6}))),
			begin(object.Delta, 3), part(3, join(events(change{"b", 6}), gone(change{"c", 7}), events(change{"team/x", 8}, change{"a", 9}))), synced(9)),
		"replay": latest(all(after(3, begin(object.Replay, 3), part(7, join(as(object.Modified, change{"b", 6}), events(change{"a", 7}))), synced(7)))),
		"previous": with(merged(live(9, join(before(as(object.Modified, change{"b", 6}), change{"b", 3}), events(change{"team/x", 8}),
			before(events(change{"a", 9}), change{"a", 2})))), previous),
		"stopped matching, then changed": with(latest(all(startEven(live(9, join(events(change{"b", 6}), left(7), events(change{"team/x", 8})))))), even),
	}
}

// left returns the event at which a stops matching for a watcher of even revisions.
func left(at object.Revision) []check.Event {
	return changed(change{"a", 2}, func(e *check.Event) { e.Type, e.Revision = object.Deleted, at })
}

func brokenMerges() []broken {
	sent := join(as(object.Modified, change{"b", 6}), events(change{"a", 7}))
	return []broken{
		{"not merged", merged(live(7, join(events(change{"a", 4}), sent))), "filtered", "~a@4 has revision 4 instead of 7"},
		{"twice", merged(live(7, join(sent, sent[1:]))), "unique filtered", "~a@7 is not merged with ~a@7"},
		{"came and went", merged(live(7, join(events(change{"c", 4}), sent, events(change{"c", 7})))), "filtered", "+c@4 should not be there: nothing is left of \"c\" between 3 and 7"},
		{"deleted and added", merged(live(7, join(events(change{"b", 6}), sent[1:]))), "filtered", "+b@6 should be ~b@6"},
		{"older than the position", merged(live(7, join(events(change{"a", 4}), sent[:1]))), "filtered", "~a@4 has revision 4 instead of 7"},
		{"left too early", with(latest(all(startEven(live(9, join(left(4), events(change{"b", 6}, change{"team/x", 8})))))), even), "filtered", "-a@4 has revision 4 instead of 7"},
		{"left before its last change", with(latest(all(startEven(live(9, join(events(change{"b", 6}, change{"team/x", 8}), left(9)))))), even), "filtered", "-a@9 has revision 9 instead of 7"},
		{"missing", merged(live(5, events(change{"c", 4}, change{"b", 5})), live(9, events(change{"b", 6}, change{"c", 7}, change{"team/x", 8}, change{"a", 9}))), "reliable", "~a@4 is missing between positions 3 and 5"},
		{"missing from a replay", latest(all(after(3, begin(object.Replay, 3), part(5, events(change{"c", 4}, change{"b", 5})), synced(5),
			live(9, events(change{"b", 6}, change{"c", 7}, change{"team/x", 8}, change{"a", 9}))))), "resumable", "~a@4 is missing between positions 3 and 5"},
		{"out of order", merged(live(7, join(sent[1:], sent[:1]))), "ordered", "~b@6 comes after an event of revision 7"},
		{"again", merged(live(7, sent), live(8, join(sent[1:], events(change{"team/x", 8})))), "unique", "~a@7 comes again"},
		{"position among the parts", merged(partial(live(6, sent[:1])), live(7, sent[1:])), "atomic", "position 6 is not where the partial message began, 3"},
		{"parts without an end", merged(partial(live(3, sent[:1])), bookmark(7)), "reliable atomic filtered", "is announced, but does not follow"},
		{"too late", merged(live(7, sent), live(8, join(events(change{"b", 5}), events(change{"team/x", 8})))), "ordered bookmarkable filtered", "-b@5 comes after position 7"},
		{"previous of the last change", with(merged(live(7, join(before(sent[:1:1], change{"b", 3}), before(events(change{"a", 7}), change{"a", 4})))), func(h *check.History) { h.Previous = true }), "filtered", "~a@7 has a previous object that has mod revision 4 instead of 2"},
		{"invented, given up", merged(partial(live(3, changed(change{"a", 7}, func(e *check.Event) { e.Revision = 8 }))), draining(3)), "filtered", "~a@8 never happened"},
		{"wrong, given up", merged(partial(live(3, changed(change{"a", 7}, func(e *check.Event) { e.Object.Value = []byte("x") }))), draining(3)), "filtered", `~a@7 has value "x"`},
		{"another scope", latest(watched(object.ExactKey("a"), after(3, begin(object.Replay, 3), synced(3), live(7, sent)))), "filtered", "~b@6 is outside of the scope =a"},
	}
}
