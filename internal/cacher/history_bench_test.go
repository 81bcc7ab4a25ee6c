package cacher_test

import (
	"fmt"
	"testing"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/ratio"
)

// BenchmarkCount counts the objects from a key on: at present, for several numbers of
// objects, and in the past, for several numbers of changes since.
func BenchmarkCount(b *testing.B) {
	run := func(row *ratio.Row, name string, objects, ago int) {
		b.Run(name, func(b *testing.B) {
			c, _, at := fullCacher(b, objects, 10_000)
			s := c.State()
			var start object.Key
			for o := range s.Objects(object.Scope{}, "") {
				if start = o.Key; o.CreateRevision() == object.Revision(objects/2) {
					break
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := s.CountAt(at-object.Revision(ago), object.Scope{}, start); !ok {
					b.Fatal("the revision is not in the window")
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

// BenchmarkPast lists objects as they were a number of changes ago: one page, and all.
func BenchmarkPast(b *testing.B) {
	const objects = 100_000
	for _, take := range []int{1000, objects} {
		var row ratio.Row
		for _, ago := range []int{1, 100, 10_000} {
			b.Run(fmt.Sprintf("take=%d/changes=%d", take, ago), func(b *testing.B) {
				c, _, at := fullCacher(b, objects, 10_000)
				s := c.State()
				b.ReportAllocs()
				for b.Loop() {
					past, ok := s.ObjectsAt(at-object.Revision(ago), object.Scope{}, "")
					if !ok {
						b.Fatal("the revision is not in the window")
					}
					n := 0
					for range past {
						if n++; n == take {
							break
						}
					}
				}
				row.Report(b)
			})
		}
	}
}
