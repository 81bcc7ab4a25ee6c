package cacher_test

import (
	"fmt"
	"maps"
	"runtime"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/cachertest"
	"github.com/fanoutd/fanoutd/test/seed"
)

// An older state of many objects is computed chunk by chunk and is right, whatever scope
// and key a read begins with.
func TestOlderStatesOfManyObjects(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	random := seed.New(t).Rand(0)
	m := cachertest.NewMemory()
	key := func() object.Key { return object.Key(fmt.Sprintf("%c/%05d", 'a'+random.IntN(3), random.IntN(8000))) }
	all := map[object.Key][]byte{}
	for range 12_000 {
		all[key()] = []byte("then")
	}
	first := m.Commit(all)
	c := run(t, m, windowOf(10_000), func(cfg *cacher.Config) { cfg.PageSize = 10_000 })
	read(t, c, object.Consistency{})
	for range 50 {
		writes := map[object.Key][]byte{}
		for n := range 60 {
			if random.IntN(2) == 0 {
				writes[key()] = nil
			} else {
				writes[key()] = []byte(strconv.Itoa(n))
			}
		}
		m.Commit(writes)
	}
	s := read(t, c, object.Consistency{})
	if s.Len() < 8000 {
		t.Fatalf("objects: got %d, want at least 8000", s.Len())
	}
	folder, err := object.ParsePrefix("b")
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []object.Revision{first, first + 1, first + 25, first + 50} {
		state := m.State(at)
		for _, scope := range []object.Scope{{}, folder, object.ExactKey(key())} {
			for _, start := range []object.Key{"", key(), key()} {
				want := maps.Clone(state)
				maps.DeleteFunc(want, func(k object.Key, _ string) bool { return !scope.Contains(k) || k < start })
				objects, ok := s.ObjectsAt(at, scope, start)
				if !ok {
					t.Fatalf("revision %d: got false, want true", at)
				}
				if diff := cmp.Diff(want, values(t, objects)); diff != "" {
					t.Errorf("objects of %v from %q on at %d (-want +got):\n%s", scope, start, at, diff)
				}
				if n, ok := s.CountAt(at, scope, start); !ok || n != len(want) {
					t.Errorf("count of %v from %q on at %d: got %d, want %d", scope, start, at, n, len(want))
				}
			}
		}
	}
}

// A reader of one page of an older state pays for the changes of its page, and not for all later
// ones.
func TestPageOfAnOlderStateNeedsLittleMemory(t *testing.T) {
	const changes, page, reads = 10_000, 100, 10
	c, _, at := fullCacher(t, 2*changes, changes)
	s := c.State()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range reads {
		objects, ok := s.ObjectsAt(at-changes, object.Scope{}, "")
		if !ok {
			t.Fatal("the revision is not in the window")
		}
		n := 0
		for range objects {
			if n++; n == page {
				break
			}
		}
	}
	runtime.ReadMemStats(&after)
	const most = changes * 8 / 2 // a pointer to every second change
	if n := (after.TotalAlloc - before.TotalAlloc) / reads; n > most {
		t.Errorf("allocated %d bytes for a page, want at most %d", n, most)
	}
}
