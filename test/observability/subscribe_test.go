package observability

import (
	"context"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// subscription is a stream of Subscribe. The ids of its watches are 1, 2 and so on.
type subscription struct {
	grpc.BidiStreamingClient[fanoutv1.SubscribeRequest, fanoutv1.SubscribeResponse]
	unread map[uint64][]*fanoutv1.SubscribeResponse_Entry // by id
}

// subscribe opens a stream, starts watches, and reads until all of them are synced or refused.
func (in *instance) subscribe(ctx context.Context, t *testing.T, requests ...*fanoutv1.WatchRequest) *subscription {
	t.Helper()
	stream, err := in.reads.Subscribe(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s := &subscription{stream, map[uint64][]*fanoutv1.SubscribeResponse_Entry{}}
	for i, req := range requests {
		if req.GetResource() == "" {
			req.Resource = resource
		}
		s.send(t, &fanoutv1.SubscribeRequest{Request: &fanoutv1.SubscribeRequest_Start_{
			Start: &fanoutv1.SubscribeRequest_Start{WatchId: uint64(i + 1), Request: req},
		}})
	}
	for id := range uint64(len(requests)) {
		for e := s.entry(t, id+1); e.GetRefused() == nil && e.GetResponse().GetKind() != fanoutv1.WatchResponse_KIND_SYNCED; {
			e = s.entry(t, id+1)
		}
	}
	return s
}

func (s *subscription) send(t *testing.T, req *fanoutv1.SubscribeRequest) {
	t.Helper()
	if err := s.Send(req); err != nil {
		t.Fatal(err)
	}
}

// entry returns the next entry of a watch.
func (s *subscription) entry(t *testing.T, id uint64) *fanoutv1.SubscribeResponse_Entry {
	t.Helper()
	for len(s.unread[id]) == 0 {
		resp, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range resp.GetEntries() {
			for _, of := range e.GetWatchIds() {
				s.unread[of] = append(s.unread[of], e)
			}
		}
	}
	e := s.unread[id][0]
	s.unread[id] = s.unread[id][1:]
	return e
}

// next returns the next message of a watch.
func (s *subscription) next(t *testing.T, id uint64) *fanoutv1.WatchResponse {
	t.Helper()
	e := s.entry(t, id)
	if e.GetResponse() == nil {
		t.Fatalf("got %v, want a message of watch %d", e, id)
	}
	return e.GetResponse()
}

// report reports for a watch. Reports of a stream have no answer.
func (s *subscription) report(t *testing.T, id uint64, applied *fanoutv1.Position, failed *status.Status) {
	t.Helper()
	s.send(t, &fanoutv1.SubscribeRequest{Request: &fanoutv1.SubscribeRequest_Report_{
		Report: &fanoutv1.SubscribeRequest_Report{WatchId: id, Applied: applied, Error: failed},
	}})
}

// TestWatchesOfSubscribeAreCounted checks that the metrics count each watch of a stream, and the
// stream as one request. A watch that is refused or ends is counted while the stream goes on.
func TestWatchesOfSubscribeAreCounted(t *testing.T) {
	in := start(t, nil)
	before := in.scrape(t)
	s := in.subscribe(within(t), t, &fanoutv1.WatchRequest{}, &fanoutv1.WatchRequest{}, &fanoutv1.WatchRequest{Resource: "unknown"})
	in.put(t, "k", "v")
	s.next(t, 1)
	s.next(t, 2)
	// The server counts a message after the transport has accepted it.
	in.await(t, "fanoutd_watch_propagation_seconds", ours, exactly(2))
	ended := func(code string) series { return series{"grpc_code": code} }
	stream := func(code string) series { return series{"grpc_method": "Subscribe", "grpc_code": code} }
	increases := func(want map[string]float64, with series) {
		t.Helper()
		after := in.scrape(t)
		for name, n := range want {
			if got := after.value(t, name, with) - before.value(t, name, with); got != n {
				t.Errorf("%s%v: got an increase of %v, want %v", name, with, got, n)
			}
		}
	}
	increases(map[string]float64{
		"fanoutd_watchers_begun_total": 2,
		"fanoutd_watch_events_total":   2,
		"fanoutd_watch_messages_total": 6, // for each watch: start and end of the catch-up, and the event
		"fanoutd_watch_batch_events":   2,
	}, ours)
	increases(map[string]float64{"fanoutd_watchers": 2}, series{"resource": resource, "state": "live"})
	increases(map[string]float64{"fanoutd_subscribe_watches_ended_total": 1}, ended("NotFound"))
	increases(map[string]float64{"fanoutd_subscribe_watches_ended_total": 0}, ended("OK"))
	increases(map[string]float64{"grpc_server_handled_total": 0}, stream("NotFound"))
	increases(map[string]float64{"grpc_server_started_total": 1, "grpc_server_msg_sent_total": 0}, series{"grpc_method": "Subscribe"})

	s.send(t, &fanoutv1.SubscribeRequest{Request: &fanoutv1.SubscribeRequest_Stop_{Stop: &fanoutv1.SubscribeRequest_Stop{WatchId: 1}}})
	in.await(t, "fanoutd_subscribe_watches_ended_total", ended("OK"), exactly(1))
	increases(map[string]float64{"grpc_server_handled_total": 0}, stream("OK"))
}
