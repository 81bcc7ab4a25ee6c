package server

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/ratio"
)

// listed is a resource with so many objects of 100 bytes, in folders of ten.
func listed(tb testing.TB, objects int) source {
	tb.Helper()
	srv, memory := holding(tb)
	all := map[object.Key][]byte{}
	for i := range objects {
		all[object.Key(fmt.Sprintf("folder-%d/%d", i/10, i%10))] = make([]byte, 100)
	}
	memory.Commit(all)
	s := srv.resources["r"].source()
	if n := listAll(tb, s, object.Scope{}, 0); n != objects { // who reads first waits for it
		tb.Fatalf("there are %d objects, want %d", n, objects)
	}
	return s
}

// listAll reads the pages of a list, and returns how many objects it has.
func listAll(tb testing.TB, s source, scope object.Scope, pageSize int) int {
	tb.Helper()
	p, objects := firstPage(query{Resource: "r", Scope: scope}), 0
	for {
		v, err := p.view(tb.Context(), s, consistency{})
		if err != nil {
			tb.Fatal(err)
		}
		response, err := p.read(tb.Context(), v, pageSize)
		if err != nil {
			tb.Fatal(err)
		}
		end := len(response) - 1
		objects += end
		var said fanoutv1.ListResponse
		if err := proto.Unmarshal(response[end].ReadOnlyData(), &said); err != nil {
			tb.Fatal(err)
		}
		if said.GetNextPageToken() == "" {
			return objects
		}
		if p, err = parsePageToken(said.GetNextPageToken(), p.query); err != nil {
			tb.Fatal(err)
		}
	}
}

// BenchmarkList makes the responses of a list: of a folder of ten among so many objects;
// and of ten thousand objects in one piece and in pages.
func BenchmarkList(b *testing.B) {
	var ofScopes, ofPages ratio.Row
	folder, err := object.ParsePrefix("folder-7")
	if err != nil {
		b.Fatal(err)
	}
	for _, objects := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("scope of 10/objects=%d", objects), func(b *testing.B) {
			s := listed(b, objects)
			b.ReportAllocs()
			for b.Loop() {
				if n := listAll(b, s, folder, 0); n != 10 {
					b.Fatalf("the list has %d objects", n)
				}
			}
			ofScopes.Report(b)
		})
	}
	for _, pageSize := range []int{10_000, 1000} {
		b.Run(fmt.Sprintf("all/page=%d", pageSize), func(b *testing.B) {
			s := listed(b, 10_000)
			b.ReportAllocs()
			for b.Loop() {
				if n := listAll(b, s, object.Scope{}, pageSize); n != 10_000 {
					b.Fatalf("the list has %d objects", n)
				}
			}
			ofPages.Report(b)
		})
	}
}

// The response of a list allocates nothing for each object: a larger one makes some
// slices grow once more.
func TestListsAllocateNothingForEachObject(t *testing.T) {
	allocations := func(objects int) float64 {
		s := listed(t, objects)
		return testing.AllocsPerRun(10, func() { listAll(t, s, object.Scope{}, 0) })
	}
	few, many := allocations(100), allocations(10_000)
	if many > few+100 {
		t.Errorf("a list of 100 objects allocates %v times, and one of 10,000 %v times", few, many)
	}
}
