package e2e

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/check/recorded"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/kept"
	"github.com/fanoutd/fanoutd/test/poll"
)

// recorder is a watcher that the test controls message by message.
type recorder struct {
	watchOptions
	client  fanoutv1.FanoutServiceClient
	history check.History
	stream  fanoutv1.FanoutService_WatchClient
	leave   context.CancelFunc // ends the stream
}

func newRecorder(t *testing.T, conn *grpc.ClientConn, scope *fanoutv1.Scope) *recorder {
	t.Helper()
	return newRecorderOf(t, conn, watchOptions{scope: scope})
}

func newRecorderOf(t *testing.T, conn *grpc.ClientConn, w watchOptions) *recorder {
	t.Helper()
	history, err := w.history("")
	if err != nil {
		t.Fatal(err)
	}
	history.Watcher = "watcher of " + history.Scope.String()
	r := &recorder{watchOptions: w, client: fanoutv1.NewFanoutServiceClient(conn), history: history, leave: func() {}}
	t.Cleanup(func() { r.leave() })
	return r
}

// open opens the next stream, and returns when the server has registered it.
func (r *recorder) open(t *testing.T, begin check.Begin) {
	t.Helper()
	if err := r.try(t, begin); err != nil {
		t.Fatal(err)
	}
}

// try does the same as open, and returns an error instead of failing the test.
func (r *recorder) try(t *testing.T, begin check.Begin) error {
	t.Helper()
	request := r.request()
	asked := check.Stream{Begin: begin}
	switch begin {
	case check.FromNow:
		request.Begin = &fanoutv1.WatchRequest_FromNow{FromNow: &fanoutv1.FromNow{}}
	case check.After:
		asked.Position, _ = r.history.Position()
		request.Begin = &fanoutv1.WatchRequest_After{After: &fanoutv1.Position{
			Epoch: string(asked.Position.Epoch), Revision: int64(asked.Position.Revision),
		}}
	}
	ctx, cancel := context.WithTimeout(t.Context(), poll.Patience)
	stream, err := r.client.Watch(ctx, request)
	if err != nil {
		cancel()
		return err
	}
	header, err := stream.Header()
	if err != nil {
		cancel()
		return err
	}
	if header == nil {
		// The stream ended before it was registered.
		cancel()
		_, err := stream.Recv()
		return err
	}
	r.stream, r.leave = stream, cancel
	r.history.Streams = append(r.history.Streams, asked)
	return nil
}

// receive returns the next message, or the error that ends the stream.
func (r *recorder) receive(t *testing.T) (check.Message, error) {
	t.Helper()
	s := &r.history.Streams[len(r.history.Streams)-1]
	response, err := r.stream.Recv()
	if err != nil {
		s.End = err.Error()
		return check.Message{}, err
	}
	m, err := recorded.Message(response)
	if err != nil {
		t.Fatal(err)
	}
	s.Messages = append(s.Messages, m)
	return m, nil
}

// until receives messages until it has one of this kind, and returns it.
func (r *recorder) until(t *testing.T, kind object.MessageKind) check.Message {
	t.Helper()
	for {
		m, err := r.receive(t)
		if err != nil {
			t.Fatal(err)
		}
		if m.Kind == kind {
			return m
		}
	}
}

// reach receives messages until everything up to the revision has been delivered.
func (r *recorder) reach(t *testing.T, revision int64) {
	t.Helper()
	for {
		m, err := r.receive(t)
		if err != nil {
			t.Fatal(err)
		}
		if int64(m.Position.Revision) >= revision {
			return
		}
	}
}

// validate checks the recording.
func (r *recorder) validate(t *testing.T, truth *check.Truth) {
	t.Helper()
	if err := check.Validate(&r.history, truth); err != nil {
		t.Error(err)
		dir := kept.Dir(t)
		write(t, dir, "truth.txt", truth.Print)
		write(t, dir, "history.txt", r.history.Print)
	}
}
