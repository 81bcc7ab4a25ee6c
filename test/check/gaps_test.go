package check_test

import (
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
)

// theGap is a gap: b was replaced, a changed, c was deleted and x was created.
var theGap = check.Gap{After: 4, Until: 8}

// crossing returns the difference across the gap as live events. The server knows neither that
// b was deleted nor when c was.
func crossing() []check.Event {
	return join(as(object.Modified, change{"b", 6}), events(change{"a", 7}),
		changed(change{"c", 7}, func(e *check.Event) { e.Revision = 8 }), events(change{"team/x", 8}))
}

// deltaAcross returns a DELTA across the gap.
func deltaAcross() []check.Message {
	return []check.Message{
		begin(object.Delta, 4),
		part(4, join(events(change{"b", 6}, change{"a", 7}), gone(change{"c", 8}), events(change{"team/x", 8}))),
		synced(8),
	}
}

func beforeGap(messages ...check.Message) *check.History {
	return all(start(append([]check.Message{live(4, events(change{"a", 4}, change{"c", 4}))}, messages...)...))
}

func correctAcrossGap() map[string]*check.History {
	return map[string]*check.History{
		"every event":   beforeGap(live(7, events(change{"b", 5}, change{"b", 6}, change{"a", 7}, change{"c", 7})), live(8, events(change{"team/x", 8}))),
		"DELTA":         beforeGap(append(deltaAcross(), live(9, events(change{"a", 9})))...),
		"DELTA, merged": latest(beforeGap(deltaAcross()...)),
		"DELTA at the position of the server": watched(object.ExactKey("team/x"), fromNothing(
			begin(object.Reset, 0), synced(2), begin(object.Delta, 4), part(4, events(change{"team/x", 8})), synced(8))),
		"DELTA instead of the rest of a REPLAY": all(after(3, append([]check.Message{
			begin(object.Replay, 3), part(4, events(change{"a", 4}, change{"c", 4})),
		}, deltaAcross()...)...)),
		"DELTA of nothing":        watched(object.ExactKey("z"), fromNothing(begin(object.Reset, 0), synced(3), begin(object.Delta, 4), synced(8))),
		"resume, DELTA":           all(after(4, deltaAcross()...)),
		"resume, DELTA beyond":    from4(part(4, join(events(change{"b", 6}), gone(change{"c", 8}), events(change{"team/x", 8}, change{"a", 9}))), synced(9)),
		"resume inside the gap":   all(after(6, begin(object.Reset, 0), part(0, objects(change{"a", 9}, change{"b", 6}, change{"team/x", 8})), synced(9))),
		"every event of the view": with(all(startEven(live(4, events(change{"a", 4}, change{"c", 4})), live(8, join(events(change{"b", 6}), leaves(), events(change{"c", 7}, change{"team/x", 8}))))), even),
	}
}

func brokenAcrossGap() []broken {
	return []broken{
		{"live", beforeGap(live(8, crossing())), "reliable filtered", "-b@5 is missing between positions 4 and 8"},
		{"live, with later events", beforeGap(live(9, join(crossing(), events(change{"a", 9})))), "reliable filtered", "-b@5 is missing between positions 4 and 9"},
		{"live, in parts", beforeGap(partial(live(4, crossing()[:2])), live(8, crossing()[2:])), "reliable atomic filtered", "-b@5 is missing between positions 4 and 8"},
		{"bookmark", beforeGap(bookmark(8)), "reliable filtered", "-b@5 is missing between positions 4 and 8"},
		{"merged", latest(beforeGap(live(8, crossing()))), "filtered", "-c@8 has revision 8 instead of 7"},
		{"replay", all(after(4, begin(object.Replay, 4), part(8, crossing()), synced(8))), "resumable filtered", "-b@5 is missing between positions 4 and 8"},
		{
			"view", with(all(startEven(live(4, events(change{"a", 4}, change{"c", 4})), live(8, join(events(change{"b", 6}),
				changed(change{"a", 4}, func(e *check.Event) { e.Type, e.Revision = object.Deleted, 8 }), crossing()[2:])))), even),
			"reliable filtered", "-a@7 is missing between positions 4 and 8",
		},
		{"DELTA, deletion from elsewhere", from4(part(4, join(events(change{"b", 6}, change{"a", 7}, change{"team/x", 8}), gone(change{"c", 9}))), synced(8)), "filtered", ""},
		{"DELTA skips what came before the gap", beforeGap(live(5, events(change{"b", 5})), begin(object.Delta, 6), part(6, join(events(change{"a", 7}), gone(change{"c", 8}), events(change{"team/x", 8}))), synced(8)), "resumable filtered", "the DELTA begins at revision 6 instead of at 5"},
	}
}
