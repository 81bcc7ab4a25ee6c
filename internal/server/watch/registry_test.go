package watch

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/frames"
)

// fakeStream is a stream whose watches have the indexes from 1 on.
type fakeStream struct {
	number   uint64
	watches  int
	resource string
	ended    []error
	asked    int // calls of After
}

type fakeWatch struct {
	Watch
	n        Number
	resource string
}

func (w fakeWatch) Number() Number   { return w.n }
func (w fakeWatch) Resource() string { return w.resource }

func (s *fakeStream) Conn() *frames.Conn   { return nil }
func (s *fakeStream) Len() int             { return s.watches }
func (s *fakeStream) Reexamine() int       { return s.watches }
func (s *fakeStream) EndAll(reason error)  { s.ended = append(s.ended, reason) }
func (s *fakeStream) CheckFence(time.Time) {}

func (s *fakeStream) After(index uint32) iter.Seq[Watch] {
	s.asked++
	return func(yield func(Watch) bool) {
		for i := index + 1; i <= uint32(s.watches); i++ {
			if !yield(s.Find(i)) {
				return
			}
		}
	}
}

func (s *fakeStream) Find(index uint32) Watch {
	return fakeWatch{n: Number{s.number, index}, resource: s.resource}
}

var _ Stream = (*fakeStream)(nil)

// fill registers watches 1 and 3 of resource a, a stream 2 with watches of a, and a stream 4
// with watches of b.
func fill(t *testing.T, r *Registry) (a, b *fakeStream) {
	t.Helper()
	a, b = &fakeStream{watches: 3, resource: "a"}, &fakeStream{watches: 2, resource: "b"}
	for _, s := range []*fakeStream{a, b} {
		e := &Entry{resource: &backend.Resource{Name: "a"}}
		if err := r.register(e, func(error) {}); err != nil {
			t.Fatal(err)
		}
		r.markComplete(e)
		var err error
		if s.number, err = r.RegisterStream(s); err != nil {
			t.Fatal(err)
		}
		for range s.watches {
			r.CountBegun(s.resource)
		}
	}
	return a, b
}

// Watches of streams are listed between the other watches, in the order of their numbers.
func TestTheRegistryListsWatchesInOrder(t *testing.T) {
	r := newRegistry()
	fill(t, r)
	all := []Number{{1, 0}, {2, 1}, {2, 2}, {2, 3}, {3, 0}, {4, 1}, {4, 2}}
	for i := range all {
		var got []Number
		for w := range r.After(all[i], "a", "b") {
			got = append(got, w.Number())
			if found := r.Find(r.ID(w.Number())); found == nil || found.Number() != w.Number() {
				t.Errorf("Find returned %v for the id of %v", found, w.Number())
			}
		}
		if !slices.Equal(got, all[i+1:]) {
			t.Errorf("got %v after %v, want %v", got, all[i], all[i+1:])
		}
	}
	for w := range r.After(Number{}, "a", "b") {
		if w.Number() != all[0] {
			t.Errorf("got %v first, want %v", w.Number(), all[0])
		}
		break
	}
	if n := r.CountByResource(); n["a"] != 5 || n["b"] != 2 {
		t.Errorf("got %v watches, want 5 of a and 2 of b", n)
	}
	if n := r.reexamine(func(*Entry) error { return errors.New("denied") }); n != 7 {
		t.Errorf("reexamine ended %d watches, want 7", n)
	}
}

// The counts look at no stream, and a page looks at those of its own watches, however many RPCs there
// are, and after most of them have gone.
func TestAPageOfWatchesLooksAtNoOthers(t *testing.T) {
	r := newRegistry()
	const streams, watches = 5 * fewRPCs, 3
	all := make([]*fakeStream, streams)
	for i := range all {
		s := &fakeStream{watches: watches, resource: "a"}
		all[i] = s
		var err error
		if s.number, err = r.RegisterStream(s); err != nil {
			t.Fatal(err)
		}
		for range watches {
			r.CountBegun("a")
		}
	}
	var left []*fakeStream
	for i, s := range all {
		if i%5 == 2 {
			left = append(left, s)
			continue
		}
		r.UnregisterStream(s.number)
		for range watches {
			r.CountEnded("a", false)
		}
	}
	r.NoteReport("a", true)
	r.NoteReport("a", true)
	r.CountEnded("a", true)
	if n, failing := r.CountByResource()["a"], r.CountFailing("a", "b"); n != watches*len(left)-1 || failing != 1 {
		t.Errorf("got %d watches and %d that fail, want %d and 1", n, failing, watches*len(left)-1)
	}
	for _, first := range []int{0, len(left) / 2, len(left) - 2} {
		var page []Number
		for w := range r.After(Number{left[first].number, 1}, "a") {
			if page = append(page, w.Number()); len(page) == 2*watches-2 {
				break
			}
		}
		one, two := left[first].number, left[first+1].number
		if want := []Number{{one, 2}, {one, 3}, {two, 1}, {two, 2}}; !slices.Equal(page, want) {
			t.Errorf("got the page %v, want %v", page, want)
		}
	}
	asked := 0
	for _, s := range all {
		asked += s.asked
	}
	if asked != 6 {
		t.Errorf("three pages of two streams each looked at %d streams", asked)
	}
	if n := len(r.rpcs.all); n > 2*len(left)+32 {
		t.Errorf("the registry has room for %d RPCs, and has %d", n, len(left))
	}
}

// Only the ids that the registry gives out have numbers.
func TestIDsOfWatches(t *testing.T) {
	r := newRegistry()
	for _, n := range []Number{{1, 0}, {1 << 63, 0}, {7, 1}, {7, 1<<32 - 1}} {
		if got, ok := r.Number(r.ID(n)); !ok || got != n {
			t.Errorf("got %v, %v for the id of %v", got, ok, n)
		}
	}
	for _, rest := range []string{"", "1", "-", "-x", "-1.", "-1.0", "-1.x", "-1.4294967296", "-1.1.1", "-1 "} {
		if n, ok := r.Number(r.prefix + rest); ok {
			t.Errorf("got %v for the id %q, want none", n, rest)
		}
	}
	if _, ok := r.Number("other-1"); ok {
		t.Error("got a number for the id of another server")
	}
}

// In a drain, the watches of a stream end together, and have their share of the period.
func TestStreamsDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry()
		large, small := &fakeStream{watches: 800}, &fakeStream{watches: 200}
		for _, s := range []*fakeStream{large, small} {
			var err error
			if s.number, err = r.RegisterStream(s); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		r.drain(t.Context(), 10*time.Second)
		if took := time.Since(began); took < 8*time.Second || took > 10*time.Second {
			t.Errorf("the drain took %v, want 8s to 10s", took)
		}
		for _, s := range []*fakeStream{large, small} {
			if fmt.Sprint(s.ended) != fmt.Sprint([]error{apierr.ErrDrainedInTurn}) {
				t.Errorf("got the ends %v of a stream, want one", s.ended)
			}
		}
		if _, err := r.RegisterStream(&fakeStream{}); !errors.Is(err, apierr.ErrDraining) {
			t.Errorf("got %v for a new stream, want %v", err, apierr.ErrDraining)
		}
		r.UnregisterStream(large.number)
		r.UnregisterStream(small.number)
		<-r.empty
	})
}
