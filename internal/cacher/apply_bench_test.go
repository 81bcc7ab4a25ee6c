package cacher_test

import (
	"fmt"
	"testing"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/cachertest"
	"github.com/fanoutd/fanoutd/test/ratio"
)

// fullCacher returns a cacher with a full window. Its objects have 256 bytes and change in
// turn.
func fullCacher(tb testing.TB, objects, window int) (c *cacher.Cacher, m *cachertest.Generator, at object.Revision) {
	tb.Helper()
	keys := make([]object.Key, objects)
	for i := range keys {
		keys[i] = object.Key(fmt.Sprintf("folder-%d/%d", i/10, i%10))
	}
	value := make([]byte, 256)
	m = cachertest.NewGenerator(func(at object.Revision) []object.Record {
		i := int(at-2) % objects
		return []object.Record{{
			Key: keys[i], Value: value, CreateRevision: object.Revision(2 + i), ModRevision: at, Version: 1 + int64(int(at-2)/objects),
		}}
	})
	c = runQuietly(tb, m, func(cfg *cacher.Config) { cfg.Window = cacher.WindowLimits{MaxChanges: window, MaxBytes: 1 << 30} })
	at = object.Revision(1 + objects + window)
	reach(tb, c, m, at)
	if s := c.State(); s.Len() != objects || s.WindowLen() != window {
		tb.Fatalf("objects and changes: got %d and %d, want %d and %d", s.Len(), s.WindowLen(), objects, window)
	}
	return c, m, at
}

// BenchmarkApply measures the time from a change of the store to the state that contains
// it, for several numbers of objects and lengths of the window.
func BenchmarkApply(b *testing.B) {
	const objects, window = 1000, 1000
	run := func(row *ratio.Row, name string, objects, window int) {
		b.Run(name, func(b *testing.B) {
			c, m, at := fullCacher(b, objects, window)
			b.ReportAllocs()
			for b.Loop() {
				at++
				reach(b, c, m, at)
			}
			row.Report(b)
		})
	}
	var ofObjects, ofWindow ratio.Row
	for _, n := range []int{objects, 10_000, 100_000} {
		run(&ofObjects, fmt.Sprintf("objects=%d", n), n, window)
	}
	for _, n := range []int{window, 10_000, 100_000} {
		run(&ofWindow, fmt.Sprintf("window=%d", n), objects, n)
	}
}

func TestLongerWindowsAllocateNoMore(t *testing.T) {
	allocations := func(window int) float64 {
		c, m, at := fullCacher(t, 1000, window)
		return testing.AllocsPerRun(1000, func() {
			at++
			reach(t, c, m, at)
		})
	}
	short, long := allocations(1000), allocations(10_000)
	if long > short+1 {
		t.Errorf("allocations of a change: got %v with a window of 10000, want %v as with one of 1000", long, short)
	}
}
