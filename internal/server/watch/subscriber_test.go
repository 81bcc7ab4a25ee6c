package watch

import (
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/registry"
	"github.com/fanoutd/fanoutd/internal/server/request"
	"github.com/fanoutd/fanoutd/test/poll"
)

// quickClient is a stream whose client reports the position of a message before gRPC has
// returned from sending the message.
type quickClient struct {
	grpc.ServerStream
	t        *testing.T
	registry *registry.Registry
	watch    *watch
	next     object.Position // of the message
}

// SendMsg implements [grpc.ServerStream].
func (c *quickClient) SendMsg(any) error {
	if err := c.registry.Report(c.watch, request.Report{Applied: &c.next}); err != nil {
		c.t.Errorf("position %v: %v", c.next, err)
	}
	later := object.Position{Epoch: c.next.Epoch, Revision: c.next.Revision + 1}
	if err := c.registry.Report(c.watch, request.Report{Applied: &later}); err == nil {
		c.t.Errorf("got no error for position %v, which is after %v", later, c.next)
	}
	return nil
}

// firstWatch returns a registry with a watch.
func firstWatch(t *testing.T) (*registry.Registry, *watch) {
	t.Helper()
	r, _ := watched(t, 1)
	for w := range r.After(registry.Number{}, "r") {
		return r, w.(*watch)
	}
	t.Fatal("got no watch")
	return nil, nil
}

// applied returns the latest position that the client of a watch has reported.
func applied(e *watch) object.Position {
	p := registry.StatusOf(e, nil).GetApplied()
	return object.Position{Epoch: object.Epoch(p.GetEpoch()), Revision: object.Revision(p.GetRevision())}
}

// A client can report a position as soon as gRPC has the message, whoever sends it.
func TestAPositionIsKnownBeforeTheClientHasIt(t *testing.T) {
	r, e := firstWatch(t)
	stream := &quickClient{t: t, registry: r, watch: e}
	sender := &e.handler.sender
	sender.stream, sender.counters = stream, &registry.Counters{}
	for revision := object.Revision(1); revision < 9; revision++ {
		stream.next = object.Position{Epoch: "e", Revision: revision}
		m := dispatch.Message{Header: object.Header{Kind: object.Live, Position: stream.next}}
		err := error(nil)
		if revision%2 == 0 {
			err = sender.Send(m)
		} else {
			err = sender.TrySend(&dispatch.Batch{Message: m}, time.Now())
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := applied(e); got != stream.next {
			t.Errorf("got %v, want %v", got, stream.next)
		}
	}
}

// When a RESET begins, the client no longer has what it had applied. Positions that it reports
// meanwhile are ignored. Its error stays.
func TestResetForgetsWhatWasApplied(t *testing.T) {
	r, e := firstWatch(t)
	at := object.Position{Epoch: "e", Revision: 7}
	report := func(p object.Position) {
		t.Helper()
		if err := r.Report(e, request.Report{Applied: &p, Failure: request.Failure{Code: code.Code_ABORTED}}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, want object.Position) {
		t.Helper()
		if got := applied(e); got != want || !registry.IsFailing(e) {
			t.Errorf("%s: got %v, want %v and an error", what, got, want)
		}
	}
	e.note(&object.Header{Kind: object.Live, Position: at}, 1)
	report(at)
	want("before", at)
	e.note(&object.Header{Kind: object.CatchUpBegin, CatchUp: object.Delta, Position: at}, 1)
	want("with a DELTA", at)
	e.note(&object.Header{Kind: object.CatchUpBegin, CatchUp: object.Reset, Position: object.Position{Epoch: "e"}}, 1)
	want("with a RESET", object.Position{})
	if got := registry.StatusOf(e, nil).GetAttempted(); got != nil {
		t.Errorf("got %v as attempted within a RESET, want nothing", got)
	}
	report(at)
	want("a report that crosses", object.Position{})
	e.note(&object.Header{Kind: object.Synced, Position: at}, 1)
	report(at)
	want("in sync", at)
	if n := r.Stats()["r"].ReportedErrors; n != 1 {
		t.Errorf("got %d errors, want 1 that is repeated", n)
	}
}

// The applied lag grows even when the event that was not applied has left the window. The
// statistics count each watch once.
func TestAppliedLagGrows(t *testing.T) {
	r, memory := watched(t, 3)
	var all []*watch
	for w := range r.After(registry.Number{}, "r") {
		all = append(all, w.(*watch))
	}
	first := all[0].Progress().Position
	for _, e := range all[:2] {
		if err := r.Report(e, request.Report{Applied: &first}); err != nil {
			t.Fatal(err)
		}
	}
	at := object.Position{Epoch: first.Epoch, Revision: memory.Now()}
	all[1].note(&object.Header{Kind: object.Live, Position: at}, 1)
	if err := r.Report(all[1], request.Report{Applied: &at}); err != nil {
		t.Fatal(err)
	}
	stats := r.Stats()["r"].Applied
	late := 0
	for _, n := range stats.ByLag[1:] {
		late += n
	}
	if stats.ByLag[0] != 1 || late != 1 || stats.Unreported != 1 || stats.UnknownLag != 0 {
		t.Errorf("got %+v, want one up to date, one late and one unreported", stats)
	}
	lag := func() time.Duration {
		t.Helper()
		s := registry.StatusOf(all[0], nil)
		if s.GetAppliedLag() == nil {
			t.Fatal("got no lag")
		}
		return s.GetAppliedLag().AsDuration()
	}
	before := lag()
	memory.Restart("e2") // the window has nothing of the old epoch
	poll.Until(t, "the window begins again", func() bool { return all[0].Backend().Epoch() == "e2" })
	if now := lag(); now <= before {
		t.Errorf("got a lag of %v, and %v before that", now, before)
	}
}
