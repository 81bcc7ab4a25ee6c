package client

import (
	"slices"
	"strings"
)

// loose is what a watch has been told beyond its position: of a catch-up or a large
// transaction that is not complete yet. Should the stream break now, the next one
// begins at the position again, and its servers do not know what was told already.
// They repeat it, in a newer form if it has changed meanwhile, or tell that it has
// gone. Only where a server has lost the thread of etcd for a while it does not know
// what came and went in that time, and says nothing of it: whoever was told of that
// half-way, by another server, would have it for ever.
//
// So what is repeated is left out, and what is neither repeated nor replaced by the
// time the position has passed it, is told to be deleted.
type loose struct {
	marks map[string]mark // by key
}

type mark struct {
	revision int64
	deleted  bool
	repeated bool // or not in need of it
}

func (l *loose) empty() bool { return len(l.marks) == 0 }

// forget is for when everything is told anew.
func (l *loose) forget() { l.marks = nil }

// again is for when everything since the position is told again.
func (l *loose) again() {
	for key, m := range l.marks {
		m.repeated = false
		l.marks[key] = m
	}
}

// isNew notes an event that came with a position and reports whether it was not told
// already.
func (l *loose) isNew(e Event, position int64) bool {
	key, revision := e.Object.Key, e.Object.ModRevision
	m, ok := l.marks[key]
	if ok && revision <= m.revision {
		m.repeated = true
		l.marks[key] = m
		return false
	}
	if ok || revision > position {
		if l.marks == nil {
			l.marks = map[string]mark{}
		}
		l.marks[key] = mark{revision: revision, deleted: e.Type == Deleted, repeated: true}
	}
	return true
}

// settle forgets what the position has passed, and returns the deletions of what
// nobody has spoken of again.
func (l *loose) settle(position int64) (deletions []Event) {
	for key, m := range l.marks {
		if m.revision > position {
			continue
		}
		delete(l.marks, key)
		if !m.repeated && !m.deleted {
			deletions = append(deletions, Event{Type: Deleted, Object: &Object{Key: key, ModRevision: position}})
		}
	}
	slices.SortFunc(deletions, func(a, b Event) int { return strings.Compare(a.Object.Key, b.Object.Key) })
	return deletions
}
