package watch

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/direct"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/grpcmsg"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/internal/server/registry"
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
		h := admitted(t, nil)
		h.sink.slow = slow
		h.ctx.Context = context.Background()
		h.watch.SetBegan(time.Now().Add(-time.Hour))
		for i, kind := range c.kinds {
			h.sink.logSlowWatch(&object.Header{Kind: kind}, c.first && i == 0)
		}
		if n := slow.Count(); n != c.want {
			t.Errorf("%s: got %d slow parts, want %d", name, n, c.want)
		}
	}
}

// admitted returns the handler of a watch that was admitted.
func admitted(t *testing.T, stream grpc.ServerStream) *handler {
	t.Helper()
	codec, err := object.CodecByName("raw")
	if err != nil {
		t.Fatal(err)
	}
	r := registry.New(registry.Config{
		Resources:    backend.Resources{"r": {Name: "r", Codec: codec, Direct: &direct.Source{}}},
		Interceptors: &rpc.Interceptors{Limits: quota.New(quota.Limits{}, slog.New(slog.DiscardHandler)), Rights: &rpc.Rights{}},
	})
	t.Cleanup(r.Stop)
	h := &handler{registry: r}
	h.init(stream)
	caller := peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{}})
	h.ctx.Context, h.sink.slow = caller, rpc.NewSlowLog(0, slog.New(slog.DiscardHandler))
	h.watch.caller.Init(caller, false)
	if _, err := r.AdmitWatch(caller, &h.watch, &fanoutv1.WatchRequest{Resource: "r"}); err != nil {
		t.Fatal(err)
	}
	return h
}

// unread is a stream whose client takes a minute for each message.
type unread struct {
	grpc.ServerStream
	read time.Time // when it has read all messages
}

func (u *unread) SendMsg(m any) error {
	time.Sleep(time.Until(u.read))
	u.read = time.Now().Add(time.Minute)
	time.AfterFunc(time.Minute, m.(grpcmsg.Message).Buffers().Free)
	return nil
}

// A catch-up of a client that reads slowly is not a slow catch-up of the server.
func TestSlowClientsAreNotLogged(t *testing.T) {
	for name, c := range map[string]struct {
		work time.Duration // of the server, for each part
		want int64
	}{
		"a quick server": {0, 0},
		"a slow server":  {20 * time.Second, 2}, // for 60 s in each catch-up
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := admitted(t, &unread{})
				h.sink.slow = rpc.NewSlowLog(30*time.Second, slog.New(slog.DiscardHandler))
				h.watch.SetBegan(time.Now())
				w := &scriptedReader{messages: make(chan feed.Message, 12), make: func(m feed.Message) {
					if m.Header.Kind == object.CatchUpPart {
						time.Sleep(c.work)
					}
				}}
				full := [][]byte{make([]byte, 20<<10)} // the client has to read it before the next message
				for range 2 {
					for _, kind := range []object.MessageKind{object.CatchUpBegin, object.CatchUpPart, object.CatchUpPart, object.CatchUpPart, object.Synced, object.Live} {
						w.messages <- feed.Message{Events: full, Header: object.Header{Kind: kind}}
					}
				}
				serveScript(t, h, &h.sink, w)
				time.Sleep(time.Hour)
				if n := h.watch.Progress().Messages; n != 12 {
					t.Fatalf("got %d messages, want all 12", n)
				}
				if n := h.sink.slow.Count(); n != c.want {
					t.Errorf("got %d slow parts, want %d", n, c.want)
				}
			})
		})
	}
}
