package check_test

import (
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
)

// busy returns conditions with one acknowledged write per second: the write at revision n is
// acknowledged in second n, from 4 on. Prompt watchers must get its event before more than
// two further writes are acknowledged.
func (c clock) busy() check.Conditions {
	with := check.Conditions{Window: 4, Backlog: 2, MessageBytes: 100}
	for r := 4; r <= end; r++ {
		with.Acknowledged = append(with.Acknowledged, check.Acknowledged{At: c.after(r), Revision: object.Revision(r)})
	}
	return with
}

// interrupted is busy with an outage of one second.
func (c clock) interrupted() check.Conditions {
	with := c.busy()
	with.Outages = []check.Span{c.span(5, 6)}
	return with
}

// prompt returns the history of a prompt watcher that reads between two seconds and receives
// its messages at the given seconds.
func prompt(opened, ended int, s check.Stream, seconds ...int) *check.History {
	h := timed(opened, ended, s, seconds...)
	h.Bookmarks, h.Prompt = 0, true
	return h
}

func slow(h *check.History) { h.Prompt = false }

// weighs returns a message with the given size of its events.
func weighs(bytes int, m check.Message) check.Message {
	m.Bytes = bytes
	return m
}

// late returns the history of a watcher that gets the events of second 4 in second 7.
func late() *check.History {
	return prompt(0, 7, start(live(4, events(change{"a", 4}, change{"c", 4})), live(5, events(change{"b", 5}))), 1, 1, 1, 7, 7)
}

func correctNeighbours() map[string]*check.History {
	both := events(change{"a", 4}, change{"c", 4})
	return map[string]*check.History{
		"in time":           prompt(0, 7, start(live(4, both), live(6, events(change{"b", 5}, change{"b", 6}))), 1, 1, 1, 5, 7),
		"reads slowly":      with(late(), slow),
		"away":              away(3, 6, late()),
		"came later":        prompt(7, 9, after(3, begin(object.Replay, 3), part(4, both), synced(4)), 8, 9, 9),
		"nothing for it":    watched(object.ExactKey("z"), prompt(0, 9, fromNothing(begin(object.Reset, 0), synced(3)), 1, 1).Streams...),
		"times not known":   with(all(start(live(4, both))), func(h *check.History) { h.Prompt = true }),
		"large, but single": all(start(weighs(500, partial(live(3, both[:1]))), weighs(99, live(4, both[1:])))),
		"at the limit":      all(start(weighs(100, live(4, both)))),
	}
}

func brokenNeighbours() []broken {
	both := events(change{"a", 4}, change{"c", 4})
	return []broken{
		{"late", late(), "isolated", "stream 0, message 3: ~a@4 comes when 3 later writes have been acknowledged (and 1 more times)"},
		{"missing", prompt(0, 8, start(live(4, both)), 1, 1, 1, 5), "isolated", `message 3: the change of "b" at 5 has not come when 3 later writes have been acknowledged`},
		{"late in a catch-up", prompt(0, 8, start(begin(object.Replay, 3), part(4, both), synced(4)), 1, 1, 1, 2, 8, 8), "isolated", "message 4: ~a@4 comes when 4 later writes"},
		{"merged, and late", with(prompt(0, 9, start(live(4, both)), 1, 1, 1, 9), func(h *check.History) { h.Latest = true }), "isolated", "when 5 later writes"},
		{"large", all(start(weighs(101, live(4, both)))), "bounded", "stream 0, message 3: a message of 2 events and 101 bytes, the limit is 100"},
		{"large part", all(fromNothing(begin(object.Reset, 0), weighs(300, part(0, objects(change{"a", 2}, change{"b", 3}))), synced(3))), "bounded", "stream 0, message 1: a message of 2 events and 300 bytes"},
	}
}
