package e2e

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/internal/app"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/poll"
	"github.com/fanoutd/fanoutd/test/race"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// TestReconnectsLeaveNothingBehind opens and leaves ten thousand watches, some of them
// with their connection, and checks that the server keeps no goroutine and no memory for
// them. The server runs in the process of the test, which can measure both.
func TestReconnectsLeaveNothingBehind(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	reconnects, warmUp := 10_000, 500
	if race.Enabled {
		reconnects = 2500 // much slower, and a leak per watch would be as large
	}
	address := runInside(t)
	conn := dial(t, address)
	for i := range 100 {
		put(t, conn, fmt.Sprintf("team-%d/key", i), []byte("value"))
	}

	reconnect(t, address, warmUp)
	before := footprint()
	reconnect(t, address, reconnects)
	// The server cleans up asynchronously.
	const goroutines, bytes = 20, 8 << 20
	ctx := poll.Context(t)
	var after weight
	more := func() int { return after.goroutines - before.goroutines }
	grown := func() int { return int(after.heap) - int(before.heap) }
	if !poll.Wait(ctx, func() bool {
		after = footprint()
		return more() <= goroutines && grown() <= bytes
	}) {
		t.Fatalf("got %d more goroutines and %d more bytes after %d reconnects", more(), grown(), reconnects)
	}
	t.Logf("before: %+v, after: %+v", before, after)
}

type weight struct {
	goroutines int
	heap       uint64
}

func footprint() weight {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return weight{runtime.NumGoroutine(), m.HeapAlloc}
}

// reconnect opens this many watches, a few at a time, and leaves each when it is synced.
// Each connection serves several of them.
func reconnect(t *testing.T, address string, n int) {
	t.Helper()
	const workers, ofEach = 5, 50
	var group errgroup.Group
	for worker := range workers {
		group.Go(func() error {
			for i := range n / workers / ofEach {
				if err := watchAndLeave(t.Context(), address, ofEach, worker*i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

func watchAndLeave(ctx context.Context, address string, n, salt int) error {
	conn, err := grpc.NewClient("passthrough:///"+address, dialOptions()...)
	if err != nil {
		return err
	}
	defer conn.Close()
	client := fanoutv1.NewFanoutServiceClient(conn)
	for i := range n {
		ctx, leave := context.WithCancel(ctx)
		defer leave()
		request := &fanoutv1.WatchRequest{Resource: resource, BookmarkInterval: duration(time.Second)}
		if i%2 == 0 {
			request.Scope = prefixScope(fmt.Sprintf("team-%d", (salt+i)%100))
		}
		stream, err := client.Watch(ctx, request)
		if err != nil {
			return err
		}
		for {
			response, err := stream.Recv()
			if err != nil {
				return err
			}
			if response.GetKind() == fanoutv1.WatchResponse_KIND_SYNCED {
				break
			}
		}
		// Every other watch ends with its connection.
		if i%4 > 1 {
			leave()
		}
	}
	return nil
}

// runInside runs a server with an embedded etcd in this process until the test ends.
func runInside(t *testing.T) (address string) {
	t.Helper()
	cfg := config.Defaults()
	cfg.Listen, cfg.AdminListen = "127.0.0.1:0", ""
	// A fast machine opens and leaves more than the limits allow.
	cfg.MaxResetRate, cfg.MaxResetRatePerClient, cfg.MaxConnectionRate = 0, 0, 0
	cfg.DataDir, cfg.EmbeddedEtcdUnsafe = filepath.Join(t.TempDir(), "data"), true
	a, err := app.Build(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return a.Addr().String()
}
