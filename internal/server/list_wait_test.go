package server_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/server"
	"github.com/fanoutd/fanoutd/internal/server/quota"
)

// A list that waits for etcd has not reserved memory yet, so it does not delay lists with
// `any`.
func TestListsWithAnyDoNotWaitForListsThatWaitForEtcd(t *testing.T) {
	in := start(t, settings{
		limits:  quota.Limits{ListBytes: 3 << 20}, // one list
		prepare: func(s *server.Server) { s.SetSlotTimes(100*time.Millisecond, time.Hour) },
	})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	etcd := newGate("Revision")
	defer etcd.open()
	in.seams[config].on(etcd.pass)
	waiting, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		_, err := in.reads.List(waiting, &fanoutv1.ListRequest{Resource: config})
		done <- err
	}()
	etcd.await(ctx, t)
	if u := in.server.Usage(); u.ListBytes != 0 {
		t.Errorf("got %d bytes reserved by a list that waits for etcd, want 0", u.ListBytes)
	}
	other := fanoutv1.NewFanoutServiceClient(in.dialFrom(t, host(2)))
	if _, err := other.List(ctx, &fanoutv1.ListRequest{Resource: config, Consistency: anyRevision()}); err != nil {
		t.Errorf("list with any: %v", err)
	}
	cancel()
	<-done
	in.wantNoUsage(ctx, t)
}

// A list that waits for memory holds no state while it waits. It reads the newest state
// once it has the memory.
func TestListsThatWaitForMemoryHoldNoState(t *testing.T) {
	in := start(t, settings{limits: quota.Limits{ListBytes: 3 << 20}})
	ctx := within(t)
	in.someObjects(ctx, t, 16) // a MiB
	conn := in.dialFrom(t, host(2), grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(64<<10))
	stuck, cancel := context.WithCancel(ctx)
	defer cancel()
	openList(stuck, t, conn)
	in.awaitUsage(ctx, t, "a list is held", func(u quota.Usage) bool { return u.ListBytes > 16*64<<10 && u.ListBytes < 2<<20 })
	type result struct {
		response *fanoutv1.ListResponse
		err      error
	}
	done := make(chan result, 1)
	go func() {
		resp, err := in.reads.List(ctx, &fanoutv1.ListRequest{Resource: config})
		done <- result{resp, err}
	}()
	in.awaitUsage(ctx, t, "a list waits for memory", func(u quota.Usage) bool { return u.ListsWaiting == 1 })
	written := in.put(ctx, t, config, "later", "new")
	if _, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: config, Key: "later"}); err != nil {
		t.Fatal(err)
	}
	cancel()
	got := <-done
	if got.err != nil {
		t.Fatal(got.err)
	}
	if at := got.response.GetPosition().GetRevision(); at < written {
		t.Errorf("got a list of revision %d, want %d or newer", at, written)
	}
}
