package client_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/fanoutd/fanoutd/client"
)

// runUntil runs an informer until stop is called. stop returns the error of Run.
func runUntil[T any](t *testing.T, ctx context.Context, inf *client.Informer[T]) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- inf.Run(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}
}

func TestEqualInformersShareAWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{streams: []stream{
			{
				messages: []message{reset(), part(0, withValue(added("a", 1), "1"), withValue(added("b", 2), "2")), synced(5)},
				later: []delayed{
					{10 * time.Second, live(6, withValue(modified("a", 6), "6"), deleted("b", 6))},
					{10 * time.Second, live(7, withValue(added("c", 7), "7"))},
				},
			},
			{messages: []message{replay(6), synced(6)}}, // confirms the state of the second informer
			{messages: []message{reset(), part(0, withValue(added("d", 9), "9")), synced(9)}},
		}}
		r := connectTo(t, s)
		opts := []client.InformerOption{client.Prefix("p"), client.BookmarkInterval(time.Minute)}
		first, second := client.NewInformer(r, number, opts...), client.NewInformer(r, client.ObjectDecoder(), opts...)
		calls := newRecorder()
		first.AddHandler(calls.handler())
		stopFirst := runUntil(t, t.Context(), first)
		time.Sleep(15 * time.Second)
		if diff := cmp.Diff([]string{"a=6"}, items(first.Lister())); diff != "" {
			t.Errorf("first: -want +got:\n%s", diff)
		}

		late := make(chan string, 10)
		second.AddHandler(client.Handler[*client.Object]{Add: func(i client.Item[*client.Object]) error { late <- i.Object.Key; return nil }})
		stopSecond := runUntil(t, t.Context(), second)
		if err := second.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if key := <-late; key != "a" || second.Lister().Len() != 1 || second.Lister().Stale() {
			t.Errorf("second: got %s first, then %d items and stale %v, want a, 1 and false", key, second.Lister().Len(), second.Lister().Stale())
		}
		synctest.Wait()
		if diff := cmp.Diff([]string{"nothing", "e/6"}, s.starts()); diff != "" || s.active.Load() != 1 {
			t.Errorf("%d watches, want 1; starts: -want +got:\n%s", s.active.Load(), diff)
		}
		one, _ := first.Lister().Get("a")
		other, _ := second.Lister().Get("a")
		if one.Object != other.Object {
			t.Error("the informers have different copies of an object")
		}

		// The first one leaves. The second one goes on.
		if err := stopFirst(); !errors.Is(err, context.Canceled) {
			t.Errorf("first: got %v, want %v", err, context.Canceled)
		}
		if key := <-late; key != "c" {
			t.Errorf("second: got %s, want c", key)
		}
		if diff := cmp.Diff([]string{"+a=1", "+b=2", "*a=1>6", "-b=2"}, calls.all()); diff != "" {
			t.Errorf("first: -want +got:\n%s", diff)
		}
		if err := stopSecond(); !errors.Is(err, context.Canceled) {
			t.Errorf("second: got %v, want %v", err, context.Canceled)
		}
		synctest.Wait()
		if n := s.active.Load(); n != 0 {
			t.Errorf("%d watches after all informers have ended, want 0", n)
		}

		// The next informer begins a watch of its own.
		third := client.NewInformer(r, number, opts...)
		run(t, third)
		if err := third.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"d=9"}, items(third.Lister())); diff != "" {
			t.Errorf("third: -want +got:\n%s", diff)
		}
	})
}

func TestInformersThatDifferDoNotShare(t *testing.T) {
	file := func(t *testing.T) client.InformerOption { return client.LastKnownGood(t.TempDir()+"/good", 1<<20) }
	for name, c := range map[string]struct {
		opts, others []client.InformerOption
		metadata     bool
		watches      int64
	}{
		"nothing":              {watches: 1},
		"the callback":         {others: []client.InformerOption{client.OnInterruption(func(error) {})}, watches: 1},
		"the resync":           {others: []client.InformerOption{client.Resync(time.Hour)}, watches: 1},
		"an empty file":        {others: []client.InformerOption{file(t)}, watches: 1},
		"the scope":            {others: []client.InformerOption{client.Key("a")}, watches: 2},
		"the label selector":   {others: []client.InformerOption{client.Labels("a=b")}, watches: 2},
		"the field selector":   {others: []client.InformerOption{client.Fields("name=b")}, watches: 2},
		"the values":           {others: []client.InformerOption{client.OmitValues()}, watches: 2},
		"the delivery":         {others: []client.InformerOption{client.Latest()}, watches: 2},
		"the delay":            {others: []client.InformerOption{client.MaxBatchDelay(time.Second)}, watches: 2},
		"the bookmarks":        {others: []client.InformerOption{client.BookmarkInterval(time.Minute)}, watches: 2},
		"the consistency":      {others: []client.InformerOption{client.AllowStale()}, watches: 2},
		"the metadata":         {metadata: true, watches: 2},
		"not the min revision": {opts: []client.InformerOption{client.MinRevision(4)}, others: []client.InformerOption{client.MinRevision(4)}, watches: 1},
		"nothing, but they begin at an exact revision": {opts: []client.InformerOption{client.AtRevision(5)}, others: []client.InformerOption{client.AtRevision(5)}, watches: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scriptedServer{streams: []stream{{messages: []message{reset(), part(0, withValue(added("a", 1), "1")), synced(5)}}}}
				r := connectTo(t, s)
				one, other := client.NewInformer(r, number, c.opts...), client.NewInformer(r, number, c.others...)
				run(t, one)
				synctest.Wait()
				ctx := t.Context()
				if c.metadata {
					ctx = metadata.AppendToOutgoingContext(ctx, "tenant", "one")
				}
				defer runUntil(t, ctx, other)()
				for _, inf := range []*client.Informer[int]{one, other} {
					if err := inf.WaitForState(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(5 * time.Second) // the state of the second one is confirmed
				if n := s.active.Load(); n != c.watches {
					t.Errorf("got %d watches, want %d", n, c.watches)
				}
			})
		})
	}
}

// The state of an informer that joins may lack writes that were acknowledged before. It counts as
// synced when the shared watch has brought them.
func TestAJoinedStateIsSyncedOnceItHasAllEarlierWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{streams: []stream{
			{
				messages: []message{reset(), part(0, withValue(added("a", 1), "1")), synced(5)},
				later:    []delayed{{70 * time.Second, live(7, withValue(modified("a", 7), "7"))}},
			},
			{messages: []message{replay(5), part(7, withValue(modified("a", 7), "7")), synced(8)}},
		}}
		r := connectTo(t, s)
		run(t, client.NewInformer(r, number, client.BookmarkInterval(time.Hour)))
		time.Sleep(59 * time.Second)
		inf := client.NewInformer(r, number, client.BookmarkInterval(time.Hour))
		run(t, inf)
		began := time.Now()
		if err := inf.WaitForState(t.Context()); err != nil || time.Since(began) > time.Second {
			t.Errorf("WaitForState: got %v after %v, want the shared state at once", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if err := inf.WaitForSync(ctx); !errors.Is(err, context.DeadlineExceeded) || !inf.Lister().Stale() {
			t.Errorf("WaitForSync: got %v and stale %v for a state without an earlier write, want %v and true", err, inf.Lister().Stale(), context.DeadlineExceeded)
		}
		if err := inf.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if i, _ := inf.Lister().Get("a"); i.Value != 7 || inf.Lister().Stale() || time.Since(began) > 12*time.Second {
			t.Errorf("synced with %d and stale %v after %v, want 7 and false after 11s", i.Value, inf.Lister().Stale(), time.Since(began))
		}
	})
}

// Two informers begin together. Both are synced as soon as the server has sent the state.
func TestInformersThatBeginTogetherAreSyncedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{streams: []stream{
			{silence: time.Second, messages: []message{reset(), part(0, withValue(added("a", 1), "1")), synced(5)}},
			{messages: []message{replay(5), synced(5)}},
		}}
		r := connectTo(t, s)
		began := time.Now()
		all := []*client.Informer[int]{client.NewInformer(r, number), client.NewInformer(r, number), client.NewInformer(r, number)}
		for _, inf := range all {
			run(t, inf)
			synctest.Wait()
		}
		for _, inf := range all {
			if err := inf.WaitForSync(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if waited := time.Since(began); waited > 3*time.Second {
			t.Errorf("synced after %v, want about a second", waited)
		}
	})
}

// A decoder that is stuck delays no other informer that shares the watch.
func TestInformersThatShareDoNotDelayEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{streams: []stream{
			{messages: []message{reset(), part(0, withValue(added("a", 1), "1")), synced(5)}, lasts: time.Second, end: errLost},
			{messages: []message{replay(5), part(6, withValue(modified("a", 6), "6")), synced(6), live(7, withValue(modified("a", 7), "7"))}},
		}}
		r := connectTo(t, s)
		release := make(chan struct{})
		decoding := client.NewInformer(r, func(o *client.Object) (int, error) {
			<-release
			return number(o)
		})
		free := client.NewInformer(r, number)
		run(t, decoding)
		run(t, free)
		time.Sleep(5 * time.Second)
		if diff := cmp.Diff([]string{"a=7"}, items(free.Lister())); diff != "" {
			t.Errorf("free: -want +got:\n%s", diff)
		}
		close(release)
		time.Sleep(time.Second)
		if diff := cmp.Diff([]string{"a=7"}, items(decoding.Lister())); diff != "" {
			t.Errorf("decoding: -want +got:\n%s", diff)
		}
	})
}

func TestInformersThatShareEndWithTheirWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{streams: []stream{
			{messages: []message{reset(), synced(5)}, lasts: time.Second, end: refusal(codes.PermissionDenied, client.ErrPermissionDenied)},
			{messages: []message{reset(), synced(6)}},
		}}
		r := connectTo(t, s)
		ended := make(chan error, 2)
		for range 2 {
			inf := client.NewInformer(r, number, client.AllowStale())
			go func() { ended <- inf.Run(t.Context()) }()
		}
		for range 2 {
			if err := <-ended; !errors.Is(err, client.ErrPermissionDenied) {
				t.Errorf("got %v, want %v", err, client.ErrPermissionDenied)
			}
		}
		again := client.NewInformer(r, number, client.AllowStale())
		run(t, again)
		if err := again.WaitForSync(t.Context()); err != nil {
			t.Errorf("another informer: got %v, want a watch of its own", err)
		}
	})
}

// While a state is replaced, an informer that joins gets the old one, and then the difference.
func TestAnInformerJoinsWhileTheStateIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{streams: []stream{
			{messages: []message{reset(), part(0, withValue(added("a", 1), "1"), withValue(added("b", 2), "2")), synced(5)}, lasts: time.Second, end: errLost},
			{messages: []message{reset(), part(0, withValue(added("a", 1), "1"))}, later: []delayed{{10 * time.Second, part(0, withValue(added("c", 8), "8"))}, {0, synced(8)}}},
		}}
		r := connectTo(t, s)
		run(t, client.NewInformer(r, number, client.AllowStale()))
		time.Sleep(5 * time.Second)
		inf := client.NewInformer(r, number, client.AllowStale())
		calls := newRecorder()
		inf.AddHandler(calls.handler())
		run(t, inf)
		time.Sleep(time.Second)
		if diff := cmp.Diff([]string{"+a=1", "+b=2"}, calls.all()); diff != "" {
			t.Errorf("before the end: -want +got:\n%s", diff)
		}
		time.Sleep(10 * time.Second)
		if diff := cmp.Diff([]string{"+a=1", "+b=2", "-b=2", "+c=8"}, calls.all()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}
