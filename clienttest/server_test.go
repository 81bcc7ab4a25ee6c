package clienttest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/clienttest"
)

// watch collects updates in short until the context ends.
func watch(ctx context.Context, r *client.Resource, opts ...client.WatchOption) (seen *[]string, ended func() error) {
	seen = &[]string{}
	done := make(chan error, 1)
	go func() {
		for u, err := range r.Watch(ctx, opts...) {
			if err != nil {
				done <- err
				return
			}
			if u.Phase == client.PhaseReset {
				*seen = append(*seen, "reset")
			}
			for _, e := range u.Events {
				*seen = append(*seen, fmt.Sprintf("%v %s=%s", e.Type, e.Object.Key, e.Object.Value))
			}
		}
		done <- nil
	}()
	return seen, func() error { return <-done }
}

func put(t *testing.T, r *client.Resource, key, value string) int64 {
	t.Helper()
	revision, err := r.Put(t.Context(), key, client.Text(value))
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

func TestFaults(t *testing.T) {
	for name, c := range map[string]struct {
		fault func(*clienttest.Server)
		want  []string // after "reset", "ADDED a=1"
	}{
		"cut connections":   {(*clienttest.Server).CutConnections, []string{"MODIFIED a=2"}},
		"restart":           {func(s *clienttest.Server) { s.Stop(); time.Sleep(time.Minute); s.Start() }, []string{"MODIFIED a=2"}},
		"expired positions": {(*clienttest.Server).ExpirePositions, []string{"reset", "ADDED a=1", "MODIFIED a=2"}},
		"new epoch":         {(*clienttest.Server).NewEpoch, []string{"reset", "ADDED a=1", "MODIFIED a=2"}},
		"refused": {func(s *clienttest.Server) {
			s.Refuse(codes.Unavailable, client.ErrNotReady)
			time.Sleep(time.Minute)
			s.Accept()
		}, []string{"MODIFIED a=2"}},
		"lost etcd": {func(s *clienttest.Server) { s.StopEtcd(); time.Sleep(time.Minute); s.StartEtcd() }, []string{"MODIFIED a=2"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := clienttest.NewServer(t, "config")
				r := s.Client().Resource("config")
				put(t, r, "a", "1")
				ctx, cancel := context.WithCancel(t.Context())
				seen, ended := watch(ctx, r)
				synctest.Wait()
				c.fault(s)
				time.Sleep(time.Minute) // until the client is back
				synctest.Wait()
				put(t, r, "a", "2")
				synctest.Wait()
				if want := append([]string{"reset", "ADDED a=1"}, c.want...); !slices.Equal(*seen, want) {
					t.Errorf("got %q, want %q", *seen, want)
				}
				cancel()
				if err := ended(); !errors.Is(err, context.Canceled) {
					t.Errorf("the watch ended with %v", err)
				}
			})
		})
	}
}

// A final refusal ends watches, and requests fail with its reason.
func TestRefusalsHaveAReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := clienttest.NewServer(t, "config")
		r := s.Client().Resource("config")
		_, ended := watch(t.Context(), r)
		synctest.Wait()
		s.Refuse(codes.PermissionDenied, client.ErrPermissionDenied)
		if err := ended(); !errors.Is(err, client.ErrPermissionDenied) {
			t.Errorf("the watch ended with %v", err)
		}
		if _, err := r.Get(t.Context(), "a"); !errors.Is(err, client.ErrPermissionDenied) {
			t.Errorf("Get returned %v", err)
		}
	})
}

func TestExpiredPositionsEndAWatchOfEveryEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := clienttest.NewServer(t, "config")
		r := s.Client().Resource("config")
		put(t, r, "a", "1")
		_, ended := watch(t.Context(), r, client.EveryEvent())
		synctest.Wait()
		s.ExpirePositions()
		if err := ended(); !errors.Is(err, client.ErrPositionExpired) {
			t.Errorf("the watch ended with %v", err)
		}
	})
}

// Without etcd, the copy of an informer becomes stale and writes fail.
func TestWithoutEtcdACopyBecomesStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := clienttest.NewServer(t, "config")
		r := s.Client().Resource("config")
		i := client.NewInformer(r, client.JSONDecoder[int]())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- i.Run(ctx) }()
		if err := i.WaitForSync(ctx); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if i.Lister().Stale() {
			t.Error("the copy is stale, although etcd works")
		}
		s.StopEtcd()
		time.Sleep(time.Minute)
		if !i.Lister().Stale() {
			t.Error("the copy is not stale a minute after etcd was lost")
		}
		if _, err := r.Put(ctx, "a", client.Text("1")); !errors.Is(err, client.ErrStoreUnavailable) {
			t.Errorf("Put returned %v", err)
		}
		s.StartEtcd()
		time.Sleep(time.Minute)
		if i.Lister().Stale() {
			t.Error("the copy is stale a minute after etcd has come back")
		}
		cancel()
		<-done
	})
}

// Objects with a time to live go when it is over.
func TestTimeToLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := clienttest.NewServer(t, "config")
		r := s.Client().Resource("config")
		if _, err := r.Put(t.Context(), "a", client.Text("1"), client.TTL(time.Minute)); err != nil {
			t.Fatal(err)
		}
		o, err := r.Get(t.Context(), "a")
		if err != nil || o.TTL != time.Minute {
			t.Fatalf("got %v, %v", o, err)
		}
		time.Sleep(30 * time.Second)
		if _, err := r.Put(t.Context(), "a", client.Text("2"), client.KeepTTL()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(29 * time.Second)
		if _, err := r.Get(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if _, err := r.Get(t.Context(), "a"); !errors.Is(err, client.ErrNotFound) {
			t.Errorf("got %v after the time to live, want ErrNotFound", err)
		}
	})
}
