package store_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/fanoutd/fanoutd/internal/object"
)

func TestWatchDeliversEveryChangeInOrder(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	both(t, func(t *testing.T, e *etcd) {
		c := e.collection()
		const changes = 3000 // more than etcd puts into one batch
		var after, last object.Revision
		for i := range changes {
			last = commit(t, c, put("k", fmt.Sprint(i)))
			if i == 0 {
				after = last
			}
		}
		stream := watch(t, c, after)
		through := after
		for i := 1; i < changes; {
			u := next(t, stream)
			for _, r := range u.Records {
				if string(r.Value) != fmt.Sprint(i) || r.ModRevision != after+object.Revision(i) {
					t.Fatalf("change %d is %+v, want value %d at revision %d", i, r, i, after+object.Revision(i))
				}
				i++
			}
			if u.Through <= through || u.Through != u.Records[len(u.Records)-1].ModRevision {
				t.Fatalf("got an update through %d after one through %d", u.Through, through)
			}
			through = u.Through
		}
		if through != last {
			t.Errorf("the watch ends at revision %d, want %d", through, last)
		}
	})
}

// One update contains all changes of a revision: for a watch that is up to date, for one
// that catches up, and if the changes exceed etcd's message size.
func TestTransactionArrivesInOneUpdate(t *testing.T) {
	both(t, func(t *testing.T, e *etcd) {
		c := e.collection()
		live := watch(t, c, 1)
		const keys = 100
		var ops []object.Op
		for i := range keys {
			ops = append(ops, put(fmt.Sprintf("k%03d", i), string(make([]byte, 10_000))))
		}
		first := commit(t, c, ops...)
		second := commit(t, c, append(ops[:50:50], remove("k099"), remove("absent"))...)
		late := watch(t, c, 1)
		for name, stream := range map[string]object.Watch{"live": live, "late": late} {
			sizes := map[object.Revision]int{}
			for len(sizes) < 2 {
				u := next(t, stream)
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
	})
}

// The watch of an idle resource learns its progress by a request. Each watch has its own
// stream, so a lagging watch does not block the answers of another one.
func TestProgressWithoutWrites(t *testing.T) {
	both(t, func(t *testing.T, e *etcd) {
		c := e.collection()
		first := commit(t, c, put("k", "v"))
		idle := watch(t, c, first-1)
		next(t, idle)
		busy := e.Plain("busy", "/busy/")
		var elsewhere object.Revision
		for range 50 {
			elsewhere = commit(t, busy, put("k", "v"))
		}
		for through := first; through < elsewhere; {
			if err := idle.RequestProgress(t.Context()); err != nil {
				t.Fatal(err)
			}
			u, err := idle.Next(contextFor(t))
			if err != nil {
				t.Fatal(err)
			}
			if len(u.Records) > 0 || u.Through < through {
				t.Fatalf("got %+v after revision %d, want progress only", u, through)
			}
			through = u.Through
		}
	})
}

func TestWatchOfACompactedRevision(t *testing.T) {
	both(t, func(t *testing.T, e *etcd) {
		c := e.collection()
		first := commit(t, c, put("k", "0"))
		for i := range 9 {
			commit(t, c, put("k", fmt.Sprint(i+1)))
		}
		if _, err := e.client.Compact(t.Context(), int64(first)+6); err != nil {
			t.Fatal(err)
		}
		if u, err := watch(t, c, first).Next(contextFor(t)); !errors.Is(err, object.ErrCompacted) {
			t.Errorf("got %+v, %v, want %v", u, err, object.ErrCompacted)
		}
		if got := show(next(t, watch(t, c, first+5)).Records); got[:3] != "k=6" {
			t.Errorf("after the compacted revision: got %s, want k=6", got)
		}
	})
}
