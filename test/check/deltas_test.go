package check_test

import (
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
)

// deltaOf4 returns the events of a correct DELTA from 4 to 9: b, which was created again; c,
// which is deleted; team/x, which is new; and a, which changed.
func deltaOf4() []check.Event {
	return join(events(change{"b", 6}), gone(change{"c", 7}), events(change{"team/x", 8}, change{"a", 9}))
}

// from4 returns the history of a watcher that resumes at revision 4 with a DELTA.
func from4(messages ...check.Message) *check.History {
	return all(after(4, append([]check.Message{begin(object.Delta, 4)}, messages...)...))
}

func correctDeltas() map[string]*check.History {
	onlyC := object.ExactKey("c")
	return map[string]*check.History{
		"whole":      from4(part(4, deltaOf4()), synced(9)),
		"in parts":   from4(part(4, deltaOf4()[:1]), part(4, deltaOf4()[1:]), synced(9)),
		"then live":  all(after(3, begin(object.Delta, 3), part(3, join(events(change{"b", 6}, change{"a", 7}), gone(change{"c", 7}))), synced(7), live(8, events(change{"team/x", 8})))),
		"not a word": all(after(3, begin(object.Delta, 3), part(3, events(change{"b", 6}, change{"a", 7})), synced(7))),
		"cut off": all(
			after(4, begin(object.Delta, 4), part(4, deltaOf4()[:3])),
			after(4, begin(object.Delta, 4), part(4, deltaOf4()), synced(9)),
		),
		"cut off, then the window": all(
			after(3, begin(object.Delta, 3), part(3, as(object.Added, change{"b", 6})), draining(3)),
			after(3, begin(object.Replay, 3), part(4, events(change{"a", 4}, change{"c", 4})), synced(4)),
		),
		"in the stream": all(start(live(4, events(change{"a", 4}, change{"c", 4})),
			begin(object.Delta, 4), part(4, deltaOf4()), synced(9), bookmark(9))),
		"in the stream, after a part": all(after(3, begin(object.Replay, 3), synced(3), partial(live(3, events(change{"a", 4}))),
			begin(object.Delta, 3), part(3, join(events(change{"b", 6}), gone(change{"c", 7}), events(change{"team/x", 8}, change{"a", 9}))), synced(9))),
		"of one key": watched(onlyC, after(2, begin(object.Delta, 2), part(2, gone(change{"c", 7})), synced(8))),
		"of nothing": watched(onlyC, after(2, begin(object.Delta, 2), synced(8))),
	}
}

// brokenDeltas are histories of a watcher whose position is older than the window, but not
// older than the tombstones.
func brokenDeltas() []broken {
	sent := deltaOf4()
	tampered := func(i int, tamper func(*check.Event)) *check.History {
		all := deltaOf4()
		tamper(&all[i])
		return from4(part(4, all), synced(9))
	}
	return []broken{
		{"from nothing", all(fromNothing(begin(object.Delta, 1), part(1, events(change{"a", 2})), synced(2))), "protocol resumable", "from nothing begins with a DELTA"},
		{"position moves on the way", from4(part(4, sent[:1]), part(6, sent[1:]), part(4, nil), synced(9)), "protocol ordered resumable", "has position 6, which must not move"},
		{"partial", from4(partial(part(4, sent)), synced(9)), "protocol", "CATCH_UP_PART is marked partial"},
		{"out of order", from4(part(4, join(sent[1:], sent[:1])), synced(9)), "ordered", "+b@6 comes after an event of revision 9"},
		{"event twice", from4(part(4, join(sent[:1], sent)), synced(9)), "unique", "+b@6 comes again"},
		{"key twice", from4(part(4, join(sent[:1], events(change{"a", 7}), sent[1:])), synced(9)), "unique filtered", "~a@9 comes after ~a@7 in one DELTA"},
		{"object that did not change", from4(part(4, join(events(change{"a", 4}), sent)), synced(9)), "unique bookmarkable", "~a@4 comes after position 4"},
		{"begins elsewhere", all(after(4, begin(object.Delta, 3), part(3, sent), synced(9))), "protocol resumable", "the DELTA begins at revision 3 instead of at 4"},
		{"inside the window", all(after(6, begin(object.Delta, 6), part(6, join(gone(change{"c", 7}), events(change{"team/x", 8}, change{"a", 9}))), synced(9))), "resumable", "a DELTA although 6 is at most 4 changes behind, of 4 that are remembered"},
		{"reset instead", all(after(4, begin(object.Reset, 0), part(0, objects(change{"a", 9}, change{"b", 6}, change{"team/x", 8})), synced(9))), "resumable", "a RESET although what changed since 4 is remembered"},
		{"deletion is missing", from4(part(4, join(sent[:1], sent[2:])), synced(9)), "resumable filtered", "-c@7 is missing from the DELTA between 4 and 9"},
		{"change is missing", from4(part(4, sent[:3]), synced(9)), "resumable filtered", "~a@9 is missing from the DELTA"},
		{"new object is missing, then changes", all(after(2, begin(object.Delta, 2), part(2, join(events(change{"b", 6}), gone(change{"c", 7}))), synced(8-1), live(9, events(change{"team/x", 8}, change{"a", 9})))), "resumable", "~a@7 is missing from the DELTA between 2 and 7"},
		{"modified instead of added", tampered(0, func(e *check.Event) { e.Type = object.Modified }), "filtered", "~b@6 of a DELTA should be +b@6"},
		{"added instead of modified", tampered(3, func(e *check.Event) { e.Type = object.Added }), "filtered", "+a@9 of a DELTA should be ~a@9"},
		{"deletion with the last content", tampered(1, func(e *check.Event) { e.Object = events(change{"c", 7})[0].Object }), "filtered", "has a value"},
		{"previous object", tampered(3, func(e *check.Event) { e.Previous = new(events(change{"a", 7})[0].Object) }), "filtered", "~a@9 of a DELTA comes with a previous object"},
		{"older than it says", from4(part(4, join(sent[:1], events(change{"a", 7}), sent[1:3])), synced(9)), "filtered", "~a@7 of a DELTA has revision 7 instead of 9"},
		{"invented", from4(part(4, join(sent, gone(change{"z", 9}))), synced(9)), "filtered", "-z@9 never happened"},
		{"invented, cut off", from4(part(4, gone(change{"z", 9}))), "filtered", "-z@9 never happened"},
		{"wrong, cut off", from4(part(4, as(object.Modified, change{"b", 6}))), "filtered", "~b@6 of a DELTA should be +b@6"},
		{"another scope", watched(object.ExactKey("c"), after(4, begin(object.Delta, 4), part(4, join(sent[:1], sent[1:2])), synced(9))), "filtered", "+b@6 is outside of the scope =c"},
		{"live event from before", from4(part(4, sent), synced(9), live(9, events(change{"b", 5}))), "ordered bookmarkable filtered", ""},
	}
}
