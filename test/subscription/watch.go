package subscription

import (
	"context"
	"io"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/check"
)

// Watch is a watch of a stream. It has the methods of a stream of Watch, and ends like one: with
// io.EOF if the server has ended it with OK, and otherwise with an error that has the status.
type Watch struct {
	fanoutv1.FanoutService_WatchClient // nil: only the methods below work

	stream   *Stream
	ctx      context.Context
	id       uint64
	request  *fanoutv1.WatchRequest
	intruder bool // the id was in use
	opened   time.Time
	more     chan struct{} // has an element when entries were added

	stopped bool                                // guarded by stream.mu: a stop was sent
	over    bool                                // guarded by stream.mu: refused or ended
	entries []*fanoutv1.SubscribeResponse_Entry // guarded by stream.mu
	read    int                                 // guarded by stream.mu: entries that Recv has returned
}

// Watch starts a watch. It is stopped when ctx ends.
func (s *Stream) Watch(ctx context.Context, req *fanoutv1.WatchRequest) (*Watch, error) {
	if ctx.Err() != nil {
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	w, err := s.start(ctx, req, false)
	if err != nil {
		return nil, err
	}
	s.stops.Add(1)
	done := sync.OnceFunc(s.stops.Done)
	unlessEnded := context.AfterFunc(ctx, func() {
		defer done()
		s.stop(w)
	})
	// A context may outlast the stream.
	context.AfterFunc(s.rpc.Context(), func() {
		if unlessEnded() {
			done()
		}
	})
	return w, nil
}

// Intrude sends a start with an id that is in use. The server refuses it, unless the other watch has
// ended meanwhile.
func (s *Stream) Intrude(req *fanoutv1.WatchRequest) {
	_, _ = s.start(s.rpc.Context(), req, true) // fails if the stream has ended
}

// Header waits for the first message of the watch. As in gRPC, it returns nil if there is none.
func (w *Watch) Header() (metadata.MD, error) {
	e, err := w.await(w.ctx, 0)
	if err != nil || e.GetResponse() == nil {
		return nil, nil // Recv returns the reason
	}
	return metadata.MD{}, nil
}

// Context returns the context of the watch.
func (w *Watch) Context() context.Context { return w.ctx }

// Recv returns the next message.
func (w *Watch) Recv() (*fanoutv1.WatchResponse, error) {
	w.stream.mu.Lock()
	n := w.read
	w.stream.mu.Unlock()
	e, err := w.await(w.ctx, n)
	if err != nil {
		return nil, err
	}
	w.stream.mu.Lock()
	w.read++
	w.stream.mu.Unlock()
	switch {
	case e.GetResponse() != nil:
		return e.GetResponse(), nil
	case e.GetRefused() != nil:
		return nil, status.ErrorProto(e.GetRefused())
	case e.GetEnded().GetCode() != 0:
		return nil, status.ErrorProto(e.GetEnded())
	}
	return nil, io.EOF
}

// await waits for an entry of the watch, at most until the context ends.
func (w *Watch) await(ctx context.Context, n int) (*fanoutv1.SubscribeResponse_Entry, error) {
	s := w.stream
	for {
		// As in gRPC, nothing is returned after the end of the context.
		if ctx.Err() != nil {
			return nil, status.FromContextError(ctx.Err()).Err()
		}
		s.mu.Lock()
		var e *fanoutv1.SubscribeResponse_Entry
		if n < len(w.entries) {
			e = w.entries[n]
		}
		err := s.err
		s.mu.Unlock()
		switch {
		case e != nil:
			return e, nil
		case err != nil:
			return nil, s.endOf(err)
		}
		select {
		case <-w.more:
		case <-s.done:
		case <-ctx.Done():
		}
	}
}

// Away returns when the stream was paused since the watch began.
func (w *Watch) Away() []check.Span {
	w.stream.mu.Lock()
	defer w.stream.mu.Unlock()
	return w.away()
}

// away is Away for a caller that holds the mutex of the stream.
func (w *Watch) away() []check.Span {
	s := w.stream
	var all []check.Span
	for _, span := range s.paused {
		if span.To.IsZero() {
			span.To = time.Now()
		}
		if span.To.After(w.opened) {
			all = append(all, span)
		}
	}
	return all
}

// reasonOf returns the reason in an error of fanoutd.
func reasonOf(err error) string {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return ""
}
