package check_test

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
)

// clock converts seconds of the tests about silences to times.
type clock time.Time

var noon = clock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))

func (c clock) after(seconds int) time.Time {
	return time.Time(c).Add(time.Duration(seconds) * time.Second)
}

func (c clock) span(from, to int) check.Span { return check.Span{From: c.after(from), To: c.after(to)} }

// conditions returns conditions with an outage from second 20 to 30 and an acknowledged write
// in second 40.
func (c clock) conditions() check.Conditions {
	return check.Conditions{
		Patience:     5 * time.Second,
		Outages:      []check.Span{c.span(20, 30)},
		Acknowledged: []check.Acknowledged{{At: c.after(0), Revision: 3}, {At: c.after(40), Revision: 5}},
	}
}

// shared returns a DELTA that ends at revision 5, the state of an earlier watcher. It begins
// before or after the server may have seen the write at 8.
func shared(begun int) *check.History {
	s := after(4, begin(object.Delta, 4), part(4, gone(change{"b", 5})), synced(5))
	s.Messages[0].At = noon.after(begun)
	return all(s)
}

// writing returns conditions with a write at revision 8 that begins one second after noon.
func writing() check.Conditions {
	return check.Conditions{Window: 4, Acknowledged: []check.Acknowledged{{Begun: noon.after(1), At: noon.after(2), Revision: 8}}}
}

// timed returns the history of a watcher that wants a bookmark every two seconds. It reads
// between two seconds and receives its messages at the given seconds.
func timed(opened, ended int, s check.Stream, seconds ...int) *check.History {
	s.Opened, s.Ended = noon.after(opened), noon.after(ended)
	for i, second := range seconds {
		s.Messages[i].At = noon.after(second)
	}
	return with(all(s), func(h *check.History) { h.Bookmarks = 2 * time.Second })
}

func away(from, to int, h *check.History) *check.History {
	h.Streams[0].Away = append(h.Streams[0].Away, noon.span(from, to))
	return h
}

func correctSilences() map[string]*check.History {
	return map[string]*check.History{
		"bookmarks":             timed(0, 15, start(bookmark(3), bookmark(3)), 1, 2, 3, 10, 13),
		"no server":             timed(0, 38, start(bookmark(3), bookmark(3), bookmark(3)), 1, 2, 3, 10, 16, 33),
		"away":                  away(4, 17, away(3, 15, timed(0, 20, start(), 1, 2, 3))),
		"stale, but not long":   timed(40, 46, fromNow(bookmark(3)), 44),
		"stale after an outage": timed(0, 2, fromNow(bookmark(2)), 1),
		"not requested":         with(timed(0, 60, start(), 1, 2, 3), func(h *check.History) { h.Bookmarks = 0 }),
		"no times":              with(all(start(bookmark(3))), func(h *check.History) { h.Bookmarks = 1 }),
	}
}

func brokenSilences() []broken {
	return []broken{
		{"in the middle", timed(0, 12, start(bookmark(3)), 1, 2, 3, 11), "honest", "stream 0, message 3: silence of 8s, the bookmark interval is 2s"},
		{"at the beginning", timed(0, 12, start(), 8, 9, 10), "honest", "message 0: silence of 8s"},
		{"at the end", timed(0, 11, start(), 1, 2, 3), "honest", "message 2: silence of 8s"},
		{"nothing at all", timed(0, 11, fromNow()), "honest", "silence of 11s"},
		{"longer than the outage", timed(13, 33, start(bookmark(3)), 13, 14, 14, 32), "honest", "message 3: silence of 8s"},
		{"longer than away", away(4, 6, timed(0, 13, start(), 1, 2, 3)), "honest", "silence of 8s"},
		{"stale bookmarks", timed(40, 48, fromNow(bookmark(3)), 46), "honest", "a bookmark at 3, but 5 was acknowledged 5s before"},
	}
}

// severed returns conditions of a lost store: from second 20 to 30 no server reaches it, and
// all of them have noticed.
func (c clock) severed() check.Conditions {
	return check.Conditions{Window: 4, Severed: []check.Span{c.span(20, 30)}}
}

func correctWhileSevered() map[string]*check.History {
	return map[string]*check.History{
		"silence":              timed(0, 40, start(bookmark(3), bookmark(3), bookmark(3)), 1, 2, 3, 19, 31, 33),
		"where it begins":      timed(22, 40, fromNow(bookmark(3), bookmark(3)), 23, 31),
		"before its end":       timed(0, 25, start(bookmark(3), draining(3)), 1, 2, 3, 24, 25),
		"before it is cut off": timed(0, 25, start(bookmark(3)), 1, 2, 3, 24),
		"and back in time":     timed(0, 30, start(bookmark(3), bookmark(3), draining(3)), 1, 2, 3, 29, 30, 30),
		"not asked for":        with(timed(0, 40, start(bookmark(3), bookmark(3)), 1, 2, 3, 24, 33), func(h *check.History) { h.Bookmarks = 0 }),
	}
}

func brokenWhileSevered() []broken {
	return []broken{
		{"bookmarks go on", timed(0, 40, start(bookmark(3), bookmark(3), bookmark(3), bookmark(3)), 1, 2, 3, 19, 22, 24, 31), "honest", "message 4: a bookmark at 3 although the store has been lost since 12:00:20.000 (and 1 more times)"},
		{"one more", timed(0, 40, start(bookmark(3), bookmark(3)), 1, 2, 3, 29, 31), "honest", "message 3: a bookmark at 3 although"},
	}
}
