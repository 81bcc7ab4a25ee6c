package store_test

import (
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

// etcd still has the changes of the revision that it was compacted to.
func TestWatchFromTheCompactedRevision(t *testing.T) {
	both(t, func(t *testing.T, e *etcd) {
		c := e.collection()
		first := commit(t, c, put("k", "0"))
		for i := range 9 {
			commit(t, c, put("k", fmt.Sprint(i+1)))
		}
		if _, err := e.client.Compact(t.Context(), int64(first)+6); err != nil {
			t.Fatal(err)
		}
		if got := show(next(t, watch(t, c, first+5)).Records); got[:3] != "k=6" {
			t.Errorf("after the compacted revision: got %s, want k=6", got)
		}
	})
}
