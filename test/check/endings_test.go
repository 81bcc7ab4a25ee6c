package check_test

import (
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
)

func ends(status string, s check.Stream) check.Stream {
	s.Status = status
	return s
}

func everyEvent(h *check.History) { h.EveryEvent = true }

func correctEndings() map[string]*check.History {
	both := events(change{"a", 4}, change{"c", 4})
	return map[string]*check.History{
		"time limit":           all(ends(check.StatusOK, start(draining(3)))),
		"drained":              all(ends(check.StatusDraining, start(live(4, both), draining(4))), after(4)),
		"drained in turn":      all(ends(check.StatusDraining, start(live(4, both), resumeAtOnce(draining(4)))), after(4)),
		"drained at once":      all(start(), ends(check.StatusDraining, after(3))),
		"cut off":              all(start(live(4, both)), after(4)),
		"every event, expired": with(all(ends(check.StatusPositionExpired, after(3)), start(live(4, both))), everyEvent),
		"every event, expired on the way": with(all(ends(check.StatusPositionExpired, after(3, begin(object.Replay, 3), part(4, both)))),
			everyEvent),
		"every event, from nothing again": with(all(fromNothing(begin(object.Reset, 0)), after(0, begin(object.Reset, 0), part(0, objects(change{"a", 2})), synced(2))), everyEvent),
		"every event, another epoch":      with(all(ends(check.StatusEpochChanged, start())), everyEvent),
	}
}

func brokenEndings() []broken {
	both := events(change{"a", 4}, change{"c", 4})
	return []broken{
		{"time limit without a last position", all(ends(check.StatusOK, start(live(4, both)))), "honest", "ends with OK, but the last message is LIVE instead of DRAINING"},
		{"drained without a last position", all(ends(check.StatusDraining, start(bookmark(3)))), "honest", "the last message is BOOKMARK instead of DRAINING"},
		{"expired without being asked", all(ends(check.StatusPositionExpired, after(3))), "honest", "although the watcher takes any catch-up"},
		{"epoch without being asked", all(ends(check.StatusEpochChanged, start())), "honest", "ends with EPOCH_CHANGED although"},
		{"expired inside the window", with(all(ends(check.StatusPositionExpired, after(6))), everyEvent), "resumable", "but 6 is never more than 4 changes behind, and as many are remembered"},
		{"DELTA instead of an end", with(all(after(4, begin(object.Delta, 4), part(4, deltaOf4()), synced(9))), everyEvent), "honest", "a DELTA although the watcher wanted every event after 4 or none"},
		{"RESET instead of an end", with(all(start(live(4, both),
			begin(object.Reset, 0), part(0, objects(change{"a", 9}, change{"b", 6}, change{"team/x", 8})), synced(9))), everyEvent), "honest", "a RESET although the watcher wanted every event after 4 or none"},
	}
}
