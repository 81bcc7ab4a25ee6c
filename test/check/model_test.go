package check_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/seed"
)

// Random histories of a correct server pass, and every injected fault is found.
func TestInjectedFaultsAreFound(t *testing.T) {
	rng := seed.New(t).Rand(0)
	applied := map[string]int{}
	for range 300 {
		truth := randomTruth(t, rng)
		history := randomInterest(t, rng)
		(&model{rng: rng, truth: truth, history: history}).serve()
		if err := check.Validate(history, truth); err != nil {
			t.Fatalf("correct history: got %v\n%s", err, printed(t, history, truth))
		}
		for _, name := range slices.Sorted(maps.Keys(faults)) { // in order, so that a seed repeats the test
			fault := faults[name]
			broken := clone(history)
			if !fault(rng, broken) {
				continue
			}
			applied[name]++
			if check.Validate(broken, truth) == nil {
				t.Fatalf("fault %q was not found in\n%s", name, printed(t, broken, truth))
			}
		}
	}
	t.Log(applied)
	for name := range faults {
		if applied[name] == 0 {
			t.Errorf("fault %q could never be injected", name)
		}
	}
}

func randomTruth(t *testing.T, rng *rand.Rand) *check.Truth {
	t.Helper()
	var writes []write
	exists := map[object.Key]bool{}
	last := object.Revision(1)
	for range 40 {
		last += object.Revision(1 + rng.IntN(2)) // some revisions belong to other resources
		w := at(last)
		for _, i := range rng.Perm(6)[:1+rng.IntN(3)] {
			key := object.Key(fmt.Sprintf("team-%d/%d", i%2, i))
			if exists[key] && rng.IntN(3) == 0 {
				delete(exists, key)
				key = "-" + key
			} else {
				exists[key] = true
			}
			w.keys = append(w.keys, key)
		}
		writes = append(writes, w)
	}
	truth, err := check.NewTruth(changesOf(writes...), last)
	if err != nil {
		t.Fatal(err)
	}
	truth.Window = 10
	truth.Tombstones = 6
	return truth
}

// randomInterest returns a watcher without streams.
func randomInterest(t *testing.T, rng *rand.Rand) *check.History {
	t.Helper()
	h := watched(randomScope(t, rng))
	for _, ask := range []func(*check.History){even, previous, omitting, func(h *check.History) { h.Latest = true }, everyEvent} {
		if rng.IntN(3) == 0 {
			ask(h)
		}
	}
	h.EveryEvent = h.EveryEvent && !h.Latest
	return h
}

func randomScope(t *testing.T, rng *rand.Rand) object.Scope {
	t.Helper()
	switch rng.IntN(3) {
	case 0:
		return object.ExactKey("team-1/3")
	case 1:
		team, err := object.ParsePrefix("team-0")
		if err != nil {
			t.Fatal(err)
		}
		return team
	}
	return object.Scope{}
}

// faults inject a fault into a correct history. They return false if the history offers no
// opportunity.
var faults = map[string]func(*rand.Rand, *check.History) bool{
	"event is lost": func(rng *rand.Rand, h *check.History) bool {
		m, i, ok := pickEvent(rng, h)
		if ok {
			m.Events = slices.Delete(m.Events, i, i+1)
		}
		return ok
	},
	"event comes twice": func(rng *rand.Rand, h *check.History) bool {
		m, i, ok := pickEvent(rng, h)
		if ok {
			m.Events = slices.Insert(m.Events, i, m.Events[i])
		}
		return ok
	},
	"value is wrong": func(rng *rand.Rand, h *check.History) bool {
		m, i, ok := pickEvent(rng, h)
		if ok {
			m.Events[i].Object.Value = []byte("wrong")
		}
		return ok
	},
	"type is wrong": func(rng *rand.Rand, h *check.History) bool {
		m, i, ok := pickEvent(rng, h)
		if ok {
			m.Events[i].Type = m.Events[i].Type%3 + 1
		}
		return ok
	},
	"event is late": func(rng *rand.Rand, h *check.History) bool {
		s := &h.Streams[rng.IntN(len(h.Streams))]
		for i := 1; i < len(s.Messages); i++ {
			m, next := &s.Messages[i-1], &s.Messages[i]
			if m.Kind == object.Live && !m.Partial && next.Kind == object.Live && m.Position != next.Position {
				next.Events = append(next.Events, m.Events[0])
				m.Events = m.Events[1:]
				return true
			}
		}
		return false
	},
	"message is lost": func(rng *rand.Rand, h *check.History) bool {
		m, _, ok := pickEvent(rng, h)
		if ok && !h.Latest { // whose next message may well have made up for it
			for i := range h.Streams {
				s := &h.Streams[i]
				for j := range s.Messages {
					// Without a later position the loss is not a fault.
					if &s.Messages[j] == m && j+1 < len(s.Messages) && s.Messages[j+1].Position.Revision >= m.Events[0].Revision {
						s.Messages = slices.Delete(s.Messages, j, j+1)
						return true
					}
				}
			}
		}
		return false
	},
	"messages change places": func(rng *rand.Rand, h *check.History) bool {
		s := &h.Streams[rng.IntN(len(h.Streams))]
		for i := 1; i < len(s.Messages)-1; i++ {
			m, next := &s.Messages[i-1], &s.Messages[i]
			if m.Kind != next.Kind || len(m.Events) == 0 || len(next.Events) == 0 {
				continue
			}
			if m.Events[len(m.Events)-1].Revision < next.Events[0].Revision {
				*m, *next = *next, *m
				return true
			}
		}
		return false
	},
	"previous object is lost": func(rng *rand.Rand, h *check.History) bool {
		m, i, ok := pickEvent(rng, h)
		if ok = ok && m.Events[i].Previous != nil; ok {
			m.Events[i].Previous = nil
		}
		return ok
	},
	"value is missing or shown": func(rng *rand.Rand, h *check.History) bool {
		m, i, ok := pickEvent(rng, h)
		if !ok {
			return false
		}
		o := &m.Events[i].Object
		if o.Value == nil {
			o.Value = []byte{}
		} else {
			o.Value = nil
		}
		return true
	},
	"DELTA has what did not change": func(_ *rand.Rand, h *check.History) bool {
		return inDelta(h, func(m *check.Message) {
			o := object.Decoded{Key: "team-1/3"}
			m.Events = append([]check.Event{{Type: object.Deleted, Revision: m.Position.Revision, Object: o}}, m.Events...)
		})
	},
	"DELTA moves the position": func(_ *rand.Rand, h *check.History) bool {
		return inDelta(h, func(m *check.Message) { m.Position.Revision++ })
	},
	"replay has become a DELTA": func(_ *rand.Rand, h *check.History) bool {
		for i := range h.Streams {
			s := &h.Streams[i]
			for j := range s.Messages {
				if m := &s.Messages[j]; m.CatchUp == object.Replay {
					m.CatchUp = object.Delta
					return slices.ContainsFunc(s.Messages[j:], func(m check.Message) bool { return m.Kind == object.Synced })
				}
			}
		}
		return false
	},
	"position claims too much": func(rng *rand.Rand, h *check.History) bool {
		s := &h.Streams[rng.IntN(len(h.Streams))]
		for i := 1; i < len(s.Messages); i++ {
			m, next := &s.Messages[i-1], &s.Messages[i]
			if m.Kind == object.Bookmark && next.Kind == object.Live && !next.Partial {
				m.Position = next.Position
				return true
			}
		}
		return false
	},
}

// inDelta modifies the first part of a DELTA. It returns false if there is none.
func inDelta(h *check.History, do func(*check.Message)) bool {
	for i := range h.Streams {
		s := &h.Streams[i]
		for j := 1; j < len(s.Messages); j++ {
			if s.Messages[j-1].CatchUp == object.Delta && s.Messages[j].Kind == object.CatchUpPart {
				do(&s.Messages[j])
				return true
			}
		}
	}
	return false
}

// pickEvent picks a random event that must not be missing: a later position covers it.
func pickEvent(rng *rand.Rand, h *check.History) (*check.Message, int, bool) {
	type pick struct {
		*check.Message
		event int
	}
	var all []pick
	for i := range h.Streams {
		s := &h.Streams[i]
		kind, from := object.NoCatchUp, object.Revision(0)
		last := object.Revision(0)
		for j := range s.Messages {
			last = max(last, s.Messages[j].Position.Revision)
		}
		for j := range s.Messages {
			m := &s.Messages[j]
			switch m.Kind {
			case object.CatchUpBegin:
				kind, from = m.CatchUp, m.Position.Revision
			case object.Synced:
				kind = object.NoCatchUp
			}
			for k := range m.Events {
				e := &m.Events[k]
				// The watcher may never have had an object that a DELTA deletes, nor one
				// that came and went in a merged REPLAY.
				mayBeNew := kind == object.Delta || kind == object.Replay && h.Latest && (h.Picks != nil || e.Object.CreateRevision > from)
				optional := e.Type == object.Deleted && mayBeNew
				if kind != object.Reset && !optional && e.Revision <= last {
					all = append(all, pick{m, k})
				}
			}
		}
	}
	if len(all) == 0 {
		return nil, 0, false
	}
	p := all[rng.IntN(len(all))]
	return p.Message, p.event, true
}

func clone(h *check.History) *check.History {
	c := *h
	c.Streams = slices.Clone(h.Streams)
	for i := range c.Streams {
		messages := slices.Clone(c.Streams[i].Messages)
		for j := range messages {
			messages[j].Events = slices.Clone(messages[j].Events)
		}
		c.Streams[i].Messages = messages
	}
	return &c
}

func printed(t *testing.T, h *check.History, truth *check.Truth) string {
	t.Helper()
	var b strings.Builder
	if err := h.Print(&b); err != nil {
		t.Fatal(err)
	}
	if err := truth.Print(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
