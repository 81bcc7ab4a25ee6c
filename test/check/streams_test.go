package check_test

import (
	"slices"
	"testing"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
)

// brokenStreams are histories of watchers with default options.
func brokenStreams(t *testing.T) []broken {
	t.Helper()
	team, err := object.ParsePrefix("team")
	if err != nil {
		t.Fatal(err)
	}
	both := events(change{"a", 4}, change{"c", 4})
	return []broken{
		// protocol
		{"no beginning", all(after(3, live(4, both))), "protocol", "begins with LIVE"},
		{"no bookmark at the beginning of now", all(fromNow(live(5, nil))), "protocol", "from now begins with LIVE"},
		{"replay from nothing", all(fromNothing(begin(object.Replay, 1), synced(1))), "protocol resumable", "begins with a REPLAY"},
		{"replay of half a snapshot", all(after(0, begin(object.Replay, 1), synced(1))), "protocol resumable", "begins with a REPLAY"},
		{"live before synced", all(after(3, begin(object.Replay, 3), live(4, both))), "protocol", "LIVE before SYNCED"},
		{"bookmark before synced", all(after(3, begin(object.Replay, 3), bookmark(3))), "protocol", "BOOKMARK before SYNCED"},
		{"part after synced", all(start(part(4, both))), "protocol", "CATCH_UP_PART without"},
		{"synced twice", all(start(synced(3))), "protocol", "SYNCED without"},
		{"more after draining", all(start(draining(3), live(4, both))), "protocol", "LIVE comes after DRAINING"},
		{"kind that does not exist", all(start(message(99, 3, nil))), "protocol", "kind 99"},
		{"catch-up that does not exist", all(after(3, begin(99, 3), synced(3))), "protocol", "catch-up 99"},
		{"catch-up without a kind", all(after(3, begin(object.NoCatchUp, 3), synced(3))), "protocol", "catch-up none"},
		{"catch-up kind elsewhere", all(start(check.Message{Header: object.Header{
			Kind: object.Bookmark, CatchUp: object.Replay, Position: pos(3),
		}})), "protocol", "BOOKMARK has catch-up REPLAY"},
		{"position within a snapshot", all(fromNothing(begin(object.Reset, 3), part(0, objects(change{"a", 2}, change{"b", 3})), synced(3))), "protocol", "has position 3"},
		{"no position", all(after(3, begin(object.Replay, 3), synced(3), bookmark(0))), "protocol ordered filtered", "position 0"},
		{"no epoch", all(start(check.Message{Header: object.Header{
			Kind: object.Bookmark, Position: object.Position{Revision: 3},
		}})), "protocol resumable", "without an epoch"},
		{"events in a bookmark", all(start(message(object.Bookmark, 4, both))), "protocol", "BOOKMARK has 2 events"},
		{"live without events", all(start(live(3, nil))), "protocol", "LIVE has no events"},
		{"resumption at once of a live stream", all(start(resumeAtOnce(bookmark(3)))), "protocol", "BOOKMARK asks to resume at once"},
		{"partial bookmark", all(start(partial(bookmark(3)))), "protocol", "marked partial"},
		{"partial snapshot", all(fromNothing(begin(object.Reset, 0), partial(part(0, objects(change{"a", 2}))), part(0, objects(change{"b", 3})), synced(3))), "protocol", "marked partial"},

		// ordered
		{"events in the wrong order", all(start(
			live(6, append(slices.Clone(both), events(change{"b", 6}, change{"b", 5})...)), live(7, events(change{"a", 7}, change{"c", 7})),
		)), "ordered filtered", "-b@5 comes after an event of revision 6"},
		{"events of different keys in the wrong order", all(after(6, begin(object.Replay, 6), synced(6),
			live(8, events(change{"team/x", 8}, change{"a", 7}, change{"c", 7})))), "ordered", "~a@7 comes after an event of revision 8"},
		{"position goes back", all(after(6, begin(object.Replay, 6), synced(6), bookmark(6),
			live(7, events(change{"a", 7}, change{"c", 7})), bookmark(6), bookmark(7))), "ordered", "position 6 comes after position 7"},

		// unique
		{"event twice in a message", all(start(live(4, append(slices.Clone(both), both[1])))), "unique", "+c@4 comes again"},
		{"event twice on a stream", all(start(live(4, both), live(4, both))), "unique", "and 1 more times"},
		{"event again after a resume", all(start(live(4, both)),
			after(4, begin(object.Replay, 4), part(4, both), synced(4))), "unique", "stream 1, message 1"},

		// reliable
		{"missing event that another one hides", all(start(live(4, both), live(9, events(
			change{"b", 6}, change{"a", 7}, change{"c", 7}, change{"team/x", 8}, change{"a", 9},
		)))), "reliable", "-b@5 is missing between positions 4 and 9"},
		{"missing event at the end", all(start(live(4, both), bookmark(5))), "reliable filtered", "-b@5 is missing"},
		{"transaction without its second half", all(start(live(4, both[:1]), live(9, events(
			change{"b", 5}, change{"b", 6}, change{"a", 7}, change{"c", 7}, change{"team/x", 8}, change{"a", 9},
		)))), "reliable", "+c@4 is missing"},
		{"draining claims too much", all(start(draining(5))), "reliable filtered", "3 and 5"},

		// atomic
		{"transaction in two messages", all(start(live(3, both[:1]), live(4, both[1:]))), "atomic", "position 3 lies before the event of revision 4"},
		{"transaction in two messages, position inside", all(start(live(4, both[:1]), live(4, both[1:]))), "atomic bookmarkable", "+c@4 comes apart"},
		{"transaction in two streams", all(start(live(4, both[:1])),
			after(4, begin(object.Replay, 4), part(4, both[1:]), synced(4))), "atomic bookmarkable filtered", "+c@4 comes apart"},
		{"partial of two revisions", all(after(2, begin(object.Replay, 2), synced(2),
			partial(live(2, append(events(change{"b", 3}), both[0]))), live(4, both[1:]))), "atomic", "revisions 3 and 4"},
		{"partial with a position inside", all(start(partial(live(4, both[:1])), live(4, both[1:]))), "atomic bookmarkable", "position 4 points inside revision 4"},
		{"partial without the rest", all(start(partial(live(3, both[:1])), bookmark(3))), "atomic", "announced, but does not follow"},

		// resumable
		{"gap in a replay", all(start(live(4, both)),
			after(4, begin(object.Replay, 4), part(6, events(change{"b", 6})), synced(6))), "resumable", "-b@5 is missing"},
		{"gap in a replay that is cut off", all(start(live(4, both)),
			after(4, begin(object.Replay, 4), part(6, events(change{"b", 6})))), "resumable", "-b@5 is missing"},
		{"replay forgets half a revision", all(
			after(3, begin(object.Replay, 3), partial(part(3, both[:1]))),
			after(3, begin(object.Replay, 3), part(4, both[1:]), synced(4)),
		), "resumable filtered", "~a@4 is missing"},
		{"replay from elsewhere", all(start(live(4, both)),
			after(4, begin(object.Replay, 5), part(6, events(change{"b", 5}, change{"b", 6})), synced(6))), "resumable bookmarkable", "begins at revision 5 instead of at 4"},
		{"replay from earlier", all(start(live(4, both)),
			after(4, begin(object.Replay, 3), synced(4))), "resumable", "begins at revision 3 instead of at 4"},
		{"snapshot inside the window", all(start(),
			after(3, begin(object.Reset, 0), part(0, objects(change{"a", 4}, change{"b", 6}, change{"c", 4})), synced(6))), "resumable", "3 is at most 4 changes behind, of 4"},
		{"snapshot in the stream inside the window", all(start(
			begin(object.Reset, 0), part(0, objects(change{"a", 4}, change{"c", 4})), synced(5))), "resumable", "3 is at most 3 changes behind, of 4"},
		{"another epoch", all(start(check.Message{Header: object.Header{
			Kind: object.Bookmark, Position: object.Position{Epoch: "e2", Revision: 3},
		}})), "resumable", `epoch "e2" follows the epoch "e1"`},

		// bookmarkable
		{"event after its bookmark", all(start(live(4, both), bookmark(5), live(5, events(change{"b", 5})))), "bookmarkable", "-b@5 comes after position 5"},
		{"event after a snapshot that has it", all(start(live(4, append(events(change{"b", 3}), both...)))), "bookmarkable", "+b@3 comes after position 3"},
		{"event from before now", all(fromNow(bookmark(5), live(5, events(change{"b", 5})))), "bookmarkable", "-b@5"},
		{"event from before the resume", all(after(5, begin(object.Replay, 5), part(5, events(change{"b", 5})), synced(5))), "bookmarkable", "-b@5"},

		// snapshot
		{"snapshot is too old", all(notBefore(4, start())), "snapshot", "has to be at least of 4"},
		{"now is too old", all(notBefore(6, fromNow(bookmark(5)))), "snapshot", "now is revision 5"},
		{"snapshot goes back", all(after(9, begin(object.Reset, 0), part(0, objects(change{"a", 2})), synced(2))), "resumable snapshot", "at least of 9"},
		{"snapshot lacks an object", all(fromNothing(begin(object.Reset, 0), part(0, objects(change{"a", 2})), synced(3),
			live(5, append(slices.Clone(both), events(change{"b", 5})...)))), "snapshot", `"b" is missing`},
		{"snapshot has too much", all(fromNothing(begin(object.Reset, 0), part(0, objects(change{"a", 4}, change{"b", 3}, change{"c", 4})), synced(5),
			live(6, events(change{"b", 6})))), "snapshot", `"b" should not be there`},
		{"snapshot of two revisions", all(fromNothing(begin(object.Reset, 0), part(0, objects(change{"a", 2}, change{"b", 3}, change{"c", 4})), synced(4),
			live(7, events(change{"b", 5}, change{"b", 6}, change{"a", 7}, change{"c", 7})))), "snapshot", "has mod revision 2 instead of 4"},
		{"snapshot out of order", all(fromNothing(begin(object.Reset, 0), part(0, objects(change{"b", 3}, change{"a", 2})), synced(3))), "snapshot", `+a@2 comes after key "b"`},
		{"snapshot with an object twice", all(fromNothing(begin(object.Reset, 0), part(0, objects(change{"a", 2}, change{"a", 2}, change{"b", 3})), synced(3))), "snapshot", `+a@2 comes after key "a"`},
		{"snapshot with a modification", all(fromNothing(begin(object.Reset, 0), part(0, changed(change{"a", 2}, func(e *check.Event) { e.Type = object.Modified })), synced(2))), "snapshot", "everything is ADDED"},

		// filtered
		{"event of another scope", watched(team, after(6, begin(object.Replay, 6), synced(6),
			live(8, events(change{"b", 6}, change{"team/x", 8})))), "bookmarkable filtered", "+b@6 is outside of the scope team/*"},
		{"event of another scope, in time", watched(team, after(5, begin(object.Replay, 5), synced(5),
			live(6, events(change{"b", 6})))), "filtered", "+b@6 is outside of the scope team/*"},
		{"event that never happened", all(start(live(4, both), live(5, append(events(change{"b", 5}),
			changed(change{"c", 4}, func(e *check.Event) { e.Revision = 5 })...)))), "filtered", "+c@5 never happened"},
		{"modified instead of added", all(start(live(4, append(slices.Clone(both[:1]),
			changed(change{"c", 4}, func(e *check.Event) { e.Type = object.Modified })...)))), "filtered", "~c@4 should be +c@4"},
		{"added instead of modified", all(start(live(4, append(
			changed(change{"a", 4}, func(e *check.Event) { e.Type = object.Added }), both[1])))), "filtered", "+a@4 should be ~a@4"},
		{"type that does not exist", all(start(live(4, append(
			changed(change{"a", 4}, func(e *check.Event) { e.Type = 7 }), both[1])))), "filtered", "(type 7)a@4 should be ~a@4"},
		{"another value", all(start(live(4, append(
			changed(change{"a", 4}, func(e *check.Event) { e.Object.Value = []byte("x") }), both[1])))), "filtered", `has value "x" instead of "a at 4"`},
		{"deletion without the last content", all(start(live(4, both), live(5,
			changed(change{"b", 5}, func(e *check.Event) { e.Object.Value = nil })))), "filtered", `instead of "b at 3"`},
		{"other metadata", all(start(live(4, append(changed(change{"a", 4}, func(e *check.Event) {
			e.Object.ContentType, e.Object.Labels, e.Object.Opaque, e.Object.CreateRevision, e.Object.Version = "x", nil, true, 1, 9
		}), both[1])))), "filtered", "has create revision 1 instead of 2, has version 9 instead of 2, has content type x instead of text/plain; charset=utf-8, has labels map[] instead of map[revision:4], has opaque true instead of false"},
	}
}
