package server_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/wire"
)

// countingEncoder counts encodings.
type countingEncoder struct {
	wire.Encoder
	encoded atomic.Int64
}

func (e *countingEncoder) AppendEvent(b []byte, event object.Event, v object.Projection) []byte {
	e.encoded.Add(1)
	return e.Encoder.AppendEvent(b, event, v)
}

func TestWatchersOfOneInterestCauseOneEncodingPerEvent(t *testing.T) {
	const connections, streams, writes = 20, 50, 20
	encoder := &countingEncoder{}
	in := start(t, settings{encoder: encoder})
	ctx := within(t)
	scope := prefix("team")

	var watches []*watch
	for range connections {
		reads := fanoutv1.NewFanoutServiceClient(dial(t, in.address, grpc.WithWriteBufferSize(4<<10), grpc.WithReadBufferSize(4<<10)))
		for range streams {
			stream, err := reads.Watch(ctx, &fanoutv1.WatchRequest{Resource: config, Scope: scope, Begin: fromNow()})
			if err != nil {
				t.Fatal(err)
			}
			watches = append(watches, &watch{t, stream})
		}
	}
	for _, w := range watches {
		w.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
	}
	if n := in.dispatchers[config].Interests(); n != 1 {
		t.Fatalf("got %d interests, want 1", n)
	}

	// Writes outside the scope cost no encoding either.
	var want []event
	for i := range writes {
		key, text := fmt.Sprint("team/", i), fmt.Sprint("text ", i)
		want = append(want, added(key, text, in.put(ctx, t, config, key, text)))
		in.put(ctx, t, config, fmt.Sprint("others/", i), "")
	}
	var group sync.WaitGroup
	for _, w := range watches {
		group.Go(func() {
			var got []event
			for len(got) < len(want) {
				m, err := w.stream.Recv()
				if err != nil {
					t.Error(err)
					return
				}
				got = append(got, eventsIn(m)...)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("events, -want +got:\n%s", diff)
			}
		})
	}
	group.Wait()
	if n := encoder.encoded.Load(); n != writes {
		t.Errorf("got %d encodings of %d events for %d watchers, want %d", n, writes, len(watches), writes)
	}
}
