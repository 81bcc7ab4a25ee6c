package watch

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
)

// The first message and the first catch-up are measured from the beginning of the watch, a
// later catch-up from its own beginning.
func TestSlowWatchesAreLogged(t *testing.T) {
	for name, c := range map[string]struct {
		kinds []object.MessageKind
		first bool // the first of these messages is the first of the watch
		want  int64
	}{
		"the first message":      {[]object.MessageKind{object.Live}, true, 1},
		"the first catch-up":     {[]object.MessageKind{object.CatchUpBegin, object.CatchUpPart, object.Synced}, true, 2},
		"a later one":            {[]object.MessageKind{object.CatchUpBegin, object.CatchUpPart, object.Synced}, false, 0},
		"what happens meanwhile": {[]object.MessageKind{object.Live, object.Bookmark}, false, 0},
	} {
		slow := rpc.NewSlowLog(time.Minute, slog.New(slog.DiscardHandler))
		h := &handler{}
		h.sender.init(&h.ctx, &h.entry, nil)
		h.sender.slow = slow
		h.ctx.Context, h.entry.since = context.Background(), time.Now().Add(-time.Hour)
		h.entry.summary = Summarize(&fanoutv1.WatchRequest{})
		for i, kind := range c.kinds {
			h.sender.logSlowWatch(&object.Header{Kind: kind}, c.first && i == 0)
		}
		if n := slow.Count(); n != c.want {
			t.Errorf("%s: got %d slow parts, want %d", name, n, c.want)
		}
	}
}

// unread is a stream whose client takes a minute for each message.
type unread struct{ grpc.ServerStream }

func (unread) SendMsg(any) error {
	time.Sleep(time.Minute)
	return nil
}

// A catch-up of a client that reads slowly is not a slow catch-up of the server.
func TestSlowClientsAreNotLogged(t *testing.T) {
	for name, c := range map[string]struct {
		work time.Duration // of the server, before each part
		want int64
	}{
		"a quick server": {0, 0},
		"a slow server":  {20 * time.Second, 2}, // for 60 s in each catch-up
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow := rpc.NewSlowLog(30*time.Second, slog.New(slog.DiscardHandler))
				h := &handler{}
				h.sender.init(&h.ctx, &h.entry, unread{})
				h.sender.slow, h.sender.counters = slow, &counters{}
				h.ctx.Context, h.entry.since = context.Background(), time.Now()
				h.entry.summary = Summarize(&fanoutv1.WatchRequest{})
				for range 2 {
					for _, kind := range []object.MessageKind{object.CatchUpBegin, object.CatchUpPart, object.CatchUpPart, object.CatchUpPart, object.Synced, object.Live} {
						if kind == object.CatchUpPart {
							time.Sleep(c.work)
						}
						if err := h.sender.Send(dispatch.Message{Header: object.Header{Kind: kind}}); err != nil {
							t.Fatal(err)
						}
					}
				}
				if n := slow.Count(); n != c.want {
					t.Errorf("got %d slow parts, want %d", n, c.want)
				}
			})
		})
	}
}
