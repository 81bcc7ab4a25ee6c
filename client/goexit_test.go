package client_test

import (
	"bytes"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/client"
)

// exitTimes makes some calls of a recorder end their goroutine, by their lines: each as often as the
// number says.
func exitTimes(times map[string]int) func(line string) error {
	return func(line string) error {
		if times[line] > 0 {
			times[line]--
			runtime.Goexit()
		}
		return nil
	}
}

func TestAHandlerThatEndsItsGoroutineHasFailed(t *testing.T) {
	for name, exits := range map[string]map[string]int{
		"once":                  {"+b=2": 1},
		"several objects":       {"+a=1": 1, "+b=2": 2, "+c=3": 1},
		"Update":                {"*b=2>6": 2},
		"Delete":                {"-c=3": 1},
		"Update and its resync": {"*a=1>1": 1, "*b=6>6": 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				s := &scriptedServer{streams: []stream{{
					messages: []message{reset(), part(0, withValue(added("a", 1), "1"), withValue(added("b", 2), "2"), withValue(added("c", 3), "3")), synced(5)},
					later:    liveAfter(live(6, withValue(modified("b", 6), "6")), live(7, deleted("c", 7))),
				}}}
				r := connectTo(t, s, client.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))))
				inf := client.NewInformer(r, number, client.Resync(time.Hour), client.BookmarkInterval(time.Hour))
				calls, other := newRecorder(), newRecorder()
				want := []string{"+a=1", "+b=2", "+c=3", "*b=2>6", "-c=3", "*a=1>1", "*b=6>6"}
				for line, n := range exits {
					want = append(want, slices.Repeat([]string{line}, n)...)
				}
				calls.results = exitTimes(exits)
				inf.AddHandler(calls.handler())
				inf.AddHandler(other.handler())
				run(t, inf)
				if err := inf.WaitForSync(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(90 * time.Minute)
				synctest.Wait()
				got := calls.all()
				slices.Sort(want)
				slices.Sort(got)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("calls: -want +got:\n%s", diff)
				}
				if n := len(other.all()); n != 7 {
					t.Errorf("the other handler got %d calls, want 7", n)
				}
				if !strings.Contains(log.String(), "handler failed") || !strings.Contains(log.String(), "runtime.Goexit") {
					t.Errorf("the log is %q", log.String())
				}
			})
		})
	}
}

// A decoder, an index, Error and OnInterruption may end their goroutines, too.
func TestCallbacksThatEndTheirGoroutineChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		decode := func(o *client.Object) (int, error) {
			if string(o.Value) == "exit" {
				runtime.Goexit()
			}
			return number(o)
		}
		s := &scriptedServer{streams: []stream{
			{messages: []message{
				reset(), part(0, withValue(added("a", 1), "1"), withValue(added("b", 2), "exit"), withValue(added("c", 3), "exit"), withValue(added("d", 4), "4")), synced(5),
			}, lasts: time.Minute, end: errLost},
			{messages: []message{replay(5), synced(6)}, later: liveAfter(live(7, withValue(modified("a", 7), "exit"), withValue(modified("c", 7), "9")))},
		}}
		interruptions := 0
		inf := client.NewInformer(connectTo(t, s), decode, client.BookmarkInterval(time.Hour),
			client.OnInterruption(func(error) { runtime.Goexit() }), client.OnInterruption(func(error) { interruptions++ }))
		inf.AddIndex("all", func(i client.Item[int]) []string {
			if i.Value == 4 {
				runtime.Goexit()
			}
			return nil
		})
		calls := newRecorder()
		h := calls.handler()
		h.Error = func(o *client.Object, err error) { calls.record("!%s", o.Key); runtime.Goexit() }
		inf.AddHandler(h)
		run(t, inf)
		if err := inf.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if diff := cmp.Diff([]string{"+a=1", "!b", "!c", "!d", "!a", "+c=9"}, calls.all()); diff != "" {
			t.Errorf("calls: -want +got:\n%s", diff)
		}
		if diff := cmp.Diff([]string{"a=1!", "c=9"}, items(inf.Lister())); diff != "" {
			t.Errorf("items: -want +got:\n%s", diff)
		}
		if interruptions != 1 {
			t.Errorf("the second callback was called %d times, want once", interruptions)
		}
	})
}

// The saved state is decoded before anything else.
func TestADecoderMayEndItsGoroutineForASavedState(t *testing.T) {
	file := client.LastKnownGood(t.TempDir()+"/state", 1<<20)
	for _, exits := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &scriptedServer{streams: []stream{{messages: []message{reset(), part(0, withValue(added("a", 1), "1"), withValue(added("b", 2), "2")), synced(5)}}}}
			if exits {
				s.streams = []stream{{}} // silent
			}
			decode := func(o *client.Object) (int, error) {
				if exits && o.Key == "a" {
					runtime.Goexit()
				}
				return number(o)
			}
			inf := client.NewInformer(connectTo(t, s), decode, file)
			run(t, inf)
			if err := inf.WaitForState(t.Context()); err != nil {
				t.Fatal(err)
			}
			want := []string{"a=1", "b=2"}
			if exits {
				want = want[1:]
			}
			if diff := cmp.Diff(want, items(inf.Lister())); diff != "" {
				t.Errorf("items: -want +got:\n%s", diff)
			}
		})
	}
}

// An interruption that a callback has not seen waits for it alone.
func TestAStuckOnInterruptionHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{streams: slices.Concat(slices.Repeat([]stream{{end: errLost}}, 100), []stream{
			{messages: []message{reset(), part(0, withValue(added("a", 1), "1")), synced(5)}, lasts: time.Minute, end: errLost},
			{messages: []message{replay(5), part(6, withValue(modified("a", 6), "6")), synced(6)}},
		})}
		release := make(chan struct{})
		stuck, other := 0, 0
		inf := client.NewInformer(connectTo(t, s), number, client.BookmarkInterval(time.Hour), client.OnInterruption(func(error) {
			stuck++
			<-release
		}), client.OnInterruption(func(error) { other++ }))
		run(t, inf)
		time.Sleep(time.Hour)
		synctest.Wait()
		if diff := cmp.Diff([]string{"a=6"}, items(inf.Lister())); diff != "" {
			t.Errorf("items: -want +got:\n%s", diff)
		}
		if stuck != 1 || other != 101 {
			t.Errorf("%d calls of the callback that is stuck and %d of the other, want 1 and 101", stuck, other)
		}
		close(release)
		synctest.Wait()
		if stuck < 2 || stuck > 101 {
			t.Errorf("%d calls after the callback has returned", stuck)
		}
	})
}
