package client_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/client"
)

var errHandler = errors.New("the handler has failed")

// failTimes returns results of a recorder that fail some calls, by their lines: each as often as the
// number says.
func failTimes(times map[string]int) func(line string) error {
	return func(line string) error {
		if times[line] == 0 {
			return nil
		}
		times[line]--
		return errHandler
	}
}

// liveAfter returns messages with pauses of ten minutes, longer than all retries.
func liveAfter(messages ...message) []delayed {
	var all []delayed
	for _, m := range messages {
		all = append(all, delayed{10 * time.Minute, m})
	}
	return all
}

func TestAFailedObjectIsOfferedAgainUntilItSucceeds(t *testing.T) {
	first := []message{reset(), part(0, withValue(added("a", 1), "1"), withValue(added("b", 2), "2")), synced(5)}
	for name, c := range map[string]struct {
		messages []message // one every ten minutes
		fail     map[string]int
		calls    []string
	}{
		"Add": {
			fail:  map[string]int{"+a=1": 3},
			calls: []string{"+a=1", "+b=2", "+a=1", "+a=1", "+a=1"},
		},
		"Update": {
			messages: []message{live(6, withValue(modified("a", 6), "6")), live(7, withValue(modified("a", 7), "7"))},
			fail:     map[string]int{"*a=1>6": 2},
			calls:    []string{"+a=1", "+b=2", "*a=1>6", "*a=1>6", "*a=1>6", "*a=6>7"},
		},
		"Delete": {
			messages: []message{live(6, deleted("a", 6)), live(7, withValue(added("a", 7), "7"))},
			fail:     map[string]int{"-a=1": 1},
			calls:    []string{"+a=1", "+b=2", "-a=1", "-a=1", "+a=7"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scriptedServer{streams: []stream{{messages: first, later: liveAfter(c.messages...)}}}
				inf := client.NewInformer(connectTo(t, s), number, client.BookmarkInterval(time.Hour))
				calls := newRecorder()
				calls.results = failTimes(c.fail)
				inf.AddHandler(calls.handler())
				run(t, inf)
				if err := inf.WaitForSync(t.Context()); err != nil {
					t.Fatalf("a failed call: %v, want no effect on WaitForSync", err)
				}
				time.Sleep(time.Hour)
				if diff := cmp.Diff(c.calls, calls.all()); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			})
		})
	}
}

// A newer version is offered at once, from what the handler has.
func TestANewerVersionTakesThePlaceOfAFailedOne(t *testing.T) {
	first := []message{reset(), part(0, withValue(added("a", 1), "1"), withValue(added("b", 2), "2")), synced(5)}
	always := 1 << 30
	for name, c := range map[string]struct {
		live  []message // right after the first state
		fail  map[string]int
		calls []string
	}{
		"of an item that the handler never had": {
			live:  []message{live(6, withValue(modified("a", 6), "6"))},
			fail:  map[string]int{"+a=1": always},
			calls: []string{"+a=1", "+b=2", "+a=6"},
		},
		"of an item that the handler has": {
			live:  []message{live(6, withValue(modified("a", 6), "6")), live(7, withValue(modified("a", 7), "7"))},
			fail:  map[string]int{"*a=1>6": always},
			calls: []string{"+a=1", "+b=2", "*a=1>6", "*a=1>7"},
		},
		"of a deletion": {
			live:  []message{live(6, deleted("a", 6)), live(7, withValue(added("a", 7), "7"))},
			fail:  map[string]int{"-a=1": always},
			calls: []string{"+a=1", "+b=2", "-a=1", "*a=1>7"},
		},
		"by the deletion of an item that the handler never had": {
			live:  []message{live(6, deleted("a", 6))},
			fail:  map[string]int{"+a=1": always},
			calls: []string{"+a=1", "+b=2"},
		},
		"by the deletion of an item that the handler has": {
			live:  []message{live(6, withValue(modified("a", 6), "6")), live(7, deleted("a", 7))},
			fail:  map[string]int{"*a=1>6": always},
			calls: []string{"+a=1", "+b=2", "*a=1>6", "-a=1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var later []delayed
				for _, m := range c.live {
					later = append(later, delayed{500 * time.Millisecond, m})
				}
				s := &scriptedServer{streams: []stream{{messages: first, later: later}}}
				inf := client.NewInformer(connectTo(t, s), number, client.BookmarkInterval(time.Hour))
				calls := newRecorder()
				calls.results = failTimes(c.fail)
				inf.AddHandler(calls.handler())
				run(t, inf)
				time.Sleep(10 * time.Minute)
				if diff := cmp.Diff(c.calls, calls.all()); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			})
		})
	}
}

func TestFailedObjectsAreOfferedAfterGrowingDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{streams: []stream{{messages: []message{reset(), part(0, withValue(added("a", 1), "1")), synced(5)}}}}
		inf := client.NewInformer(connectTo(t, s), number, client.BookmarkInterval(time.Hour))
		var at []time.Time
		inf.AddHandler(client.Handler[int]{Add: func(client.Item[int]) error {
			at = append(at, time.Now())
			return errHandler
		}})
		run(t, inf)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		for n := 1; n < len(at); n++ {
			most := min(time.Second<<(n-1), time.Minute)
			if pause := at[n].Sub(at[n-1]); pause < most*4/5 || pause > most {
				t.Errorf("got a pause of %v before attempt %d, want %v to %v", pause, n+1, most*4/5, most)
			}
		}
		if len(at) < 15 {
			t.Errorf("got %d attempts in 10 minutes, want at least 15", len(at))
		}
	})
}

func TestHandlersDoNotDelayEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := stream{paced: true, messages: []message{reset(), part(0, withValue(added("a", 1), "1")), synced(1)}}
		for i := range 100 {
			a.messages = append(a.messages, live(int64(i+2), withValue(modified("a", int64(i+2)), strconv.Itoa(i+2))))
		}
		inf := client.NewInformer(connectTo(t, &scriptedServer{streams: []stream{a}}), number)
		stuck, release := newRecorder(), make(chan struct{})
		stuck.results = func(string) error { <-release; return nil }
		inf.AddHandler(stuck.handler())
		free, failing := newRecorder(), newRecorder()
		inf.AddHandler(free.handler())
		failing.results = func(string) error { return errHandler }
		inf.AddHandler(failing.handler())
		run(t, inf)
		time.Sleep(time.Second)
		if lines := free.all(); len(lines) == 0 || !strings.HasSuffix(lines[len(lines)-1], ">101") {
			t.Errorf("got calls %q while another handler was busy, want the last version", lines)
		}
		if lines := stuck.all(); len(lines) != 1 {
			t.Errorf("got %d calls of the busy handler, want 1", len(lines))
		}
		if item, _ := inf.Lister().Get("a"); item.Value != 101 {
			t.Errorf("got %d from the lister, want 101", item.Value)
		}
		close(release)
		synctest.Wait()
		if diff := cmp.Diff([]string{"+a=1", "*a=1>101"}, stuck.all()); diff != "" {
			t.Errorf("calls of the busy handler: -want +got:\n%s", diff)
		}
	})
}

// What happens while a handler runs waits for it as one change per object, in order of
// revisions.
func TestChangesThatWaitAreMergedByKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := stream{paced: true, messages: []message{
			reset(), part(0, withValue(added("a", 1), "1"), withValue(added("b", 1), "1"), withValue(added("c", 1), "1")), synced(1),
			live(2, withValue(modified("a", 2), "2")), // the handler is busy with this one
			live(3, withValue(modified("c", 3), "3")),
			live(4, withValue(added("d", 4), "4")),
			live(5, withValue(added("e", 5), "5")),
			live(6, deleted("b", 6)),
			live(7, withValue(modified("a", 7), "7")),
			live(8, withValue(modified("c", 8), "8")),
			live(9, deleted("d", 9)),
			live(10, withValue(added("b", 10), "10")),
			live(11, withValue(modified("a", 11), "11")),
			live(12, deleted("c", 12)),
		}}
		inf := client.NewInformer(connectTo(t, &scriptedServer{streams: []stream{a}}), number)
		calls, release := newRecorder(), make(chan struct{})
		calls.results = func(line string) error {
			if strings.HasPrefix(line, "*a=1>") {
				<-release
			}
			return nil
		}
		inf.AddHandler(calls.handler())
		run(t, inf)
		time.Sleep(2 * time.Second)
		close(release)
		synctest.Wait()
		want := []string{"+a=1", "+b=1", "+c=1", "*a=1>2", "+e=5", "*b=1>10", "*a=2>11", "-c=1"}
		if diff := cmp.Diff(want, calls.all()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

func TestABusyHandlerHoldsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const updates, size, keys = 4000, 16 << 10, 8
		a := stream{messages: []message{reset(), synced(1)}}
		text := string(make([]byte, size)) // all messages of the script share it
		for i := range updates {
			a.messages = append(a.messages, live(int64(i+2), withValue(modified(strconv.Itoa(i%keys), int64(i+2)), text)))
		}
		s := &scriptedServer{streams: []stream{a}}
		inf := client.NewInformer(connectTo(t, s), client.ObjectDecoder())
		release, calls := make(chan struct{}), 0
		inf.AddHandler(client.Handler[*client.Object]{
			Add:    func(client.Item[*client.Object]) error { calls++; <-release; return nil },
			Update: func(_, _ client.Item[*client.Object]) error { calls++; return nil },
		})
		before := heap()
		run(t, inf)
		synctest.Wait()
		if at := inf.Lister().Position().Revision; at != updates+1 {
			t.Errorf("the informer is at revision %d while its handler is busy, want %d", at, updates+1)
		}
		if grown := heap() - before; grown > 4<<20 {
			t.Errorf("the heap has grown by %d bytes, want at most 4 MiB: %d versions of %d objects are %d bytes", grown, updates, keys, updates*size)
		}
		close(release)
		synctest.Wait()
		if calls > 4*keys {
			t.Errorf("got %d calls, want at most 4 for each of %d objects", calls, keys)
		}
	})
}

// heap returns the bytes of the heap that are in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// The calls of a slow handler are a possible history: each begins from what the handler has,
// revisions grow, and the handler ends with the state of the lister.
func TestASlowHandlerGetsAPossibleHistory(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 0))
				s := &scriptedServer{streams: []stream{randomStream(random)}}
				inf := client.NewInformer(connectTo(t, s), number, client.BookmarkInterval(time.Hour))
				failing := seed%2 == 1
				have, revision := map[string]int{}, int64(0)
				call := func(old, new client.Item[int]) error {
					time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
					if failing && random.IntN(3) == 0 {
						return errHandler
					}
					key := old
					if new.Object != nil {
						key = new
						// While an object fails, others overtake it.
						if new.Object.ModRevision < revision && !failing {
							t.Errorf("got revision %d after %d", new.Object.ModRevision, revision)
						}
						revision = new.Object.ModRevision
					}
					if has, ok := have[key.Object.Key]; ok != (old.Object != nil) || has != old.Value {
						t.Errorf("got a call for %s from %d, the handler has %d (%v)", key.Object.Key, old.Value, has, ok)
					}
					if new.Object == nil {
						delete(have, old.Object.Key)
					} else {
						have[new.Object.Key] = new.Value
					}
					return nil
				}
				var none client.Item[int]
				inf.AddHandler(client.Handler[int]{
					Add:    func(i client.Item[int]) error { return call(none, i) },
					Update: call,
					Delete: func(i client.Item[int]) error { return call(i, none) },
				})
				run(t, inf)
				time.Sleep(time.Hour)
				synctest.Wait()
				want := map[string]int{}
				for i := range inf.Lister().List("") {
					want[i.Object.Key] = i.Value
				}
				if diff := cmp.Diff(want, have); diff != "" {
					t.Errorf("-lister +handler:\n%s", diff)
				}
			})
		})
	}
}

// randomStream returns a stream with some hundred random changes of a few keys.
func randomStream(random *rand.Rand) stream {
	s := stream{messages: []message{reset(), part(0, withValue(added("k0", 1), "1"), withValue(added("k1", 1), "1")), synced(1)}}
	exists := map[string]bool{"k0": true, "k1": true}
	for revision := int64(2); revision < 400; revision++ {
		key := fmt.Sprintf("k%d", random.IntN(6))
		e := withValue(added(key, revision), strconv.FormatInt(revision, 10))
		switch {
		case exists[key] && random.IntN(3) == 0:
			e = deleted(key, revision)
		case exists[key]:
			e = withValue(modified(key, revision), strconv.FormatInt(revision, 10))
		}
		exists[key] = e.GetType() != deleted("", 0).GetType()
		s.later = append(s.later, delayed{time.Duration(random.IntN(200)) * time.Millisecond, live(revision, e)})
	}
	return s
}

func TestHandlersCanBeRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{streams: []stream{{
			messages: []message{reset(), part(0, withValue(added("a", 1), "1")), synced(1)},
			later:    []delayed{{time.Minute, live(2, withValue(added("b", 2), "2"))}, {time.Minute, live(3, withValue(added("c", 3), "3"))}},
		}}}
		inf := client.NewInformer(connectTo(t, s), number, client.BookmarkInterval(time.Hour))
		removed, kept, early := newRecorder(), newRecorder(), newRecorder()
		release := make(chan struct{})
		var registration *client.Registration
		removed.results = func(line string) error {
			if line == "+b=2" {
				registration.Remove() // a handler may remove itself
				registration.Remove()
				<-release
				return errHandler // it is not offered again
			}
			return nil
		}
		registration = inf.AddHandler(removed.handler())
		inf.AddHandler(kept.handler())
		beforeRun := inf.AddHandler(early.handler())
		beforeRun.Remove()
		<-beforeRun.Done()
		run(t, inf)
		time.Sleep(90 * time.Second)
		select {
		case <-registration.Done():
			t.Error("done while a call runs")
		default:
		}
		close(release)
		<-registration.Done()
		time.Sleep(90 * time.Second)
		for name, c := range map[string]struct {
			recorder *recorder
			calls    []string
		}{
			"removed":            {removed, []string{"+a=1", "+b=2"}},
			"kept":               {kept, []string{"+a=1", "+b=2", "+c=3"}},
			"removed before Run": {early, nil},
		} {
			if diff := cmp.Diff(c.calls, c.recorder.all()); diff != "" {
				t.Errorf("%s: -want +got:\n%s", name, diff)
			}
		}
		late := newRecorder()
		again := inf.AddHandler(late.handler())
		synctest.Wait()
		if diff := cmp.Diff([]string{"+a=1", "+b=2", "+c=3"}, late.all()); diff != "" {
			t.Errorf("added late: -want +got:\n%s", diff)
		}
		again.Remove()
		<-again.Done()
	})
}

func TestHandlersEndWithTheInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{streams: []stream{{messages: []message{reset(), part(0, withValue(added("a", 1), "1"), withValue(added("b", 2), "2")), synced(2)}}}}
		inf := client.NewInformer(connectTo(t, s), number)
		calls := newRecorder()
		calls.results = func(string) error { time.Sleep(9 * time.Second); return nil }
		registration := inf.AddHandler(calls.handler())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := inf.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Run: got %v, want %v", err, context.DeadlineExceeded)
		}
		if lasted := time.Since(began); lasted != 9*time.Second {
			t.Errorf("Run has returned after %v, want it to wait for the call that runs", lasted)
		}
		<-registration.Done()
		registration.Remove()
		if diff := cmp.Diff([]string{"+a=1"}, calls.all()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		<-inf.AddHandler(newRecorder().handler()).Done()
	})
}

// WaitForSync waits until the handlers were called, but not until they succeed.
func TestWaitForSyncWaitsForHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{streams: []stream{{messages: []message{reset(), part(0, withValue(added("a", 1), "1"), withValue(added("b", 2), "2")), synced(2)}}}}
		inf := client.NewInformer(connectTo(t, s), number)
		slow, stuck := newRecorder(), newRecorder()
		release := make(chan struct{})
		slow.results = func(string) error {
			select {
			case <-time.After(time.Minute):
			case <-release:
			}
			return errHandler
		}
		inf.AddHandler(slow.handler())
		stuck.results = func(string) error { <-release; return nil }
		registration := inf.AddHandler(stuck.handler())
		run(t, inf)
		began := time.Now()
		go func() {
			time.Sleep(30 * time.Second)
			registration.Remove() // one that was removed does not count
		}()
		for _, wait := range []func(context.Context) error{inf.WaitForState, inf.WaitForSync} {
			if err := wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if waited := time.Since(began); waited < 2*time.Minute || waited > 2*time.Minute+time.Second {
			t.Errorf("waited %v for two calls of a minute, want 2m", waited)
		}
		close(release)
	})
}

func TestResyncOffersFailedItemsOnlyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{streams: []stream{{messages: []message{reset(), part(0, withValue(added("a", 1), "1"), withValue(added("b", 2), "2")), synced(5)}}}}
		inf := client.NewInformer(connectTo(t, s), number, client.Resync(time.Hour), client.BookmarkInterval(time.Hour))
		calls := newRecorder()
		calls.results = failTimes(map[string]int{"*a=1>1": 1, "+b=2": 1 << 30})
		inf.AddHandler(calls.handler())
		run(t, inf)
		time.Sleep(time.Hour + time.Second + 30*time.Second)
		var got []string
		for _, line := range calls.all() {
			if !strings.HasSuffix(line, "b=2") {
				got = append(got, line)
			}
		}
		if diff := cmp.Diff([]string{"+a=1", "*a=1>1", "*a=1>1"}, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}
