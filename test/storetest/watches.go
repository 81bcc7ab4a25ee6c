package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/poll"
)

// A watch delivers each change after its position once, in order, and says up to where it is complete.
func changesInOrder(t *testing.T, f *Fixture) {
	const changes = 300
	after := f.commit(t, put("k", "0"))
	late := make(chan object.Watch, 1)
	var last object.Revision
	for i := 1; i < changes; i++ {
		if last = f.commit(t, put("k", fmt.Sprint(i))); i == changes/2 {
			late <- f.watch(t, object.Scope{}, after, false)
		}
	}
	w, through := <-late, after
	for i := 1; i < changes; {
		u := next(t, w)
		for _, r := range u.Records {
			if string(r.Value) != fmt.Sprint(i) || r.ModRevision != after+object.Revision(i) {
				t.Fatalf("change %d is %+v, want value %d at revision %d", i, r, i, after+object.Revision(i))
			}
			i++
		}
		if u.Through <= through || u.Through < u.Records[len(u.Records)-1].ModRevision {
			t.Fatalf("got an update through %d after one through %d", u.Through, through)
		}
		through = u.Through
	}
	if through != last {
		t.Errorf("the watch is complete up to %d, want %d", through, last)
	}
}

// One update contains all changes of a revision, for a watch that is up to date and for one that catches
// up, even if they are large.
func wholeRevisions(t *testing.T, f *Fixture) {
	before := f.now(t)
	live := f.watch(t, object.Scope{}, before, false)
	const keys = 100
	var ops []object.Op
	for i := range keys {
		ops = append(ops, put(fmt.Sprintf("k%03d", i), string(make([]byte, 10_000))))
	}
	first := f.commit(t, ops...)
	second := f.commit(t, append(ops[:50:50], remove("k099"), remove("absent"))...)
	late := f.watch(t, object.Scope{}, before, false)
	for name, w := range map[string]object.Watch{"live": live, "late": late} {
		sizes := map[object.Revision]int{}
		for len(sizes) < 2 {
			u := next(t, w)
			of := map[object.Revision]int{}
			for _, r := range u.Records {
				of[r.ModRevision]++
			}
			for revision, n := range of {
				if sizes[revision] > 0 {
					t.Errorf("%s: revision %d arrives in two updates, want one", name, revision)
				}
				sizes[revision] = n
			}
		}
		if sizes[first] != keys || sizes[second] != 51 {
			t.Errorf("%s: got changes by revision %v, want %d and 51", name, sizes, keys)
		}
	}
}

// A watch that asks for them gets the record before each change, and none before a creation.
func previousRecords(t *testing.T, f *Fixture) {
	if f.ForCaches {
		t.Skip("the store is only for resources with a cache")
	}
	before := f.now(t)
	f.commit(t, put("k", "1"))
	f.commit(t, put("k", "2"))
	f.commit(t, remove("k"))
	with, without := f.watch(t, object.Scope{}, before, true), f.watch(t, object.Scope{}, before, false)
	var got []string
	for len(got) < 3 {
		u := next(t, with)
		if len(u.Previous) != len(u.Records) {
			t.Fatalf("got %d previous records for %d changes", len(u.Previous), len(u.Records))
		}
		for i := range u.Records {
			change := show(u.Records[i : i+1])
			if p := u.Previous[i]; p != nil {
				change = string(p.Value) + ": " + change
			}
			got = append(got, change)
		}
	}
	if want := "[k=1 1: k=2 2: -k]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
	if u := next(t, without); u.Previous != nil {
		t.Errorf("got the previous records %v, want none", u.Previous)
	}
}

// A watch of a scope gets no other changes, but its updates are complete.
func changesOfAScope(t *testing.T, f *Fixture) {
	if f.ForCaches {
		t.Skip("the store is only for resources with a cache")
	}
	before := f.now(t)
	f.commit(t, put("a", "1"), put("a/1", "1"), put("b", "1"))
	f.commit(t, put("b", "2"))
	f.commit(t, remove("a/1"), put("a", "2"))
	for want, scope := range map[string]object.Scope{"a=1 a=2": object.ExactKey("a"), "a/1=1 -a/1": prefix(t, "a")} {
		w := f.watch(t, scope, before, false)
		var got []object.Record
		for len(got) < 2 {
			got = append(got, next(t, w).Records...)
		}
		if show(got) != want {
			t.Errorf("%v: got %s, want %s", scope, show(got), want)
		}
	}
}

// A watch without changes learns the progress of the store by a request.
func progressWithoutChanges(t *testing.T, f *Fixture) {
	first := f.commit(t, put("k", "v"))
	idle := f.watch(t, object.Scope{}, first-1, false)
	next(t, idle)
	var elsewhere object.Revision
	for range 50 {
		elsewhere = f.Elsewhere(t)
	}
	for through := first; through < elsewhere; {
		if err := idle.RequestProgress(t.Context()); err != nil {
			t.Fatal(err)
		}
		u, err := idle.Next(poll.Context(t))
		if err != nil {
			t.Fatal(err)
		}
		if len(u.Records) > 0 || u.Through < through {
			t.Fatalf("got %+v after revision %d, want progress only", u, through)
		}
		through = u.Through
	}
}

// A watch ends if the store has forgotten changes after its position.
func compactedRevision(t *testing.T, f *Fixture) {
	first := f.commit(t, put("k", "0"))
	for i := range 9 {
		f.commit(t, put("k", fmt.Sprint(i+1)))
	}
	f.Compact(t, first+6)
	if err := end(t, f.watch(t, object.Scope{}, first, false)); !errors.Is(err, object.ErrCompacted) {
		t.Errorf("got %v, want %v", err, object.ErrCompacted)
	}
	if got := show(next(t, f.watch(t, object.Scope{}, first+6, false)).Records); got[:3] != "k=7" {
		t.Errorf("after the compacted revision: got %s, want k=7", got)
	}
}

// A position of another epoch means nothing.
func otherEpoch(t *testing.T, f *Fixture) {
	at := f.commit(t, put("k", "v"))
	w, err := f.Watch(poll.Context(t), object.Scope{}, object.Position{Epoch: "other", Revision: at}, false)
	if !errors.Is(err, object.ErrUnavailable) {
		t.Errorf("got %v, want %v", err, object.ErrUnavailable)
	}
	if err == nil {
		w.Close()
	}
}

// After a restore, the epoch is another one, and a watch of the old one ends instead of delivering changes.
func endOfTheEpoch(t *testing.T, f *Fixture) {
	if f.Restore == nil {
		t.Skip("the store has other tests of its epochs")
	}
	at := f.commit(t, put("k", "v"))
	w := f.watch(t, object.Scope{}, at, false)
	f.Restore(t)
	f.commit(t, put("k", "new"))
	if err := end(t, w); !errors.Is(err, object.ErrUnavailable) {
		t.Errorf("got %v, want %v", err, object.ErrUnavailable)
	}
	if after, err := f.Epoch(poll.Context(t)); err != nil || after == f.epoch {
		t.Errorf("got the epoch %s, %v, want another one than %s", after, err, f.epoch)
	}
}

// Next ends with its context, and not before.
func endOfTheContext(t *testing.T, f *Fixture) {
	w := f.watch(t, object.Scope{}, f.now(t), false)
	ctx, cancel := context.WithCancel(poll.Context(t))
	cancel()
	if _, err := w.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}
