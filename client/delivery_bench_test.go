package client_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// eventSource is a server that sends events to all watches of each stream as fast as they read.
type eventSource struct {
	fanoutv1.UnimplementedFanoutServiceServer
	watches, events int
	own             bool // each watch gets events of its own
	begin           chan struct{}
	ready           sync.WaitGroup // streams with all watches
}

func (s *eventSource) Subscribe(stream subscribeStream) error {
	var ids []uint64
	for len(ids) < s.watches {
		req, err := stream.Recv()
		if err != nil {
			return err
		}
		if start := req.GetStart(); start != nil {
			ids = append(ids, start.GetWatchId())
		}
	}
	s.ready.Done()
	<-s.begin
	for n := range s.events {
		m := live(int64(n+1), withValue(modified("a", int64(n+1)), "a value of thirty-two bytes......"))
		resp := &fanoutv1.SubscribeResponse{}
		for i := range ids {
			e := &fanoutv1.SubscribeResponse_Entry{WatchIds: ids, Content: &fanoutv1.SubscribeResponse_Entry_Response{Response: m}}
			resp.Entries = append(resp.Entries, e)
			if !s.own {
				break
			}
			e.WatchIds = ids[i : i+1]
		}
		if err := stream.Send(resp); err != nil {
			return err
		}
	}
	<-stream.Context().Done()
	return nil
}

// BenchmarkDelivery measures how many events the client can pass to its watches, on one stream and on
// several. An iteration is an event for each of 1000 watches.
func BenchmarkDelivery(b *testing.B) {
	const watches = 1000
	for _, own := range []bool{false, true} {
		for _, streams := range []int{1, 2, 4} {
			b.Run(fmt.Sprintf("own=%v/streams=%d", own, streams), func(b *testing.B) {
				s := &eventSource{watches: watches / streams, events: b.N, own: own, begin: make(chan struct{})}
				s.ready.Add(streams)
				listener := listen(b)
				srv := grpc.NewServer()
				fanoutv1.RegisterFanoutServiceServer(srv, s)
				var serving, watching sync.WaitGroup
				serving.Go(func() { _ = srv.Serve(listener) })
				defer serving.Wait()
				defer srv.Stop()
				ctx, cancel := context.WithCancel(b.Context())
				defer cancel()
				for range streams {
					c, err := client.New(listener.Addr().String())
					if err != nil {
						b.Fatal(err)
					}
					defer c.Close()
					for range watches / streams {
						watching.Go(func() {
							n := 0
							for u, err := range c.Resource("config").Watch(ctx, client.FromNow()) {
								if err != nil {
									b.Error(err)
								}
								if n += len(u.Events); n == b.N {
									return
								}
							}
						})
					}
				}
				s.ready.Wait()
				b.ResetTimer()
				close(s.begin)
				watching.Wait()
				b.ReportMetric(float64(b.N)*watches/b.Elapsed().Seconds()/1e6, "Mdeliveries/s")
			})
		}
	}
}

// BenchmarkHandlers measures how many changes an informer can pass to its handlers. An iteration is a change for
// each of 1000 handlers, which have handled the one before.
func BenchmarkHandlers(b *testing.B) {
	const handlers = 1000
	next := make(chan struct{})
	srv := grpc.NewServer()
	fanoutv1.RegisterFanoutServiceServer(srv, &pacedSource{next: next})
	listener := listen(b)
	var serving, running, handling sync.WaitGroup
	serving.Go(func() { _ = srv.Serve(listener) })
	defer serving.Wait()
	defer srv.Stop()
	c, err := client.New(listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	inf := client.NewInformer(c.Resource("config"), func(o *client.Object) (int64, error) { return o.ModRevision, nil })
	handled := func() error { handling.Done(); return nil }
	for range handlers {
		inf.AddHandler(client.Handler[int64]{
			Add:    func(client.Item[int64]) error { return handled() },
			Update: func(client.Item[int64], client.Item[int64]) error { return handled() },
		})
	}
	handling.Add(handlers)
	ctx, cancel := context.WithCancel(b.Context())
	running.Go(func() { _ = inf.Run(ctx) })
	defer running.Wait()
	defer cancel()
	handling.Wait()
	for b.Loop() {
		handling.Add(handlers)
		next <- struct{}{}
		handling.Wait()
	}
	b.ReportMetric(float64(b.N)*handlers/b.Elapsed().Seconds()/1e6, "Mdeliveries/s")
}

// pacedSource is a server that changes an object for each value of a channel.
type pacedSource struct {
	fanoutv1.UnimplementedFanoutServiceServer
	next <-chan struct{}
}

func (s *pacedSource) Subscribe(stream subscribeStream) error {
	for {
		req, err := stream.Recv()
		if err != nil {
			return err
		}
		if req.GetStart() != nil {
			break
		}
	}
	send := func(m message) error {
		return stream.Send(&fanoutv1.SubscribeResponse{Entries: []*fanoutv1.SubscribeResponse_Entry{{
			WatchIds: []uint64{0}, Content: &fanoutv1.SubscribeResponse_Entry_Response{Response: m},
		}}})
	}
	for _, m := range []message{reset(), part(0, added("a", 1)), synced(1)} {
		if err := send(m); err != nil {
			return err
		}
	}
	for revision := int64(2); ; revision++ {
		select {
		case <-stream.Context().Done():
			return nil
		case <-s.next:
		}
		if err := send(live(revision, modified("a", revision))); err != nil {
			return err
		}
	}
}
