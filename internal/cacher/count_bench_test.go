package cacher_test

import (
	"fmt"
	"testing"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/ratio"
)

// BenchmarkCount counts the objects from a key on: now, among so many of them, and as it
// was so many changes ago.
func BenchmarkCount(b *testing.B) {
	run := func(row *ratio.Row, name string, objects, ago int) {
		b.Run(name, func(b *testing.B) {
			c, _, at := settled(b, objects, 10_000)
			s := c.State()
			var start object.Key
			for o := range s.Objects(object.Scope{}, "") {
				if start = o.Key; o.CreateRevision == object.Revision(objects/2) {
					break
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := s.CountAt(at-object.Revision(ago), object.Scope{}, start); !ok {
					b.Fatal("it is not known")
				}
			}
			row.Report(b)
		})
	}
	var ofObjects, ofChanges ratio.Row
	for _, n := range []int{1000, 10_000, 100_000} {
		run(&ofObjects, fmt.Sprintf("objects=%d", n), n, 0)
	}
	for _, n := range []int{1, 100, 10_000} {
		run(&ofChanges, fmt.Sprintf("changes=%d", n), 100_000, n)
	}
}
