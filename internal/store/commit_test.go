package store_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store"
)

func TestCommitSaysWhatItDid(t *testing.T) {
	both(t, func(t *testing.T, e *etcd) {
		c := e.collection()
		first := commit(t, c, put("a", "1"), put("b", "1"))
		done, err := c.Commit(contextFor(t), []object.Op{
			check("a"), remove("a"), remove("absent"), put("b", "2"), when(0, check("new")),
		}[1:])
		if err != nil {
			t.Fatal(err)
		}
		if done.Revision != first+1 || !slices.Equal(done.Deleted, []bool{true, false, false, false}) {
			t.Errorf("%+v after revision %d", done, first)
		}
		// Nothing changes: the revision is the one at which that was so.
		done, err = c.Commit(contextFor(t), []object.Op{remove("absent")})
		if err != nil || done.Revision != first+1 || done.Deleted[0] {
			t.Errorf("%+v, %v", done, err)
		}
		if got := show(list(t, c, first+1, 10)); got != "b=2" {
			t.Errorf("the state is %s", got)
		}
	})
}

func TestPreconditions(t *testing.T) {
	both(t, func(t *testing.T, e *etcd) {
		c := e.collection()
		at := commit(t, c, put("k", "1"))
		tests := map[string]struct {
			ops  []object.Op
			want *object.ConflictError // nil: none
		}{
			"exists, must not":           {[]object.Op{when(0, put("k", "x"))}, &object.ConflictError{Key: "k", Want: 0, Have: at, At: at}},
			"has another revision":       {[]object.Op{when(at-1, put("k", "x"))}, &object.ConflictError{Key: "k", Want: at - 1, Have: at, At: at}},
			"must exist, does not":       {[]object.Op{when(at, remove("none"))}, &object.ConflictError{Key: "none", Want: at, Have: 0, At: at}},
			"one of many does not hold":  {[]object.Op{when(at, put("k", "x")), put("other", "x"), when(7, check("checked"))}, &object.ConflictError{Key: "checked", Want: 7, Have: 0, At: at}},
			"the first of many is told":  {[]object.Op{when(7, put("k", "x")), when(8, put("l", "x"))}, &object.ConflictError{Key: "k", Want: 7, Have: at, At: at}},
			"is only checked":            {[]object.Op{when(0, check("k"))}, &object.ConflictError{Key: "k", Want: 0, Have: at, At: at}},
			"is only checked, and holds": {[]object.Op{when(at, check("k")), when(0, check("none"))}, nil},
		}
		for name, tc := range tests {
			_, err := c.Commit(contextFor(t), tc.ops)
			var conflict *object.ConflictError
			switch {
			case tc.want == nil && err != nil:
				t.Errorf("%s: %v", name, err)
			case tc.want != nil && (!errors.As(err, &conflict) || *conflict != *tc.want):
				t.Errorf("%s: %v, want %v", name, err, tc.want)
			}
		}
		now, err := c.Revision(contextFor(t))
		if err != nil || now != at {
			t.Errorf("something was written: revision %d after %d, %v", now, at, err)
		}
		commit(t, c, when(at, put("k", "2")), when(0, put("new", "1")))
		if got := show(list(t, c, at+1, 10)); got != "k=2 new=1" {
			t.Errorf("the state is %s", got)
		}
	})
}

func TestTimeToLive(t *testing.T) {
	both(t, func(t *testing.T, e *etcd) {
		c := e.collection()
		mortal := put("mortal", "v")
		mortal.TTL = 100 * time.Millisecond // etcd knows whole seconds
		at := commit(t, c, mortal, put("immortal", "v"))
		if got := show(next(t, watch(t, c, at)).Records); got != "-mortal" {
			t.Errorf("got %s", got)
		}
	})
}

// A lease that a refused write would have used does not stay behind.
func TestRefusedWriteLeavesNoLease(t *testing.T) {
	both(t, func(t *testing.T, e *etcd) {
		op := when(5, put("k", "v"))
		op.TTL = time.Hour
		if _, err := e.collection().Commit(contextFor(t), []object.Op{op}); err == nil {
			t.Fatal("it was not refused")
		}
		leases, err := e.client.Leases(t.Context())
		if err != nil || len(leases.Leases) > 0 {
			t.Errorf("%d leases, %v", len(leases.Leases), err)
		}
	})
}

func TestWriteThatIsTooLarge(t *testing.T) {
	both(t, func(t *testing.T, e *etcd) {
		c := e.collection()
		before := commit(t, c, put("k", "v"))
		_, err := c.Commit(contextFor(t), []object.Op{put("k", string(make([]byte, 2<<20)))})
		if !errors.Is(err, object.ErrTooLarge) {
			t.Errorf("got %v", err)
		}
		if now, err := c.Revision(contextFor(t)); err != nil || now != before {
			t.Errorf("revision %d, %v", now, err)
		}
	})
}

// A store that is full says so, and is read all the same.
func TestStoreThatIsFull(t *testing.T) {
	c := embedded(t, store.EmbeddedConfig{QuotaBytes: 1 << 20}).collection()
	// etcd notices with its next commit to disk, ten times a second.
	ctx := contextFor(t)
	var err error
	for err == nil {
		_, err = c.Commit(ctx, []object.Op{put("k", string(make([]byte, 100_000)))})
	}
	if !errors.Is(err, object.ErrNoSpace) {
		t.Fatalf("got %v", err)
	}
	if _, err := c.Revision(contextFor(t)); err != nil {
		t.Error(err)
	}
}
