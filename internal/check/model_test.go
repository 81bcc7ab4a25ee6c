package check_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/internal/check"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/seed"
)

// A server that does everything right passes at random, and each fault that is
// put into what it sent is noticed.
func TestFaultsAreNoticedAnywhere(t *testing.T) {
	rng := seed.New(t).Rand(0)
	applied := map[string]int{}
	for range 300 {
		truth := randomTruth(t, rng)
		scope := randomScope(t, rng)
		history := serve(rng, truth, scope)
		if err := check.Validate(history, truth); err != nil {
			t.Fatalf("%v is wrong with\n%s", err, printed(t, history, truth))
		}
		for name, fault := range faults {
			broken := clone(history)
			if !fault(rng, broken) {
				continue
			}
			applied[name]++
			if check.Validate(broken, truth) == nil {
				t.Fatalf("%q was not noticed in\n%s", name, printed(t, broken, truth))
			}
		}
	}
	t.Log(applied)
	for name := range faults {
		if applied[name] == 0 {
			t.Errorf("%q could never be tried", name)
		}
	}
}

func randomTruth(t *testing.T, rng *rand.Rand) *check.Truth {
	t.Helper()
	var writes []write
	exists := map[object.Key]bool{}
	last := object.Revision(1)
	for range 40 {
		last += object.Revision(1 + rng.IntN(2)) // some revisions are other resources'
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
	return truth
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

// serve returns a history as a correct server makes it: of a watcher that leaves
// and comes back until it has seen everything.
func serve(rng *rand.Rand, truth *check.Truth, scope object.Scope) *check.History {
	history := watched(scope)
	for present := object.Revision(1); present < truth.Through; {
		present = min(truth.Through, present+object.Revision(rng.IntN(20)))
		var s check.Stream
		at := present
		last, known := history.Position()
		switch n := rng.IntN(6); {
		case known && n < 4:
			s = after(last.Revision)
			at = serveCatchUp(rng, &s, truth, scope, present)
		case n == 4:
			s = fromNow(bookmark(present))
		default:
			s = fromNothing()
			serveReset(rng, &s, truth, scope, present)
		}
		for range rng.IntN(8) {
			to := min(truth.Through, at+object.Revision(rng.IntN(6)))
			if events := between(truth, scope, at, to); len(events) > 0 {
				s.Messages = append(s.Messages, pieces(rng, object.Live, at, to, events)...)
			} else {
				s.Messages = append(s.Messages, bookmark(to))
			}
			at = to
		}
		if rng.IntN(3) == 0 {
			s.Messages = append(s.Messages, draining(at))
		}
		history.Streams = append(history.Streams, s)
		present = max(present, at)
	}
	return history
}

func serveCatchUp(rng *rand.Rand, s *check.Stream, truth *check.Truth, scope object.Scope, present object.Revision) object.Revision {
	from := s.Position.Revision
	present = max(present, from)
	if len(between(truth, object.Scope{}, from, present)) > truth.Window {
		serveReset(rng, s, truth, scope, present)
		return present
	}
	s.Messages = append(s.Messages, begin(object.Replay, from))
	if events := between(truth, scope, from, present); len(events) > 0 {
		s.Messages = append(s.Messages, pieces(rng, object.CatchUpPart, from, present, events)...)
	}
	s.Messages = append(s.Messages, synced(present))
	return present
}

func serveReset(rng *rand.Rand, s *check.Stream, truth *check.Truth, scope object.Scope, at object.Revision) {
	s.Messages = append(s.Messages, begin(object.Reset, 0))
	m := part(0, nil)
	for _, o := range truth.State(scope, at) {
		m.Events = append(m.Events, check.Event{Type: object.Added, Object: *o})
		if rng.IntN(3) == 0 {
			s.Messages = append(s.Messages, m)
			m = part(0, nil)
		}
	}
	s.Messages = append(s.Messages, m, synced(at))
}

// between returns what a watcher of the scope has to see.
func between(truth *check.Truth, scope object.Scope, after, through object.Revision) []check.Event {
	var all []check.Event
	for c := range truth.Between(scope, after, through) {
		switch {
		case c.New == nil:
			last := *c.Old
			last.ModRevision = c.Revision
			all = append(all, check.Event{Type: object.Deleted, Object: last})
		case c.Old == nil:
			all = append(all, check.Event{Type: object.Added, Object: *c.New})
		default:
			all = append(all, check.Event{Type: object.Modified, Object: *c.New})
		}
	}
	return all
}

// pieces packs events into messages: each a whole number of revisions, or now and
// then one revision in two.
func pieces(rng *rand.Rand, kind object.MessageKind, from, to object.Revision, events []check.Event) []check.Message {
	var all []check.Message
	at := from
	flush := func(revision object.Revision, pending []check.Event) {
		all = append(all, message(kind, revision, pending))
		at = revision
	}
	var pending []check.Event
	for len(events) > 0 {
		r := events[0].Object.ModRevision
		n := slices.IndexFunc(events, func(e check.Event) bool { return e.Object.ModRevision != r })
		if n < 0 {
			n = len(events)
		}
		revision := events[:n]
		events = events[n:]
		if n > 1 && rng.IntN(4) == 0 {
			if len(pending) > 0 {
				flush(pending[len(pending)-1].Object.ModRevision, pending)
			}
			all = append(all, partial(message(kind, at, revision[:1])))
			pending = revision[1:]
			continue
		}
		pending = append(slices.Clone(pending), revision...)
		if len(events) > 0 && rng.IntN(2) == 0 {
			flush(r, pending)
			pending = nil
		}
	}
	flush(to, pending)
	return all
}

// faults change a correct history into one that is not, or return false where it
// offers no opportunity.
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
		if ok {
			for i := range h.Streams {
				s := &h.Streams[i]
				for j := range s.Messages {
					// The watcher must know that there was something, or nothing
					// is wrong.
					if &s.Messages[j] == m && j+1 < len(s.Messages) && s.Messages[j+1].Position.Revision >= m.Events[0].Object.ModRevision {
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
			if len(s.Messages[i].Events) > 0 && len(s.Messages[i-1].Events) > 0 && s.Messages[i].Kind == s.Messages[i-1].Kind {
				s.Messages[i], s.Messages[i-1] = s.Messages[i-1], s.Messages[i]
				return true
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

// pickEvent chooses an event of a change at random.
func pickEvent(rng *rand.Rand, h *check.History) (*check.Message, int, bool) {
	var all []*check.Message
	for i := range h.Streams {
		snapshot := false
		for j := range h.Streams[i].Messages {
			m := &h.Streams[i].Messages[j]
			if m.Kind == object.CatchUpBegin {
				snapshot = m.CatchUp == object.Reset
			}
			if len(m.Events) > 0 && (m.Kind == object.Live || !snapshot) {
				all = append(all, m)
			}
		}
	}
	if len(all) == 0 {
		return nil, 0, false
	}
	m := all[rng.IntN(len(all))]
	return m, rng.IntN(len(m.Events)), true
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
