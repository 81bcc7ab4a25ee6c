package check

import (
	"slices"
	"sort"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Conditions are what the server had to live with, as far as its promises depend
// on it. The zero Conditions are those of which nothing is known: a watcher may
// then be given any kind of catch-up and any silence.
type Conditions struct {
	// Window is the number of changes of the resource that the server promises
	// to remember for resuming, restarted or not. 0: unknown, so that what is sent
	// in the place of a REPLAY is never held against it.
	Window int

	// Tombstones is the number of deletions that the server promises to remember.
	// 0: unknown, so that a RESET in the place of a DELTA is never held against it.
	Tombstones int

	// Forgotten says what could not be remembered after all.
	Forgotten []Forgotten

	// Gaps are pieces of history that the server could not see.
	Gaps []Gap

	// Patience is how much longer than the bookmark interval a silence may be, and
	// how long after a write a bookmark may leave it out. It has to be generous:
	// machines that run tests are busy. 0: time is not judged.
	Patience time.Duration

	// Outages is when there was no server, or none that a bookmark could come
	// from.
	Outages []Span

	// Severed is when no server heard of the store, and each had noticed long
	// enough ago to have ended what it was saying.
	Severed []Span

	// Backlog is how many writes may be acknowledged between a write and the moment
	// at which those who read at once are told of it. 0: it is not judged.
	Backlog int

	// MessageBytes is the most that the events of one message take, if it has more
	// than one. 0: it is not judged.
	MessageBytes int

	// Acknowledged are writes that had been acknowledged, in order of the time at
	// which they were.
	Acknowledged []Acknowledged
}

// Forgotten says that a server which has got as far as the revision Since may know
// nothing of what happened before the revision Below: it was restarted there, and
// the store had compacted its history.
type Forgotten struct{ Since, Below object.Revision }

// Gap is a piece of history, behind the revision After and up to Until, of which
// the server knows only in what the state at its end differs from the state at its
// beginning: the store had compacted it before the server could read it.
type Gap struct {
	After, Until object.Revision

	// Crossed is when the server went over it. Who resumes later, at a position
	// before its end, cannot be told every event. Zero: not known.
	Crossed time.Time
}

// within reports whether the gap hides the revision.
func (g Gap) within(r object.Revision) bool { return g.After < r && r <= g.Until }

// Span is a time between two moments.
type Span struct{ From, To time.Time }

// Acknowledged is a write that reached the store, as its writer knows it: the
// store had not reached the revision when the write began, and had when it was
// acknowledged.
type Acknowledged struct {
	Begun, At time.Time
	Revision  object.Revision
}

// present returns a revision that the server had not gone beyond when it decided
// how to bring a watcher up to date. Where the times are not known that is taken to
// be the one to which it brought the watcher; but servers that make a state once for
// many watchers may bring them to one that is not quite the present.
func (t *Truth) present(begun, synced *step) object.Revision {
	if begun.At.IsZero() {
		return synced.Position.Revision
	}
	present := t.Through
	for _, a := range t.Acknowledged {
		if a.Begun.After(begun.At) {
			present = min(present, a.Revision-1)
		}
	}
	return max(present, synced.Position.Revision)
}

// replayable reports whether a server that stands at revision present has promised
// to know every event after a revision.
func (t *Truth) replayable(after, present object.Revision) bool {
	if t.Window == 0 || !t.remembered(after, present) {
		return false
	}
	lost := func(g Gap) bool { return after < g.Until && g.Until <= present }
	return !slices.ContainsFunc(t.Gaps, lost) && count(t, after, present) <= t.Window
}

// deltable reports whether a server that stands at revision present has promised
// to know what became of the objects that changed after a revision.
func (t *Truth) deltable(after, present object.Revision) bool {
	if t.Tombstones == 0 || !t.remembered(after, present) {
		return false
	}
	lost := func(g Gap) bool { return g.After < after && after < g.Until && g.Until <= present }
	if slices.ContainsFunc(t.Gaps, lost) {
		return false
	}
	graves := 0
	for c := range t.Between(object.Scope{}, after, present) {
		if c.New == nil {
			graves++
		}
	}
	return graves <= t.Tombstones
}

func (t *Truth) remembered(after, present object.Revision) bool {
	return !slices.ContainsFunc(t.Forgotten, func(f Forgotten) bool { return f.Since <= present && after < f.Below })
}

// known returns the newest revision that had been acknowledged at a moment.
func (c *Conditions) known(at time.Time) object.Revision {
	n := sort.Search(len(c.Acknowledged), func(i int) bool { return c.Acknowledged[i].At.After(at) })
	if n == 0 {
		return 0
	}
	return c.Acknowledged[n-1].Revision
}

// count returns the number of changes of the whole resource after one revision
// and up to another.
func count(t *Truth, after, through object.Revision) int {
	n := 0
	for range t.Between(object.Scope{}, after, through) {
		n++
	}
	return n
}

// excused returns how much of the time between two moments lies within one of
// the spans.
func excused(from, to time.Time, spans ...[]Span) time.Duration {
	all := slices.Concat(spans...)
	slices.SortFunc(all, func(a, b Span) int { return a.From.Compare(b.From) })
	var sum time.Duration
	for _, s := range all {
		begin, end := s.From, s.To
		if begin.Before(from) {
			begin = from
		}
		if end.After(to) {
			end = to
		}
		if end.After(begin) {
			sum += end.Sub(begin)
			from = end // what overlaps counts once
		}
	}
	return sum
}
