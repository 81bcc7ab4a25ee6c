package server_test

import (
	"context"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/stats"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// compression counts the messages that a client receives.
type compression struct {
	messages, compressed atomic.Int64
	encoding             atomic.Value // of the answer
}

func (c *compression) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (c *compression) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (c *compression) HandleConn(context.Context, stats.ConnStats)                       {}
func (c *compression) HandleRPC(_ context.Context, s stats.RPCStats) {
	switch s := s.(type) {
	case *stats.InHeader:
		c.encoding.Store(s.Compression)
	case *stats.InPayload:
		c.messages.Add(1)
		if s.CompressedLength != s.Length {
			c.compressed.Add(1)
		}
	}
}

// Compression would cost work per watch even for shared events. The server therefore does
// not compress the messages of watches, even if the client asks for it.
func TestWatchesAreNotCompressed(t *testing.T) {
	for name, with := range map[string]settings{"cached": {}, "uncached": {uncached: true}} {
		t.Run(name, func(t *testing.T) {
			in := start(t, with)
			ctx := within(t)
			in.put(ctx, t, config, "a", "1")
			seen := &compression{}
			reads := fanoutv1.NewFanoutServiceClient(dial(t, in.address,
				grpc.WithDefaultCallOptions(grpc.UseCompressor(gzip.Name)), grpc.WithStatsHandler(seen)))
			stream, err := reads.Watch(ctx, &fanoutv1.WatchRequest{Resource: config})
			if err != nil {
				t.Fatal(err)
			}
			w := &watch{t, stream}
			w.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
			at := in.put(ctx, t, config, "a", "2")
			w.wantEvents(modified("a", "2", at))
			if n := seen.messages.Load(); n < 4 || seen.compressed.Load() != 0 {
				t.Errorf("got %d of %d messages compressed, want 0", seen.compressed.Load(), n)
			}
			if e := seen.encoding.Load(); e != "" && e != "identity" {
				t.Errorf("got encoding %v of a watch, want identity", e)
			}
			// Other answers use the encoding that the client asks for.
			if _, err := reads.List(ctx, &fanoutv1.ListRequest{Resource: config}); err != nil || seen.encoding.Load() != gzip.Name {
				t.Errorf("got encoding %v of a list, %v; want gzip", seen.encoding.Load(), err)
			}
		})
	}
}
