package check

import (
	"slices"
	"sort"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Conditions are the limits of the server and the faults during the test, as far as the
// guarantees depend on them. With the zero value nothing is known, and every kind of
// catch-up and every silence is allowed.
type Conditions struct {
	// Window is the number of changes that the server promises to keep for resuming,
	// even across restarts. 0: unknown; other catch-ups are allowed instead of a REPLAY.
	Window int

	// Tombstones is the number of deletions that the server promises to keep. 0: unknown;
	// a RESET is allowed instead of a DELTA.
	Tombstones int

	// Forgotten has the history that the server could not keep after all.
	Forgotten []Forgotten

	// Gaps has the parts of the history that the server could not read.
	Gaps []Gap

	// Patience is how much longer than the bookmark interval a silence may be, and how
	// long after a write a bookmark may be older than it. It must be generous, because
	// machines that run tests are busy. 0: times are not checked.
	Patience time.Duration

	// Outages has the times without a server that could send a bookmark.
	Outages []Span

	// Severed has the times when every server had lost the store and had noticed it long
	// enough before to have sent its last bookmark.
	Severed []Span

	// Backlog is how many later writes may be acknowledged before a prompt watcher
	// receives the event of a write. 0: not checked.
	Backlog int

	// MessageBytes is the largest size of the events of a message with more than one
	// event. 0: not checked.
	MessageBytes int

	// Acknowledged has the acknowledged writes, in order of their acknowledgements.
	Acknowledged []Acknowledged
}

// Forgotten says that a server at the revision Since or later need not know the changes
// before the revision Below: it was restarted, and the store had compacted them.
type Forgotten struct{ Since, Below object.Revision }

// Gap is a range of revisions after After and up to Until. The store compacted it before
// the server could read it, so the server knows only the difference between the states at
// both ends. A watcher may get this difference as a DELTA. It excuses no missing event
// between two positions of live messages or of a REPLAY.
type Gap struct{ After, Until object.Revision }

// within reports whether the revision is inside the gap.
func (g Gap) within(r object.Revision) bool { return g.After < r && r <= g.Until }

// Span is a time between two moments.
type Span struct{ From, To time.Time }

// Acknowledged is a write as its writer saw it. When it began, the store had not reached the
// revision. When it was acknowledged, the store had.
type Acknowledged struct {
	Begun, At time.Time
	Revision  object.Revision
}

// present returns an upper limit of the server's revision when it chose a catch-up. Without
// times this is the revision at which the catch-up ended. That is not exact: a state that
// many watchers share may be slightly older than the present.
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

// replayable reports whether a server at the revision present must know every event after a
// revision.
func (t *Truth) replayable(after, present object.Revision) bool {
	if t.Window == 0 || !t.remembered(after, present) {
		return false
	}
	lost := func(g Gap) bool { return after < g.Until && g.Until <= present }
	return !slices.ContainsFunc(t.Gaps, lost) && count(t, after, present) <= t.Window
}

// hasDelta reports whether a server at the revision present must know the last change of
// every key since a revision.
func (t *Truth) hasDelta(after, present object.Revision) bool {
	if t.Tombstones == 0 || !t.remembered(after, present) {
		return false
	}
	lost := func(g Gap) bool { return g.After < after && after < g.Until && g.Until <= present }
	if slices.ContainsFunc(t.Gaps, lost) {
		return false
	}
	tombstones := 0
	for c := range t.Between(object.Scope{}, after, present) {
		if c.New == nil {
			tombstones++
		}
	}
	return tombstones <= t.Tombstones
}

func (t *Truth) remembered(after, present object.Revision) bool {
	return !slices.ContainsFunc(t.Forgotten, func(f Forgotten) bool { return f.Since <= present && after < f.Below })
}

// known returns the newest revision that was acknowledged at a time.
func (c *Conditions) known(at time.Time) object.Revision {
	n := sort.Search(len(c.Acknowledged), func(i int) bool { return c.Acknowledged[i].At.After(at) })
	if n == 0 {
		return 0
	}
	return c.Acknowledged[n-1].Revision
}

// count returns the number of changes of the resource after one revision and up to another.
func count(t *Truth, after, through object.Revision) int {
	n := 0
	for range t.Between(object.Scope{}, after, through) {
		n++
	}
	return n
}

// excused returns how much of the time between two moments lies inside the spans.
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
			from = end // overlapping spans count once
		}
	}
	return sum
}
