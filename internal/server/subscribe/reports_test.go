package subscribe

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/grpcmsg"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/internal/server/registry"
	"github.com/fanoutd/fanoutd/internal/server/rpc"
	"github.com/fanoutd/fanoutd/internal/wire"
	"github.com/fanoutd/fanoutd/test/cachertest"
)

// quickClient is the gRPC stream of a client that reports each position before gRPC has returned
// from sending it.
type quickClient struct {
	grpc.ServerStream
	t        *testing.T
	ctx      context.Context
	requests chan *fanoutv1.SubscribeRequest
	reported chan object.Revision // what the server has recorded
	stream   *stream
}

func (c *quickClient) Context() context.Context { return c.ctx }

func (c *quickClient) RecvMsg(m any) error {
	select {
	case req := <-c.requests:
		proto.Merge(m.(proto.Message), req)
		return nil
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

func (c *quickClient) SendMsg(m any) error {
	var b []byte
	for _, piece := range m.(grpcmsg.Message).Buffers() {
		b = append(b, piece.ReadOnlyData()...)
	}
	resp := &fanoutv1.SubscribeResponse{}
	if err := proto.Unmarshal(b, resp); err != nil {
		c.t.Error(err)
	}
	for _, e := range resp.GetEntries() {
		id, at := e.GetWatchIds()[0], e.GetResponse().GetPosition()
		later := &fanoutv1.Position{Epoch: at.GetEpoch(), Revision: at.GetRevision() + 1}
		for _, applied := range []*fanoutv1.Position{at, later} {
			c.stream.report(&fanoutv1.SubscribeRequest_Report{WatchId: id, Applied: applied})
		}
		c.reported <- object.Revision(registry.StatusOf(c.stream.table.find(id), nil).GetApplied().GetRevision())
	}
	return nil
}

// A client can report a position as soon as gRPC has the message, but no later position.
func TestAPositionIsKnownBeforeTheClientHasIt(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	codec, err := object.CodecByName("raw")
	if err != nil {
		t.Fatal(err)
	}
	memory := cachertest.NewMemory()
	c := cacher.New(cacher.Config{Resource: "r", Store: memory, Codec: codec, Preencode: wire.Preencode, Log: log})
	d := dispatch.New(feed.Config{Source: c, Encoder: wire.Encoder{}})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	running.Go(func() { d.Run(ctx) })
	<-c.Ready()
	resources := backend.Resources{"r": {Name: "r", Codec: codec, Cacher: c, Dispatcher: d}}
	interceptors := &rpc.Interceptors{
		Log: log, Rights: &rpc.Rights{}, Limits: quota.New(quota.Limits{}, log), Denials: rpc.NewDenials(), Slow: rpc.NewSlowLog(0, log),
	}
	watches := registry.New(registry.Config{Resources: resources, Interceptors: interceptors})
	s := New(watches, resources)

	client := &quickClient{t: t, ctx: ctx, requests: make(chan *fanoutv1.SubscribeRequest, 1), reported: make(chan object.Revision)}
	client.stream = newStream(s, client)
	if err := client.stream.register(client); err != nil {
		t.Fatal(err)
	}
	running.Go(func() { _ = client.stream.finish(client.stream.serve()) })
	client.requests <- &fanoutv1.SubscribeRequest{Request: &fanoutv1.SubscribeRequest_Start_{Start: &fanoutv1.SubscribeRequest_Start{
		WatchId: 3, Request: &fanoutv1.WatchRequest{
			Resource: "r", Begin: &fanoutv1.WatchRequest_FromNow{FromNow: &fanoutv1.FromNow{}},
			Consistency: &fanoutv1.ReadConsistency{Level: &fanoutv1.ReadConsistency_Any{Any: &fanoutv1.AnyRevision{}}},
		},
	}}}
	for range 5 {
		if got := <-client.reported; got != memory.Now() {
			t.Errorf("the applied revision is %d, want %d", got, memory.Now())
		}
		memory.Put("k", "v")
	}
	<-client.reported
	cancel()
	running.Wait()
	s.Stop()
	watches.Stop()
}
