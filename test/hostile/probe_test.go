package hostile

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// probeInterval is the time between two writes of a probe.
const probeInterval = 20 * time.Millisecond

// probe is a well-behaved client that writes at a fixed rate, whether or not its events have
// come, and watches what it writes. So a stall counts for each write that falls into it.
type probe struct {
	writes fanoutv1.StoreServiceClient
	stream fanoutv1.FanoutService_WatchClient
	end    context.CancelFunc // of the stream
	next   int                // number of the next write

	repeated sync.Map // numbers of writes with an unknown outcome, whose events may arrive twice
}

func newProbe(ctx context.Context, t *testing.T, address string) *probe {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	p := &probe{writes: fanoutv1.NewStoreServiceClient(conn)}
	if err := p.write(ctx, 0); err != nil {
		t.Fatal(err)
	}
	ctx, p.end = context.WithCancel(ctx)
	t.Cleanup(p.end)
	p.stream, err = fanoutv1.NewFanoutServiceClient(conn).Watch(ctx, &fanoutv1.WatchRequest{
		Resource: resource, Scope: &fanoutv1.Scope{Scope: &fanoutv1.Scope_Prefix{Prefix: "probe"}},
		Begin: &fanoutv1.WatchRequest_FromNow{FromNow: &fanoutv1.FromNow{}},
	})
	if err == nil {
		_, err = p.stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *probe) write(ctx context.Context, n int) error {
	_, err := p.writes.Put(ctx, &fanoutv1.PutRequest{Resource: resource, Put: &fanoutv1.PutOperation{
		Key: "probe/" + strconv.Itoa(n%100), Value: &fanoutv1.PutOperation_Text{Text: strconv.Itoa(n)},
	}})
	return err
}

// latencies are the times from when a write was due to its event, sorted.
type latencies []time.Duration

func (l latencies) sorted() latencies { return slices.Sorted(slices.Values(l)) }

// at returns the latency that a share of the writes does not exceed.
func (l latencies) at(share float64) time.Duration {
	return l[min(int(share*float64(len(l))), len(l)-1)]
}

func (l latencies) p99() time.Duration     { return l.at(0.99) }
func (l latencies) longest() time.Duration { return l[len(l)-1] }

func (l latencies) String() string {
	const unit = 10 * time.Microsecond
	return fmt.Sprintf("p50 %v, p99 %v, longest %v", l.at(0.5).Round(unit), l.p99().Round(unit), l.longest().Round(unit))
}

// measure writes for a time and waits for all events. Each event must arrive once.
func (p *probe) measure(ctx context.Context, t *testing.T, during time.Duration) latencies {
	t.Helper()
	count, first := int(during/probeInterval), p.next
	p.next += count
	began := time.Now()
	due := func(n int) time.Time { return began.Add(time.Duration(n-first) * probeInterval) }
	var writing sync.WaitGroup
	defer writing.Wait()
	failed := make(chan error, count)
	write := func(n int) {
		err := p.write(ctx, n)
		// Etcd may be late on a busy machine.
		for status.Code(err) == codes.Unavailable && !measures() && ctx.Err() == nil {
			p.repeated.Store(n, true)
			err = p.write(ctx, n)
		}
		if err != nil {
			failed <- err
			p.end()
		}
	}
	writing.Go(func() {
		timer := time.NewTimer(0)
		defer timer.Stop()
		for n := first; n < first+count; n++ {
			timer.Reset(time.Until(due(n)))
			<-timer.C
			writing.Go(func() { write(n) })
		}
	})
	var all latencies
	seen := map[int]bool{}
	for len(all) < count {
		m, err := p.stream.Recv()
		if err != nil {
			select {
			case err = <-failed:
			default:
			}
			t.Fatalf("after %d of %d events: %v", len(all), count, err)
		}
		for _, e := range m.GetEvents() {
			n, err := strconv.Atoi(e.GetObject().GetText())
			_, again := p.repeated.Load(n)
			if again && (seen[n] || n < first) {
				continue
			}
			if err != nil || n < first || n >= first+count || seen[n] {
				t.Fatalf("got event %v, want another one from %d to %d", e, first, first+count-1)
			}
			seen[n] = true
			all = append(all, time.Since(due(n)))
		}
	}
	return all.sorted()
}
