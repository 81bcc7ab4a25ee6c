package server

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/request"
	"github.com/fanoutd/fanoutd/internal/wire"
	"github.com/fanoutd/fanoutd/test/cachertest"
	"github.com/fanoutd/fanoutd/test/poll"
	"github.com/fanoutd/fanoutd/test/ratio"
)

// loadedSource returns a resource with the given number of objects of 100 bytes, in
// folders of ten.
func loadedSource(tb testing.TB, objects int) backend.Source {
	tb.Helper()
	srv, memory := startWithoutListener(tb)
	all := map[object.Key][]byte{}
	for i := range objects {
		all[object.Key(fmt.Sprintf("folder-%d/%d", i/10, i%10))] = make([]byte, 100)
	}
	at := memory.Commit(all)
	s := srv.resources["r"].Source()
	// Wait until the dispatcher has handled all changes. Then no read has to wait, and its
	// work is not part of a measurement.
	poll.Until(tb, "the dispatcher has seen all objects", func() bool { return srv.resources["r"].Dispatcher.Stats().DispatchedUpTo.Revision >= at })
	if n := listAll(tb, s, object.Scope{}, 0); n != objects {
		tb.Fatalf("got %d objects, want %d", n, objects)
	}
	return s
}

// listAll reads all pages of a list and returns the number of its objects.
func listAll(tb testing.TB, s backend.Source, scope object.Scope, pageSize int) int {
	tb.Helper()
	p, objects := request.FirstPage(request.Query{Resource: "r", Scope: scope}), 0
	for {
		v, err := firstView(tb.Context(), s, &request.List{Page: p})
		if err != nil {
			tb.Fatal(err)
		}
		response, err := readPage(tb.Context(), &request.List{Page: p, PageSize: pageSize}, v)
		if err != nil {
			tb.Fatal(err)
		}
		end := len(response) - 1
		objects += end
		var trailer fanoutv1.ListResponse
		if err := proto.Unmarshal(response[end].ReadOnlyData(), &trailer); err != nil {
			tb.Fatal(err)
		}
		if trailer.GetNextPageToken() == "" {
			return objects
		}
		if p, err = request.ParsePageToken(trailer.GetNextPageToken(), p.Query); err != nil {
			tb.Fatal(err)
		}
	}
}

// folder returns the scope of a folder of ten objects.
func folder(tb testing.TB) object.Scope {
	tb.Helper()
	scope, err := object.ParsePrefix("folder-7")
	if err != nil {
		tb.Fatal(err)
	}
	return scope
}

// BenchmarkList measures how long the server takes to make the responses of a list. The
// lists are a folder of ten objects and a single key, both in resources of several sizes,
// and all of 150,000 objects with several page sizes (0 is the largest possible).
func BenchmarkList(b *testing.B) {
	for _, one := range []struct {
		name  string
		scope object.Scope
		want  int
	}{{"scope of 10", folder(b), 10}, {"key", object.ExactKey("folder-7/7"), 1}} {
		var row ratio.Row
		for _, objects := range []int{100, 10_000, 100_000} {
			b.Run(fmt.Sprintf("%s/objects=%d", one.name, objects), func(b *testing.B) {
				s := loadedSource(b, objects)
				b.ReportAllocs()
				for b.Loop() {
					if n := listAll(b, s, one.scope, 0); n != one.want {
						b.Fatalf("got %d objects, want %d", n, one.want)
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
			s := loadedSource(b, objects)
			b.ReportAllocs()
			for b.Loop() {
				if n := listAll(b, s, object.Scope{}, pageSize); n != objects {
					b.Fatalf("got %d objects, want %d", n, objects)
				}
			}
			row.Report(b)
		})
	}
}

// countingSource counts the objects that lists visit.
type countingSource struct {
	backend.Source
	visited int
}

type countingView struct {
	backend.View
	source *countingSource
}

func (l *countingSource) View(ctx context.Context, c object.Consistency) (backend.View, error) {
	v, err := l.Source.View(ctx, c)
	return countingView{v, l}, err
}

func (l *countingSource) ViewAt(ctx context.Context, p object.Position) (backend.View, error) {
	v, err := l.Source.ViewAt(ctx, p)
	return countingView{v, l}, err
}

func (v countingView) Objects(ctx context.Context, scope object.Scope, start object.Key) iter.Seq2[*object.Object, error] {
	return func(yield func(*object.Object, error) bool) {
		for o, err := range v.View.Objects(ctx, scope, start) {
			v.source.visited++
			if !yield(o, err) {
				return
			}
		}
	}
}

// A list visits only the objects that it returns, however many others there are. Each page
// but the last visits one more, to learn that there is a next page. The remaining count
// visits none.
func TestListsVisitOnlyTheObjectsTheyReturn(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	for _, objects := range []int{100, 100_000} {
		s := loadedSource(t, objects)
		for _, c := range []struct {
			name              string
			scope             object.Scope
			page              int
			returned, further int
		}{
			{"everything in ten pages", object.Scope{}, objects / 10, objects, 9},
			{"a folder of ten", folder(t), 0, 10, 0},
			{"a folder of ten in pages", folder(t), 2, 10, 4},
			{"a key", object.ExactKey("folder-7/7"), 0, 1, 0},
			{"no key", object.ExactKey("folder-7"), 0, 0, 0},
		} {
			counting := &countingSource{Source: s}
			if n := listAll(t, counting, c.scope, c.page); n != c.returned {
				t.Errorf("%s of %d objects: got %d objects, want %d", c.name, objects, n, c.returned)
			}
			if want := c.returned + c.further; counting.visited != want {
				t.Errorf("%s of %d objects: got %d visited objects, want %d", c.name, objects, counting.visited, want)
			}
		}
	}
}

// The response of a list allocates nothing per object. A larger list only makes some
// slices grow more often.
func TestListsAllocateNothingForEachObject(t *testing.T) {
	allocations := func(objects int) float64 {
		s := loadedSource(t, objects)
		return testing.AllocsPerRun(10, func() { listAll(t, s, object.Scope{}, 0) })
	}
	few, many := allocations(100), allocations(10_000)
	if many > few+100 {
		t.Errorf("got %v allocations for 10,000 objects and %v for 100, want at most 100 more", many, few)
	}
}

// startWithoutListener returns a server without connections, and the store of its only resource, "r".
func startWithoutListener(tb testing.TB) (*Server, *cachertest.Memory) {
	tb.Helper()
	codec, err := object.CodecByName("raw")
	if err != nil {
		tb.Fatal(err)
	}
	memory := cachertest.NewMemory()
	log := slog.New(slog.DiscardHandler)
	c := cacher.New(cacher.Config{Resource: "r", Store: memory, Codec: codec, Preencode: wire.Preencode, Log: log})
	d := dispatch.New(feed.Config{Source: c, Encoder: wire.Encoder{}})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	running.Go(func() { d.Run(ctx) })
	srv := New(Config{Resources: []backend.Resource{{Name: "r", Codec: codec, Cacher: c, Dispatcher: d}}, Log: log})
	tb.Cleanup(func() {
		cancel()
		running.Wait()
		srv.Stop(context.Background())
	})
	<-c.Ready()
	return srv, memory
}
