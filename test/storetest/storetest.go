// Package storetest has the tests of the contract of a store: what package cacher, package direct and the
// handlers of writes rely on. Each store runs them.
package storetest

import (
	"context"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/poll"
)

// Fixture is a store under test, with an empty collection.
type Fixture struct {
	cacher.Store // of the collection; it may implement more, such as direct.Store

	// Commit writes to the collection. Tests of Reads use neither preconditions nor times to live.
	Commit func(ctx context.Context, ops []object.Op) (object.Commit, error)

	// Elsewhere makes a revision without a change of the collection.
	Elsewhere func(t testing.TB) object.Revision

	// Compact makes the store forget the revisions before the one given.
	Compact func(t testing.TB, at object.Revision)

	// Restore begins another epoch. Nil: the store has other tests of its epochs.
	Restore func(t testing.TB)

	// ForCaches means that Watch ignores the scope, and has no previous records. A cache needs neither.
	ForCaches bool

	epoch object.Epoch // at the beginning of the test
}

func run(t *testing.T, open func(*testing.T) *Fixture, tests map[string]func(*testing.T, *Fixture)) {
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := open(t)
			var err error
			if f.epoch, err = f.Epoch(poll.Context(t)); err != nil { // a new store may write its epoch now
				t.Fatal(err)
			}
			test(t, f)
		})
	}
}

func put(key, value string) object.Op {
	return object.Op{Kind: object.OpPut, Key: object.Key(key), Value: []byte(value)}
}

func remove(key string) object.Op { return object.Op{Kind: object.OpDelete, Key: object.Key(key)} }

func check(key string) object.Op { return object.Op{Kind: object.OpCheck, Key: object.Key(key)} }

// when adds a precondition to an operation.
func when(r object.Revision, op object.Op) object.Op {
	op.If = &r
	return op
}

// prefix returns the scope of the keys below a path.
func prefix(t testing.TB, path string) object.Scope {
	t.Helper()
	s, err := object.ParsePrefix(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// commit applies operations and fails the test if they fail.
func (f *Fixture) commit(t testing.TB, ops ...object.Op) object.Revision {
	t.Helper()
	done, err := f.Commit(poll.Context(t), ops)
	if err != nil {
		t.Fatal(err)
	}
	return done.Revision
}

// now returns the present revision.
func (f *Fixture) now(t testing.TB) object.Revision {
	t.Helper()
	r, err := f.Revision(poll.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// list reads all records of a scope in pages of the given size.
func (f *Fixture) list(t testing.TB, at object.Revision, scope object.Scope, page int) (all []object.Record) {
	t.Helper()
	for start := object.Key(""); ; {
		records, more, err := f.List(poll.Context(t), at, scope, start, page)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, records...)
		if !more {
			return all
		}
		if len(records) == 0 || len(records) > page {
			t.Fatalf("got a page of %d records, and more; want 1 to %d", len(records), page)
		}
		start = records[len(records)-1].Key + "\x00"
	}
}

// watch opens a watch of the epoch of the test. The test closes it when it ends.
func (f *Fixture) watch(t testing.TB, scope object.Scope, after object.Revision, previous bool) object.Watch {
	t.Helper()
	w, err := f.Watch(poll.Context(t), scope, object.Position{Epoch: f.epoch, Revision: after}, previous)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// next returns the next update that has records.
func next(t testing.TB, w object.Watch) object.Update {
	t.Helper()
	for {
		u, err := w.Next(poll.Context(t))
		if err != nil {
			t.Fatal(err)
		}
		if len(u.Records) > 0 {
			return u
		}
	}
}

// end returns the error that ends a watch.
func end(t testing.TB, w object.Watch) error {
	t.Helper()
	for {
		if _, err := w.Next(poll.Context(t)); err != nil {
			return err
		}
	}
}

// show formats records: key=value, or -key for a deletion.
func show(records []object.Record) string {
	var all []string
	for _, r := range records {
		if r.Deleted {
			all = append(all, "-"+string(r.Key))
		} else {
			all = append(all, string(r.Key)+"="+string(r.Value))
		}
	}
	return strings.Join(all, " ")
}
