package server

import (
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/server/registry"
)

// The numbers of an answer are those of its rows, although a scan that callers share does not have
// what was reported since.
func TestNumbersOfWatchersAgreeWithTheRows(t *testing.T) {
	srv, _ := startWithoutListener(t)
	local, err := srv.Local()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { local.Close() })
	reads := fanoutv1.NewFanoutServiceClient(local)
	var tokens []string
	for range 5 {
		w, err := reads.Watch(t.Context(), &fanoutv1.WatchRequest{Resource: "r"})
		if err != nil {
			t.Fatal(err)
		}
		header, err := w.Header()
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, header.Get(registry.TokenHeader)...)
	}
	fail := func(tokens []string) {
		t.Helper()
		for _, token := range tokens {
			req := &fanoutv1.ReportRequest{Watch: token, Error: &rpcstatus.Status{Code: int32(code.Code_ABORTED)}}
			if _, err := reads.Report(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		}
	}
	now := time.Now()
	scans := newLagScans(srv.watches)
	scans.now, scans.many = func() time.Time { return now }, 1
	a := &admin{resources: srv.resources, watches: srv.watches, lagScans: scans, rights: srv.rights}
	want := func(req *fanoutv1.ListWatchersRequest, rows int, total, failing int64) {
		t.Helper()
		for _, order := range []fanoutv1.ListWatchersRequest_Order{fanoutv1.ListWatchersRequest_ORDER_LAG, fanoutv1.ListWatchersRequest_ORDER_ID} {
			req.Order = order
			resp, err := a.ListWatchers(t.Context(), req)
			if err != nil || len(resp.GetWatchers()) != rows || resp.GetTotal() != total || resp.GetFailing() != failing {
				t.Errorf("%v: got %d rows, %d in total, %d failing, %v; want %d, %d, %d", req, len(resp.GetWatchers()), resp.GetTotal(), resp.GetFailing(), err, rows, total, failing)
			}
		}
	}
	want(&fanoutv1.ListWatchersRequest{}, 5, 5, 0)
	fail(tokens[:2])
	want(&fanoutv1.ListWatchersRequest{Failing: true}, 2, 2, 2)
	want(&fanoutv1.ListWatchersRequest{Failing: true, PageSize: 1}, 1, 2, 2)
	want(&fanoutv1.ListWatchersRequest{PageSize: 3}, 3, 5, 2)
	fail(tokens[2:])
	want(&fanoutv1.ListWatchersRequest{}, 5, 5, 5)
	// The scan of the failing watches is shared.
	req := &fanoutv1.ListWatchersRequest{Failing: true, Order: fanoutv1.ListWatchersRequest_ORDER_LAG}
	resp, err := a.ListWatchers(t.Context(), req)
	if err != nil || len(resp.GetWatchers()) != 2 || resp.GetTotal() != 2 || resp.GetFailing() != 2 {
		t.Errorf("got %d rows, %d in total, %d failing, %v; want 2", len(resp.GetWatchers()), resp.GetTotal(), resp.GetFailing(), err)
	}
	now = now.Add(lagScanAge)
	want(&fanoutv1.ListWatchersRequest{Failing: true}, 5, 5, 5)
}
