package client_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fanoutd/fanoutd/client"
)

// aged returns a message of a server that last knew some time ago that it was current.
func aged(age time.Duration, m message) message {
	m.Age = durationpb.New(age)
	return m
}

// A server that has lost etcd also answers a resumed watch. That confirms nothing.
func TestAServerThatHasLostEtcdDoesNotConfirmTheSavedState(t *testing.T) {
	for name, opts := range map[string][]client.InformerOption{
		"linearizable":  nil,
		"a later write": {client.MinRevision(9)},
	} {
		t.Run(name, func(t *testing.T) {
			withFile(t, func(t *testing.T, path string) {
				opts := append(opts, client.LastKnownGood(path, 1<<20))
				runFor(t, &scriptedServer{streams: []stream{{messages: stateAt5, paced: true}}}, 20*time.Second, client.LastKnownGood(path, 1<<20))

				s := &scriptedServer{streams: []stream{{
					messages: []message{replay(5), aged(time.Minute, synced(5))}, later: []delayed{{25 * time.Second, bookmark(9)}},
				}}}
				inf := client.NewInformer(connectTo(t, s), number, opts...)
				run(t, inf)
				ctx, cancel := context.WithTimeout(t.Context(), 24*time.Second)
				defer cancel()
				if err := inf.WaitForState(ctx); err != nil {
					t.Fatal(err)
				}
				if err := inf.WaitForSync(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("WaitForSync: got %v while the server has lost etcd, want %v", err, context.DeadlineExceeded)
				}
				if !inf.Lister().Stale() {
					t.Error("stale: got false while the server has lost etcd, want true")
				}
				if err := inf.WaitForSync(t.Context()); err != nil {
					t.Fatal(err)
				}
				if inf.Lister().Stale() || len(s.starts()) != 1 {
					t.Errorf("got stale %v after %d streams and a bookmark, want false after 1", inf.Lister().Stale(), len(s.starts()))
				}
			})
		})
	}
}

// WaitForSync waits for the revision of MinRevision, although the saved position is older and
// the server is current.
func TestTheSavedStateMustReachTheMinRevision(t *testing.T) {
	withFile(t, func(t *testing.T, path string) {
		good := client.LastKnownGood(path, 1<<20)
		runFor(t, &scriptedServer{streams: []stream{{messages: stateAt5, paced: true}}}, 20*time.Second, good)
		s := &scriptedServer{streams: []stream{{messages: []message{replay(5), synced(5)}, later: []delayed{{time.Second, live(9)}}}}}
		inf := client.NewInformer(connectTo(t, s), number, good, client.MinRevision(9))
		run(t, inf)
		if err := inf.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if at := inf.Lister().Position().Revision; at != 9 {
			t.Errorf("synced at revision %d, want 9", at)
		}
	})
}

func TestAnInformerThatAllowsStaleStatesIsSyncedAndStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{streams: []stream{{messages: []message{reset(), aged(time.Minute, synced(5))}}}}
		inf := client.NewInformer(connectTo(t, s), number, client.AllowStale())
		run(t, inf)
		if err := inf.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !inf.Lister().Stale() {
			t.Error("stale: got false for the state of a server that has lost etcd, want true")
		}
	})
}

// Servers notice after some seconds that they have lost etcd. Clients report it 30 s after the
// loss, and it stays reported as long as no server has etcd.
func TestStaleFromTheSilenceOnUntilEtcdIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sec = time.Second
		lost := stream{messages: []message{replay(6), aged(time.Minute, synced(6))}}
		s := &scriptedServer{streams: []stream{
			{messages: []message{reset(), synced(5)}, later: []delayed{ // etcd is lost now
				{4 * sec, aged(4*sec, live(6))}, {8 * sec, aged(12*sec, bookmark(6))},
			}},
			lost, lost,
			{messages: []message{replay(6), synced(7)}},
		}}
		inf := client.NewInformer(connectTo(t, s), number)
		run(t, inf)
		if err := inf.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for range 100 {
			time.Sleep(sec)
			synctest.Wait()
			passed, back := time.Since(began), inf.Lister().Position().Revision == 7
			if passed == 30*sec {
				continue // either is right
			}
			if want := passed > 30*sec && !back; inf.Lister().Stale() != want {
				t.Errorf("stale %v after the loss of etcd: got %v, want %v", passed, !want, want)
			}
			if n := len(s.starts()); passed == 31*sec && n < 2 {
				t.Errorf("got %d streams after %v, want another one", n, passed)
			}
		}
	})
}

// blocked returns an informer whose handler has not returned from the first item. When the
// test ends, the handler returns.
func blocked(t *testing.T, s *scriptedServer, run func(*client.Informer[int]) error) (inf *client.Informer[int], c *client.Client) {
	t.Helper()
	c = dialScripted(t, []*scriptedServer{s})
	inf = client.NewInformer(c.Resource("config"), number)
	called, release, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	inf.AddHandler(client.Handler[int]{Add: func(client.Item[int]) error {
		called <- struct{}{}
		<-release
		return nil
	}})
	go func() {
		defer close(done)
		_ = run(inf)
	}()
	t.Cleanup(func() {
		close(release)
		_ = c.Close() // the test may have closed it
		<-done
	})
	<-called
	if inf.Lister().Stale() {
		t.Fatal("stale: got true in the handler of the first state, want false")
	}
	return inf, c
}

// A handler that does not return does not hide that the state is stale.
func TestStaleWhileAHandlerBlocks(t *testing.T) {
	first := []message{reset(), part(0, withValue(added("a", 1), "1")), synced(1)}
	always := func(inf *client.Informer[int]) error { return inf.Run(context.Background()) }
	t.Run("lost connection", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			inf, _ := blocked(t, &scriptedServer{streams: []stream{{messages: first, lasts: time.Second, end: errLost}, {end: errLost}}}, always)
			time.Sleep(2 * time.Second)
			if !inf.Lister().Stale() {
				t.Error("got false after the connection was lost, want true")
			}
		})
	})
	t.Run("a silent server", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			inf, _ := blocked(t, &scriptedServer{streams: []stream{{messages: first}, {end: errLost}}}, always)
			time.Sleep(31 * time.Second)
			if !inf.Lister().Stale() {
				t.Error("got false after 31s of silence, want true")
			}
		})
	})
	t.Run("closed client", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			inf, c := blocked(t, &scriptedServer{streams: []stream{{messages: first}}}, always)
			c.Close()
			if !inf.Lister().Stale() {
				t.Error("got false, want true")
			}
		})
	})
	t.Run("ended context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			inf, _ := blocked(t, &scriptedServer{streams: []stream{{messages: first}}}, func(inf *client.Informer[int]) error { return inf.Run(ctx) })
			cancel()
			synctest.Wait()
			if !inf.Lister().Stale() {
				t.Error("got false, want true")
			}
		})
	})
}

// A handler that does not return does not keep the state from being confirmed.
func TestTheStateStaysFreshWhileAHandlerBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := stream{messages: []message{reset(), part(0, withValue(added("a", 1), "1")), synced(1)}}
		for i := range 10 {
			a.later = append(a.later, delayed{10 * time.Second, bookmark(int64(i + 2))})
		}
		inf, _ := blocked(t, &scriptedServer{streams: []stream{a}}, func(inf *client.Informer[int]) error { return inf.Run(context.Background()) })
		time.Sleep(95 * time.Second)
		if at := inf.Lister().Position().Revision; at != 10 || inf.Lister().Stale() {
			t.Errorf("got revision %d and stale %v, want 10 and false", at, inf.Lister().Stale())
		}
	})
}

// Bookmarks that waited while the caller was busy were sent long ago.
func TestBookmarksFromTheBufferConfirmNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := stream{messages: []message{reset(), part(0, added("a", 1)), synced(1)}}
		for i := range 6 { // then the server is silent
			a.later = append(a.later, delayed{5 * time.Second, bookmark(int64(i + 2))})
		}
		ctx, cancel := context.WithTimeout(t.Context(), 51*time.Second)
		defer cancel()
		var last *client.Update
		for u, err := range connectTo(t, &scriptedServer{streams: []stream{a}}).Watch(ctx) {
			if err != nil {
				break
			}
			if len(u.Events) > 0 {
				time.Sleep(50 * time.Second)
			}
			last = u
		}
		if age := time.Since(last.AsOf); last.Position.Revision != 7 || age < 20*time.Second {
			t.Errorf("got revision %d, confirmed %v ago, want 7 and at least 20s", last.Position.Revision, age)
		}
	})
}

// A watch without a pause is fresh as long as its caller keeps up.
func TestASteadyStreamKeepsTheStateFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := stream{messages: []message{reset(), synced(1)}}
		for i := range 10_000 {
			a.later = append(a.later, delayed{5 * time.Millisecond, live(int64(i + 2))})
		}
		inf := client.NewInformer(connectTo(t, &scriptedServer{streams: []stream{a}}), number)
		run(t, inf)
		time.Sleep(49 * time.Second)
		if at := inf.Lister().Position().Revision; at < 9000 || inf.Lister().Stale() {
			t.Errorf("got revision %d and stale %v, want at least 9000 and false", at, inf.Lister().Stale())
		}
	})
}

// A RESET from a server that has lost etcd may be older than what the client had.
func TestAReplacementIsAsOldAsItsServerSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{streams: []stream{
			{messages: []message{reset(), synced(5), draining(5)}, end: errOK},
			{messages: []message{reset(), aged(time.Hour, synced(3))}},
		}}
		var last *client.Update
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		for u, err := range connectTo(t, s).Watch(ctx) {
			if err == nil {
				last = u
			}
		}
		if age := time.Since(last.AsOf); last.Position.Revision != 3 || age < time.Hour {
			t.Errorf("got revision %d with age %v, want 3 with an hour", last.Position.Revision, age)
		}
	})
}

// The same holds for an informer, even if nothing was interrupted: the server that it reaches
// next may have lost etcd before a backup was restored.
func TestTheCopyIsAsOldAsItsReplacement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{streams: []stream{
			{messages: []message{reset(), synced(5), draining(5)}, end: errOK},
			{messages: []message{inNewEpoch(reset()), inNewEpoch(aged(time.Hour, synced(3)))}},
		}}
		inf := client.NewInformer(connectTo(t, s), number)
		run(t, inf)
		time.Sleep(time.Second)
		if at := inf.Lister().Position(); at.Epoch != "f" || !inf.Lister().Stale() {
			t.Errorf("got position %v and stale %v, want epoch f and true", at, inf.Lister().Stale())
		}
	})
}

// A partial message does not confirm the state before it: its events are dropped if the stream
// breaks, and another server may not know them.
func TestHalfAMessageDoesNotConfirmTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{streams: []stream{
			{messages: []message{reset(), synced(5)}, later: []delayed{{20 * time.Second, partial(live(5, added("a", 6)))}}, end: errLost},
			{messages: []message{replay(5), aged(time.Hour, synced(5))}},
		}}
		var last *client.Update
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		for u, err := range connectTo(t, s).Watch(ctx) {
			if err == nil {
				last = u
			}
		}
		if age := time.Since(last.AsOf); last.Phase != client.PhaseSynced || age < 30*time.Second {
			t.Errorf("got phase %v and an age of %v, want SYNCED and at least 30s", last.Phase, age)
		}
	})
}

// A caller that delays the end of a catch-up must not make it look as if the server had asked
// etcd after the stream began.
func TestASlowCallerDoesNotMakeTheStateFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{streams: []stream{{messages: []message{
			replay(5), part(6, withValue(added("x", 6), "6")), part(7, withValue(added("y", 7), "7")), aged(time.Minute, synced(7)),
		}}}}
		began := time.Now()
		for u, err := range connectTo(t, s).Watch(t.Context(), client.After(client.Position{Epoch: "e", Revision: 5})) {
			if err != nil {
				t.Fatal(err)
			}
			if len(u.Events) > 0 {
				time.Sleep(2 * time.Minute)
			}
			if u.Phase == client.PhaseSynced {
				if !u.AsOf.Before(began) {
					t.Errorf("got a state of %v after the watch began, want one from before", u.AsOf.Sub(began))
				}
				break
			}
		}
	})
}

// The first state is linearizable, so it is current however long its transfer takes.
func TestALongFirstLoadIsInSyncAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{streams: []stream{{messages: []message{
			reset(), part(0, withValue(added("a", 1), "1")), part(0, withValue(added("b", 2), "2")), part(0, withValue(added("c", 3), "3")),
			aged(5*time.Second, synced(5)),
		}}}}
		slow := func(o *client.Object) (int, error) {
			time.Sleep(2 * time.Second)
			return number(o)
		}
		inf := client.NewInformer(connectTo(t, s), slow)
		run(t, inf)
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
		defer cancel()
		if err := inf.WaitForSync(ctx); err != nil {
			t.Error(err)
		}
	})
}

// A client that is behind does not leave its server when the age of the events passes the limit
// of freshness.
func TestOldEventsAreNotSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{streams: []stream{{messages: []message{reset(), synced(1)}, later: []delayed{
			{time.Second, aged(29_990*time.Millisecond, live(2))}, {time.Second, aged(31*time.Second, live(3))}, {time.Second, live(4)},
		}}}}
		inf := client.NewInformer(connectTo(t, s), number)
		run(t, inf)
		time.Sleep(2500 * time.Millisecond)
		if at := inf.Lister().Position().Revision; at != 3 || inf.Lister().Stale() {
			t.Errorf("got revision %d and stale %v, want 3 and false: revision 1 was current 3s ago", at, inf.Lister().Stale())
		}
		time.Sleep(time.Second)
		if n := len(s.starts()); n != 1 || inf.Lister().Stale() {
			t.Errorf("got %d streams and stale %v, want 1 and false", n, inf.Lister().Stale())
		}
	})
}

// Short bookmark intervals make clients notice the loss of etcd early, and while etcd is there, the
// copy stays fresh between bookmarks.
func TestStaleSoonWithShortBookmarkIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sec, healthy = time.Second, 30
		var later []delayed
		for range healthy {
			later = append(later, delayed{sec, aged(sec+sec/20, bookmark(5))}) // confirmed once per interval
		}
		lost := healthy * sec // the server still sends bookmarks until it notices
		for i := range 8 {
			later = append(later, delayed{sec, aged(time.Duration(i+2)*sec, bookmark(5))})
		}
		s := &scriptedServer{streams: []stream{{messages: []message{reset(), synced(5)}, later: later}}}
		inf := client.NewInformer(connectTo(t, s), number, client.BookmarkInterval(sec))
		run(t, inf)
		if err := inf.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		for began := time.Now(); time.Since(began) < lost+8*sec; time.Sleep(sec / 4) {
			synctest.Wait()
			switch passed := time.Since(began); {
			case passed < lost && inf.Lister().Stale():
				t.Errorf("stale after %v, while the server has etcd", passed)
			case passed > lost+4*sec && !inf.Lister().Stale():
				t.Errorf("not stale %v after the last confirmation", passed-lost+sec)
			}
		}
	})
}
