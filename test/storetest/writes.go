package storetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/poll"
)

// Writes tests commits.
func Writes(t *testing.T, open func(*testing.T) *Fixture) {
	run(t, open, map[string]func(*testing.T, *Fixture){
		"revision and deletions": revisionAndDeletions,
		"preconditions":          preconditions,
		"unseen objects":         unseenObjects,
		"returned records":       returnedRecords,
		"time to live":           timeToLive,
	})
}

// All changes of a commit have one revision, and it says what it has deleted.
func revisionAndDeletions(t *testing.T, f *Fixture) {
	first := f.commit(t, put("a", "1"), put("b", "1"))
	done, err := f.Commit(poll.Context(t), []object.Op{remove("a"), remove("absent"), put("b", "2"), when(0, check("new"))})
	if err != nil {
		t.Fatal(err)
	}
	if done.Revision != first+1 || !slices.Equal(done.Deleted, []bool{true, false, false, false}) {
		t.Errorf("got %+v after revision %d, want the next revision and one deletion", done, first)
	}
	// A commit without a change reports the current revision.
	done, err = f.Commit(poll.Context(t), []object.Op{remove("absent")})
	if err != nil || done.Revision != first+1 || done.Deleted[0] {
		t.Errorf("got %+v, %v, want revision %d and no deletion", done, err, first+1)
	}
	if got := show(f.list(t, first+1, object.Scope{}, 10)); got != "b=2" {
		t.Errorf("got the state %s", got)
	}
}

// A commit is applied as a whole if all its preconditions hold, and otherwise not at all.
func preconditions(t *testing.T, f *Fixture) {
	at := f.commit(t, put("k", "1"))
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
		_, err := f.Commit(poll.Context(t), tc.ops)
		var conflict *object.ConflictError
		switch {
		case tc.want == nil && err != nil:
			t.Errorf("%s: %v", name, err)
		case tc.want != nil && (!errors.As(err, &conflict) || conflict.Error() != tc.want.Error()):
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
	if now := f.now(t); now != at {
		t.Errorf("got revision %d, want %d: a failed commit must not write", now, at)
	}
	f.commit(t, when(at, put("k", "2")), when(0, put("new", "1")))
	if got := show(f.list(t, at+1, object.Scope{}, 10)); got != "k=2 new=1" {
		t.Errorf("got the state %s", got)
	}
}

// A commit replaces only objects that the server has seen. A precondition of the client that fails comes
// first, because the server must not try such a commit again.
func unseenObjects(t *testing.T, f *Fixture) {
	at := f.commit(t, put("k", "1"))
	seen := func(r object.Revision, op object.Op) object.Op {
		op.Seen = &object.Seen{ModRevision: r}
		return op
	}
	for name, ops := range map[string][]object.Op{
		"replaced meanwhile": {seen(at-1, put("k", "x")), put("other", "x")},
		"created meanwhile":  {seen(0, put("k", "x")), put("other", "x")},
		"never seen":         {seen(object.Unseen, put("k", "x")), put("other", "x")},
		"and a condition":    {when(at, seen(at-1, put("k", "x")))},
	} {
		_, err := f.Commit(poll.Context(t), ops)
		if stale, ok := errors.AsType[*object.StaleError](err); !ok || len(stale.Have) != len(ops) || stale.Have[0] != at || stale.At < at {
			t.Errorf("%s: got %v, want a StaleError that has revision %d", name, err, at)
		}
	}
	_, err := f.Commit(poll.Context(t), []object.Op{when(0, seen(at-1, put("k", "x")))})
	if conflict, ok := errors.AsType[*object.ConflictError](err); !ok || conflict.Have != at {
		t.Errorf("a condition fails: got %v, want a ConflictError that has revision %d", err, at)
	}
	if now := f.now(t); now != at {
		t.Errorf("got revision %d, want %d: a failed commit must not write", now, at)
	}
	f.commit(t, seen(at, put("k", "2")), seen(0, put("new", "1")))
	if got := show(f.list(t, at+1, object.Scope{}, 10)); got != "k=2 new=1" {
		t.Errorf("got the state %s", got)
	}
}

// A commit returns what it has deleted, or what is in its way, if it is asked to.
func returnedRecords(t *testing.T, f *Fixture) {
	at := f.commit(t, put("k", "1"), put("l", "1"))
	conflicting := []object.Op{when(at, put("k", "x")), when(0, put("l", "x")), when(0, put("none", "x")), when(0, check("k2"))}
	for i := range conflicting[:3] {
		conflicting[i].ReturnCurrent = true
	}
	_, err := f.Commit(poll.Context(t), conflicting)
	conflict, ok := errors.AsType[*object.ConflictError](err)
	if !ok || len(conflict.Current) != 4 {
		t.Fatalf("got %+v, want a ConflictError with 4 records", err)
	}
	for i, want := range []string{"k=1", "l=1", "", ""} {
		got := ""
		if r := conflict.Current[i]; r != nil {
			got = show([]object.Record{*r})
		}
		if got != want {
			t.Errorf("operation %d: got the current record %q, want %q", i, got, want)
		}
	}

	deleting := []object.Op{remove("k"), remove("l"), remove("none")}
	deleting[0].ReturnDeleted, deleting[2].ReturnDeleted = true, true
	done, err := f.Commit(poll.Context(t), deleting)
	if err != nil || len(done.Records) != 3 || done.Records[0] == nil || done.Records[1] != nil || done.Records[2] != nil {
		t.Fatalf("got %+v, %v, want the first deleted record only", done, err)
	}
	if r := done.Records[0]; r.Key != "k" || string(r.Value) != "1" || r.ModRevision != at {
		t.Errorf("got the deleted record %+v, want k=1 of revision %d", r, at)
	}
}

// A key with a time to live is removed by a revision of its own. A put that keeps the time to live keeps
// the lease, any other one drops it.
func timeToLive(t *testing.T, f *Fixture) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	mortal := func(key string, ttl time.Duration) object.Op {
		op := put(key, "v")
		op.TTL = ttl
		return op
	}
	keep := put("kept", "new")
	keep.KeepTTL = true
	done, err := f.Commit(poll.Context(t), []object.Op{
		mortal("mortal", 100*time.Millisecond), mortal("kept", time.Hour), mortal("freed", time.Hour), put("immortal", "v"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if l := done.Leases; l[0] == 0 || l[1] == 0 || l[2] == 0 || l[3] != 0 {
		t.Errorf("got the leases %v, want one for each of the first three", l)
	}
	w := f.watch(t, object.Scope{}, done.Revision, false)
	f.commit(t, keep, put("freed", "new"))
	for deleted := false; !deleted; {
		for _, r := range next(t, w).Records {
			deleted = deleted || r.Key == "mortal" && r.Deleted
		}
	}
	now := f.list(t, f.now(t), object.Scope{}, 10)
	if got := show(now); got != "freed=new immortal=v kept=new" {
		t.Fatalf("got the state %s after the time to live", got)
	}
	if freed, kept := now[0].Lease, now[2].Lease; freed != 0 || kept != done.Leases[1] {
		t.Errorf("got the leases %d and %d, want none and %d", freed, kept, done.Leases[1])
	}
}
