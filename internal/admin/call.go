package admin

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// calls is the connection to the gRPC server. It completes requests with what the gateway does not
// translate: the body of a PUT, headers, and the default bookmark interval. The context of a call must be
// that of a request that came through [streams].
type calls struct{ grpc.ClientConnInterface }

// Invoke implements grpc.ClientConnInterface.
func (c calls) Invoke(ctx context.Context, method string, request, response any, o ...grpc.CallOption) error {
	w := exchangeOf(ctx).write
	if w == nil {
		return c.ClientConnInterface.Invoke(ctx, method, request, response, o...)
	}
	if err := w.addTo(request); err != nil {
		return err
	}
	return w.overHTTP(c.ClientConnInterface.Invoke(ctx, method, request, response, o...))
}

// NewStream implements grpc.ClientConnInterface.
func (c calls) NewStream(ctx context.Context, d *grpc.StreamDesc, method string, o ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := c.ClientConnInterface.NewStream(ctx, d, method, o...)
	return callStream{stream, exchangeOf(ctx).last}, err
}

type callStream struct {
	grpc.ClientStream
	last *fanoutv1.Position // where a watch resumes; nil: where the request begins
}

// bookmarkInterval is the default bookmark interval of watches over HTTP. It is short enough that
// no proxy closes the connection as idle.
const bookmarkInterval = 30 * time.Second

// SendMsg implements grpc.ClientStream.
func (s callStream) SendMsg(m any) error {
	var watch *fanoutv1.WatchRequest
	switch m := m.(type) {
	case *fanoutv1.WatchRequest:
		watch = m
		resumeAt(watch, s.last)
	case *fanoutv1.SubscribeRequest:
		watch = m.GetStart().GetRequest() // nil: the request starts no watch
	}
	if watch != nil && watch.GetBookmarkInterval() == nil {
		watch.BookmarkInterval = durationpb.New(bookmarkInterval)
	}
	return s.ClientStream.SendMsg(m)
}
