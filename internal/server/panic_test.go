package server_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/wire"
)

var internal = refusal{Code: codes.Internal, Reason: apierr.ReasonInternal}

// explodingEncoder panics when it encodes the key "bomb".
type explodingEncoder struct{ wire.Encoder }

func (e explodingEncoder) AddedEvent(o *object.Object, v object.Projection) []byte {
	if o.Key == "bomb" {
		panic("bang in a stream")
	}
	return e.Encoder.AddedEvent(o, v)
}

func TestAPanicEndsOneRequest(t *testing.T) {
	in := start(t, settings{encoder: explodingEncoder{}})
	ctx := within(t)
	bystander := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
	bystander.next(fanoutv1.WatchResponse_KIND_BOOKMARK)

	in.onWrites(func() error { panic("bang in a write") })
	_, err := in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: config, Put: putText("a", "")})
	wantRefusal(t, err, internal)
	wantPanicLine(ctx, t, in, "/fanout.v1.StoreService/Put", "bang in a write", "TestAPanicEndsOneRequest")

	in.seams[config].on(nil)
	at := in.put(ctx, t, config, "bomb", "")
	stream, err := in.reads.Watch(ctx, &fanoutv1.WatchRequest{Resource: config})
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = stream.Recv()
	}
	wantRefusal(t, err, internal)
	wantPanicLine(ctx, t, in, "/fanout.v1.FanoutService/Watch", "bang in a stream", "explodingEncoder")

	bystander.wantEvents(added("bomb", "", at))
	if n := in.dispatchers[config].Interests(); n != 1 {
		t.Errorf("got %d interests, want only that of the bystander", n)
	}
}

// wantPanicLine checks that the server logged a panic of a method, with a stack that
// contains the function.
func wantPanicLine(ctx context.Context, t *testing.T, in *instance, method, value, function string) {
	t.Helper()
	got := in.lines.await(ctx, t, line{"level": "ERROR", "msg": "a handler panicked", "method": method, "panic": value})
	if stack, _ := got["stack"].(string); !strings.Contains(stack, function) {
		t.Errorf("want %s in the stack, got:\n%s", function, stack)
	}
}
