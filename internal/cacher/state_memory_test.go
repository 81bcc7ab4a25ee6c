package cacher_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/cachertest"
)

// filled is a store that begins with an object for each key. Then they change.
type filled struct {
	*cachertest.Generator
	keys  []object.Key
	value int // size of the values
}

func (s filled) record(key object.Key, created, at object.Revision) object.Record {
	return object.Record{Key: key, Value: make([]byte, s.value), CreateRevision: created, ModRevision: at, Version: int64(at)}
}

// Oldest implements cacher.Store.
func (s filled) Oldest(_ context.Context, _, ceiling object.Revision) (object.Revision, error) {
	return ceiling, nil
}

// List implements cacher.Store.
func (s filled) List(_ context.Context, at object.Revision, _ object.Scope, start object.Key, limit int) ([]object.Record, bool, error) {
	var first int
	if start != "" {
		_, _ = fmt.Sscanf(string(start), "%d", &first)
		first++
	}
	last := min(first+limit, len(s.keys))
	var records []object.Record
	for i := first; i < last; i++ {
		records = append(records, s.record(s.keys[i], object.Revision(i+1), object.Revision(i+1)))
	}
	return records, last < len(s.keys), nil
}

// A state costs little more memory than the bytes of its objects, with its trees: after a start,
// and after all objects have changed.
func TestMemoryOfAState(t *testing.T) {
	for value, most := range map[int]int{256: 400, 1024: 1250} {
		t.Run(fmt.Sprint(value), func(t *testing.T) { testMemory(t, value, most) })
	}
}

func testMemory(t *testing.T, value, most int) {
	const objects, window = 100_000, 100
	keys := make([]object.Key, objects)
	for i := range keys {
		keys[i] = object.Key(fmt.Sprintf("%07d", i))
	}
	order := rand.New(rand.NewPCG(1, 2)).Perm(objects)
	s := filled{keys: keys, value: value}
	s.Generator = cachertest.NewGenerator(func(at object.Revision) []object.Record {
		i := order[int(at)%objects]
		return []object.Record{s.record(keys[i], object.Revision(i+1), at)}
	})
	s.Advance(objects)
	before := live()
	c := runQuietly(t, s, func(cfg *cacher.Config) { cfg.Window = cacher.WindowLimits{MaxChanges: window} })
	<-c.Ready()
	check := func(when string) {
		t.Helper()
		if n := c.State().Len(); n != objects {
			t.Fatalf("%s: got %d objects, want %d", when, n, objects)
		}
		got := (live() - before) / objects
		t.Logf("%s: %d bytes for each object", when, got)
		if int(got) > most {
			t.Errorf("%s: got %d bytes for each object, want at most %d", when, got, most)
		}
	}
	check("after the start")
	reach(t, c, s.Generator, 2*objects)
	check("after a change of each object")
	runtime.KeepAlive(c)
}

// live returns the bytes of all reachable objects on the heap.
func live() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
