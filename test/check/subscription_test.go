package check_test

import (
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
)

// startOf is the start of a watch of one key, or of everything if the key is empty.
func startOf(id uint64, key object.Key, asked check.Stream) check.Start {
	scope := object.Scope{}
	if key != "" {
		scope = object.ExactKey(key)
	}
	return check.Start{ID: id, Interest: watched(scope), Asked: asked}
}

// fromNowAt starts watches of keys from now, with the ids from 1 on.
func fromNowAt(keys ...object.Key) (starts []check.Start) {
	for i, key := range keys {
		starts = append(starts, stopped(startOf(uint64(i+1), key, fromNow())))
	}
	return starts
}

func stopped(s check.Start) check.Start {
	s.Stopped = true
	return s
}

func mayBeLate(s check.Start) check.Start {
	s.Late = true
	return s
}

func response(entries ...check.Entry) check.Response { return check.Response{Entries: entries} }

func more(entries ...check.Entry) check.Response {
	return check.Response{Entries: entries, More: true}
}

func entry(m check.Message, ids ...uint64) check.Entry { return check.Entry{IDs: ids, Message: &m} }

// large returns an entry whose events have a size.
func large(bytes int, e check.Entry) check.Entry {
	e.Message.Bytes = bytes
	return e
}

func ended(ids ...uint64) check.Entry {
	return check.Entry{IDs: ids, Ended: true, Status: check.StatusOK}
}

// failed ends a watch with a status other than OK.
func failed(status string, id uint64) check.Entry {
	return check.Entry{IDs: []uint64{id}, Ended: true, Status: status}
}

func refused(status string, id uint64) check.Entry {
	return check.Entry{IDs: []uint64{id}, Refused: true, Status: status}
}

func subscribed(starts []check.Start, responses ...check.Response) *check.Subscription {
	return &check.Subscription{Subscriber: "subscriber", Starts: starts, Responses: responses}
}

func over(s *check.Subscription) *check.Subscription {
	s.Over = true
	return s
}

// limit is the size limit of a response in the tests of streams.
const limit = 1 << 20

func correctSubscriptions() map[string]*check.Subscription {
	a4, c4 := events(change{"a", 4}), events(change{"c", 4})
	b56, both := events(change{"b", 5}, change{"b", 6}), events(change{"a", 4}, change{"c", 4})
	ac := fromNowAt("a", "c")
	now := response(entry(bookmark(3), 1, 2))
	merging := startOf(3, "a", fromNow())
	merging.Interest.Latest = true
	mergesC := startOf(2, "c", fromNow())
	mergesC.Interest.Latest = true
	return map[string]*check.Subscription{
		"nothing":                subscribed(nil),
		"starts without answers": subscribed(ac),
		"transaction in one response": over(subscribed(ac, now,
			response(entry(live(4, a4), 1), entry(live(4, c4), 2)),
			response(entry(live(7, events(change{"a", 7})), 1), entry(live(7, events(change{"c", 7})), 2)),
			response(ended(1, 2)))),
		"shared entry": subscribed(fromNowAt("", "", "c"), response(entry(bookmark(3), 1, 2, 3)),
			response(entry(live(4, both), 1, 2), entry(live(4, c4), 3))),
		"transaction in responses with more": subscribed(ac, now,
			more(large(limit, entry(live(4, a4), 1))),
			response(large(limit, entry(live(4, c4), 2)))),
		"rest of a transaction is stopped": over(subscribed(ac, now,
			more(large(limit/2, entry(live(4, a4), 1))),
			response(ended(2)),
			response(ended(1)))),
		"nothing is left of a transaction": subscribed(ac, now,
			more(large(limit, entry(live(4, a4), 1))), response(entry(begin(object.Replay, 3), 2))),
		"one watch begins later": subscribed(ac, response(entry(bookmark(3), 1)),
			response(entry(live(4, a4), 1), entry(bookmark(3), 2)),
			response(entry(live(4, c4), 2))),
		"event in the response with the first bookmark": subscribed(fromNowAt("c", "b"),
			response(entry(bookmark(3), 1, 2), entry(live(4, c4), 1)), response(entry(live(6, b56), 2))),
		"one watch catches up": subscribed([]check.Start{startOf(1, "a", fromNow()), startOf(2, "c", after(3))},
			response(entry(bookmark(3), 1), entry(begin(object.Replay, 3), 2)),
			response(entry(live(4, a4), 1)),
			response(entry(part(4, c4), 2), entry(synced(4), 2)),
			response(entry(live(7, events(change{"c", 7})), 2), entry(live(7, events(change{"a", 7})), 1))),
		"one watch falls behind": subscribed(ac, now,
			response(entry(live(4, a4), 1), entry(begin(object.Replay, 3), 2)),
			response(entry(live(7, events(change{"a", 7})), 1)),
			response(entry(part(4, c4), 2))),
		"one watch is late": subscribed([]check.Start{startOf(1, "a", fromNow()), mayBeLate(startOf(2, "c", fromNow()))}, now,
			response(entry(live(4, a4), 1)), response(entry(live(4, c4), 2))),
		"one watch merges": subscribed(append(fromNowAt("a", "b"), merging), response(entry(bookmark(3), 1, 2, 3)),
			response(entry(live(7, events(change{"a", 4}, change{"a", 7})), 1), entry(live(7, events(change{"b", 5}, change{"b", 6})), 2),
				entry(live(7, events(change{"a", 7})), 3))),
		// The bound of the server was 7, although no message states it then.
		"nothing is left of merged events": subscribed([]check.Start{startOf(1, "b", fromNow()), mergesC}, now,
			response(entry(live(6, b56), 1)), response(entry(bookmark(7), 2))),
		"nothing is left of merged events, and the client leaves": subscribed([]check.Start{startOf(1, "b", fromNow()), mergesC}, now,
			response(entry(live(6, b56), 1))),
		"ends before its first message": over(subscribed([]check.Start{
			startOf(1, "a", fromNow()), startOf(2, "c", fromNow()), stopped(startOf(3, "b", fromNow())),
		}, response(failed(check.StatusPermissionDenied, 1), failed(check.StatusUnauthenticated, 2), ended(3)))),
		"id is used again": over(subscribed([]check.Start{
			stopped(startOf(1, "a", fromNow())), stopped(startOf(1, "c", fromNow())), startOf(1, "b", fromNow()), startOf(1, "b", fromNow()),
		},
			response(entry(bookmark(3), 1)),
			response(ended(1), entry(bookmark(3), 1)),
			response(refused(check.StatusIDInUse, 1)),
			response(entry(live(4, c4), 1)),
			response(ended(1), refused("LIMIT_REACHED", 1)))),
	}
}

// brokenSubscription is a stream that breaks guarantees of its own or of its watches.
type brokenSubscription struct {
	name   string
	stream *check.Subscription
	broken string // the guarantee
	says   string // part of the error
}

func brokenSubscriptions() []brokenSubscription {
	a4, c4 := events(change{"a", 4}), events(change{"c", 4})
	ac := fromNowAt("a", "c")
	now := response(entry(bookmark(3), 1, 2))
	merging := startOf(2, "c", fromNow())
	merging.Interest.Latest = true
	again := []check.Start{startOf(1, "a", fromNow()), startOf(1, "c", fromNow())}
	return []brokenSubscription{
		{"message without a watch", subscribed(ac, now, response(entry(bookmark(4), 3))), "answered", "no watch has one of the ids [3]"},
		{"message after the end", subscribed(ac, now, response(ended(1)), response(entry(bookmark(4), 1))), "answered", "response 2, entry 0: no watch"},
		{"end comes twice", subscribed(ac, now, response(ended(1)), response(ended(1))), "answered", "no watch has one of the ids [1]"},
		{"refused and ended", subscribed(ac, response(refused("LIMIT_REACHED", 1)), response(ended(1))), "answered", "no watch has one of the ids [1]"},
		{"refused after it has begun", subscribed(ac, now, response(refused("LIMIT_REACHED", 2))), "answered", "start 1 (id 2) is refused after it has begun"},
		{"fails before it has begun", subscribed([]check.Start{startOf(1, "a", fromNow())}, response(failed("LIMIT_REACHED", 1))), "answered", "start 0 (id 1) has ended with LIMIT_REACHED before it has begun"},
		{"in use, but it is not", subscribed(ac, now, response(refused(check.StatusIDInUse, 2))), "answered", "no watch has one of the ids [2]"},
		{"no answer", over(subscribed(ac, now, response(ended(2)))), "answered", "start 0 (id 1) has no answer"},
		{"no content", subscribed(ac, now, response(check.Entry{IDs: []uint64{1}})), "answered", "neither a message nor an answer"},
		{"no id", subscribed(ac, now, response(check.Entry{Ended: true})), "answered", "the ids are []"},
		{"id twice", subscribed(ac, now, response(entry(bookmark(3), 1, 1))), "answered", "the ids are [1 1]"},
		{"message of the new watch before the end of the old one", subscribed(again,
			response(entry(bookmark(3), 1)), response(entry(live(4, c4), 1)), response(ended(1))), "filtered", "start 0 (id 1) broke filtered"},
		{"message of the old watch after its end", subscribed(again,
			response(entry(bookmark(3), 1)), response(ended(1)), response(entry(bookmark(3), 1)), response(entry(live(4, a4), 1))), "filtered", "start 1 (id 1) broke filtered"},

		{
			"transaction in two responses", subscribed(ac, now, response(entry(live(4, a4), 1)), response(entry(live(4, c4), 2))),
			"whole", "response 1, entry 0: another watch has got an event at 4, but start 1 (id 2) lacks +c@4",
		},
		{"transaction without its second half", subscribed(ac, now, response(entry(live(4, a4), 1)), response(ended(2))), "whole", "lacks +c@4"},
		{"later event before an earlier one", subscribed(fromNowAt("a", "b"), now,
			response(entry(live(7, events(change{"a", 4}, change{"a", 7})), 1)), response(entry(live(6, events(change{"b", 5}, change{"b", 6})), 2))), "whole", "lacks -b@5"},
		{"half of a large transaction", subscribed(fromNowAt("", "c"), now,
			response(entry(partial(live(3, a4)), 1), entry(live(4, c4), 2)), response(entry(live(4, c4), 1))), "whole", "start 0 (id 1) lacks ~a@4"},
		{"merged event comes late", subscribed([]check.Start{startOf(1, "a", fromNow()), merging}, now,
			response(entry(live(4, a4), 1)), response(entry(live(4, c4), 2))), "whole", "lacks +c@4"},
		{"events are said to be merged before nothing is left", subscribed([]check.Start{startOf(1, "a", fromNow()), merging}, now,
			response(entry(live(4, a4), 1)), response(entry(partial(live(3, nil)), 2)), response(entry(live(4, c4), 2))), "whole", "lacks +c@4"},
		{"nothing is left of merged events, but another watch has not come so far", subscribed([]check.Start{startOf(1, "b", fromNow()), merging, startOf(3, "a", fromNow())},
			response(entry(bookmark(3), 1, 2, 3)), response(entry(live(6, events(change{"b", 5}, change{"b", 6})), 1), entry(live(4, a4), 3)),
			response(entry(live(7, events(change{"a", 7})), 3)), response(entry(bookmark(7), 2))), "whole", "lacks +c@4"},
		{"more too early", subscribed(ac, now, more(entry(live(4, a4), 1)), response(entry(live(4, c4), 2))), "whole", "2 responses have about"},
		{"more at the end", over(subscribed(ac, now, response(ended(1)), more(ended(2)))), "whole", "more is announced, but does not follow"},

		{"end without a last position", subscribed([]check.Start{startOf(1, "a", fromNow())}, response(entry(bookmark(3), 1)), response(ended(1))), "honest", "ends with OK, but the last message is BOOKMARK"},
		{"large response", subscribed(ac, now, response(large(limit/2+1, entry(live(4, a4), 1)), large(limit/2, entry(live(4, c4), 2)))), "compact", "2 events and 1048577 bytes"},
	}
}

func TestCorrectSubscriptionsPass(t *testing.T) {
	for name, s := range correctSubscriptions() {
		t.Run(name, func(t *testing.T) {
			truth := newTruth(t)
			truth.MessageBytes = limit
			if err := check.ValidateSubscription(s, truth); err != nil {
				t.Error(err)
			}
		})
	}
}

// Two watches merge what they have not got. Nothing is left of the first one's events up to 8, and of the
// second one's up to 9. So the server has merged up to 9.
func TestNothingIsLeftOfMergedEventsOfSeveralWatches(t *testing.T) {
	truth, err := check.NewTruth(changesOf(at(3, "b"), at(4, "c", "d"), at(5, "-b"), at(6, "b"), at(8, "-c"), at(9, "-d"), at(10, "b"), at(11, "d")), 11)
	if err != nil {
		t.Fatal(err)
	}
	mergesC, mergesD := startOf(2, "c", fromNow()), startOf(3, "d", fromNow())
	mergesC.Interest.Latest, mergesD.Interest.Latest = true, true
	s := subscribed([]check.Start{startOf(1, "b", fromNow()), mergesC, mergesD}, response(entry(bookmark(3), 1, 2, 3)),
		response(entry(live(6, events(change{"b", 5}, change{"b", 6})), 1)), response(entry(bookmark(9), 1, 2, 3)))
	if err := check.ValidateSubscription(s, truth); err != nil {
		t.Error(err)
	}
}

// For each broken stream, the function of the broken guarantee returns an error, and no other.
func TestBrokenSubscriptionsAreFound(t *testing.T) {
	caught := map[string]bool{}
	for _, test := range brokenSubscriptions() {
		t.Run(test.name, func(t *testing.T) {
			truth := newTruth(t)
			truth.MessageBytes = limit
			err := check.ValidateSubscription(test.stream, truth)
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v\nwant an error with %q", err, test.says)
			}
			for _, g := range check.SubscriptionGuarantees {
				err := g.Check(test.stream, truth)
				if is := g.Name == test.broken; (err != nil) != is {
					t.Errorf("%s: got %v, want an error: %v", g.Name, err, is)
				}
				if err != nil && !strings.Contains(err.Error(), "subscriber broke "+g.Name+": ") {
					t.Errorf("error of %s: got %q", g.Name, err)
				}
			}
			caught[test.broken] = true
		})
	}
	for _, g := range check.SubscriptionGuarantees {
		if !caught[g.Name] {
			t.Errorf("no stream breaks %s", g.Name)
		}
	}
}
