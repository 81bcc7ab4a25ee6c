package storetest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/fanoutd/fanoutd/internal/direct"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/poll"
)

// Reads tests lists, history and watches.
func Reads(t *testing.T, open func(*testing.T) *Fixture) {
	run(t, open, map[string]func(*testing.T, *Fixture){
		"pages at one revision":             pagesAtOneRevision,
		"lists of a scope":                  listsOfAScope,
		"the oldest revision":               oldestRevision,
		"changes in order":                  changesInOrder,
		"whole revisions":                   wholeRevisions,
		"previous records":                  previousRecords,
		"a scope":                           changesOfAScope,
		"progress without changes":          progressWithoutChanges,
		"a watch of a compacted revision":   compactedRevision,
		"a watch of another epoch":          otherEpoch,
		"the end of the epoch ends watches": endOfTheEpoch,
		"the end of the context":            endOfTheContext,
	})
}

// A list has the records of its revision, whatever the size of its pages, and whatever has changed since.
func pagesAtOneRevision(t *testing.T, f *Fixture) {
	var at object.Revision
	for i := range 7 {
		at = f.commit(t, put(fmt.Sprintf("k%d", i), "old"))
	}
	f.commit(t, put("k3", "new"), remove("k5"), put("k9", "new"))
	for _, page := range []int{1, 2, 3, 7, 100} {
		if got := show(f.list(t, at, object.Scope{}, page)); got != "k0=old k1=old k2=old k3=old k4=old k5=old k6=old" {
			t.Errorf("with pages of %d: got %s, want all keys as of revision %d", page, got, at)
		}
	}
	now := f.now(t)
	if got := show(f.list(t, now, object.Scope{}, 3)); got != "k0=old k1=old k2=old k3=new k4=old k6=old k9=new" {
		t.Errorf("at the current revision: got %s", got)
	}
	r := f.list(t, now, object.Scope{}, 100)[3]
	if r.CreateRevision != at-3 || r.ModRevision != at+1 || r.Version != 2 {
		t.Errorf("got k3 as %+v, want create revision %d, mod revision %d, version 2", r, at-3, at+1)
	}
}

// A scope has the key itself, or what is below a prefix. A store for resources without a cache counts the
// same records, and its position is the present one.
func listsOfAScope(t *testing.T, f *Fixture) {
	at := f.commit(t, put("a", "1"), put("a/1", "1"), put("a/2", "1"), put("a0", "1"), put("b", "1"))
	counter, counts := f.Store.(direct.Store)
	for want, scope := range map[string]object.Scope{
		"a=1":                      object.ExactKey("a"),
		"a/1=1 a/2=1":              prefix(t, "a"),
		"a=1 a/1=1 a/2=1 a0=1 b=1": {},
		"":                         prefix(t, "b"),
	} {
		got := f.list(t, at, scope, 2)
		if show(got) != want {
			t.Errorf("%v: got %s, want %s", scope, show(got), want)
		}
		if !counts {
			continue
		}
		if n, err := counter.Count(poll.Context(t), at, scope, ""); err != nil || int(n) != len(got) {
			t.Errorf("%v: counted %d records, %v, want %d", scope, n, err, len(got))
		}
	}
	if !counts {
		return
	}
	if p, err := counter.Position(poll.Context(t)); err != nil || p != (object.Position{Epoch: f.epoch, Revision: f.now(t)}) {
		t.Errorf("got the position %v, %v, want the epoch %s and the present revision", p, err, f.epoch)
	}
}

// The oldest revision that can be listed is that of the compaction, but not before the floor.
func oldestRevision(t *testing.T, f *Fixture) {
	var now object.Revision
	for i := range 20 {
		now = f.commit(t, put("k", fmt.Sprint(i)))
	}
	oldest := func(floor object.Revision) object.Revision {
		t.Helper()
		r, err := f.Oldest(poll.Context(t), floor, now)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if got := oldest(1); got != 1 {
		t.Errorf("without a compaction: got %d, want 1", got)
	}
	const compacted = 10
	f.Compact(t, compacted)
	for floor, want := range map[object.Revision]object.Revision{1: compacted, compacted: compacted, 15: 15, now: now} {
		if got := oldest(floor); got != want {
			t.Errorf("from %d on: got %d, want %d", floor, got, want)
		}
	}
	if _, _, err := f.List(poll.Context(t), compacted-1, object.Scope{}, "", 10); !errors.Is(err, object.ErrCompacted) {
		t.Errorf("list before the compacted revision: got %v, want %v", err, object.ErrCompacted)
	}
	if _, _, err := f.List(poll.Context(t), compacted, object.Scope{}, "", 10); err != nil {
		t.Errorf("list at the compacted revision: %v", err)
	}
}
