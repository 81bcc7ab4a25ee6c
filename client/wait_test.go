package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/inprocess"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// These tests run whole servers and informers. The tests in wait_scripted_test.go have the cases
// that take long.

// pair is two servers over one etcd, and a resource to write to.
type pair struct {
	one, other *inprocess.Server
	servers    []client.Server // of Wait
	writes     *client.Resource
}

func newPair(t *testing.T) *pair {
	t.Helper()
	etcd := loopback.FreeAddress(t)
	writes := newServer(t, func(c *config.Config) { c.EmbeddedEtcdListen = etcd })
	over := func(c *config.Config) { c.EtcdEndpoints, c.EmbeddedEtcdListen = []string{"http://" + etcd}, "" }
	p := &pair{one: newServer(t, over), other: newServer(t, over), writes: newClient(t, writes.Address()).Resource("config")}
	servers, err := client.EachServer(testContext(t), p.one.Address()+","+p.other.Address())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range servers {
		t.Cleanup(func() { s.Close() })
	}
	p.servers = servers
	return p
}

// subscribe runs an informer of "shop" with a handler, and waits until it has the state. stop ends
// it, and so does the end of the test.
func subscribe(t *testing.T, target, instance string, handle func(ctx context.Context, value string) error) (stop func()) {
	t.Helper()
	inf, stop := beginToSubscribe(t, target, instance, handle)
	if err := inf.WaitForSync(testContext(t)); err != nil {
		t.Fatal(err)
	}
	return stop
}

// beginToSubscribe is like subscribe, but does not wait.
func beginToSubscribe(t *testing.T, target, instance string, handle func(ctx context.Context, value string) error) (inf *client.Informer[*client.Object], stop func()) {
	t.Helper()
	c := newClient(t, target, client.WithSubscriber(instance, nil))
	ctx, cancel := context.WithCancel(t.Context())
	inf = client.NewInformer(c.Resource("config"), client.ObjectDecoder(), client.Prefix("shop"))
	inf.AddHandler(client.Handler[*client.Object]{
		Add:    func(i client.Item[*client.Object]) error { return handle(ctx, string(i.Object.Value)) },
		Update: func(_, i client.Item[*client.Object]) error { return handle(ctx, string(i.Object.Value)) },
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = inf.Run(ctx)
	}()
	stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(stop)
	return inf, stop
}

// accepts is a handler that accepts everything.
func accepts(context.Context, string) error { return nil }

// waitsAt is a handler that handles a value only when it is released.
func waitsAt(value string, released <-chan struct{}) func(context.Context, string) error {
	return func(ctx context.Context, got string) error {
		if got != value {
			return nil
		}
		select {
		case <-released:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// runningWait is a Wait that runs.
type runningWait struct {
	t        *testing.T
	cancel   context.CancelFunc
	progress chan *client.WaitStatus
	done     chan struct{}
	status   *client.WaitStatus // set before done is closed
	err      error
}

func (p *pair) wait(t *testing.T, revision int64, o client.WaitOptions) *runningWait {
	t.Helper()
	ctx, cancel := context.WithCancel(testContext(t))
	w := &runningWait{t: t, cancel: cancel, progress: make(chan *client.WaitStatus, 1000), done: make(chan struct{})}
	o.Servers, o.Resource, o.Revision = p.servers, "config", revision
	if o.Scope == nil {
		o.Scope = client.Prefix("shop")
	}
	o.Progress = func(s *client.WaitStatus) { w.progress <- s }
	go func() {
		defer close(w.done)
		w.status, w.err = client.Wait(ctx, o)
	}()
	t.Cleanup(func() {
		cancel()
		<-w.done
	})
	return w
}

// sees waits for a status.
func (w *runningWait) sees(what string, is func(*client.WaitStatus) bool) *client.WaitStatus {
	w.t.Helper()
	var last *client.WaitStatus
	for {
		select {
		case last = <-w.progress:
			if is(last) {
				return last
			}
		case <-w.done:
			w.t.Fatalf("%s: the wait has ended: %v, %v; last status %v", what, w.status, w.err, last)
		}
	}
}

// reaches waits for the end, without an error.
func (w *runningWait) reaches(watches int64) *client.WaitStatus {
	w.t.Helper()
	<-w.done
	if w.err != nil || w.status.Applied != watches || w.status.Watches != watches {
		w.t.Fatalf("got %v, %v, want %d watches that have applied the revision", w.status, w.err, watches)
	}
	return w.status
}

// isPending returns a condition: so many watches have applied the revision, and the first of the
// others is that of an instance.
func isPending(applied, watches int64, instance string) func(*client.WaitStatus) bool {
	return func(s *client.WaitStatus) bool {
		return s.Applied == applied && s.Watches == watches && len(s.Pending) > 0 && s.Pending[0].Instance == instance
	}
}

// A wait ends when the last subscriber of all servers has applied the revision, and not before.
func TestWaitForSubscribersThatApplyLate(t *testing.T) {
	t.Parallel()
	p, released := newPair(t), make(chan struct{})
	subscribe(t, p.one.Address(), "fast", accepts)
	subscribe(t, p.other.Address(), "late", waitsAt("2", released))
	p.wait(t, put(t, p.writes, "shop/a", "1"), client.WaitOptions{}).reaches(2)
	w := p.wait(t, put(t, p.writes, "shop/a", "2"), client.WaitOptions{})
	s := w.sees("one is late", isPending(1, 2, "late"))
	if s.Pending[0].Server != p.other.Address() || s.Failed != 0 {
		t.Errorf("got %+v", s.Pending[0])
	}
	half := p.wait(t, s.Revision, client.WaitOptions{Quorum: 0.5})
	if <-half.done; half.err != nil {
		t.Errorf("got %v, want no error with half of the subscribers", half.err)
	}
	close(released)
	w.reaches(2)
}

// A subscriber that never applies the revision is named when the time is up.
func TestWaitNamesSubscribersThatNeverApply(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	subscribe(t, p.one.Address(), "fast", accepts)
	subscribe(t, p.other.Address(), "stuck", waitsAt("1", nil))
	w := p.wait(t, put(t, p.writes, "shop/a", "1"), client.WaitOptions{})
	w.sees("one is stuck", isPending(1, 2, "stuck"))
	w.cancel()
	<-w.done
	if !errors.As(w.err, new(*client.NotReachedError)) || !strings.Contains(w.err.Error(), "1 of 2 watches have applied") || !strings.Contains(w.err.Error(), "not applied by stuck") {
		t.Errorf("got %v", w.err)
	}
}

// A subscriber that reports an error ends the wait. The next revision corrects the error, so a wait
// for it succeeds, although it begins before the subscriber has applied the correction.
func TestWaitForACorrection(t *testing.T) {
	t.Parallel()
	p, released := newPair(t), make(chan struct{})
	subscribe(t, p.one.Address(), "fast", accepts)
	slow := waitsAt("2", released)
	subscribe(t, p.other.Address(), "strict", func(ctx context.Context, value string) error {
		if value == "bad" {
			return errors.New("not a number")
		}
		return slow(ctx, value)
	})
	bad := put(t, p.writes, "shop/a", "bad")
	w := p.wait(t, bad, client.WaitOptions{})
	<-w.done
	refused, ok := errors.AsType[*client.RefusedError](w.err)
	if !ok || len(refused.Failures()) != 1 || refused.Failures()[0].Instance != "strict" || !strings.Contains(w.err.Error(), "not a number") {
		t.Fatalf("got %v, %v", w.status, w.err)
	}
	tolerant := p.wait(t, bad, client.WaitOptions{Tolerate: 1})
	<-tolerant.done
	if tolerant.err != nil || tolerant.status.Failed != 1 {
		t.Errorf("got %v, %v, want one failure that is tolerated", tolerant.status, tolerant.err)
	}

	w = p.wait(t, put(t, p.writes, "shop/a", "2"), client.WaitOptions{})
	s := w.sees("the correction is being applied", isPending(1, 2, "strict"))
	if s.Failed != 0 || s.Pending[0].Failed || s.Pending[0].Err == nil {
		t.Errorf("got %v, %+v, want an earlier error", s, s.Pending[0])
	}
	close(released)
	w.reaches(2)
}

// Subscribers that cannot apply one object apply the others, so a wait for another object succeeds.
func TestWaitIgnoresTheErrorsOfOtherObjects(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	for i, s := range []*inprocess.Server{p.one, p.other} {
		subscribe(t, s.Address(), fmt.Sprint("strict-", i), func(_ context.Context, value string) error {
			if value == "bad" {
				return errors.New("not a number")
			}
			return nil
		})
	}
	bad := p.wait(t, put(t, p.writes, "shop/bad", "bad"), client.WaitOptions{Tolerate: 1})
	<-bad.done
	refused, ok := errors.AsType[*client.RefusedError](bad.err)
	if !ok || !slices.Equal(refused.Failures()[0].FailedKeys, []string{"shop/bad"}) {
		t.Fatalf("got %v, %v", bad.status, bad.err)
	}
	fine := put(t, p.writes, "shop/new", "1")
	p.wait(t, fine, client.WaitOptions{Scope: client.Key("shop/new")}).reaches(2)
	p.wait(t, fine, client.WaitOptions{Scope: client.Key("shop/new"), Instance: "strict-1"}).reaches(1)
	all := p.wait(t, fine, client.WaitOptions{})
	<-all.done
	if !errors.As(all.err, new(*client.RefusedError)) {
		t.Errorf("got %v, want that the scope with the object fails", all.err)
	}
}

// Subscribers that begin count at once. Those that end count until Settle has passed.
func TestWaitForSubscribersThatComeAndGo(t *testing.T) {
	t.Parallel()
	p, released := newPair(t), make(chan struct{})
	subscribe(t, p.one.Address(), "fast", accepts)
	leave := subscribe(t, p.other.Address(), "leaving", waitsAt("1", nil))
	w := p.wait(t, put(t, p.writes, "shop/a", "1"), client.WaitOptions{Settle: time.Second})
	w.sees("one has not applied it", isPending(1, 2, "leaving"))
	beginToSubscribe(t, p.one.Address(), "new", waitsAt("1", released))
	w.sees("another one has begun", isPending(1, 3, "leaving"))
	leave()
	s := w.sees("one has ended", isPending(1, 2, "new"))
	if s.RecentWatches != 3 || s.Required != 3 {
		t.Errorf("got %v, want that the one that has ended still counts", s)
	}
	close(released)
	w.reaches(2)
}

// A server stops while its subscriber has not applied the revision. The wait reports it, continues
// with the other server, and counts the subscriber there.
func TestWaitWhileTheServerOfASubscriberStops(t *testing.T) {
	t.Parallel()
	p, released := newPair(t), make(chan struct{})
	subscribe(t, p.one.Address()+","+p.other.Address(), "moving", waitsAt("1", released))
	w := p.wait(t, put(t, p.writes, "shop/a", "1"), client.WaitOptions{Settle: time.Second})
	stopped := w.sees("it is late", isPending(0, 1, "moving")).Pending[0].Server
	for _, s := range []*inprocess.Server{p.one, p.other} {
		if s.Address() == stopped {
			s.Stop()
		}
	}
	s := w.sees("it is on the other server", func(s *client.WaitStatus) bool {
		return len(s.Missing()) == 1 && isPending(0, 1, "moving")(s) && s.Pending[0].Server != stopped
	})
	if s.Missing()[0].Address != stopped || !strings.Contains(s.String(), "no answer from "+stopped) {
		t.Errorf("got %v, want that %s does not answer", s, stopped)
	}
	close(released)
	if s := w.reaches(1); len(s.Missing()) != 1 {
		t.Errorf("got %v, want one missing server", s)
	}
}

// A server that has never answered keeps the wait from succeeding. The wait names it, and counts the
// subscribers of the other server.
func TestWaitCountsTheServersThatAnswer(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	subscribe(t, p.one.Address(), "fast", accepts)
	p.other.Stop()
	revision := put(t, p.writes, "shop/a", "1")
	w := p.wait(t, revision, client.WaitOptions{})
	s := w.sees("the other server has not answered", func(s *client.WaitStatus) bool {
		return s.Applied == 1 && s.Watches == 1 && len(s.Missing()) == 1 && s.Missing()[0].Err != nil
	})
	if want := fmt.Sprintf("1 of 1 watch has applied revision %d, no answer from %s", revision, p.other.Address()); s.String() != want {
		t.Errorf("got %q, want %q", s, want)
	}
	p.wait(t, revision, client.WaitOptions{AllowMissingServers: true}).reaches(1)
	p.other.Start(t)
	if s := w.reaches(1); len(s.Missing()) != 0 {
		t.Errorf("got %v, want no missing server", s)
	}
}
