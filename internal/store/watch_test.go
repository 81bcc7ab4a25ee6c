package store_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/fanoutd/fanoutd/internal/object"
)

func TestWatchDeliversEveryChangeInOrder(t *testing.T) {
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
					t.Fatalf("change %d is %+v", i, r)
				}
				i++
			}
			if u.Through <= through || u.Through != u.Records[len(u.Records)-1].ModRevision {
				t.Fatalf("the update goes through %d after %d", u.Through, through)
			}
			through = u.Through
		}
		if through != last {
			t.Errorf("ends at revision %d, want %d", through, last)
		}
	})
}

// What happens at one revision is in one update: to a watch that is up to date, to
// one that catches up, and if it is larger than what etcd sends at once.
func TestTransactionsArriveWhole(t *testing.T) {
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
		for name, stream := range map[string]object.Stream{"live": live, "late": late} {
			sizes := map[object.Revision]int{}
			for len(sizes) < 2 {
				u := next(t, stream)
				of := map[object.Revision]int{}
				for _, r := range u.Records {
					of[r.ModRevision]++
				}
				for revision, n := range of {
					if sizes[revision] > 0 {
						t.Errorf("%s: revision %d comes in two updates", name, revision)
					}
					sizes[revision] = n
				}
			}
			if sizes[first] != keys || sizes[second] != 51 {
				t.Errorf("%s: changes by revision %v", name, sizes)
			}
		}
	})
}

// A resource to which nobody writes learns how far it is by asking. Each stream
// answers for itself: one that is far behind does not silence another.
func TestProgressWithoutWrites(t *testing.T) {
	both(t, func(t *testing.T, e *etcd) {
		c := e.collection()
		first := commit(t, c, put("k", "v"))
		quietOne := watch(t, c, first-1)
		next(t, quietOne)
		busy := e.Collection("busy", "/busy/")
		var elsewhere object.Revision
		for range 50 {
			elsewhere = commit(t, busy, put("k", "v"))
		}
		for through := first; through < elsewhere; {
			if err := quietOne.RequestProgress(t.Context()); err != nil {
				t.Fatal(err)
			}
			u, err := quietOne.Next(contextFor(t))
			if err != nil {
				t.Fatal(err)
			}
			if len(u.Records) > 0 || u.Through < through {
				t.Fatalf("got %+v after revision %d", u, through)
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
			t.Errorf("got %+v, %v", u, err)
		}
		if got := show(next(t, watch(t, c, first+5)).Records); got[:3] != "k=6" {
			t.Errorf("after the border comes %s", got)
		}
	})
}
