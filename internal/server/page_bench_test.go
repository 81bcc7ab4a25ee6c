package server

import (
	"context"
	"fmt"
	"iter"
	"testing"

	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/request"
	"github.com/fanoutd/fanoutd/test/poll"
	"github.com/fanoutd/fanoutd/test/ratio"
)

// listed is a resource with so many objects of 100 bytes, in folders of ten.
func listed(tb testing.TB, objects int) backend.Source {
	tb.Helper()
	srv, memory := holding(tb)
	all := map[object.Key][]byte{}
	for i := range objects {
		all[object.Key(fmt.Sprintf("folder-%d/%d", i/10, i%10))] = make([]byte, 100)
	}
	at := memory.Commit(all)
	s := srv.resources["r"].Source()
	// The objects have arrived before anything reads them, so no read waits with a deadline.
	// What is counted or measured is not what the dispatcher does with the changes.
	poll.Until(tb, "the dispatcher has seen all objects", func() bool { return srv.resources["r"].Dispatcher.Stats().Through.Revision >= at })
	if n := listAll(tb, s, object.Scope{}, 0); n != objects {
		tb.Fatalf("there are %d objects, want %d", n, objects)
	}
	return s
}

// listAll reads the pages of a list, and returns how many objects it has.
func listAll(tb testing.TB, s backend.Source, scope object.Scope, pageSize int) int {
	tb.Helper()
	p, objects := request.FirstPage(request.Query{Resource: "r", Scope: scope}), 0
	for {
		v, err := firstView(tb.Context(), s, &request.List{Page: p})
		if err != nil {
			tb.Fatal(err)
		}
		response, err := readPage(tb.Context(), p, v, pageSize)
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
		if p, err = request.ParsePageToken(said.GetNextPageToken(), p.Query); err != nil {
			tb.Fatal(err)
		}
	}
}

// folder returns one of the folders of ten.
func folder(tb testing.TB) object.Scope {
	tb.Helper()
	scope, err := object.ParsePrefix("folder-7")
	if err != nil {
		tb.Fatal(err)
	}
	return scope
}

// BenchmarkList makes the responses of a list: of a folder of ten and of one key among so
// many objects; and of 150,000 objects in as few pages as they fit into, and in smaller
// ones.
func BenchmarkList(b *testing.B) {
	for _, one := range []struct {
		name  string
		scope object.Scope
		want  int
	}{{"scope of 10", folder(b), 10}, {"key", object.ExactKey("folder-7/7"), 1}} {
		var row ratio.Row
		for _, objects := range []int{100, 10_000, 100_000} {
			b.Run(fmt.Sprintf("%s/objects=%d", one.name, objects), func(b *testing.B) {
				s := listed(b, objects)
				b.ReportAllocs()
				for b.Loop() {
					if n := listAll(b, s, one.scope, 0); n != one.want {
						b.Fatalf("the list has %d objects", n)
					}
				}
				row.Report(b)
			})
		}
	}
	var row ratio.Row
	for _, pageSize := range []int{0, 1000, 100} {
		b.Run(fmt.Sprintf("all/page=%d", pageSize), func(b *testing.B) {
			const objects = 150_000
			s := listed(b, objects)
			b.ReportAllocs()
			for b.Loop() {
				if n := listAll(b, s, object.Scope{}, pageSize); n != objects {
					b.Fatalf("the list has %d objects", n)
				}
			}
			row.Report(b)
		})
	}
}

// looked is a source that counts the objects that are looked at.
type looked struct {
	backend.Source
	objects int
}

// lookedView is a view of it.
type lookedView struct {
	backend.View
	source *looked
}

func (l *looked) View(ctx context.Context, c request.Consistency) (backend.View, error) {
	v, err := l.Source.View(ctx, c)
	return lookedView{v, l}, err
}

func (l *looked) ViewAt(ctx context.Context, p object.Position) (backend.View, error) {
	v, err := l.Source.ViewAt(ctx, p)
	return lookedView{v, l}, err
}

func (v lookedView) Objects(ctx context.Context, scope object.Scope, start object.Key) iter.Seq2[*object.Object, error] {
	return func(yield func(*object.Object, error) bool) {
		for o, err := range v.View.Objects(ctx, scope, start) {
			v.source.objects++
			if !yield(o, err) {
				return
			}
		}
	}
}

// A list looks at the objects that it tells, however many others there are, and with
// each page at one more: whether there is a next page. To say how many remain it looks
// at none.
func TestListsLookAtWhatTheyTell(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	for _, objects := range []int{100, 100_000} {
		s := listed(t, objects)
		for _, c := range []struct {
			name           string
			scope          object.Scope
			page           int
			tells, further int
		}{
			{"everything in ten pages", object.Scope{}, objects / 10, objects, 9},
			{"a folder of ten", folder(t), 0, 10, 0},
			{"a folder of ten in pages", folder(t), 2, 10, 4},
			{"a key", object.ExactKey("folder-7/7"), 0, 1, 0},
			{"no key", object.ExactKey("folder-7"), 0, 0, 0},
		} {
			counted := &looked{Source: s}
			if n := listAll(t, counted, c.scope, c.page); n != c.tells {
				t.Errorf("%s of %d objects: the list has %d objects, want %d", c.name, objects, n, c.tells)
			}
			if counted.objects != c.tells+c.further {
				t.Errorf("%s of %d objects: looked at %d objects, want %d and %d", c.name, objects, counted.objects, c.tells, c.further)
			}
		}
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
