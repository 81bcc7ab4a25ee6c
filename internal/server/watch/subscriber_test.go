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

// quickClient is a sink whose client reports the position of a message before the sink returns.
type quickClient struct {
	sink
	t        *testing.T
	byServe  bool // Serve has to send
	registry *registry.Registry
	entry    *watch
}

func (c *quickClient) HasRoom() bool { return true }

func (c *quickClient) TrySend(r *dispatch.Response, _ time.Time) error {
	if c.byServe = !c.byServe; c.byServe {
		return dispatch.ErrNeedsServe
	}
	return c.Send(r)
}

func (c *quickClient) Send(r *dispatch.Response) error {
	e := messageOf(r)
	if e == nil {
		return nil
	}
	at := e.Batch.Header.Position
	if err := c.registry.Report(c.entry, request.Report{Applied: &at}); err != nil {
		c.t.Errorf("position %v: %v", at, err)
	}
	later := object.Position{Epoch: at.Epoch, Revision: at.Revision + 1}
	if err := c.registry.Report(c.entry, request.Report{Applied: &later}); err == nil {
		c.t.Errorf("got no error for position %v, which is after %v", later, at)
	}
	return nil
}

// registered returns the handler of a watch that was admitted and is registered.
func registered(t *testing.T, stream grpc.ServerStream) *handler {
	t.Helper()
	h := admitted(t, stream)
	if err := h.registry.Register(&h.watch); err != nil {
		t.Fatal(err)
	}
	return h
}

// applied returns the latest position that the client of a watch has reported.
func applied(e *watch) object.Position {
	p := registry.StatusOf(e, nil).GetApplied()
	return object.Position{Epoch: object.Epoch(p.GetEpoch()), Revision: object.Revision(p.GetRevision())}
}

// A client can report a position as soon as gRPC has the message, whoever sends it.
func TestAPositionIsKnownBeforeTheClientHasIt(t *testing.T) {
	h := registered(t, nil)
	k := &quickClient{t: t, registry: h.registry, entry: &h.watch}
	send := script(t, h, k)
	for revision := object.Revision(1); revision < 9; revision++ {
		at := object.Position{Epoch: "e", Revision: revision}
		send(&object.Header{Kind: object.Live, Position: at})
		if got := applied(&h.watch); got != at {
			t.Errorf("got %v, want %v", got, at)
		}
	}
}

// When a RESET begins, the client no longer has what it had applied. Positions that it reports
// meanwhile are ignored. Its error stays.
func TestResetForgetsWhatWasApplied(t *testing.T) {
	h := registered(t, discarding{})
	r, e := h.registry, &h.watch
	send := script(t, h, &h.sink)
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
	send(&object.Header{Kind: object.Live, Position: at})
	report(at)
	want("before", at)
	send(&object.Header{Kind: object.CatchUpBegin, CatchUp: object.Delta, Position: at})
	want("with a DELTA", at)
	send(&object.Header{Kind: object.CatchUpBegin, CatchUp: object.Reset, Position: object.Position{Epoch: "e"}})
	want("with a RESET", object.Position{})
	if got := registry.StatusOf(e, nil).GetAttempted(); got != nil {
		t.Errorf("got %v as attempted within a RESET, want nothing", got)
	}
	report(at)
	want("a report that crosses", object.Position{})
	send(&object.Header{Kind: object.Synced, Position: at})
	report(at)
	want("in sync", at)
	if n := r.Stats()["r"].ReportedErrors; n != 1 {
		t.Errorf("got %d errors, want 1 that is repeated", n)
	}
}

// The applied lag grows even when the event that was not applied has left the window. The
// statistics count each watch once.
func TestAppliedLagGrows(t *testing.T) {
	r, memory, sinks := watched(t, 3)
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
	sinks[all[1]].room.Store(1)
	all[1].handler.out.Ready()
	poll.Until(t, "the event is sent", func() bool { return all[1].Progress().Position == at })
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
	poll.Until(t, "the window begins again", func() bool { return all[0].Backend().Position().Epoch == "e2" })
	if now := lag(); now <= before {
		t.Errorf("got a lag of %v, and %v before that", now, before)
	}
}
