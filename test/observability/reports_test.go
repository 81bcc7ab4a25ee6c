package observability

import (
	"context"
	"maps"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/poll"
)

// report reports for a watch.
func (in *instance) report(ctx context.Context, t *testing.T, w grpc.ServerStreamingClient[fanoutv1.WatchResponse], applied *fanoutv1.Position, failed *status.Status) {
	t.Helper()
	header, err := w.Header()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.reads.Report(ctx, &fanoutv1.ReportRequest{Watch: header.Get("fanout-watch")[0], Applied: applied, Error: failed}); err != nil {
		t.Fatal(err)
	}
}

// reporting has watches that report. The ids of the watches are 1, 2 and so on.
type reporting interface {
	next(t *testing.T, id uint64) *fanoutv1.WatchResponse
	report(t *testing.T, id uint64, applied *fanoutv1.Position, failed *status.Status)
}

// separately has watches of the method Watch.
type separately struct {
	in      *instance
	ctx     context.Context
	watches []grpc.ServerStreamingClient[fanoutv1.WatchResponse]
}

func (s *separately) next(t *testing.T, id uint64) *fanoutv1.WatchResponse {
	t.Helper()
	return next(t, s.watches[id-1])
}

func (s *separately) report(t *testing.T, id uint64, applied *fanoutv1.Position, failed *status.Status) {
	t.Helper()
	s.in.report(s.ctx, t, s.watches[id-1], applied, failed)
}

// TestReportsAreExported checks that each watch counts once by its applied lag, and that errors
// are counted until a report clears them.
func TestReportsAreExported(t *testing.T) {
	const watches = 3
	t.Run("Watch", func(t *testing.T) {
		in := start(t, nil)
		s := &separately{in: in, ctx: within(t)}
		for range watches {
			s.watches = append(s.watches, in.watch(t, &fanoutv1.WatchRequest{}))
		}
		wantReportsExported(t, in, s)
	})
	t.Run("Subscribe", func(t *testing.T) {
		in := start(t, nil)
		var requests []*fanoutv1.WatchRequest
		for range watches {
			requests = append(requests, &fanoutv1.WatchRequest{})
		}
		wantReportsExported(t, in, in.subscribe(within(t), t, requests...))
	})
}

// wantReportsExported reports for two of three watches.
func wantReportsExported(t *testing.T, in *instance, s reporting) {
	t.Helper()
	const fast, late = 1, 2
	in.put(t, "k", "1")
	first := s.next(t, late).GetPosition()
	s.report(t, late, first, nil)
	s.next(t, fast)
	in.put(t, "k", "2")
	s.report(t, fast, s.next(t, fast).GetPosition(), nil)
	s.next(t, late)
	bad := &status.Status{Code: int32(codes.InvalidArgument), Message: "bad"}
	s.report(t, late, first, bad)
	s.report(t, late, first, bad)

	// Reports of a stream have no answer, so the first scrapes may be too early.
	want := func(failing, errors, upToDate, behind float64) {
		t.Helper()
		wanted := map[string]float64{"failing": failing, "errors": errors, "0s": upToDate, "behind": behind, "unreported": 1}
		var got map[string]float64
		if !poll.Wait(within(t), func() bool {
			got = in.reported(t)
			return maps.Equal(got, wanted)
		}) {
			t.Fatalf("got %v, want %v", got, wanted)
		}
	}
	want(1, 1, 1, 1)
	in.put(t, "k", "3")
	s.report(t, fast, s.next(t, fast).GetPosition(), nil)
	s.report(t, late, s.next(t, late).GetPosition(), nil)
	want(0, 1, 2, 0)
}

// reported returns the numbers of watches by what they have reported, and the number of reported
// errors.
func (in *instance) reported(t *testing.T) map[string]float64 {
	t.Helper()
	s := in.scrape(t)
	got := map[string]float64{
		"failing": s.value(t, "fanoutd_watchers_failing", ours), "errors": s.value(t, "fanoutd_watch_reported_errors_total", ours),
		"0s": 0, "behind": 0, "unreported": 0,
	}
	for _, m := range s["fanoutd_watchers_by_applied_lag"].GetMetric() {
		for _, l := range m.GetLabel() {
			switch _, known := got[l.GetValue()]; {
			case l.GetName() != "lag":
			case known:
				got[l.GetValue()] += m.GetGauge().GetValue()
			default:
				got["behind"] += m.GetGauge().GetValue()
			}
		}
	}
	return got
}
