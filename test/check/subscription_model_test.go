package check_test

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/seed"
)

// Random streams of a correct server pass, and every injected fault is found.
func TestInjectedFaultsOfSubscriptionsAreFound(t *testing.T) {
	rng := seed.New(t).Rand(0)
	applied := map[string]int{}
	for range 100 {
		m := &streamModel{rng: rng, truth: randomTruth(t, rng), free: []uint64{1, 2, 3, 4, 5, 6}}
		for m.present < m.truth.Through {
			m.step(t)
		}
		m.finish()
		if err := check.ValidateSubscription(&m.stream, m.truth); err != nil {
			t.Fatalf("correct stream: got %v\n%s", err, printedSubscription(t, &m.stream, m.truth))
		}
		for _, name := range slices.Sorted(maps.Keys(streamFaults)) { // in order, so that a seed repeats the test
			broken := cloneSubscription(&m.stream)
			if !streamFaults[name](rng, broken) {
				continue
			}
			applied[name]++
			if check.ValidateSubscription(broken, m.truth) == nil {
				t.Fatalf("fault %q was not found in\n%s", name, printedSubscription(t, broken, m.truth))
			}
		}
	}
	t.Log(applied)
	for name := range streamFaults {
		if applied[name] == 0 {
			t.Errorf("fault %q could never be injected", name)
		}
	}
}

// streamModel is a correct server with one stream, all of whose live watches are always at the
// present. It shares no code with package check.
type streamModel struct {
	rng     *rand.Rand
	truth   *check.Truth
	stream  check.Subscription
	present object.Revision
	free    []uint64
	live    []modelWatch
}

type modelWatch struct {
	id    uint64
	start int // index
}

func (m *streamModel) step(t *testing.T) {
	switch m.rng.IntN(4) {
	case 0, 1:
		m.advance()
	case 2:
		if len(m.free) > 0 {
			m.send(m.begin(t)...)
		}
	case 3:
		if len(m.live) > 0 {
			m.send(m.stop())
		}
	}
}

func (m *streamModel) send(entries ...check.Entry) {
	m.stream.Responses = append(m.stream.Responses, response(entries...))
}

// begin starts a watch at the present, with or without a snapshot.
func (m *streamModel) begin(t *testing.T) []check.Entry {
	id := m.free[0]
	m.free = m.free[1:]
	w := modelWatch{id, len(m.stream.Starts)}
	if m.rng.IntN(8) == 0 {
		m.stream.Starts = append(m.stream.Starts, startOf(id, "", fromNothing()))
		m.free = append(m.free, id)
		return []check.Entry{refused("LIMIT_REACHED", id)}
	}
	start := check.Start{ID: id, Interest: randomInterest(t, m.rng), Asked: fromNow()}
	start.Interest.EveryEvent = false
	begun := []check.Entry{entry(bookmark(max(1, m.present)), id)}
	if m.rng.IntN(2) == 0 {
		start.Asked = fromNothing()
		snapshot := &model{rng: m.rng, truth: m.truth, history: start.Interest, stream: &check.Stream{}}
		snapshot.reset(max(1, m.present))
		begun = nil
		for _, message := range snapshot.stream.Messages {
			begun = append(begun, entry(message, id))
		}
	}
	m.stream.Starts = append(m.stream.Starts, start)
	m.live = append(m.live, w)
	return begun
}

// stop ends a watch. Its id is free from now on.
func (m *streamModel) stop() check.Entry {
	i := m.rng.IntN(len(m.live))
	w := m.live[i]
	m.live = slices.Delete(m.live, i, i+1)
	m.stream.Starts[w.start].Stopped = true
	m.free = slices.Insert(m.free, 0, w.id)
	return ended(w.id)
}

// advance brings all live watches to a later present. Now and then it sends the events of one
// revision in several responses.
func (m *streamModel) advance() {
	before := m.present
	m.present = min(m.truth.Through, before+object.Revision(1+m.rng.IntN(4)))
	split := m.rng.IntN(3) == 0
	if split {
		m.present = before + 1
	}
	var entries []check.Entry
	for _, w := range m.live {
		server := &model{rng: m.rng, truth: m.truth, history: m.stream.Starts[w.start].Interest}
		if all := server.between(object.Live, before, m.present); len(all) > 0 {
			entries = append(entries, entry(live(m.present, all), w.id))
		}
	}
	if len(entries) == 0 {
		return
	}
	m.rng.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
	for split && len(entries) > 1 {
		m.stream.Responses = append(m.stream.Responses, more(entries[0]))
		entries = entries[1:]
	}
	m.send(entries...)
}

// finish ends all watches and the stream.
func (m *streamModel) finish() {
	for len(m.live) > 0 {
		m.send(m.stop())
	}
	m.stream.Over = true
}

// streamFaults inject a fault into a correct stream. They return false if the stream offers no
// opportunity.
var streamFaults = map[string]func(*rand.Rand, *check.Subscription) bool{
	"half of a revision comes later": func(rng *rand.Rand, s *check.Subscription) bool {
		return inRandomOrder(rng, len(s.Responses), func(i int) bool {
			r := &s.Responses[i]
			last := len(r.Entries) - 1
			if last < 1 || !carriesLive(&r.Entries[0]) || !carriesLive(&r.Entries[last]) || !shareRevision(&r.Entries[0], &r.Entries[last]) {
				return false
			}
			rest := response(r.Entries[last])
			rest.More, r.More = r.More, false
			r.Entries = r.Entries[:last]
			s.Responses = slices.Insert(s.Responses, i+1, rest)
			return true
		})
	},
	"more is not set": func(rng *rand.Rand, s *check.Subscription) bool {
		return inRandomOrder(rng, len(s.Responses), func(i int) bool {
			was := s.Responses[i].More
			s.Responses[i].More = false
			return was
		})
	},
	"end is lost": func(rng *rand.Rand, s *check.Subscription) bool {
		return inRandomEntry(rng, s, func(r *check.Response, i int) bool {
			is := r.Entries[i].Ended
			if is {
				r.Entries = slices.Delete(r.Entries, i, i+1)
			}
			return is
		})
	},
	"end comes twice": func(rng *rand.Rand, s *check.Subscription) bool {
		return inRandomEntry(rng, s, func(r *check.Response, i int) bool {
			is := r.Entries[i].Ended
			if is {
				r.Entries = append(r.Entries, r.Entries[i])
			}
			return is
		})
	},
	"refusal comes as an end": func(rng *rand.Rand, s *check.Subscription) bool {
		return inRandomEntry(rng, s, func(r *check.Response, i int) bool {
			e := &r.Entries[i]
			is := e.Refused
			if is {
				e.Refused, e.Ended = false, true
			}
			return is
		})
	},
	"event goes to another watch": func(rng *rand.Rand, s *check.Subscription) bool {
		return inRandomEntry(rng, s, func(r *check.Response, i int) bool {
			is := carriesLive(&r.Entries[i])
			if is {
				r.Entries[i].IDs = []uint64{99}
			}
			return is
		})
	},
	"event is lost": func(rng *rand.Rand, s *check.Subscription) bool {
		return inRandomEntry(rng, s, func(r *check.Response, i int) bool {
			// The other entry shows that the revision has been sent.
			is := len(r.Entries) > 1 && carriesLive(&r.Entries[i]) && carriesLive(&r.Entries[(i+1)%len(r.Entries)]) &&
				shareRevision(&r.Entries[i], &r.Entries[(i+1)%len(r.Entries)]) && !merges(s, r.Entries[i].IDs[0])
			if is {
				r.Entries = slices.Delete(r.Entries, i, i+1)
			}
			return is
		})
	},
}

// merges reports whether a watch with the id merges events. Nothing may be left of its events if the
// server merges them with later ones, so nobody misses one if all watches end before.
func merges(s *check.Subscription, id uint64) bool {
	return slices.ContainsFunc(s.Starts, func(start check.Start) bool { return start.ID == id && start.Interest.Latest })
}

func carriesLive(e *check.Entry) bool { return e.Message != nil && e.Message.Kind == object.Live }

// shareRevision reports whether the last events of both entries have the same revision.
func shareRevision(a, b *check.Entry) bool {
	last := func(e *check.Entry) object.Revision { return e.Message.Events[len(e.Message.Events)-1].Revision }
	return last(a) == last(b)
}

func inRandomEntry(rng *rand.Rand, s *check.Subscription, do func(*check.Response, int) bool) bool {
	return inRandomOrder(rng, len(s.Responses), func(i int) bool {
		r := &s.Responses[i]
		return inRandomOrder(rng, len(r.Entries), func(j int) bool { return do(r, j) })
	})
}

// inRandomOrder calls a function with the numbers below n until it returns true.
func inRandomOrder(rng *rand.Rand, n int, do func(int) bool) bool {
	return slices.ContainsFunc(rng.Perm(n), do)
}

func cloneSubscription(s *check.Subscription) *check.Subscription {
	c := *s
	c.Responses = slices.Clone(s.Responses)
	for i := range c.Responses {
		c.Responses[i].Entries = slices.Clone(c.Responses[i].Entries)
	}
	return &c
}

func printedSubscription(t *testing.T, s *check.Subscription, truth *check.Truth) string {
	t.Helper()
	var b strings.Builder
	if err := errors.Join(s.Print(&b), truth.Print(&b)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
