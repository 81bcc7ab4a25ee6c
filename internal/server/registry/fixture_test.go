package registry

import (
	"sync"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/frames"
)

// fakeRPC is an RPC whose watches have begun. Those of a stream have the indexes from 1 on, that of
// any other RPC has 0.
type fakeRPC struct {
	caller  Caller
	mu      sync.Mutex
	watches []*fakeWatch
	end     func(error) // called by EndAll
	asked   int         // calls of Each
}

type fakeWatch struct {
	Registration
	rpc      *fakeRPC
	n        uint32
	progress Progress
}

func (w *fakeWatch) Caller() *Caller    { return &w.rpc.caller }
func (w *fakeWatch) Number() Number     { return Number{w.rpc.caller.number, w.n} }
func (w *fakeWatch) Mutex() *sync.Mutex { return &w.rpc.mu }
func (w *fakeWatch) End(error)          {}

func (w *fakeWatch) MayHave() object.Position                    { return object.Position{} }
func (w *fakeWatch) Progress() Progress                          { return w.progress }
func (w *fakeWatch) Unapplied(object.Position) feed.Backlog      { return feed.Backlog{} }
func (w *fakeWatch) Quiet(object.Position, object.Revision) bool { return false }

func (s *fakeRPC) Caller() *Caller      { return &s.caller }
func (s *fakeRPC) Len() int             { return len(s.watches) }
func (s *fakeRPC) EndAll(reason error)  { s.end(reason) }
func (s *fakeRPC) CheckFence(time.Time) {}

func (s *fakeRPC) Each(from uint32, yield func(Watch) bool) bool {
	s.asked++
	for _, w := range s.watches {
		if w.n >= from && !yield(w) {
			return false
		}
	}
	return true
}

func (s *fakeRPC) Find(index uint32) Watch {
	for _, w := range s.watches {
		if w.n == index {
			return w
		}
	}
	return nil
}

// resources are the resources of registries and watches.
var resources = backend.Resources{"a": {Name: "a"}, "b": {Name: "b"}}

// newRPC returns an RPC with a number of watches of a resource, or with a single watch of the method
// Watch if the number is 0.
func newRPC(resource string, watches int) *fakeRPC {
	s := &fakeRPC{end: func(error) {}, caller: Caller{Pass: &access.Pass{}}}
	for n := min(watches, 1); n <= watches; n++ {
		s.watches = append(s.watches, &fakeWatch{Registration: Registration{resource: &backend.Resource{Name: resource}, stage: Admitted}, rpc: s, n: uint32(n)})
	}
	return s
}

// add registers an RPC, and counts its watches.
func (r *Registry) add(tb testing.TB, s *fakeRPC) {
	tb.Helper()
	if err := r.Register(s); err != nil {
		tb.Fatal(err)
	}
	for _, w := range s.watches {
		w.stage = Begun
		r.counts[w.Resource()].begin()
	}
}

// addWatches adds watches. Each calls the function when it ends.
func addWatches(t *testing.T, r *Registry, count int, end func(i int)) (all []*fakeRPC) {
	t.Helper()
	for i := range count {
		s := newRPC("a", 0)
		s.end = func(error) { end(i) }
		r.add(t, s)
		all = append(all, s)
	}
	return all
}

// onConn returns an RPC with a watch on a connection.
func onConn(conn *frames.Conn, end func(error)) *fakeRPC {
	s := newRPC("a", 0)
	s.caller.Conn, s.end = conn, end
	return s
}
