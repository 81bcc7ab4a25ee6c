package subscription_test

import (
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/inprocess"
	"github.com/fanoutd/fanoutd/test/poll"
	"github.com/fanoutd/fanoutd/test/subscription"
)

// A stream ends although a watch took the id of one that had ended before its client knew it.
func TestFinishStopsAnAcceptedIntruder(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	ctx := poll.Context(t)
	conn, err := grpc.NewClient(inprocess.Start(t, inprocess.Config(t)).Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := fanoutv1.NewFanoutServiceClient(conn)
	until := func(limit time.Duration) *fanoutv1.WatchRequest {
		return &fanoutv1.WatchRequest{Resource: "config", TimeLimit: durationpb.New(limit)}
	}
	s, err := subscription.Open(ctx, client)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Watch(ctx, until(time.Second)); err != nil {
		t.Fatal(err)
	}
	s.Pause()
	later, err := client.Watch(ctx, until(2*time.Second))
	for err == nil {
		_, err = later.Recv()
	}
	s.Intrude(&fanoutv1.WatchRequest{Resource: "config"}) // the server has ended the first watch
	s.Resume()
	if err := s.Finish(ctx); err != nil {
		t.Error(err)
	}
}
