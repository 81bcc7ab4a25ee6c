package observability

import (
	"context"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
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

// TestReportsAreExported checks that each watch counts once by its applied lag, and that errors
// are counted until a report clears them.
func TestReportsAreExported(t *testing.T) {
	in := start(t, nil)
	ctx := within(t)
	fast, late, _ := in.watch(t, &fanoutv1.WatchRequest{}), in.watch(t, &fanoutv1.WatchRequest{}), in.watch(t, &fanoutv1.WatchRequest{})
	in.put(t, "k", "1")
	first := next(t, late).GetPosition()
	in.report(ctx, t, late, first, nil)
	next(t, fast)
	in.put(t, "k", "2")
	in.report(ctx, t, fast, next(t, fast).GetPosition(), nil)
	next(t, late)
	bad := &status.Status{Code: int32(codes.InvalidArgument), Message: "bad"}
	in.report(ctx, t, late, first, bad)
	in.report(ctx, t, late, first, bad)

	want := func(failing, errors, upToDate, behind float64) {
		t.Helper()
		s := in.scrape(t)
		byLag := map[string]float64{}
		for _, m := range s["fanoutd_watchers_by_applied_lag"].GetMetric() {
			for _, l := range m.GetLabel() {
				switch {
				case l.GetName() != "lag":
				case l.GetValue() == "0s", l.GetValue() == "unreported":
					byLag[l.GetValue()] += m.GetGauge().GetValue()
				default:
					byLag["behind"] += m.GetGauge().GetValue()
				}
			}
		}
		if byLag["0s"] != upToDate || byLag["behind"] != behind || byLag["unreported"] != 1 {
			t.Errorf("got %v, want %v up to date, %v behind and 1 unreported", byLag, upToDate, behind)
		}
		if got := s.value(t, "fanoutd_watchers_failing", ours); got != failing {
			t.Errorf("got %v failing watches, want %v", got, failing)
		}
		if got := s.value(t, "fanoutd_watch_reported_errors_total", ours); got != errors {
			t.Errorf("got %v reported errors, want %v", got, errors)
		}
	}
	want(1, 1, 1, 1)
	in.put(t, "k", "3")
	in.report(ctx, t, fast, next(t, fast).GetPosition(), nil)
	in.report(ctx, t, late, next(t, late).GetPosition(), nil)
	want(0, 1, 2, 0)
}
