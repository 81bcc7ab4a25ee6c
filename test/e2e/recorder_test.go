package e2e

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/internal/check"
	"github.com/fanoutd/fanoutd/internal/check/recorded"
	"github.com/fanoutd/fanoutd/internal/object"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// recorder is a watcher that does what the test tells it, message by message.
type recorder struct {
	client  fanoutv1.FanoutServiceClient
	scope   *fanoutv1.Scope
	history check.History
	stream  fanoutv1.FanoutService_WatchClient
	leave   context.CancelFunc // ends the stream
}

func newRecorder(t *testing.T, conn *grpc.ClientConn, scope *fanoutv1.Scope) *recorder {
	t.Helper()
	covers, err := scopeOf(scope)
	if err != nil {
		t.Fatal(err)
	}
	return &recorder{
		client:  fanoutv1.NewFanoutServiceClient(conn),
		scope:   scope,
		history: check.History{Watcher: "watcher of " + covers.String(), Scope: covers},
	}
}

// open opens the next stream, and returns when the server has registered it.
func (r *recorder) open(t *testing.T, begin check.Begin) {
	t.Helper()
	request := &fanoutv1.WatchRequest{Resource: resource, Scope: r.scope}
	asked := check.Stream{Begin: begin}
	switch begin {
	case check.FromNow:
		request.Begin = &fanoutv1.WatchRequest_FromNow{FromNow: true}
	case check.After:
		asked.Position, _ = r.history.Position()
		request.Begin = &fanoutv1.WatchRequest_After{After: &fanoutv1.Position{
			Epoch: string(asked.Position.Epoch), Revision: int64(asked.Position.Revision),
		}}
	}
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	t.Cleanup(cancel)
	stream, err := r.client.Watch(ctx, request)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Header(); err != nil {
		t.Fatal(err)
	}
	r.stream, r.leave = stream, cancel
	r.history.Streams = append(r.history.Streams, asked)
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

// until receives up to the next message of a kind, and returns it.
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

// reach receives until everything up to the revision has been delivered.
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

// judge validates what the recorder has seen.
func (r *recorder) judge(t *testing.T, truth *check.Truth) {
	t.Helper()
	if err := check.Validate(&r.history, truth); err != nil {
		t.Error(err)
		dir := keep(t)
		write(t, dir, "truth.txt", truth.Print)
		write(t, dir, "history.txt", r.history.Print)
	}
}
