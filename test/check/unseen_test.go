package check_test

import (
	"testing"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
)

// A server need not send changes that it could not see, and may advance past them without a
// message.
func TestUnseenChangesAreNotRequired(t *testing.T) {
	added := func(key object.Key, at object.Revision, changes []check.Change) []check.Event {
		for _, c := range changes {
			if c.Key == key && c.Revision == at {
				return []check.Event{{Type: object.Added, Revision: at, Object: *c.New}}
			}
		}
		panic("never happened")
	}
	tests := map[string]struct {
		writes  []write
		gaps    []check.Gap
		ask     func(*check.History)
		streams func(changes []check.Change) []check.Stream
	}{
		"merged to nothing, before a DELTA": {
			writes: []write{at(2, "a"), at(3, "b"), at(4, "-b"), at(5, "c"), at(6, "c"), at(7, "c")},
			ask:    func(h *check.History) { h.Latest = true },
			streams: func(c []check.Change) []check.Stream {
				return []check.Stream{fromNothing(begin(object.Reset, 0), part(0, added("a", 2, c)), synced(2),
					begin(object.Delta, 4), part(4, added("c", 7, c)), synced(7))}
			},
		},
		"merged to nothing, before a part": {
			writes: []write{at(2, "a"), at(3, "b"), at(4, "-b"), at(5, "c", "d")},
			ask:    func(h *check.History) { h.Latest = true },
			streams: func(c []check.Change) []check.Stream {
				return []check.Stream{fromNothing(begin(object.Reset, 0), part(0, added("a", 2, c)), synced(2),
					partial(live(4, added("c", 5, c))), live(5, added("d", 5, c)))}
			},
		},
		"came and went in a gap, before a DELTA": {
			writes: []write{at(2, "a"), at(5, "a"), at(6, "-a"), at(7, "b")},
			gaps:   []check.Gap{{After: 4, Until: 7}},
			streams: func(c []check.Change) []check.Stream {
				return []check.Stream{after(2, begin(object.Delta, 2), part(2, gone(change{"a", 7})), part(2, added("b", 7, c)), synced(7))}
			},
		},
		"deleted, and came and went in a gap: DELTA": {
			writes: []write{at(2, "a"), at(3, "-a"), at(5, "a"), at(6, "-a"), at(7, "b")},
			gaps:   []check.Gap{{After: 4, Until: 7}},
			streams: func(c []check.Change) []check.Stream {
				return []check.Stream{after(2, begin(object.Delta, 2), part(2, gone(change{"a", 3})), part(2, added("b", 7, c)), synced(7))}
			},
		},
		"deleted in a gap, and came and went in the next one: DELTA": {
			writes: []write{at(2, "a"), at(4, "-a"), at(5, "b"), at(6, "a"), at(7, "-a"), at(8, "b")},
			gaps:   []check.Gap{{After: 3, Until: 5}, {After: 5, Until: 8}},
			streams: func(c []check.Change) []check.Stream {
				return []check.Stream{after(2, begin(object.Delta, 2), part(2, gone(change{"a", 5})), part(2, added("b", 8, c)), synced(8))}
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			changes := changesOf(tc.writes...)
			truth, err := check.NewTruth(changes, tc.writes[len(tc.writes)-1].revision)
			if err != nil {
				t.Fatal(err)
			}
			truth.Window, truth.Gaps = 1, tc.gaps
			h := all(tc.streams(changes)...)
			if tc.ask != nil {
				tc.ask(h)
			}
			if err := check.Validate(h, truth); err != nil {
				t.Error(err)
			}
		})
	}
}
