package check_test

import (
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
)

// theGap is a gap: b was replaced, a changed, c was deleted and x was created.
var theGap = check.Gap{After: 4, Until: 8, Crossed: noon.after(1)}

// crossing returns the events of the difference across the gap. The server knows only that c
// was deleted before the end.
func crossing() []check.Event {
	return join(as(object.Modified, change{"b", 6}), events(change{"a", 7}),
		changed(change{"c", 7}, func(e *check.Event) { e.Revision = 8 }), events(change{"team/x", 8}))
}

func beforeGap(messages ...check.Message) *check.History {
	return all(start(append([]check.Message{live(4, events(change{"a", 4}, change{"c", 4}))}, messages...)...))
}

func correctAcrossGap() map[string]*check.History {
	return map[string]*check.History{
		"live":           beforeGap(live(8, crossing()), live(9, events(change{"a", 9}))),
		"live, on":       beforeGap(live(9, join(crossing(), events(change{"a", 9})))),
		"in parts":       beforeGap(partial(live(4, crossing()[:2])), live(8, crossing()[2:])),
		"every event":    beforeGap(live(7, events(change{"b", 5}, change{"b", 6}, change{"a", 7}, change{"c", 7})), live(8, events(change{"team/x", 8}))),
		"merged":         latest(beforeGap(live(9, join(crossing()[:1], crossing()[2:], events(change{"a", 9}))))),
		"running replay": replayed(0),
		"DELTA":          from4(part(4, join(events(change{"b", 6}), events(change{"a", 7}), gone(change{"c", 8}), events(change{"team/x", 8}))), synced(8)),
		"DELTA, beyond":  from4(part(4, join(events(change{"b", 6}), gone(change{"c", 8}), events(change{"team/x", 8}, change{"a", 9}))), synced(9)),
		"RESET inside":   all(after(6, begin(object.Reset, 0), part(0, objects(change{"a", 9}, change{"b", 6}, change{"team/x", 8})), synced(9))),
		"view": with(all(startEven(live(4, events(change{"a", 4}, change{"c", 4})), live(8, join(events(change{"b", 6}),
			changed(change{"a", 4}, func(e *check.Event) { e.Type, e.Revision = object.Deleted, 8 }), crossing()[2:])))), even),
		"view, revision of the last change": with(all(startEven(live(4, events(change{"a", 4}, change{"c", 4})), live(8, join(events(change{"b", 6}),
			leaves(), crossing()[2:])))), even),
		"previous": with(all(after(4, begin(object.Replay, 4), synced(4), live(8, join(before(crossing()[:1], change{"b", 3}), before(crossing()[1:2], change{"a", 4}),
			before(crossing()[2:3], change{"c", 4}), crossing()[3:])))), previous),
	}
}

// replayed returns a REPLAY across the gap. It begins the given number of seconds after noon.
func replayed(second int) *check.History {
	s := after(4, begin(object.Replay, 4), part(8, crossing()), synced(8))
	s.Messages[0].At = noon.after(second)
	return all(s)
}

func brokenAcrossGap() []broken {
	return []broken{
		{"replay of differences", replayed(2), "resumable", "-b@5 is missing between positions 4 and 8"},
		{"change is missing", beforeGap(live(8, crossing()[1:])), "reliable filtered", "-b@5 is missing between positions 4 and 8"},
		{"deletion is missing", beforeGap(live(8, join(crossing()[:2], crossing()[3:]))), "reliable filtered", "-c@7 is missing"},
		{"out of order", beforeGap(live(8, join(crossing()[1:2], crossing()[:1], crossing()[2:]))), "ordered", "~b@6 comes after an event of revision 7"},
		{"deletion outside of the gap", beforeGap(live(8, join(crossing()[:2], events(change{"team/x", 8}))), live(9, changed(change{"c", 7}, func(e *check.Event) { e.Revision = 9 }))), "reliable filtered", "-c@9 never happened"},
		{"merged, change is missing", latest(beforeGap(live(8, crossing()[1:]))), "reliable filtered", "~b@6 is missing between positions 4 and 8"},
		{"DELTA, deletion from elsewhere", from4(part(4, join(events(change{"b", 6}, change{"a", 7}, change{"team/x", 8}), gone(change{"c", 9}))), synced(8)), "filtered", ""},
	}
}
