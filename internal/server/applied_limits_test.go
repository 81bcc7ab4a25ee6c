package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/server"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/quota"
)

// Requests that wait for watches are limited like watches.
func TestWaitsAreLimitedForEachClientAndInTotal(t *testing.T) {
	in := start(t, settings{limits: quota.Limits{Waits: 3, WaitsPerClient: 2}})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	from := func(n int) *instance {
		caller := *in
		caller.conn = in.dialFrom(t, host(n))
		return &caller
	}
	one, other := from(2), from(3)
	var end []func()
	open := func(of *instance) {
		t.Helper()
		ctx, cancel := context.WithCancel(ctx)
		end = append(end, cancel)
		of.watchApplied(ctx, t, nil, 1).await(counts{})
	}
	refused := func(of *instance, want refusal) {
		t.Helper()
		_, err := of.watchApplied(ctx, t, nil, 1).stream.Recv()
		wantRefusal(t, err, want)
	}
	open(one)
	open(one)
	refused(one, exhausted(apierr.MaxWaitsPerClient, map[string]string{"limit": "2", "client": host(2)}))
	open(other)
	refused(other, exhausted(apierr.MaxWaits, map[string]string{"limit": "3"}))
	end[0]()
	in.awaitUsage(ctx, t, "a wait has ended", func(u quota.Usage) bool { return u.Waits == 2 })
	open(other)
	for _, end := range end {
		end()
	}
	in.wantNoUsage(ctx, t)
}

// largeWatches starts watches whose statuses have more than 4 KiB each.
func (in *instance) largeWatches(ctx context.Context, t *testing.T, n int) {
	t.Helper()
	for i := range n {
		labels := fmt.Sprintf("app in (%d%s)", i, strings.Repeat(",x", 2000))
		w := in.watch(ctx, t, &fanoutv1.WatchRequest{Resource: config, LabelSelector: labels, Reports: true})
		w.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
		in.report(ctx, t, w, nil, failed(strings.Repeat("e", 5000)))
	}
}

// Lists of watchers that clients do not read hold memory, as lists of objects do.
func TestUnreadListsOfWatchersHoldMemoryUntilTheyEnd(t *testing.T) {
	in := start(t, settings{limits: quota.Limits{ListBytes: 8 << 20}})
	ctx := within(t)
	in.put(ctx, t, config, "a", "1")
	in.largeWatches(ctx, t, 40)
	list := &fanoutv1.ListWatchersRequest{Resource: config}
	if n := len(in.watchers(ctx, t, list).GetWatchers()); n != 40 {
		t.Errorf("got %d watchers", n)
	}
	conn := in.dialFrom(t, host(2), grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(64<<10))
	openUnread(ctx, t, conn, fanoutv1.AdminService_ListWatchers_FullMethodName, list)
	in.awaitUsage(ctx, t, "a list is held", func(u quota.Usage) bool { return u.ListBytes > 160<<10 && u.ListBytes < 1<<20 })
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	in.awaitUsage(ctx, t, "the list holds nothing", func(u quota.Usage) bool {
		collectGarbage(u)
		return u.ListBytes == 0
	})
}

// Answers that clients do not read hold memory, which is reserved as that of lists is. A client gets
// no more than it leaves to others, and all of it is free when the requests end.
func TestUnreadWaitsHoldMemoryUntilTheyEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	const most, waits = 1 << 20, 20
	in := start(t, settings{
		limits:  quota.Limits{ListBytes: most},
		prepare: func(s *server.Server) { s.SetSlotTimes(50*time.Millisecond, time.Hour) },
	})
	ctx := within(t)
	at := in.put(ctx, t, config, "a", "1")
	watching, leave := context.WithCancel(ctx)
	defer leave()
	in.largeWatches(watching, t, 40)
	for name, end := range map[string]func(cancel func(), conn *grpc.ClientConn){
		"stream":     func(cancel func(), _ *grpc.ClientConn) { cancel() },
		"connection": func(_ func(), conn *grpc.ClientConn) { _ = conn.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			narrow := *in
			narrow.conn = in.dialFrom(t, host(2), grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(64<<10))
			stuck, cancel := context.WithCancel(ctx)
			defer cancel()
			before := in.server.Usage().Refused[apierr.MaxListMemory]
			for range waits {
				narrow.watchApplied(stuck, t, nil, at)
			}
			in.awaitUsage(ctx, t, "some wait, and the others are refused", func(u quota.Usage) bool {
				return u.Refused[apierr.MaxListMemory]-before+int64(u.Waits) == waits && u.ListsWaiting == 0 && u.Waits < waits
			})
			if u := in.server.Usage(); u.Waits == 0 || u.ListBytes < int64(u.Waits)*64<<10 || u.ListBytes > most/2 {
				t.Errorf("%d waits have reserved %d bytes", u.Waits, u.ListBytes)
			}
			// Another client gets its answer.
			reading, stop := context.WithCancel(ctx)
			defer stop()
			if got := in.watchApplied(reading, t, nil, at).next(); got.Watches != 40 || got.Failed != 40 {
				t.Errorf("got %+v", got)
			}
			stop()
			end(cancel, narrow.conn)
			in.awaitUsage(ctx, t, "no wait holds anything", func(u quota.Usage) bool {
				collectGarbage(u)
				return u.ListBytes == 0 && u.Waits == 0
			})
		})
	}
}
