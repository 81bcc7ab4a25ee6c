package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// reportLog records reports, in short: "watch-1 e/5", or "watch-1 e/4-7: no" with an error if
// everything up to revision 7 was attempted, or "watch-1 --7: no" without an applied position.
type reportLog struct {
	mu    sync.Mutex
	lines []string                // guarded by mu
	times []time.Time             // guarded by mu
	last  *fanoutv1.ReportRequest // guarded by mu
	// answer returns what the server answers to the n-th report; nil: no errors.
	answer func(n int) error
}

func (l *reportLog) report(req *fanoutv1.ReportRequest) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := req.GetWatch() + " -"
	if p := req.GetApplied(); p != nil {
		line = req.GetWatch() + " " + formatPosition(client.Position{Epoch: p.GetEpoch(), Revision: p.GetRevision()})
	}
	if e := req.GetError(); e != nil {
		line += fmt.Sprintf("-%d: %s", req.GetAttempted().GetRevision(), e.GetMessage())
		if c := codes.Code(e.GetCode()); c != codes.Unknown {
			line += fmt.Sprintf(" (code %s)", c)
		}
	}
	l.lines, l.times, l.last = append(l.lines, line), append(l.times, time.Now()), req
	if l.answer == nil {
		return nil
	}
	return l.answer(len(l.lines))
}

// lastFailed returns the failed keys of the last report.
func (l *reportLog) lastFailed() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last.GetFailedKeys()
}

// take returns the reports since the last call.
func (l *reportLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines
	l.lines = nil
	return lines
}

// wantReports compares the reports since the last call.
func (l *reportLog) wantReports(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, l.take()); diff != "" {
		t.Errorf("reports: -want +got:\n%s", diff)
	}
}

func TestWatchesReportWhatTheCallerHasApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reports := &reportLog{}
		s := &scriptedServer{reports: reports.report, streams: []stream{
			{messages: []message{reset(), part(0, added("a", 1)), synced(5)}, later: []delayed{
				{10 * time.Second, live(6, modified("a", 6))}, {5 * time.Second, bookmark(7)},
			}, lasts: 3 * time.Second, end: errLost},
			{messages: []message{replay(7), synced(7)}},
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
		defer cancel()
		for u, err := range connectTo(t, s).Watch(ctx, client.BookmarkInterval(time.Minute)) {
			if err != nil {
				break
			}
			switch {
			case u.Position.Revision == 5:
				time.Sleep(2 * time.Second)
				reports.wantReports(t) // the caller has not applied it yet
			case u.Position.Revision == 6:
				reports.wantReports(t, "watch-1 e/5")
			case u.Phase == client.PhaseSynced: // of the second stream
				reports.wantReports(t, "watch-1 e/6", "watch-2 e/7")
			}
		}
		reports.wantReports(t)
	})
}

// A watch reports what its caller cannot apply: at once while the caller tries again, and until it is applied.
func TestWatchesReportFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reports := &reportLog{}
		s := &scriptedServer{reports: reports.report, streams: []stream{
			{messages: []message{reset(), part(0, added("a", 1)), synced(5)}, later: []delayed{
				{time.Minute, live(6, modified("a", 6))}, {time.Minute, live(7, added("b", 7))}, {time.Minute, live(8, modified("a", 8))},
			}},
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		var failed client.Failures
		for u, err := range connectTo(t, s).Watch(ctx, client.BookmarkInterval(time.Hour), client.ReportFailures(&failed)) {
			if err != nil {
				break
			}
			switch u.Position.Revision {
			case 0:
				if len(u.Events) == 0 {
					continue // the beginning of the first state
				}
				failed.Add(errHandler, u.Position, u.Events[0])
				time.Sleep(2 * time.Second)
				reports.wantReports(t) // before the first state is applied, nothing is known
				failed.Remove("a")
			case 6:
				reports.wantReports(t, "watch-1 e/5")
				failed.Add(errHandler, u.Position, u.Events[0])
				time.Sleep(2 * time.Second)
				reports.wantReports(t, "watch-1 e/5-6: "+errHandler.Error())
				if diff := cmp.Diff([]string{"a"}, reports.lastFailed()); diff != "" {
					t.Error(diff)
				}
				failed.Add(errHandler, u.Position, u.Events[0]) // the next attempt
				time.Sleep(2 * time.Second)
				reports.wantReports(t)
			case 7:
				failed.Remove("b") // it has not failed
			case 8:
				reports.wantReports(t, "watch-1 e/5-7: "+errHandler.Error())
				failed.Remove("a")
				time.Sleep(2 * time.Second)
				reports.wantReports(t, "watch-1 e/7") // this update is not applied yet
			}
		}
		reports.wantReports(t, "watch-1 e/8")
	})
}

// A caller that reads ahead says itself what it has applied, and can wait until its failures are reported.
func TestDeferredWatchesReportWhatTheirCallerSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reports := &reportLog{}
		s := &scriptedServer{reports: reports.report, streams: []stream{
			{messages: []message{reset(), part(0, added("a", 1)), synced(5)}, later: []delayed{
				{time.Minute, live(6, modified("a", 6))}, {time.Minute, live(7, added("b", 7))}, {time.Minute, live(8)},
			}},
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		var failed client.Failures
		failed.Defer()
		var unapplied []client.Event
		for u, err := range connectTo(t, s).Watch(ctx, client.BookmarkInterval(time.Hour), client.ReportFailures(&failed)) {
			if err != nil {
				break
			}
			switch u.Position.Revision {
			case 5:
				if failed.Flush(ctx) {
					t.Error("Flush without a failure: got true")
				}
				failed.Applied(u.Position)
			case 6:
				unapplied = u.Events
			case 7:
				reports.wantReports(t, "watch-1 e/5") // not what the caller has only asked for
				failed.Add(errHandler, u.Position, append(unapplied, u.Events...)...)
				if !failed.Flush(ctx) {
					t.Error("Flush: got false")
				}
				synctest.Wait()
				reports.wantReports(t, "watch-1 e/5-7: "+errHandler.Error())
				if diff := cmp.Diff([]string{"a", "b"}, reports.lastFailed()); diff != "" {
					t.Error(diff)
				}
				failed.Remove("other")
				if !failed.Flush(ctx) {
					t.Error("Flush waits for a report of what has not failed")
				}
			case 8:
				failed.Clear()
				failed.Applied(u.Position)
			}
		}
		reports.wantReports(t, "watch-1 e/8")
	})
}

// What the caller cannot apply of the first state is reported without an applied position.
func TestFailuresOfTheFirstStateAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reports := &reportLog{}
		s := &scriptedServer{reports: reports.report, streams: []stream{{messages: []message{reset(), part(0, added("a", 5)), synced(5)}}}}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		var failed client.Failures
		var events []client.Event
		for u, err := range connectTo(t, s).Watch(ctx, client.BookmarkInterval(time.Hour), client.ReportFailures(&failed)) {
			if err != nil {
				t.Fatal(err)
			}
			events = append(events, u.Events...)
			if u.Phase != client.PhaseSynced {
				continue
			}
			failed.Add(errHandler, u.Position, events...)
			if !failed.Flush(ctx) {
				t.Error("Flush: got false")
			}
			synctest.Wait()
			break
		}
		if diff := cmp.Diff([]string{"a"}, reports.lastFailed()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestReportsComeAtMostOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reports := &reportLog{}
		a := stream{messages: []message{reset(), synced(1)}}
		for i := range 1000 {
			a.later = append(a.later, delayed{10 * time.Millisecond, live(int64(i+2), modified("a", int64(i+2)))})
		}
		inf := client.NewInformer(connectTo(t, &scriptedServer{reports: reports.report, streams: []stream{a}}), client.ObjectDecoder())
		run(t, inf)
		time.Sleep(15 * time.Second)
		reports.mu.Lock()
		times := slices.Clone(reports.times)
		reports.mu.Unlock()
		for n := 1; n < len(times); n++ {
			if pause := times[n].Sub(times[n-1]); pause < time.Second {
				t.Errorf("got a report %v after another one, want at least a second", pause)
			}
		}
		lines := reports.take()
		if len(lines) < 10 || lines[len(lines)-1] != "watch-1 e/1001" {
			t.Errorf("got reports %q, want at least 10, and the last position", lines)
		}
	})
}

// informerAt5 runs an informer of a scripted server with these handlers. The server sends a and b, and
// later what follows.
func informerAt5(t *testing.T, reports *reportLog, later []delayed, handlers ...client.Handler[int]) *client.Informer[int] {
	t.Helper()
	s := &scriptedServer{reports: reports.report, streams: []stream{{
		messages: []message{reset(), part(0, withValue(added("a", 3), "3"), withValue(added("b", 4), "4")), synced(5)}, later: later,
	}}}
	inf := client.NewInformer(connectTo(t, s), number, client.BookmarkInterval(time.Hour))
	for _, h := range handlers {
		inf.AddHandler(h)
	}
	run(t, inf)
	return inf
}

func TestInformersReportWhenAllHandlersHaveReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reports := &reportLog{}
		slow, fast := newRecorder(), newRecorder()
		slow.results = func(string) error { time.Sleep(10 * time.Second); return nil }
		inf := informerAt5(t, reports, []delayed{{time.Minute, live(6, withValue(modified("a", 6), "6"))}}, slow.handler(), fast.handler())
		time.Sleep(19 * time.Second)
		reports.wantReports(t)
		time.Sleep(2 * time.Second)
		reports.wantReports(t, "watch-1 e/5")

		// A handler that begins does not take the report back.
		late := newRecorder()
		late.results = slow.results
		inf.AddHandler(late.handler())
		time.Sleep(30 * time.Second)
		reports.wantReports(t)
		time.Sleep(15 * time.Second) // revision 6 has come
		reports.wantReports(t)
		time.Sleep(10 * time.Second)
		reports.wantReports(t, "watch-1 e/6")
	})
}

func TestInformersReportFailedObjects(t *testing.T) {
	for name, c := range map[string]struct {
		live  []message // one a minute
		fail  map[string]int
		wants [][]string // among the reports of each minute, and at their end
	}{
		"of the first state": {
			live:  []message{live(6, withValue(modified("b", 6), "6")), live(7, withValue(modified("a", 7), "7"))},
			fail:  map[string]int{"+a=3": 1 << 30},
			wants: [][]string{{"e/2-5: a@3"}, {"e/2-6: a@3"}, {"e/7"}},
		},
		"until they succeed": {
			live:  []message{live(6, withValue(modified("a", 6), "6"))},
			fail:  map[string]int{"*a=3>6": 3},
			wants: [][]string{{"e/5"}, {"e/5-6: a@6", "e/6"}},
		},
		"from the oldest version that failed": {
			live: []message{
				live(8, withValue(modified("a", 8), "8")), live(9, withValue(modified("b", 9), "9")), live(10, withValue(modified("a", 10), "10")), live(11, deleted("a", 11)),
			},
			fail:  map[string]int{"*a=3>8": 1 << 30, "*b=4>9": 1 << 30, "*a=3>10": 1 << 30},
			wants: [][]string{{"e/5"}, {"e/7-8: a@8"}, {"e/7-9: a@8"}, {"e/7-10: a@10"}, {"e/8-11: b@9"}},
		},
		"that cannot be decoded": {
			live:  []message{live(6, withValue(modified("a", 6), "x")), live(7, withValue(added("c", 7), "7")), live(8, withValue(modified("a", 8), "8"))},
			wants: [][]string{{"e/5"}, {"e/5-6: invalid a@6"}, {"e/5-7: invalid a@6"}, {"e/8"}},
		},
		"that cannot be decoded, and then are refused": {
			live:  []message{live(6, withValue(modified("a", 6), "x")), live(7, withValue(modified("a", 7), "7")), live(8, withValue(modified("a", 8), "8"))},
			fail:  map[string]int{"*a=3>7": 1 << 30},
			wants: [][]string{{"e/5"}, {"e/5-6: invalid a@6"}, {"e/5-7: a@7"}, {"e/8"}},
		},
		"that are refused, and then cannot be decoded": {
			live:  []message{live(6, withValue(modified("a", 6), "6")), live(7, withValue(modified("a", 7), "x")), live(8, withValue(modified("a", 8), "8"))},
			fail:  map[string]int{"*a=3>6": 1 << 30},
			wants: [][]string{{"e/5"}, {"e/5-6: a@6"}, {"e/5-7: a@6"}, {"e/8"}},
		},
		"of a difference": {
			live: []message{
				delta(5), part(5, withValue(modified("a", 7), "7"), withValue(modified("b", 8), "8")), synced(9), live(10, withValue(modified("b", 10), "10")),
			},
			fail:  map[string]int{"*b=4>8": 1 << 30},
			wants: [][]string{{"e/5"}, nil, nil, {"e/5-9: b@8"}, {"e/10"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reports, calls := &reportLog{}, newRecorder()
				calls.results = failTimes(c.fail)
				var later []delayed
				for _, m := range c.live {
					later = append(later, delayed{time.Minute, m})
				}
				informerAt5(t, reports, later, calls.handler())
				for minute, want := range c.wants {
					time.Sleep(time.Minute - time.Millisecond)
					synctest.Wait()
					got := reports.take()
					for n, line := range got {
						got[n] = shortReport(line)
					}
					last := len(want) == 0 && len(got) == 0 || len(want) > 0 && len(got) > 0 && got[len(got)-1] == want[len(want)-1]
					if !last || slices.ContainsFunc(want, func(line string) bool { return !slices.Contains(got, line) }) {
						t.Errorf("minute %d: got reports %q, want %q", minute, got, want)
					}
					time.Sleep(time.Millisecond)
				}
			})
		})
	}
}

// A saved state does not say since when an object cannot be decoded. So after a restart, nothing is
// reported as applied until it can be decoded: a version between the saved ones may have been missed.
func TestNothingIsAppliedBeforeASavedFailureIsOver(t *testing.T) {
	withFile(t, func(t *testing.T, path string) {
		good := client.LastKnownGood(path, 1<<20)
		runFor(t, &scriptedServer{streams: []stream{{messages: []message{
			reset(), part(0, withValue(added("a", 3), "3")), synced(4),
			live(5, withValue(modified("a", 5), "five")), live(7, withValue(modified("a", 7), "seven")),
		}, paced: true}}}, 20*time.Second, good)

		reports := &reportLog{}
		s := &scriptedServer{reports: reports.report, streams: []stream{{
			messages: []message{replay(7), synced(8)}, later: []delayed{{time.Minute, live(9, withValue(modified("a", 9), "9"))}},
		}}}
		run(t, client.NewInformer(connectTo(t, s), number, good, client.BookmarkInterval(time.Hour)))
		for _, want := range []string{"--8: invalid a@7", "e/9"} {
			time.Sleep(time.Minute - time.Millisecond)
			synctest.Wait()
			got := reports.take()
			if len(got) == 0 || shortReport(got[len(got)-1]) != want {
				t.Errorf("got reports %q, want %q at last", got, want)
			}
			time.Sleep(time.Millisecond)
		}
	})
}

// A handler that returns an error because its program ends has not refused the object.
func TestAHandlerThatGivesUpAtTheEndReportsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reports := &reportLog{}
		s := &scriptedServer{reports: reports.report, streams: []stream{{
			messages: []message{reset(), part(0, withValue(added("a", 3), "3"), withValue(added("b", 4), "4")), synced(5)},
			later:    []delayed{{time.Minute, live(6, withValue(modified("a", 6), "6"))}, {time.Minute, live(7, withValue(modified("b", 7), "7"))}},
		}}}
		inf := client.NewInformer(connectTo(t, s), number, client.BookmarkInterval(time.Hour))
		ctx, cancel := context.WithCancel(t.Context())
		inf.AddHandler(client.Handler[int]{Update: func(_, item client.Item[int]) error {
			if item.Object.Key == "a" {
				<-ctx.Done()
			}
			return ctx.Err()
		}})
		ended := make(chan error)
		go func() { ended <- inf.Run(ctx) }()
		time.Sleep(3 * time.Minute)
		reports.wantReports(t, "watch-1 e/5")
		cancel()
		<-ended
		reports.wantReports(t)
	})
}

// As long as the same objects fail, an informer reports the same error. Otherwise the server
// would count new errors.
func TestTheReportedErrorStaysTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reports := &reportLog{}
		var events []*fanoutv1.Event
		for n := range 20 {
			events = append(events, withValue(added(fmt.Sprintf("k%02d", n), 6), "6"))
		}
		failing := client.Handler[int]{Add: func(i client.Item[int]) error {
			if i.Object.ModRevision == 6 {
				return errHandler
			}
			return nil
		}}
		informerAt5(t, reports, []delayed{{time.Minute, live(6, events...)}}, failing)
		time.Sleep(10 * time.Minute)
		lines := reports.take()
		for n, line := range lines {
			// The first report may come before all objects were attempted.
			lines[n] = strings.Replace(shortReport(line), "e/5-5: ", "e/5-6: ", 1)
		}
		if diff := cmp.Diff([]string{"e/5", "e/5-6: k00@6"}, slices.Compact(lines)); diff != "" {
			t.Errorf("reports: -want +got:\n%s", diff)
		}
	})
}

// Of informers that share a watch and fail for the same object, the first one decides which error
// is reported.
func TestTheReportedErrorOfAWatchStaysTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reports := &reportLog{}
		s := &scriptedServer{reports: reports.report, streams: []stream{{messages: []message{reset(), part(0, withValue(added("a", 3), "3")), synced(5)}}}}
		r := connectTo(t, s)
		for n := range 10 {
			inf := client.NewInformer(r, number, client.AllowStale(), client.BookmarkInterval(time.Hour))
			inf.AddHandler(client.Handler[int]{Add: func(client.Item[int]) error { return fmt.Errorf("handler %d fails", n) }})
			run(t, inf)
			time.Sleep(time.Second)
		}
		time.Sleep(3 * time.Second)
		reports.take()
		time.Sleep(10 * time.Minute)
		reports.wantReports(t)
	})
}

// shortReport returns a report with the object of its error only: "e/5-6: a@6".
func shortReport(line string) string {
	line = strings.TrimPrefix(line, "watch-1 ")
	at, message, ok := strings.Cut(line, ": ")
	if !ok {
		return line
	}
	var key string
	var revision int64
	if _, err := fmt.Sscanf(message, "handle %q at revision %d: the handler has failed", &key, &revision); err == nil {
		return fmt.Sprintf("%s: %s@%d", at, key, revision)
	}
	if _, err := fmt.Sscanf(message, "object %q at revision %d:", &key, &revision); err == nil {
		return fmt.Sprintf("%s: invalid %s@%d", at, key, revision)
	}
	return line
}

// Informers that share a watch have applied what all of them have.
func TestAReportSpeaksForAllInformersOfTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reports := &reportLog{}
		s := &scriptedServer{reports: reports.report, streams: []stream{{
			messages: []message{reset(), part(0, withValue(added("a", 3), "3")), synced(5)},
			later:    []delayed{{time.Minute, live(6, withValue(modified("a", 6), "6"))}},
		}}}
		r := connectTo(t, s)
		one, other := client.NewInformer(r, number, client.AllowStale(), client.BookmarkInterval(time.Hour)), client.NewInformer(r, number, client.AllowStale(), client.BookmarkInterval(time.Hour))
		calls := newRecorder()
		calls.results = func(string) error { return errHandler }
		other.AddHandler(calls.handler())
		run(t, one)
		time.Sleep(time.Second)
		reports.wantReports(t, "watch-1 e/5")
		stop := runUntil(t, t.Context(), other)
		time.Sleep(50 * time.Second)
		lines := reports.take()
		if len(lines) == 0 || shortReport(lines[len(lines)-1]) != "e/2-5: a@3" {
			t.Errorf("got reports %q, want one of the failed object", lines)
		}
		time.Sleep(20 * time.Second)
		if err := stop(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		lines = reports.take()
		if len(lines) == 0 || lines[len(lines)-1] != "watch-1 e/6" {
			t.Errorf("got reports %q after the failing informer has ended, want the last position without an error", lines)
		}
	})
}

// A position that only a bookmark has moved is reported once a minute. The server knows that
// nothing else is to be applied.
func TestAQuietWatchReportsOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reports := &reportLog{}
		a := stream{messages: []message{reset(), synced(5)}}
		for revision := range int64(18) {
			a.later = append(a.later, delayed{10 * time.Second, bookmark(6 + revision)})
		}
		run(t, client.NewInformer(connectTo(t, &scriptedServer{reports: reports.report, streams: []stream{a}}), number))
		time.Sleep(3*time.Minute + time.Second)
		reports.wantReports(t, "watch-1 e/5", "watch-1 e/11", "watch-1 e/17", "watch-1 e/23")
	})
}

func TestReportsStopWhereTheServerDoesNotTakeThem(t *testing.T) {
	for name, answer := range map[string]error{
		"unimplemented": status.Error(codes.Unimplemented, "no"),
		"unknown watch": status.Error(codes.NotFound, "no"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reports := &reportLog{answer: func(int) error { return answer }}
				var later []delayed
				for revision := range int64(20) {
					later = append(later, delayed{2 * time.Second, bookmark(6 + revision)})
				}
				inf := informerAt5(t, reports, later)
				time.Sleep(time.Minute)
				reports.wantReports(t, "watch-1 e/5")
				if at := inf.Lister().Position().Revision; at != 25 || inf.Lister().Stale() {
					t.Errorf("got revision %d and stale %v, want 25 and false", at, inf.Lister().Stale())
				}
			})
		})
	}
}

func TestAnOverloadedServerGetsFewerReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reports := &reportLog{answer: func(n int) error {
			if n <= 6 {
				return status.Error(codes.ResourceExhausted, "no")
			}
			return nil
		}}
		var later []delayed
		for revision := range int64(300) {
			later = append(later, delayed{time.Second, live(6+revision, withValue(modified("a", 6+revision), "6"))})
		}
		informerAt5(t, reports, later)
		time.Sleep(310 * time.Second)
		lines := reports.take()
		if last := lines[len(lines)-1]; last != "watch-1 e/305" {
			t.Errorf("last report: got %s, want watch-1 e/305", last)
		}
	})
}

// A report goes to the server that has the watch. Another one would not know the watch.
func TestReportsReachTheServerOfTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs := []*reportLog{{}, {}}
		var servers []*scriptedServer
		for n := range logs {
			var later []delayed
			for revision := range int64(10) {
				later = append(later, delayed{2 * time.Second, live(6+revision, withValue(modified("a", 6+revision), "6"))})
			}
			servers = append(servers, &scriptedServer{reports: logs[n].report, streams: []stream{{messages: []message{reset(), synced(5)}, later: later}}})
		}
		r := connectToAll(t, servers...)
		run(t, client.NewInformer(r, number, client.BookmarkInterval(time.Hour)))
		time.Sleep(time.Minute)
		for n, s := range servers {
			want := 0
			if len(s.starts()) > 0 {
				want = 11
			}
			if got := logs[n].take(); len(got) != want {
				t.Errorf("server %d with %d watches: got reports %q, want %d", n, len(s.starts()), got, want)
			}
		}
	})
}

// reporting returns for each watch whether it began as one that reports.
func (s *scriptedServer) reporting() []bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []bool
	for _, r := range s.requests {
		all = append(all, r.GetReports())
	}
	return all
}

// A gate waits for the watches that say that they report. So the others must not say it.
func TestWatchesSayWhetherTheyReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{script: resumable(), reports: (&reportLog{}).report}
		r := connectTo(t, s)
		run(t, client.NewInformer(r, number))
		synctest.Wait()
		run(t, client.NewInformer(r, number)) // joins the watch, and confirms its state with a short one
		synctest.Wait()
		for _, opts := range [][]client.WatchOption{{}, {client.WithoutReports()}} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			for range r.Watch(ctx, opts...) {
			}
			cancel()
		}
		if diff := cmp.Diff([]bool{true, false, true, false}, s.reporting()); diff != "" {
			t.Errorf("informer, confirmation, watch, watch without reports: -want +got:\n%s", diff)
		}
	})
}

func TestAWatchWithoutReportsSendsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reports := &reportLog{}
		s := &scriptedServer{script: resumable(live(2, modified("a", 2))), reports: reports.report}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		for range connectTo(t, s).Watch(ctx, client.WithoutReports()) {
		}
		reports.wantReports(t)
	})
}

// failAll is a handler that rejects all objects with a value of 6.
func failAll() client.Handler[int] {
	fail := func(i client.Item[int]) error {
		if i.Value == 6 {
			return errHandler
		}
		return nil
	}
	return client.Handler[int]{Add: fail, Update: func(_, i client.Item[int]) error { return fail(i) }}
}

// An operator who waits for one object must not wait for another one that has failed.
func TestReportsNameTheFailedKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reports := &reportLog{}
		later := []delayed{
			{time.Minute, live(6, withValue(modified("b", 6), "6"))},
			{time.Minute, live(7, withValue(modified("a", 7), "six"))}, // cannot be decoded
			{time.Minute, live(8, withValue(modified("b", 8), "8"))},
			{time.Minute, live(9, deleted("a", 9))},
		}
		informerAt5(t, reports, later, failAll())
		var got []string
		for range 5 {
			time.Sleep(time.Minute - time.Millisecond)
			synctest.Wait()
			got = append(got, fmt.Sprintf("%q", reports.lastFailed()))
			time.Sleep(time.Millisecond)
		}
		if diff := cmp.Diff([]string{"[]", `["b"]`, `["a" "b"]`, `["a"]`, "[]"}, got); diff != "" {
			t.Errorf("failed keys: -want +got:\n%s", diff)
		}
	})
}

// Too many keys are not named: the error may concern any object then.
func TestReportsNameABoundedNumberOfFailedKeys(t *testing.T) {
	for name, c := range map[string]struct {
		keys, length int
		named        bool
	}{
		"32 keys":         {32, 3, true},
		"33 keys":         {33, 3, false},
		"4096 bytes":      {32, 128, true},
		"more than 4 KiB": {32, 129, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reports := &reportLog{}
				var events []*fanoutv1.Event
				for n := range c.keys {
					events = append(events, withValue(added(fmt.Sprintf("k%0*d", c.length-1, n), 6), "6"))
				}
				informerAt5(t, reports, []delayed{{time.Minute, live(6, events...)}}, failAll())
				time.Sleep(2 * time.Minute)
				want := 0
				if c.named {
					want = c.keys
				}
				if got := reports.lastFailed(); len(got) != want {
					t.Errorf("got %d failed keys, want %d", len(got), want)
				}
			})
		})
	}
}

// The failed keys of informers that share a watch are those of all of them.
func TestAReportNamesTheFailedKeysOfAllInformersOfTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reports := &reportLog{}
		s := &scriptedServer{reports: reports.report, streams: []stream{{
			messages: []message{reset(), part(0, withValue(added("a", 3), "3"), withValue(added("b", 4), "4"), withValue(added("c", 5), "5")), synced(5)},
		}}}
		r := connectTo(t, s)
		for _, fails := range [][]string{{"a", "b"}, {"b", "c"}} {
			inf := client.NewInformer(r, number, client.AllowStale(), client.BookmarkInterval(time.Hour))
			inf.AddHandler(client.Handler[int]{Add: func(i client.Item[int]) error {
				if slices.Contains(fails, i.Object.Key) {
					return errHandler
				}
				return nil
			}})
			run(t, inf)
		}
		time.Sleep(time.Minute)
		if got := reports.lastFailed(); !slices.Equal(got, []string{"a", "b", "c"}) {
			t.Errorf("got failed keys %q, want a, b and c", got)
		}
	})
}
