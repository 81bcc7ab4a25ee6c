package check_test

import (
	"testing"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
)

func TestCorrectHistoriesPass(t *testing.T) {
	team, err := object.ParsePrefix("team")
	if err != nil {
		t.Fatal(err)
	}
	onlyC := object.ExactKey("c")
	tests := map[string]*check.History{
		"no stream at all":     all(),
		"stream that got none": all(fromNothing()),
		"from nothing, before anything": all(fromNothing(
			begin(object.Reset, 0), synced(1),
			live(2, events(change{"a", 2})),
			live(4, events(change{"b", 3}, change{"a", 4}, change{"c", 4})),
			bookmark(4),
			live(5, events(change{"b", 5})),
			live(7, events(change{"b", 6}, change{"a", 7}, change{"c", 7})),
			live(9, events(change{"team/x", 8}, change{"a", 9})),
			draining(9),
		)),
		"snapshot in parts": all(notBefore(6, fromNothing(
			begin(object.Reset, 0),
			part(0, objects(change{"a", 4}, change{"b", 6})),
			part(0, objects(change{"c", 4})),
			synced(6),
			live(8, events(change{"a", 7}, change{"c", 7}, change{"team/x", 8})),
		))),
		"resume": all(
			fromNothing(begin(object.Reset, 0), part(0, objects(change{"a", 2})), synced(2), live(3, events(change{"b", 3}))),
			after(3, begin(object.Replay, 3), part(5, events(change{"a", 4}, change{"c", 4}, change{"b", 5})), synced(6-1)),
			after(5),
			after(5, begin(object.Replay, 5), synced(5), bookmark(5), live(6, events(change{"b", 6}))),
		),
		"resume that is cut off before it is synced": all(
			after(3, begin(object.Replay, 3), part(4, events(change{"a", 4}, change{"c", 4}))),
			after(4, begin(object.Replay, 4), synced(4)),
		),
		"resume without a past": all(
			after(6, begin(object.Replay, 6), part(7, events(change{"a", 7}, change{"c", 7})), synced(8-1)),
		),
		"resume outside of the window": all(
			fromNothing(begin(object.Reset, 0), part(0, objects(change{"a", 2})), synced(2)),
			after(2, begin(object.Reset, 0), part(0, objects(change{"a", 7}, change{"b", 6})), synced(7), live(8, events(change{"team/x", 8}))),
		),
		"snapshot that is cut off": all(
			after(2, begin(object.Reset, 0), part(0, objects(change{"a", 7}))),
			after(0, begin(object.Reset, 0), part(0, objects(change{"a", 7}, change{"b", 6}, change{"team/x", 8})), synced(8)),
		),
		"reset in the stream": all(fromNothing(
			begin(object.Reset, 0), part(0, objects(change{"a", 2})), synced(2),
			begin(object.Reset, 0), part(0, objects(change{"a", 7}, change{"b", 6})), synced(7),
			live(9, events(change{"team/x", 8}, change{"a", 9})),
		)),
		"replay in the stream that becomes a reset": all(fromNothing(
			begin(object.Reset, 0), part(0, objects(change{"a", 2})), synced(2), live(3, events(change{"b", 3})),
			begin(object.Replay, 3), part(4, events(change{"a", 4}, change{"c", 4})),
			begin(object.Reset, 0), part(0, objects(change{"a", 9}, change{"b", 6}, change{"team/x", 8})), synced(9),
		)),
		"delta that becomes a reset": all(after(4, begin(object.Delta, 4), part(4, deltaOf4()[:2]),
			begin(object.Reset, 0), part(0, objects(change{"a", 9}, change{"b", 6}, change{"team/x", 8})), synced(9))),
		"from now": all(notBefore(5, fromNow(bookmark(5), live(6, events(change{"b", 6})), live(7, events(change{"a", 7}, change{"c", 7}))))),
		"from now, again and again": all(
			fromNow(bookmark(2), live(3, events(change{"b", 3}))),
			fromNow(),
			after(3, begin(object.Replay, 3), synced(3)),
			fromNow(bookmark(6)),
			fromNothing(begin(object.Reset, 0), part(0, objects(change{"a", 4}, change{"b", 6}, change{"c", 4})), synced(6)),
		),
		"partial": all(after(3, begin(object.Replay, 3), synced(3),
			partial(live(3, events(change{"a", 4}))),
			live(4, events(change{"c", 4})),
			live(6, events(change{"b", 5}, change{"b", 6})),
		)),
		"partial, with another revision behind": all(after(3, begin(object.Replay, 3),
			partial(part(3, events(change{"a", 4}))),
			part(5, events(change{"c", 4}, change{"b", 5})),
			synced(5),
		)),
		"partial that is cut off": all(
			after(3, begin(object.Replay, 3), partial(part(3, events(change{"a", 4})))),
			after(3, begin(object.Replay, 3), part(4, events(change{"a", 4}, change{"c", 4})), synced(4)),
		),
		"partial that is given up": all(
			after(3, begin(object.Replay, 3), synced(3), partial(live(3, events(change{"a", 4}))), draining(3)),
			after(3, begin(object.Replay, 3), partial(part(3, events(change{"a", 4}))), part(4, events(change{"c", 4})), synced(4)),
		),
		"partial that a reset replaces": all(
			after(3, begin(object.Replay, 3), synced(3), partial(live(3, events(change{"a", 4}))),
				begin(object.Reset, 0), part(0, objects(change{"a", 7}, change{"b", 6})), synced(7)),
		),
		"drained at once": all(fromNothing(draining(0)), after(0, begin(object.Reset, 0), synced(1))),
		"prefix": watched(team,
			fromNothing(begin(object.Reset, 0), synced(3), bookmark(7), live(8, events(change{"team/x", 8})), bookmark(9))),
		"key": watched(onlyC,
			fromNothing(begin(object.Reset, 0), synced(2), live(4, events(change{"c", 4})), bookmark(6), live(7, events(change{"c", 7})))),
	}
	pass(t, "streams", tests, check.Conditions{Window: 4})
	pass(t, "deltas", correctDeltas(), check.Conditions{Window: 4, Tombstones: 2})
	pass(t, "merged", correctMerges(), check.Conditions{Window: 4})
	pass(t, "views", correctViews(), check.Conditions{Window: 4})
	pass(t, "gaps", correctAcrossGap(), check.Conditions{Window: 4, Tombstones: 2, Gaps: []check.Gap{theGap}})
	pass(t, "endings", correctEndings(), check.Conditions{Window: 4})
	pass(t, "present", map[string]*check.History{"beyond the window": shared(2)}, writing())
	pass(t, "silences", correctSilences(), noon.conditions())
	pass(t, "neighbours", correctNeighbours(), noon.busy())
	pass(t, "interrupted", map[string]*check.History{"late": late()}, noon.interrupted())
	pass(t, "severed", correctWhileSevered(), noon.severed())
}

func pass(t *testing.T, table string, histories map[string]*check.History, with check.Conditions) {
	t.Helper()
	for name, history := range histories {
		t.Run(table+"/"+name, func(t *testing.T) {
			truth := newTruth(t)
			truth.Conditions = with
			if err := check.Validate(history, truth); err != nil {
				t.Error(err)
			}
		})
	}
}
