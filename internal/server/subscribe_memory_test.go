package server_test

import (
	"fmt"
	"testing"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/store"
)

// An idle watch of a stream with a thousand takes little memory, its entry in the registry included.
// Only the live heap is counted: the collector lets the process grow to about one and a half times as
// much.
func TestIdleWatchesOfStreamsTakeLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	const streams, perStream = 3, 1000
	for name, c := range map[string]struct {
		key   func(stream, id int) string
		limit int64 // for each watch
	}{
		"one interest":   {func(int, int) string { return "key" }, 350},
		"a key for each": {func(stream, id int) string { return fmt.Sprintf("key %d/%d", stream, id) }, 1300},
	} {
		t.Run(name, func(t *testing.T) {
			in := startOver(t, openEtcdAlone(t, store.EmbeddedConfig{}), settings{})
			ctx := t.Context() // the machine may be busy for long
			open := func(stream, watches int) {
				s, err := in.reads.Subscribe(ctx)
				if err != nil {
					t.Fatal(err)
				}
				for id := range watches {
					if err := s.Send(&fanoutv1.SubscribeRequest{Request: &fanoutv1.SubscribeRequest_Start_{Start: &fanoutv1.SubscribeRequest_Start{
						WatchId: uint64(id),
						Request: &fanoutv1.WatchRequest{Resource: config, Scope: exactly(c.key(stream, id)), Begin: fromNow()},
					}}}); err != nil {
						t.Fatal(err)
					}
				}
				for begun := 0; begun < watches; {
					resp, err := s.Recv()
					if err != nil {
						t.Fatal(err)
					}
					for _, e := range resp.GetEntries() {
						if e.GetResponse() == nil {
							t.Fatalf("got %v, want a message", e)
						}
						begun += len(e.GetWatchIds())
					}
				}
			}
			for i := range 2 { // whatever the first streams need
				open(-1-i, 10)
			}
			before := heap()
			for i := range streams {
				open(i, perStream)
			}
			each := (heap() - before) / (streams * perStream)
			t.Logf("%d bytes for each watch", each)
			if each > c.limit {
				t.Errorf("a watch takes %d bytes, want at most %d", each, c.limit)
			}
			if n := in.server.WatchStats()[config].Live; n != streams*perStream+20 {
				t.Errorf("%d watches are live, want %d", n, streams*perStream+20)
			}
		})
	}
}
