package client_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/config"
)

// events reads n events of a watch. It returns them in short, with "replace" where a
// state is replaced.
func events(t *testing.T, next func() (*client.Update, error, bool), n int) []string {
	t.Helper()
	var all []string
	for len(all) < n {
		u, err, ok := next()
		if err != nil || !ok {
			t.Fatalf("the watch ended with %v after events %v, want %d events", err, all, n)
		}
		if u.Phase == client.PhaseReset && len(all) > 0 {
			all = append(all, "replace")
		}
		for _, e := range u.Events {
			all = append(all, fmt.Sprintf("%v %s=%s", e.Type, e.Object.Key, e.Object.Value))
		}
	}
	return all
}

func pull(t *testing.T, r *client.Resource, opts ...client.WatchOption) func() (*client.Update, error, bool) {
	t.Helper()
	next, stop := iter.Pull2(r.Watch(testContext(t), opts...))
	t.Cleanup(stop)
	return next
}

func TestWatchReturnsTheStateAndEveryChange(t *testing.T) {
	t.Parallel()
	r := newResource(t)
	put(t, r, "team/a", "1")
	put(t, r, "team/b", "1")
	put(t, r, "other", "1")
	next := pull(t, r, client.Prefix("team"))
	if diff := cmp.Diff([]string{"ADDED team/a=1", "ADDED team/b=1"}, events(t, next, 2)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	put(t, r, "team/a", "2")
	put(t, r, "other", "2")
	if _, _, err := r.Delete(testContext(t), "team/b"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"MODIFIED team/a=2", "DELETED team/b=1"}, events(t, next, 2)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestWatchOptionsReachTheServer(t *testing.T) {
	t.Parallel()
	r := newResource(t)
	put(t, r, "a", "1")
	next := pull(t, r, client.FromNow(), client.Previous(), client.Latest(), client.MaxBatchDelay(time.Millisecond), client.Fields("name=a"))
	if u, err, _ := next(); err != nil || len(u.Events) > 0 || u.Position.Revision == 0 {
		t.Fatalf("got %v and %v, want a position without events", u, err)
	}
	put(t, r, "b", "1")
	put(t, r, "a", "2")
	u, err, _ := next()
	if err != nil || len(u.Events) != 1 || u.Events[0].Previous == nil || string(u.Events[0].Previous.Value) != "1" {
		t.Fatalf("got %v, %v", u, err)
	}
	next = pull(t, r, client.OmitValues(), client.Key("a"), client.AllowStale(), client.BookmarkInterval(100*time.Millisecond))
	for {
		u, err, _ := next()
		if err != nil {
			t.Fatal(err)
		}
		if len(u.Events) > 0 && u.Events[0].Object.Value != nil {
			t.Errorf("got a value: %q", u.Events[0].Object.Value)
		}
		if u.Phase.Complete() && u.Phase != client.PhaseSynced && len(u.Events) == 0 {
			break // a bookmark
		}
	}
	for _, err := range r.Watch(testContext(t), client.Labels("==")) {
		if !errors.Is(err, client.ErrInvalidRequest) {
			t.Errorf("got %v", err)
		}
	}
}

// A restart of the server leaves no trace in the events.
func TestWatchSurvivesRestarts(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	s := newServer(t)
	r := newClient(t, s.Address()).Resource("config")
	put(t, r, "a", "0")
	interrupted := make(chan error, 100)
	next := pull(t, r, client.OnInterruption(func(err error) { interrupted <- err }))
	want := []string{"ADDED a=0"}
	got := events(t, next, 1)
	for i := range 3 {
		put(t, newClient(t, s.Address()).Resource("config"), "a", fmt.Sprint(i))
		want = append(want, fmt.Sprintf("MODIFIED a=%d", i))
		s.Stop()
		s.Start(t)
		// The old connection may not be back yet.
		put(t, newClient(t, s.Address()).Resource("config"), "b", fmt.Sprint(i))
		kind := "MODIFIED"
		if i == 0 {
			kind = "ADDED"
		}
		want = append(want, fmt.Sprintf("%s b=%d", kind, i))
		got = append(got, events(t, next, 2)...)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(interrupted) == 0 {
		t.Error("the watch was not interrupted, so the test shows nothing")
	}
}

// The time limit of the server is not even an interruption.
func TestWatchSurvivesItsTimeLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	s := newServer(t, func(c *config.Config) { c.WatchTimeLimit = config.Duration(time.Second) })
	r := newClient(t, s.Address()).Resource("config")
	next := pull(t, r, client.OnInterruption(func(err error) { t.Errorf("interrupted: %v", err) }))
	for streams := 0; streams < 3; {
		u, err, _ := next()
		if err != nil {
			t.Fatal(err)
		}
		if u.Phase == client.PhaseSynced {
			streams++
		}
	}
	put(t, r, "a", "1")
	if diff := cmp.Diff([]string{"ADDED a=1"}, events(t, next, 1)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestWatchMovesToAnotherServer(t *testing.T) {
	t.Parallel()
	one, other := newServer(t), newServer(t)
	c := newClient(t, one.Address()+","+other.Address())
	next := pull(t, c.Resource("config"), client.BookmarkInterval(100*time.Millisecond))
	epochs := map[string]bool{}
	epoch := func() {
		for {
			u, err, _ := next()
			if err != nil {
				t.Fatal(err)
			}
			if u.Phase == client.PhaseSynced {
				epochs[u.Position.Epoch] = true
				return
			}
		}
	}
	epoch()
	// Each server has an etcd of its own, so the epoch identifies the server.
	r := newClient(t, one.Address()).Resource("config")
	page, err := r.ListPage(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	if epochs[page.Position.Epoch] {
		one.Stop()
	} else {
		other.Stop()
	}
	epoch()
	if len(epochs) != 2 {
		t.Errorf("got epochs %v, want two", epochs)
	}
}

// received counts the bytes that arrive.
type received struct{ bytes atomic.Int64 }

func (r *received) HandleRPC(_ context.Context, s stats.RPCStats) {
	if in, ok := s.(*stats.InPayload); ok {
		r.bytes.Add(int64(in.WireLength))
	}
}

func (*received) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (*received) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*received) HandleConn(context.Context, stats.ConnStats)                       {}

// The server keeps what the caller does not read. When the caller reads again, it catches
// up.
func TestWatchReadsNothingAhead(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	count := &received{}
	r := newClient(t, s.Address()).Resource("config")
	next := pull(t, newClient(t, s.Address(), client.WithDialOptions(grpc.WithStatsHandler(count))).Resource("config"))
	for {
		u, err, _ := next()
		if err != nil {
			t.Fatal(err)
		}
		if u.Phase == client.PhaseSynced {
			break
		}
	}
	const changes, size, keys = 1000, 20 << 10, 10
	text := strings.Repeat("x", size)
	for i := 0; i < changes; i += keys {
		var ops []client.Op
		for k := range keys {
			ops = append(ops, client.OpPut(fmt.Sprint(k), client.Text(text+fmt.Sprint(i+k))))
		}
		if _, err := r.Transact(testContext(t), ops...); err != nil {
			t.Fatal(err)
		}
	}
	// The watch stops when it has 4 MiB. On a busy machine, a few messages more arrive until the server has
	// read the stop.
	if n := count.bytes.Load(); n > changes*size/3 {
		t.Errorf("%d bytes of %d were read ahead, want at most a third", n, changes*size)
	}
	last := map[string]string{}
	for {
		u, err, _ := next()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range u.Events {
			last[e.Object.Key] = string(e.Object.Value[size:])
		}
		if slices.ContainsFunc(u.Events, func(e client.Event) bool { return string(e.Object.Value) == text+fmt.Sprint(changes-1) }) {
			break
		}
	}
	for i := changes - keys; i < changes; i++ {
		if key := fmt.Sprint(i % keys); last[key] != fmt.Sprint(i) {
			t.Errorf("%s: got %s, want %d", key, last[key], i)
		}
	}
}
