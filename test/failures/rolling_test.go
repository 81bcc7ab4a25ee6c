package failures

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// fleetWatcher watches the whole resource through a load balancer, with the Go client and a
// connection of its own. It measures how long it is without a server.
type fleetWatcher struct {
	client *client.Client

	mu        sync.Mutex
	streams   int               // guarded by mu: that were opened
	refused   []error           // guarded by mu: the ends of those without a message
	lost      time.Time         // guarded by mu: when the last stream ended; zero: it has not
	outages   []time.Duration   // guarded by mu: from the end of a stream to SYNCED of another
	revisions []object.Revision // guarded by mu: of the events that the caller got
}

func newFleetWatcher(t *testing.T, address string) *fleetWatcher {
	t.Helper()
	w := &fleetWatcher{}
	c, err := client.New(address, client.WithDialOptions(grpc.WithStreamInterceptor(w.intercept)))
	if err != nil {
		t.Fatal(err)
	}
	w.client = c
	var watching sync.WaitGroup
	ctx, leave := context.WithCancel(t.Context())
	watching.Go(func() {
		for u, err := range c.Resource(resource).Watch(ctx, client.EveryEvent()) {
			if err != nil {
				if ctx.Err() == nil {
					t.Errorf("a watch of the fleet has ended: %v", err)
				}
				return
			}
			w.note(u)
		}
	})
	t.Cleanup(func() {
		leave()
		watching.Wait()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *fleetWatcher) note(u *client.Update) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range u.Events {
		w.revisions = append(w.revisions, object.Revision(e.Revision))
	}
}

// intercept measures the streams of the client. It is a [grpc.StreamClientInterceptor].
func (w *fleetWatcher) intercept(ctx context.Context, d *grpc.StreamDesc, c *grpc.ClientConn, method string, open grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := open(ctx, d, c, method, o...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.streams++
	if err != nil {
		w.refused = append(w.refused, err)
	}
	return &fleetStream{ClientStream: stream, watcher: w}, err
}

type fleetStream struct {
	grpc.ClientStream
	watcher *fleetWatcher
	begun   bool // there was a message
}

// RecvMsg implements grpc.ClientStream.
func (s *fleetStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	w := s.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil:
		s.begun = true
		for _, kind := range kindsOf(m) {
			w.noteKind(kind)
		}
	case !s.begun:
		w.refused = append(w.refused, err)
	case w.lost.IsZero():
		w.lost = time.Now()
	}
	return err
}

// noteKind notes the kind of a message. It is called with mu held.
func (w *fleetWatcher) noteKind(kind fanoutv1.WatchResponse_Kind) {
	switch {
	case kind == fanoutv1.WatchResponse_KIND_DRAINING && w.lost.IsZero():
		w.lost = time.Now()
	case kind == fanoutv1.WatchResponse_KIND_SYNCED && !w.lost.IsZero():
		w.outages = append(w.outages, time.Since(w.lost))
		w.lost = time.Time{}
	}
}

// kindsOf returns the kinds of the messages in a response of Watch or Subscribe. The client has one
// watch, so they belong to the same one.
func kindsOf(m any) (kinds []fanoutv1.WatchResponse_Kind) {
	switch m := m.(type) {
	case *fanoutv1.WatchResponse:
		return append(kinds, m.GetKind())
	case *fanoutv1.SubscribeResponse:
		for _, e := range m.GetEntries() {
			if e.GetResponse() != nil {
				kinds = append(kinds, e.GetResponse().GetKind())
			}
		}
	}
	return kinds
}

// got returns the revisions of all events so far.
func (w *fleetWatcher) got() []object.Revision {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.revisions)
}

// check checks that the caller got each event once.
func (w *fleetWatcher) check(t *testing.T, want []object.Revision) {
	t.Helper()
	if got := w.got(); !slices.Equal(got, want) {
		t.Errorf("a watcher got events at %v, want %v", got, want)
	}
}

// rollingRestart is what the watchers of a fleet saw of a rolling restart.
type rollingRestart struct {
	watchers int
	resumed  int             // streams after the first
	refused  []error         // the ends of streams without a message
	outages  []time.Duration // the shortest first
}

// quantile returns the outage that this share of the outages does not exceed.
func (r *rollingRestart) quantile(share float64) time.Duration {
	return r.outages[min(int(share*float64(len(r.outages))), len(r.outages)-1)]
}

// String returns a line of a table.
func (r *rollingRestart) String() string {
	round := func(share float64) time.Duration { return r.quantile(share).Round(100 * time.Microsecond) }
	return fmt.Sprintf("%d watchers: %.2f resumes each, %d refused attempts, outage p50 %v, p99 %v, longest %v",
		r.watchers, float64(r.resumed)/float64(r.watchers), len(r.refused), round(0.5), round(0.99), round(1))
}

// restartFleet ends three servers behind a load balancer with the signal, one after the other,
// and starts each again before the next one ends. Every watcher must get every event once.
func restartFleet(t *testing.T, watchers int, signal os.Signal) *rollingRestart {
	t.Helper()
	etcd := etcdproc.Start(t, "http")
	store := dialEtcd(t, etcd)
	var servers []*instance
	var addresses []string
	for range 3 {
		s := startFanoutd(t, over(etcd)...)
		servers, addresses = append(servers, s), append(addresses, s.address)
	}
	balancer := loopback.NewBalancer(t, addresses...)
	var fleet []*fleetWatcher
	for range watchers {
		fleet = append(fleet, newFleetWatcher(t, balancer.Address))
	}
	reach := func(last object.Revision) {
		t.Helper()
		for _, w := range fleet {
			poll.Until(t, "every watcher has the last event", func() bool {
				got := w.got()
				return len(got) > 0 && got[len(got)-1] >= last
			})
		}
	}
	reach(store.putMany(t, "before", 1))
	for i, s := range servers {
		s.end(t, signal)
		store.putMany(t, fmt.Sprintf("without/%d", i), 10)
		s.start(t)
		reach(store.putMany(t, fmt.Sprintf("with/%d", i), 10))
	}

	want := store.revisions(t)
	result := &rollingRestart{watchers: watchers}
	for _, w := range fleet {
		w.check(t, want)
		w.mu.Lock()
		result.resumed += w.streams - 1
		result.refused = append(result.refused, w.refused...)
		result.outages = append(result.outages, w.outages...)
		w.mu.Unlock()
	}
	slices.Sort(result.outages)
	return result
}

// TestRollingRestartBehindALoadBalancer checks that a drained watcher reaches another server
// with its first attempt, although the load balancer does not know which server drains.
func TestRollingRestartBehindALoadBalancer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	r := restartFleet(t, 60, syscall.SIGTERM)
	t.Log(r)
	// On average, a third of the watchers resume once, a sixth again, and so on: 1.6 resumes.
	if r.resumed >= 2*r.watchers {
		t.Errorf("got %d resumes of %d watchers, want fewer than two each", r.resumed, r.watchers)
	}
	// A connection that the balancer opens at the moment of the drain may be reset.
	if len(r.refused) > r.watchers/20 {
		t.Errorf("got %d refused attempts of %d watchers, want hardly any:\n%v", len(r.refused), r.watchers, errors.Join(r.refused...))
	}
}

// TestDrainOutage measures how long watchers are without a server in a rolling restart, with
// a drain (SIGTERM) and without (SIGKILL). It runs if FANOUTD_DRAIN_OUTAGE is the number of
// watchers.
func TestDrainOutage(t *testing.T) {
	text := os.Getenv("FANOUTD_DRAIN_OUTAGE")
	if text == "" {
		t.Skip("measures: see make drain-outage")
	}
	watchers, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	drained, killed := restartFleet(t, watchers, syscall.SIGTERM), restartFleet(t, watchers, syscall.SIGKILL)
	t.Logf("SIGTERM: %v", drained)
	t.Logf("SIGKILL: %v", killed)
	if p50 := drained.quantile(0.5); p50 >= 100*time.Millisecond {
		t.Errorf("got a median outage of %v with a drain, want less than 100ms", p50)
	}
	if p99, without := drained.quantile(0.99), killed.quantile(0.99); p99 >= without {
		t.Errorf("got 99%% of the outages below %v with a drain, want less than the %v without", p99, without)
	}
	if drained.resumed >= 2*watchers {
		t.Errorf("got %d resumes of %d watchers with a drain, want fewer than two each", drained.resumed, watchers)
	}
}
