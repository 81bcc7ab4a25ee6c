package server

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/lag"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/registry"
	"github.com/fanoutd/fanoutd/test/poll"
)

// subscribed returns a server with streams of 1,000 watches of one interest.
func subscribed(tb testing.TB, streams int) *admin {
	tb.Helper()
	srv, _ := startWithoutListener(tb)
	local, err := srv.Local()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { local.Close() })
	reads := fanoutv1.NewFanoutServiceClient(local)
	for range streams {
		s, err := reads.Subscribe(tb.Context())
		if err != nil {
			tb.Fatal(err)
		}
		const watches = 1000
		for id := range uint64(watches) {
			if err := s.Send(&fanoutv1.SubscribeRequest{Request: &fanoutv1.SubscribeRequest_Start_{Start: &fanoutv1.SubscribeRequest_Start{
				WatchId: id, Request: &fanoutv1.WatchRequest{Resource: "r", Begin: &fanoutv1.WatchRequest_FromNow{FromNow: &fanoutv1.FromNow{}}},
			}}}); err != nil {
				tb.Fatal(err)
			}
		}
		for begun := 0; begun < watches; {
			resp, err := s.Recv()
			if err != nil {
				tb.Fatal(err)
			}
			for _, e := range resp.GetEntries() {
				begun += len(e.GetWatchIds())
			}
		}
	}
	return &admin{resources: srv.resources, watches: srv.watches, lagScans: newLagScans(srv.watches), rights: srv.rights}
}

// BenchmarkListWatchersByLag lists the 25 watches that are furthest behind, as the status page does.
func BenchmarkListWatchersByLag(b *testing.B) {
	for _, streams := range []int{1, 200} {
		b.Run(fmt.Sprintf("watches=%d", 1000*streams), func(b *testing.B) {
			a := subscribed(b, streams)
			a.lagScans.many = 1 << 30 // no call shares a scan
			req := &fanoutv1.ListWatchersRequest{Order: fanoutv1.ListWatchersRequest_ORDER_LAG, PageSize: 25}
			b.ReportAllocs()
			for b.Loop() {
				if resp, err := a.ListWatchers(b.Context(), req); err != nil || len(resp.GetWatchers()) != 25 {
					b.Fatal(resp, err)
				}
			}
		})
	}
}

// Callers within a second share a scan of many watches.
func TestCallersShareALagScan(t *testing.T) {
	a := subscribed(t, 1)
	scans, now := a.lagScans, time.Now()
	scans.now = func() time.Time { return now }
	list := func(req *fanoutv1.ListWatchersRequest, watches int) {
		req.Order = fanoutv1.ListWatchersRequest_ORDER_LAG
		resp, err := a.ListWatchers(t.Context(), req)
		if err != nil || len(resp.GetWatchers()) != watches || resp.GetTotal() < int64(watches) {
			t.Errorf("got %d of %d watches and error %v, want %d watches", len(resp.GetWatchers()), resp.GetTotal(), err, watches)
		}
	}
	looked := 0
	wantLooked := func(what string, more int) {
		t.Helper()
		looked += more
		if scans.looked != looked {
			t.Errorf("%s: looked at %d watches, want %d", what, scans.looked, looked)
		}
	}
	concurrently := func() {
		var callers sync.WaitGroup
		for size := range int32(8) {
			callers.Go(func() { list(&fanoutv1.ListWatchersRequest{PageSize: 1 + size}, int(1+size)) })
		}
		callers.Wait()
	}
	concurrently()
	wantLooked("few watches, so each caller scans", 8*1000)

	scans.many = 1000
	concurrently()
	wantLooked("many watches", 1000)
	now = now.Add(lagScanAge - 1)
	concurrently()
	wantLooked("later", 0)
	list(&fanoutv1.ListWatchersRequest{Resource: "r"}, 1000)
	wantLooked("the resource by name", 0)
	now = now.Add(1)
	concurrently()
	wantLooked("a second later", 1000)

	for w := range scans.registry.After(registry.Number{}, "r") {
		w.End(apierr.ErrEndedByOperator)
		break
	}
	poll.Until(t, "the watch has ended", func() bool { return scans.registry.CountByResource()["r"] == 999 })
	list(&fanoutv1.ListWatchersRequest{}, 999)
	wantLooked("a watch has ended", 0)
}

// The memory of a scan does not grow with the number of watches, but a little with that of streams.
func TestALagScanTakesBoundedMemory(t *testing.T) {
	allocated := func(streams int) uint64 {
		a := subscribed(t, streams)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		a.lagScans.list([]string{"r"}, false, 1)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	const forStream = 4 << 10
	few, many := allocated(5), allocated(20)
	t.Logf("%d and %d bytes", few, many)
	if many > few+15*forStream {
		t.Errorf("got %d bytes for five streams and %d for 20, each with 1,000 watches", few, many)
	}
}

// laggingWatch is a watch that is some seconds behind.
type laggingWatch struct {
	registry.Watch
	number  uint64
	seconds int
}

func (w *laggingWatch) Number() registry.Number { return registry.Number{RPC: w.number} }

func lagOfTest(w registry.Watch) lag.Lag { return lag.Lag{Seconds: float64(w.(*laggingWatch).seconds)} }

// The watches that are furthest behind are found among very many, and the oldest of equal ones.
func TestTheMostLaggingWatchesAreFound(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var all []registry.Watch
	for i := range uint64(10 * maxWatchersPage) {
		all = append(all, &laggingWatch{number: i, seconds: random.IntN(20_000)})
	}
	want := slices.Clone(all)
	slices.SortStableFunc(want, func(x, y registry.Watch) int {
		return cmp.Compare(y.(*laggingWatch).seconds, x.(*laggingWatch).seconds)
	})
	for _, most := range []int{1, 25, maxWatchersPage} {
		if !slices.Equal(mostLagging(slices.Values(all), most, lagOfTest), want[:most]) {
			t.Errorf("the %d watches with the largest lag are not those of a complete sort", most)
		}
	}
	// A scan that is used again has found them in the order of earlier lags.
	few := slices.Clone(want[:maxWatchersPage])
	slices.Reverse(few)
	if !slices.Equal(mostLagging(slices.Values(few), 25, lagOfTest), want[:25]) {
		t.Error("the watches of a scan are not ordered anew")
	}
}
