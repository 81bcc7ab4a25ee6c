package cacher_test

import (
	"fmt"
	"testing"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/cachertest"
	"github.com/fanoutd/fanoutd/test/ratio"
)

// settled is a cacher of so many objects of 256 bytes, of which one after the other
// changes. The window is full.
func settled(tb testing.TB, objects, window int) (c *cacher.Cacher, m *cachertest.Generator, at object.Revision) {
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
		tb.Fatalf("there are %d objects and a window of %d", s.Len(), s.WindowLen())
	}
	return c, m, at
}

// BenchmarkApply is the way of a change from the store to the state that has it: of
// different numbers of objects, with windows of different lengths.
func BenchmarkApply(b *testing.B) {
	const objects, window = 1000, 1000
	run := func(row *ratio.Row, name string, objects, window int) {
		b.Run(name, func(b *testing.B) {
			c, m, at := settled(b, objects, window)
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

// A change allocates as often with a window ten times larger.
func TestLongerWindowsAllocateNoMore(t *testing.T) {
	allocations := func(window int) float64 {
		c, m, at := settled(t, 1000, window)
		return testing.AllocsPerRun(1000, func() {
			at++
			reach(t, c, m, at)
		})
	}
	short, long := allocations(1000), allocations(10_000)
	if long > short+1 {
		t.Errorf("a change allocates %v times with a window of 1000 changes, and %v times with one of 10000", short, long)
	}
}
