package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/server"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/fanoutd/fanoutd/test/poll"
)

// entrance is a method that serves watches. What holds for one holds for all of them: the limits, and
// what operators see.
type entrance struct {
	// open starts a watch. Its client has the name in the request.
	open func(ctx context.Context, t *testing.T, in *instance, req *fanoutv1.WatchRequest) (w *watch, report func(*fanoutv1.ReportRequest))

	// message returns what a client sends to start a watch.
	message func(req *fanoutv1.WatchRequest) proto.Message
}

// entrances are all methods that serve watches, by their names.
var entrances = map[string]entrance{
	fanoutv1.FanoutService_Watch_FullMethodName: {
		open: func(ctx context.Context, t *testing.T, in *instance, req *fanoutv1.WatchRequest) (*watch, func(*fanoutv1.ReportRequest)) {
			stream, err := in.reads.Watch(ctx, req)
			if err != nil {
				t.Fatal(err)
			}
			w := &watch{t, stream}
			return w, func(report *fanoutv1.ReportRequest) {
				report.Watch = w.token()
				_, _ = in.reads.Report(ctx, report)
			}
		},
		message: func(req *fanoutv1.WatchRequest) proto.Message { return req },
	},
	fanoutv1.FanoutService_Subscribe_FullMethodName: {
		open: func(ctx context.Context, t *testing.T, in *instance, req *fanoutv1.WatchRequest) (*watch, func(*fanoutv1.ReportRequest)) {
			s := in.subscribe(ctx, t)
			if name := req.GetSubscriber(); name != nil {
				s.send(&fanoutv1.SubscribeRequest{Request: &fanoutv1.SubscribeRequest_Subscriber{Subscriber: name}})
			}
			return s.start(1, req), func(report *fanoutv1.ReportRequest) {
				s.send(&fanoutv1.SubscribeRequest{Request: &fanoutv1.SubscribeRequest_Report_{Report: &fanoutv1.SubscribeRequest_Report{
					WatchId: 1, Applied: report.GetApplied(), Error: report.GetError(), Attempted: report.GetAttempted(), FailedKeys: report.GetFailedKeys(),
				}}})
			}
		},
		message: func(req *fanoutv1.WatchRequest) proto.Message { return startRequest(1, req) },
	},
}

// otherStreams are the methods with streams that serve no watches of resources.
var otherStreams = map[string]bool{
	fanoutv1.AdminService_WatchApplied_FullMethodName:                true,
	fanoutv1.ClusterService_TakeSnapshot_FullMethodName:              true,
	"/grpc.health.v1.Health/Watch":                                   true,
	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      true,
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": true,
}

// Every method with a stream is an entrance that the tests below go through, or serves no watches.
func TestEveryEntranceIsKnown(t *testing.T) {
	in := start(t, settings{})
	for service, info := range in.server.GetServiceInfo() {
		for _, m := range info.Methods {
			name := "/" + service + "/" + m.Name
			if _, ok := entrances[name]; !ok && !otherStreams[name] && (m.IsServerStream || m.IsClientStream) {
				t.Errorf("%s is a stream, but neither in entrances nor in otherStreams", name)
			}
		}
	}
}

// unread starts a watch whose client does not read.
func (e entrance) unread(ctx context.Context, t *testing.T, in *instance, method string, req *fanoutv1.WatchRequest) {
	t.Helper()
	const window = 64 << 10
	conn := dial(t, in.address, grpc.WithStaticStreamWindowSize(window), grpc.WithStaticConnWindowSize(window), grpc.WithPerRPCCredentials(bearer("ann")))
	openUnread(ctx, t, conn, method, e.message(req))
}

// withoutCache has the fields of a status that need a cache.
var withoutCache = map[protoreflect.Name]bool{
	"lag_revisions": true, "lag_events": true, "lag": true, "lag_is_minimum": true, "applied_lag": true,
}

// Operators see every field of the status of a watch, whatever its entrance. Without a cache, they do not see
// how far it is behind.
func TestEveryEntranceFillsInTheStatus(t *testing.T) {
	t.Parallel()
	for method, e := range entrances {
		for name, uncached := range map[string]bool{"cached": false, "uncached": true} {
			t.Run(name+method, func(t *testing.T) {
				in := start(t, settings{
					window:    cacher.WindowLimits{MinChanges: 1, MaxChanges: 1},
					uncached:  uncached,
					configure: func(cfg *server.Config) { cfg.Authenticator = &access.Authenticator{JWTs: believer{}} },
				}).as(t, "ann")
				ctx := within(t)
				at := in.put(ctx, t, config, "a", "1")
				w, report := e.open(ctx, t, in, &fanoutv1.WatchRequest{
					Resource: config, Reports: true, Subscriber: &fanoutv1.Subscriber{Instance: "i", Labels: map[string]string{"app": "shop"}},
				})
				_, synced := w.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
				report(&fanoutv1.ReportRequest{
					Applied: &fanoutv1.Position{Epoch: synced.GetPosition().GetEpoch(), Revision: at}, Error: failed("bad"), FailedKeys: []string{"a"},
					Attempted: &fanoutv1.Position{Epoch: synced.GetPosition().GetEpoch(), Revision: at},
				})
				e.unread(ctx, t, in, method, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()})
				all := (*fanoutv1.WatcherStatus)(nil).ProtoReflect().Descriptor().Fields()
				var wrong []string
				if !poll.Wait(ctx, func() bool {
					in.put(ctx, t, config, "a", strings.Repeat("x", 32<<10)) // the other watch falls behind
					seen := map[protoreflect.Name]bool{}
					for _, s := range in.watchers(ctx, t, &fanoutv1.ListWatchersRequest{}).GetWatchers() {
						for f := range s.ProtoReflect().Range {
							seen[f.Name()] = true
						}
					}
					wrong = nil
					for i := range all.Len() {
						if name := all.Get(i).Name(); seen[name] == (uncached && withoutCache[name]) {
							wrong = append(wrong, string(name))
						}
					}
					return wrong == nil
				}) {
					t.Errorf("%s leaves fields of WatcherStatus empty, or fills in some that need a cache: %q", method, wrong)
				}
			})
		}
	}
}

// exceeded is a way to exceed a limit with watches of an entrance.
type exceeded struct {
	limits quota.Limits

	// exceed uses the limit up and then exceeds it, until the server refuses something.
	exceed func(ctx context.Context, t *testing.T, in *instance, method string, e entrance)
}

// openUntilRefused starts watches with the requests, until one is refused.
func openUntilRefused(requests ...*fanoutv1.WatchRequest) func(context.Context, *testing.T, *instance, string, entrance) {
	return func(ctx context.Context, t *testing.T, in *instance, method string, e entrance) {
		t.Helper()
		for _, req := range requests {
			// Each watch has a stream of its own, because a stream has one snapshot slot.
			w, _ := e.open(ctx, t, in, req)
			if _, err := w.stream.Recv(); err != nil {
				return
			}
		}
		t.Errorf("none of %d watches of %s was refused", len(requests), method)
	}
}

func several(n int, req *fanoutv1.WatchRequest) (all []*fanoutv1.WatchRequest) {
	for range n {
		all = append(all, req)
	}
	return all
}

// unreadSnapshotThenOpen uses the snapshot slots up with a client that does not read, and starts
// another watch with a snapshot.
func unreadSnapshotThenOpen(ctx context.Context, t *testing.T, in *instance, method string, e entrance) {
	in.someObjects(ctx, t, 8)
	e.unread(ctx, t, in, method, &fanoutv1.WatchRequest{Resource: config})
	in.awaitUsage(ctx, t, "a snapshot is being sent", func(u quota.Usage) bool { return u.Snapshots == 1 })
	openUntilRefused(&fanoutv1.WatchRequest{Resource: config})(ctx, t, in, method, e)
}

// exceededByWatches has the limits that watches can exceed.
func exceededByWatches() map[apierr.Limit]exceeded {
	req := &fanoutv1.WatchRequest{Resource: config, Begin: fromNow()}
	var selecting []*fanoutv1.WatchRequest
	for i := range 2 {
		selecting = append(selecting, &fanoutv1.WatchRequest{Resource: config, Begin: fromNow(), LabelSelector: fmt.Sprint("tier!=", i)})
	}
	return map[apierr.Limit]exceeded{
		apierr.MaxWatchers:           {quota.Limits{Watchers: 1}, openUntilRefused(several(2, req)...)},
		apierr.MaxWatchersPerClient:  {quota.Limits{WatchersPerClient: 1}, openUntilRefused(several(2, req)...)},
		apierr.MaxSelectors:          {quota.Limits{Selectors: 1}, openUntilRefused(selecting...)},
		apierr.MaxSelectorsPerClient: {quota.Limits{SelectorsPerClient: 1}, openUntilRefused(selecting...)},
		apierr.MaxSnapshots:          {quota.Limits{Snapshots: 1}, unreadSnapshotThenOpen},
		apierr.MaxWaitingSnapshots:   {quota.Limits{Snapshots: 1, WaitingSnapshots: 1}, unreadSnapshotThenOpen},
		apierr.MaxRequestSize: {
			quota.Limits{RequestBytes: 64 << 10}, openUntilRefused(&fanoutv1.WatchRequest{Resource: config, LabelSelector: strings.Repeat("x", 64<<10)}),
		},
		apierr.MaxRequestRate: {quota.Limits{RequestRate: 0.001, RequestBurst: 20}, func(ctx context.Context, t *testing.T, in *instance, method string, e entrance) {
			// The client of the test needs requests, too.
			other := *in
			other.reads = fanoutv1.NewFanoutServiceClient(in.dialFrom(t, host(2)))
			w, _ := e.open(ctx, t, &other, req)
			for range 30 {
				if _, err := w.stream.Recv(); err != nil {
					return
				}
				if s, ok := w.stream.(*subscribedWatch); ok {
					w = s.s.start(s.id+1, req) // on the same stream
				} else {
					w, _ = e.open(ctx, t, &other, req)
				}
			}
			t.Errorf("none of 30 watches of %s was refused", method)
		}},
		apierr.MaxReportRate: {quota.Limits{ReportRate: 1}, func(ctx context.Context, t *testing.T, in *instance, _ string, e entrance) {
			w, report := e.open(ctx, t, in, req)
			at := w.next(fanoutv1.WatchResponse_KIND_BOOKMARK).GetPosition()
			for range 50 {
				report(&fanoutv1.ReportRequest{Applied: at})
			}
		}},
		apierr.MaxRequestMemory: {quota.Limits{RequestMemory: 1 << 20}, func(ctx context.Context, t *testing.T, in *instance, method string, _ entrance) {
			s := in.sendFrom(ctx, t, host(2))
			for range 2 {
				s.begin(t, method, "", sized(largeRequest)) // and never the rest of the message
			}
			s.await(t, "one request is refused", func() bool { return len(s.ended) == 1 })
		}},
	}
}

// notExceededByWatches has the limits on other requests.
var notExceededByWatches = map[apierr.Limit]bool{
	apierr.MaxListMemory: true, apierr.MaxWaits: true, apierr.MaxWaitsPerClient: true,
}

// Every limit holds for the watches of every entrance, and counts what it refuses. For a new limit,
// this file must say whether watches can exceed it.
func TestEveryLimitHoldsForEveryEntrance(t *testing.T) {
	t.Parallel()
	byWatches := exceededByWatches()
	for _, limit := range apierr.Limits {
		how, ok := byWatches[limit]
		if ok == notExceededByWatches[limit] {
			t.Errorf("%s: want it in one of exceededByWatches and notExceededByWatches", limit)
		}
		if !ok {
			continue
		}
		for method, e := range entrances {
			t.Run(string(limit)+method, func(t *testing.T) {
				in := start(t, settings{
					limits: how.limits, messageBytes: 128 << 10,
					prepare: func(s *server.Server) { s.SetSlotTimes(50*time.Millisecond, time.Hour) },
				})
				ctx := within(t)
				in.awaitLoaded(ctx, t)
				how.exceed(ctx, t, in, method, e)
				in.awaitUsage(ctx, t, "something is refused because of "+string(limit), func(u quota.Usage) bool { return u.Refused[limit] > 0 })
			})
		}
	}
}
