package store_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store"
)

func TestCommitReportsRevisionAndDeletions(t *testing.T) {
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
			t.Errorf("got %+v after revision %d, want the next revision and one deletion", done, first)
		}
		// A commit without a change reports the current revision.
		done, err = c.Commit(contextFor(t), []object.Op{remove("absent")})
		if err != nil || done.Revision != first+1 || done.Deleted[0] {
			t.Errorf("got %+v, %v, want revision %d and no deletion", done, err, first+1)
		}
		if got := show(list(t, c, first+1, 10)); got != "b=2" {
			t.Errorf("got the state %s", got)
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
			"must not exist, but does":         {[]object.Op{when(0, put("k", "x"))}, &object.ConflictError{Key: "k", Want: 0, Have: at, At: at}},
			"has another revision":             {[]object.Op{when(at-1, put("k", "x"))}, &object.ConflictError{Key: "k", Want: at - 1, Have: at, At: at}},
			"must exist, but does not":         {[]object.Op{when(at, remove("none"))}, &object.ConflictError{Key: "none", Want: at, Have: 0, At: at}},
			"one of several fails":             {[]object.Op{when(at, put("k", "x")), put("other", "x"), when(7, check("checked"))}, &object.ConflictError{Key: "checked", Want: 7, Have: 0, At: at}},
			"the first of several is reported": {[]object.Op{when(7, put("k", "x")), when(8, put("l", "x"))}, &object.ConflictError{Key: "k", Want: 7, Have: at, At: at}},
			"check fails":                      {[]object.Op{when(0, check("k"))}, &object.ConflictError{Key: "k", Want: 0, Have: at, At: at}},
			"checks hold":                      {[]object.Op{when(at, check("k")), when(0, check("none"))}, nil},
		}
		for name, tc := range tests {
			_, err := c.Commit(contextFor(t), tc.ops)
			var conflict *object.ConflictError
			switch {
			case tc.want == nil && err != nil:
				t.Errorf("%s: %v", name, err)
			case tc.want != nil && (!errors.As(err, &conflict) || conflict.Error() != tc.want.Error()):
				t.Errorf("%s: %v, want %v", name, err, tc.want)
			}
		}
		now, err := c.Revision(contextFor(t))
		if err != nil || now != at {
			t.Errorf("got revision %d, %v, want %d: a failed commit must not write", now, err, at)
		}
		commit(t, c, when(at, put("k", "2")), when(0, put("new", "1")))
		if got := show(list(t, c, at+1, 10)); got != "k=2 new=1" {
			t.Errorf("got the state %s", got)
		}
	})
}

func TestTimeToLive(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	both(t, func(t *testing.T, e *etcd) {
		c := e.collection()
		mortal := put("mortal", "v")
		mortal.TTL = 100 * time.Millisecond // rounded up to a whole second
		at := commit(t, c, mortal, put("immortal", "v"))
		if got := show(next(t, watch(t, c, at)).Records); got != "-mortal" {
			t.Errorf("got %s, want -mortal", got)
		}
	})
}

func TestCommitRefusesALargeWrite(t *testing.T) {
	both(t, func(t *testing.T, e *etcd) {
		c := e.collection()
		before := commit(t, c, put("k", "v"))
		_, err := c.Commit(contextFor(t), []object.Op{put("k", string(make([]byte, 2<<20)))})
		if !errors.Is(err, object.ErrTooLarge) {
			t.Errorf("got %v, want %v", err, object.ErrTooLarge)
		}
		if now, err := c.Revision(contextFor(t)); err != nil || now != before {
			t.Errorf("got revision %d, %v, want %d", now, err, before)
		}
	})
}

// A full etcd refuses writes and still serves reads.
func TestFullEtcdServesReads(t *testing.T) {
	c := embedded(t, store.EmbeddedConfig{QuotaBytes: 1 << 20}).collection()
	// etcd checks the quota when it commits to disk, ten times a second.
	ctx := contextFor(t)
	var err error
	for err == nil {
		_, err = c.Commit(ctx, []object.Op{put("k", string(make([]byte, 100_000)))})
	}
	if !errors.Is(err, object.ErrNoSpace) {
		t.Fatalf("got %v, want %v", err, object.ErrNoSpace)
	}
	if _, err := c.Revision(contextFor(t)); err != nil {
		t.Error(err)
	}
}
