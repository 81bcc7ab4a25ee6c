package client_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// countingStreams is a grpc.StreamClientInterceptor that counts streams.
func countingStreams(n *atomic.Int64) client.Option {
	return client.WithDialOptions(grpc.WithChainStreamInterceptor(
		func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			n.Add(1)
			return open(ctx, desc, conn, method, opts...)
		}))
}

// When a stream with many watches fails, each attempt to open another one opens one stream, and concerns no watch
// without callbacks. The watches begin on the stream that is answered, in one attempt each.
func TestAFailedStreamWithManyWatchesCausesOneAttempt(t *testing.T) {
	needsSubscribe(t)
	const n, failures = 200, 6
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{script: eachWatch}
		var starts atomic.Int64
		s.subscribe = func(st subscribeStream) error {
			counted := &countedStarts{subscribeStream: st, n: &starts}
			switch at := s.shared.Load(); {
			case at == 1:
				go s.serveSubscribe(counted)
				time.Sleep(time.Minute)
				return errLost
			case at <= 1+failures:
				go func() {
					for _, err := counted.Recv(); err == nil; _, err = counted.Recv() {
					}
				}()
				time.Sleep(time.Second) // so that the watches could send their requests
				return errLost
			}
			return s.serveSubscribe(counted)
		}
		log := &bytes.Buffer{}
		var streams atomic.Int64
		r := connectTo(t, s, client.WithLogger(slog.New(slog.NewTextHandler(log, nil))), countingStreams(&streams))
		var running sync.WaitGroup
		defer running.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var synced atomic.Int64
		for range n {
			running.Go(func() {
				for u, err := range r.Watch(ctx) {
					if err == nil && u.Phase == client.PhaseSynced {
						synced.Add(1)
					}
				}
			})
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if streams.Load() != 2+failures || starts.Load() != 2*n || synced.Load() != 2*n || s.watches.Load() != 0 {
			t.Errorf("%d streams, %d starts of watches, %d synced, and %d calls of Watch; want %d, %d, %d and 0",
				streams.Load(), starts.Load(), synced.Load(), s.watches.Load(), 2+failures, 2*n, 2*n)
		}
		if lines := strings.Count(log.String(), "\n"); lines != 1+failures {
			t.Errorf("%d lines in the log, want %d:\n%s", lines, 1+failures, log)
		}
	})
}

// countedStarts counts the starts of watches.
type countedStarts struct {
	subscribeStream
	n *atomic.Int64
}

func (s *countedStarts) Recv() (*fanoutv1.SubscribeRequest, error) {
	req, err := s.subscribeStream.Recv()
	if req.GetStart() != nil {
		s.n.Add(1)
	}
	return req, err
}

// A watch that waits for a stream ends at once with its context and with the client, and the last one ends the
// attempts. Watches with a callback learn of each attempt that fails.
func TestWatchesThatWaitForAStream(t *testing.T) {
	needsSubscribe(t)
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{script: eachWatch, subscribe: func(subscribeStream) error { return errLost }}
		c := dialScripted(t, []*scriptedServer{s})
		r := c.Resource("config")
		watch := func(ctx context.Context, want error, opts ...client.WatchOption) {
			for _, err := range r.Watch(ctx, opts...) {
				if !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, want)
				}
			}
		}
		var interruptions, streams int64
		for range 2 {
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			for range 3 {
				running.Go(func() { watch(ctx, context.Canceled) })
			}
			running.Go(func() {
				watch(ctx, context.Canceled, client.OnInterruption(func(error) { interruptions++ }))
			})
			time.Sleep(time.Minute)
			cancel()
			synctest.Wait()
			running.Wait()
			streams = s.shared.Load()
			time.Sleep(time.Minute)
			if got := s.shared.Load(); got != streams {
				t.Errorf("%d streams were opened without a watch", got-streams)
			}
		}
		if interruptions < streams-1 || interruptions > streams {
			t.Errorf("%d interruptions of %d streams", interruptions, streams)
		}
		var running sync.WaitGroup
		running.Go(func() { watch(t.Context(), client.ErrClosed) })
		time.Sleep(time.Minute)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		running.Wait()
	})
}
