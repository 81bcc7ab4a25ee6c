package failures

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/check/recorded"
	"github.com/fanoutd/fanoutd/test/race"
	"github.com/fanoutd/fanoutd/test/seed"
	"github.com/fanoutd/fanoutd/test/subscription"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// subscriber watches the whole resource and records what it receives. Over Subscribe, its stream also
// has the watches of a [subscription.Churn], except under the race detector.
type subscriber struct {
	history check.History
	stream  fanoutv1.FanoutService_WatchClient
	leave   context.CancelFunc // ends the stream

	subscribes bool                                                  // its streams are watches of Subscribe streams
	carried    map[fanoutv1.FanoutServiceClient]*subscription.Client // if it subscribes
	churns     []*subscription.Churn                                 // one for each client
}

func newSubscriber(name string) *subscriber {
	return &subscriber{
		history: check.History{Watcher: name}, leave: func() {}, carried: map[fanoutv1.FanoutServiceClient]*subscription.Client{},
	}
}

// subscribe opens a stream at the last position, or from nothing.
func (s *subscriber) subscribe(t *testing.T, client fanoutv1.FanoutServiceClient) {
	t.Helper()
	request := &fanoutv1.WatchRequest{Resource: resource}
	if s.history.Latest {
		request.Delivery = fanoutv1.Delivery_DELIVERY_LATEST
	}
	asked := check.Stream{Begin: check.FromNothing}
	if last, ok := s.history.Position(); ok {
		request.Begin = &fanoutv1.WatchRequest_After{After: &fanoutv1.Position{Epoch: string(last.Epoch), Revision: int64(last.Revision)}}
		asked = check.Stream{Begin: check.After, Position: last}
	}
	s.leave()
	if s.subscribes {
		client = s.overSubscribe(t, client)
	}
	ctx, cancel := context.WithCancel(contextFor(t))
	t.Cleanup(cancel)
	stream, err := client.Watch(ctx, request)
	if err != nil {
		t.Fatal(err)
	}
	if header, err := stream.Header(); err != nil || header == nil {
		t.Fatalf("%s: open a watch: %v", s.history.Watcher, err)
	}
	s.stream, s.leave = stream, cancel
	s.history.Streams = append(s.history.Streams, asked)
	for _, churn := range s.churns {
		if err := churn.Begun(contextFor(t)); err != nil {
			t.Fatal(err)
		}
	}
}

// churned is the number of watches of a Subscribe stream, besides that of the subscriber. There are none
// under the race detector, which makes them too expensive for the time limits of the tests.
const churned = 200

// overSubscribe returns a client that makes its watches on one Subscribe stream.
func (s *subscriber) overSubscribe(t *testing.T, client fanoutv1.FanoutServiceClient) *subscription.Client {
	c := s.carried[client]
	if c == nil {
		c = subscription.NewClient(client)
		t.Cleanup(func() {
			c.Close()
			for _, stream := range c.Streams() {
				if err := check.Answered(s.recording(t, stream), nil); err != nil {
					t.Error(err)
				}
			}
		})
		s.carried[client] = c
		if race.Enabled {
			return c
		}
		s.churns = append(s.churns, c.Churn(churned, seed.New(t).Rand(uint64(len(s.churns))), randomRequest))
	}
	return c
}

// stall makes the subscriber stop reading its connection, until resume is called. Over Watch, one
// that does not receive does not read either.
func (s *subscriber) stall(t *testing.T) (resume func()) {
	t.Helper()
	for _, c := range s.carried {
		stream, err := c.Stream(contextFor(t))
		if err != nil {
			t.Fatal(err)
		}
		stream.Pause()
		return stream.Resume
	}
	return func() {}
}

// receive returns the next message, or the error that ends the stream.
func (s *subscriber) receive(t *testing.T) (check.Message, error) {
	t.Helper()
	now := s.now()
	response, err := s.stream.Recv()
	if err != nil {
		now.End = err.Error()
		return check.Message{}, err
	}
	m, err := recorded.Message(response)
	if err != nil {
		t.Fatal(err)
	}
	now.Messages = append(now.Messages, m)
	return m, nil
}

// now returns the current stream.
func (s *subscriber) now() *check.Stream { return &s.history.Streams[len(s.history.Streams)-1] }

// next returns the next message.
func (s *subscriber) next(t *testing.T) check.Message {
	t.Helper()
	m, err := s.receive(t)
	if err != nil {
		t.Fatalf("%s: the stream ended: %v", s.history.Watcher, err)
	}
	return m
}

// until receives messages until it has one of this kind, and returns it.
func (s *subscriber) until(t *testing.T, kind object.MessageKind) check.Message {
	t.Helper()
	for {
		if m := s.next(t); m.Kind == kind {
			return m
		}
	}
}

// reach receives messages until everything up to the revision has been delivered.
func (s *subscriber) reach(t *testing.T, revision object.Revision) {
	t.Helper()
	for s.next(t).Position.Revision < revision {
	}
}

// catchUps returns the kinds of catch-up of all streams, in order.
func (s *subscriber) catchUps() []object.CatchUpKind {
	var all []object.CatchUpKind
	for _, stream := range s.history.Streams {
		for _, m := range stream.Messages {
			if m.Kind == object.CatchUpBegin {
				all = append(all, m.CatchUp)
			}
		}
	}
	return all
}

// caughtUp checks the kinds of catch-up.
func (s *subscriber) caughtUp(t *testing.T, want ...object.CatchUpKind) {
	t.Helper()
	if got := s.catchUps(); !slices.Equal(got, want) {
		t.Errorf("%s: got catch-ups %v, want %v", s.history.Watcher, got, want)
	}
}

// validate checks the recording.
func (s *subscriber) validate(t *testing.T, truth *check.Truth) {
	t.Helper()
	if err := check.Validate(&s.history, truth); err != nil {
		t.Error(err)
	}
	s.leave()
	for _, churn := range s.churns {
		churn.Stop()
		t.Logf("%s: the stream had %d watches at once, %d in all", s.history.Watcher, churned, churn.Started())
		if churn.Started() == churned {
			t.Errorf("%s: no watch was started while events came", s.history.Watcher)
		}
	}
	for _, c := range s.carried {
		for _, stream := range c.Streams() {
			if stream.Err() == nil {
				if err := stream.Finish(contextFor(t)); err != nil {
					t.Errorf("%s: the end of the stream after its last watch: %v", s.history.Watcher, err)
				}
			}
			if err := check.ValidateSubscription(s.recording(t, stream), truth); err != nil {
				t.Errorf("%.2000s", err.Error())
			}
		}
	}
}

// recording returns what a Subscribe stream has received.
func (s *subscriber) recording(t *testing.T, stream *subscription.Stream) *check.Subscription {
	t.Helper()
	recording, err := stream.Recording(s.history.Watcher, func(r *fanoutv1.WatchRequest) (*check.History, error) {
		return recorded.History("", r)
	})
	if err != nil {
		t.Fatal(err)
	}
	return recording
}

// randomRequest returns a request for one of the keys or prefixes of the tests, with random options. Many
// of the requests are equal, so their watches share what the server sends.
func randomRequest(rng *rand.Rand) *fanoutv1.WatchRequest {
	some := func(n int) bool { return rng.IntN(n) == 0 }
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	prefix := pick("k", "before", "before-0", "without-0", "after-0", "meanwhile", "elsewhere", "here", "new", "with/0")
	r := &fanoutv1.WatchRequest{
		Resource: resource, Scope: &fanoutv1.Scope{Scope: &fanoutv1.Scope_Key{Key: fmt.Sprintf("%s/%03d", prefix, rng.IntN(20))}},
	}
	switch {
	case some(4):
		r.Scope.Scope = &fanoutv1.Scope_Prefix{Prefix: prefix}
	case some(10):
		r.Scope.Scope = &fanoutv1.Scope_Key{Key: pick("k", "y", "z", "kept", "changed", "lost", "small", "deleted", "passing")}
	}
	if some(2) {
		return r
	}
	r.PreviousObject, r.OmitValues, r.EveryEvent = some(4), some(4), some(8)
	if some(4) && !r.GetEveryEvent() {
		r.Delivery = fanoutv1.Delivery_DELIVERY_LATEST
	}
	if some(10) {
		r.BookmarkInterval = durationpb.New(200 * time.Millisecond)
	}
	return r
}

// state returns the keys and values of a client that applies all events of the last
// stream.
func (s *subscriber) state() map[string]string {
	state := map[string]string{}
	for _, m := range s.now().Messages {
		if m.Kind == object.CatchUpBegin && m.CatchUp == object.Reset {
			clear(state)
		}
		for _, e := range m.Events {
			if e.Type == object.Deleted {
				delete(state, string(e.Object.Key))
			} else {
				state[string(e.Object.Key)] = string(e.Object.Value)
			}
		}
	}
	return state
}

// reasonOf returns the reason in an error of fanoutd.
func reasonOf(err error) string {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetDomain() == "fanoutd.github.io" {
			return info.GetReason()
		}
	}
	return ""
}
