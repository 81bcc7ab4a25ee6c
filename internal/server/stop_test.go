package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

var draining = refusal{Code: codes.Unavailable, Reason: apierr.ReasonDraining, Retry: true}

// wantDrained checks that the next message is DRAINING with the position to resume at, and
// that the stream then ends with the reason.
func (w *watch) wantDrained(want *fanoutv1.Position) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.drained(), protocmp.Transform()); diff != "" {
		w.t.Errorf("position to resume at, -want +got:\n%s", diff)
	}
}

// drained checks that the stream ends with DRAINING, and returns the position.
func (w *watch) drained() *fanoutv1.Position {
	w.t.Helper()
	m := w.next(fanoutv1.WatchResponse_KIND_DRAINING)
	_, err := w.stream.Recv()
	wantRefusal(w.t, err, draining)
	return m.GetPosition()
}

func TestStopEndsStreamsWithThePositionToResumeAt(t *testing.T) {
	etcd := openEtcd(t, 0)
	in := startOver(t, etcd, settings{})
	ctx := within(t)
	for i := range 3 {
		in.put(ctx, t, config, fmt.Sprint("team/", i), "1")
	}
	type resumed struct {
		scope *fanoutv1.Scope
		*watch
		at *fanoutv1.Position
	}
	var watches []resumed
	for _, scope := range []*fanoutv1.Scope{nil, prefix("team"), exactly("team/1"), exactly("quiet")} {
		w := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Scope: scope})
		_, synced := w.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
		watches = append(watches, resumed{scope, w, synced.GetPosition()})
	}
	written := in.put(ctx, t, config, "team/1", "2")
	for i := range watches {
		if w := &watches[i]; w.scope.GetKey() != "quiet" {
			w.at = w.wantEvents(modified("team/1", "2", written))
		}
	}

	in.stop(ctx)
	if ctx.Err() != nil {
		t.Fatal("the server did not stop before the deadline")
	}
	for i := range watches {
		w := &watches[i]
		if w.scope.GetKey() != "quiet" {
			w.wantDrained(w.at)
			continue
		}
		// Its position may include the write, which is outside its scope.
		at := w.drained()
		if at.GetEpoch() != w.at.GetEpoch() || at.GetRevision() < w.at.GetRevision() || at.GetRevision() > written {
			w.t.Errorf("got position %v for the watcher without events, want between %v and revision %d", at, w.at, written)
		}
		w.at = at
	}

	// Another server continues exactly there.
	other := startOver(t, etcd, settings{})
	next := other.put(ctx, t, config, "team/1", "3")
	other.list(ctx, t, &fanoutv1.ListRequest{Resource: config}, nothing) // wait until its cache has the positions of the watches
	for _, was := range watches {
		w := other.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Scope: was.scope, Begin: after(was.at)})
		events, _ := w.catchUp(fanoutv1.WatchResponse_CATCH_UP_REPLAY)
		var want []event
		if was.scope.GetKey() != "quiet" {
			want = append(want, modified("team/1", "3", next))
		}
		if diff := cmp.Diff(want, events); diff != "" {
			t.Errorf("resumed at %v, -want +got:\n%s", was.at, diff)
		}
	}
}

func TestStopWaitsForRunningRequests(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	commits := newGate("Commit")
	defer commits.open()
	in.seams[config].on(commits.pass)
	written := make(chan error, 1)
	go func() {
		_, err := in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: config, Put: putText("a", "")})
		written <- err
	}()
	commits.await(ctx, t)
	w := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
	now := w.next(fanoutv1.WatchResponse_KIND_BOOKMARK).GetPosition()

	stopped := make(chan struct{})
	go func() {
		in.stop(ctx)
		close(stopped)
	}()
	w.wantDrained(now) // the server has begun to stop
	select {
	case <-stopped:
		t.Fatal("the server stopped while a request was running")
	case err := <-written:
		t.Fatalf("the running request ended before the store answered: %v", err)
	default:
	}
	commits.open()
	if err := <-written; err != nil {
		t.Errorf("the running request failed: %v", err)
	}
	<-stopped
}

func TestStopKeepsItsDeadlineWithAStuckClient(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	in := start(t, settings{})
	ctx := within(t)
	for i := range 4 {
		in.put(ctx, t, config, fmt.Sprint(i), strings.Repeat("x", maxValueBytes))
	}
	// The stuck client does not read and its window does not grow, so the handler cannot
	// send the snapshot.
	conn := dial(t, in.address, grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(64<<10))
	stuck, err := fanoutv1.NewFanoutServiceClient(conn).Watch(ctx, &fanoutv1.WatchRequest{Resource: config})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stuck.Header(); err != nil {
		t.Fatal(err)
	}
	in.awaitWatcher(ctx, t, func(w *fanoutv1.WatcherStatus) bool { return w.GetBlocked() })
	w := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
	now := w.next(fanoutv1.WatchResponse_KIND_BOOKMARK).GetPosition()

	grace, endGrace := context.WithCancel(ctx)
	stopped := make(chan struct{})
	go func() {
		in.stop(grace)
		close(stopped)
	}()
	w.wantDrained(now) // other watches do not wait for the stuck one
	select {
	case <-stopped:
		t.Fatal("the server stopped before the grace period of the stuck client was over")
	default:
	}
	endGrace()
	select {
	case <-stopped:
	case <-ctx.Done():
		t.Fatal("the server did not stop after the grace period")
	}
	for err == nil {
		_, err = stuck.Recv()
	}
	if errors.Is(err, io.EOF) || status.Code(err) != codes.Unavailable {
		t.Errorf("got stream end %v for the stuck client, want UNAVAILABLE", err)
	}
}

func TestAStoppedServerRefusesConnections(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	in := start(t, settings{})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	in.stop(ctx)
	_, err := in.reads.List(ctx, &fanoutv1.ListRequest{Resource: config})
	if status.Code(err) != codes.Unavailable {
		t.Errorf("got %v, want UNAVAILABLE", err)
	}
}
