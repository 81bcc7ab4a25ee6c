package watch

import (
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/request"
	"github.com/fanoutd/fanoutd/test/poll"
)

// quickClient is a stream whose client reports the position of a message before gRPC has
// returned from sending the message.
type quickClient struct {
	grpc.ServerStream
	t     *testing.T
	entry *Entry
	next  object.Position // of the message
}

// SendMsg implements [grpc.ServerStream].
func (c *quickClient) SendMsg(any) error {
	if err := c.entry.Report(request.Report{Applied: &c.next}); err != nil {
		c.t.Errorf("position %v: %v", c.next, err)
	}
	later := object.Position{Epoch: c.next.Epoch, Revision: c.next.Revision + 1}
	if err := c.entry.Report(request.Report{Applied: &later}); err == nil {
		c.t.Errorf("got no error for position %v, which is after %v", later, c.next)
	}
	return nil
}

// A client can report a position as soon as gRPC has the message, whoever sends it.
func TestAPositionIsKnownBeforeTheClientHasIt(t *testing.T) {
	h := &handler{}
	stream := &quickClient{t: t, entry: &h.entry}
	h.sender.init(&h.ctx, &h.entry, stream)
	h.sender.counters = &counters{}
	for revision := object.Revision(1); revision < 9; revision++ {
		stream.next = object.Position{Epoch: "e", Revision: revision}
		m := dispatch.Message{Header: object.Header{Kind: object.Live, Position: stream.next}}
		err := error(nil)
		if revision%2 == 0 {
			err = h.sender.Send(m)
		} else {
			err = h.sender.TrySend(&dispatch.Batch{Message: m}, time.Now())
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := h.entry.Reported().Applied; got != stream.next {
			t.Errorf("got %v, want %v", got, stream.next)
		}
	}
}

// When a RESET begins, the client no longer has what it had applied. Positions that it reports
// meanwhile are ignored. Its error stays.
func TestResetForgetsWhatWasApplied(t *testing.T) {
	e := &Entry{registry: newRegistry(), sender: &streamSender{counters: &counters{}}}
	at := object.Position{Epoch: "e", Revision: 7}
	report := func(p object.Position) {
		t.Helper()
		if err := e.Report(request.Report{Applied: &p, Failure: request.Failure{Code: code.Code_ABORTED}}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, want object.Position) {
		t.Helper()
		if got := e.Reported(); got.Applied != want || !got.Failed() {
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
	if got := e.Reported().failure.attempted; got != (object.Position{}) {
		t.Errorf("got %v as attempted within a RESET, want nothing", got)
	}
	report(at)
	want("a report that crosses", object.Position{})
	e.note(&object.Header{Kind: object.Synced, Position: at}, 1)
	report(at)
	want("in sync", at)
	if n := e.sender.counters.reportedErrors.Load(); n != 1 {
		t.Errorf("got %d errors, want 1 that is repeated", n)
	}
}

// The applied lag grows even when the event that was not applied has left the window. The
// statistics count each watch once.
func TestAppliedLagGrows(t *testing.T) {
	srv, memory := watched(t, 3)
	var all []*Entry
	for w := range srv.Registry.After(Number{}, "r") {
		all = append(all, w.(*Entry))
	}
	first := all[0].position()
	for _, e := range all[:2] {
		if err := e.Report(request.Report{Applied: &first}); err != nil {
			t.Fatal(err)
		}
	}
	at := object.Position{Epoch: first.Epoch, Revision: memory.Now()}
	all[1].note(&object.Header{Kind: object.Live, Position: at}, 1)
	if err := all[1].Report(request.Report{Applied: &at}); err != nil {
		t.Fatal(err)
	}
	stats := srv.Stats()["r"].Applied
	late := 0
	for _, n := range stats.ByLag[1:] {
		late += n
	}
	if stats.ByLag[0] != 1 || late != 1 || stats.Unreported != 1 || stats.UnknownLag != 0 {
		t.Errorf("got %+v, want one up to date, one late and one unreported", stats)
	}
	lag := func() time.Duration {
		t.Helper()
		lag, ok := all[0].appliedLag(first, first)
		if !ok {
			t.Fatal("got no lag")
		}
		return lag
	}
	before := lag()
	memory.Restart("e2") // the window has nothing of the old epoch
	poll.Until(t, "the window begins again", func() bool { return srv.cfg.Resources["r"].Epoch() == "e2" })
	if now := lag(); now <= before {
		t.Errorf("got a lag of %v, and %v before that", now, before)
	}
}

// Each entry that is there all the time is visited once, although others come and go.
func TestEachVisitsEachEntryOnce(t *testing.T) {
	r := newRegistry()
	const stable = 5 * fewRPCs
	for _, e := range addWatches(t, r, stable, func(int) {}) {
		r.markComplete(e)
	}
	visits := map[Watch]int{}
	var passing []*Entry
	r.eachWatch(func(w Watch) {
		visits[w]++
		if len(visits) > 2*stable {
			return
		}
		for _, e := range addWatches(t, r, 2, func(int) {}) {
			r.markComplete(e)
			passing = append(passing, e)
		}
		r.unregister(passing[0])
		passing = passing[1:]
	})
	n := 0
	for w, visited := range visits {
		if visited != 1 {
			t.Errorf("watch %v was visited %d times", w.Number(), visited)
		}
		if w.Number().RPC <= stable {
			n++
		}
	}
	if n != stable {
		t.Errorf("got %d of %d watches", n, stable)
	}
}
