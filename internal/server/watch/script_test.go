package watch

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/registry"
	"github.com/fanoutd/fanoutd/test/poll"
)

// script serves the watch of a handler with a sink. The returned function makes it send a message.
func script(t *testing.T, h *handler, sink dispatch.StreamSink) (send func(*object.Header)) {
	t.Helper()
	w := &scriptedReader{messages: make(chan feed.Message)}
	serveScript(t, h, sink, w)
	return func(header *object.Header) {
		t.Helper()
		before := h.watch.Progress().Messages
		w.messages <- feed.Message{Header: *header}
		poll.Until(t, "the message is sent", func() bool { return h.watch.Progress().Messages > before })
	}
}

// serveScript serves the watch of a handler, whose messages the watcher has.
func serveScript(t *testing.T, h *handler, sink dispatch.StreamSink, w *scriptedReader) {
	t.Helper()
	h.sink.counters = &registry.Counters{}
	h.open(dispatch.StreamConfig{Queue: h.registry.Queues.Of(nil), Sink: sink, Solo: true})
	if err := h.registry.Begin(&h.watch); err != nil {
		t.Fatal(err)
	}
	h.start(func() { h.out.StartDirect(&h.watch.StreamWatch, w) })
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = h.out.Serve()
	}()
	t.Cleanup(func() {
		h.out.Abort(context.Canceled)
		<-served
	})
}

// scriptedReader has the messages of a test. It implements [dispatch.DirectReader].
type scriptedReader struct {
	messages chan feed.Message
	next     feed.Message
	make     func(feed.Message) // makes a message; nil: no work
}

func (w *scriptedReader) Await(ctx context.Context) error {
	select {
	case w.next = <-w.messages:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *scriptedReader) Next(context.Context) (feed.Message, error) {
	if w.make != nil {
		w.make(w.next)
	}
	return w.next, nil
}

func (w *scriptedReader) CatchesUp() bool { return false }

func (w *scriptedReader) ReadsSnapshot() bool {
	kind := w.next.Header.Kind
	return kind == object.CatchUpPart || kind == object.CatchUpBegin && w.next.Header.CatchUp.TransfersState()
}

func (w *scriptedReader) Position() object.Position { return w.next.Header.Position }
func (w *scriptedReader) Close()                    {}

func (w *scriptedReader) Quiet(object.Position, object.Revision) bool { return false }

// discarding is a stream that drops its messages.
type discarding struct{ grpc.ServerStream }

func (discarding) SendMsg(any) error { return nil }
