package dispatch

import (
	"sort"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Backlog is what waits for a watcher.
type Backlog struct {
	Events int             // their number; negative: not known
	After  object.Revision // the first of them comes after this revision; meaningful unless Events is 0
}

// Backlog returns what waits for a watcher who is at the position, which is one that
// a message had. Unlike the other methods it may be called from any goroutine, and
// it costs the watcher next to nothing. Where the log does not reach back to the
// position, nobody has counted the events.
func (w *Watcher) Backlog(at object.Position) Backlog {
	v := w.feed.view.Load()
	switch {
	case v.after.Epoch == at.Epoch && at.Revision >= v.after.Revision:
		n, first := v.behind(at.Revision)
		return Backlog{Events: n, After: first - 1}
	case w.cohort != nil && w.waits.Load(), w.cohort == nil && w.shard.isParked(w):
		return Backlog{} // it has looked, and there was nothing to say
	}
	return Backlog{Events: -1, After: at.Revision}
}

// behind returns how many events the view has after the cursor, and the revision of
// the first of them.
func (v *view) behind(cursor object.Revision) (n int, first object.Revision) {
	si := sort.Search(len(v.segments), func(i int) bool {
		return v.segments[i].entries[v.shown(i)-1].at > cursor
	})
	for i := si; i < len(v.segments); i++ {
		from := 0
		if i == si {
			from = sort.Search(v.shown(i), func(j int) bool { return v.segments[i].entries[j].at > cursor })
			first = v.segments[i].entries[from].at
		}
		n += v.shown(i) - from
	}
	return n, first
}
