package client_test

import (
	"context"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// A caller is busy when the stream is lost, and messages wait for it. The watch goes to a server even so, and
// reports there what the caller applies. Otherwise, the gate of a deployment would not see it.
func TestABusyCallerReportsOnTheNextStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reports := &reportLog{}
		s := &scriptedServer{reports: reports.report, streams: []stream{
			{messages: []message{reset(), part(0, added("a", 1)), synced(5), live(6, modified("a", 6)), live(7, modified("a", 7))}, lasts: time.Second, end: errLost},
			{messages: []message{replay(7), synced(7)}, lasts: time.Minute, end: errLost},
			{messages: []message{replay(7), synced(7), live(8, modified("a", 8))}},
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		var interrupted atomic.Int64
		var got []int64
		for u, err := range connectTo(t, s).Watch(ctx, client.BookmarkInterval(time.Hour), client.OnInterruption(func(error) { interrupted.Add(1) })) {
			if err != nil {
				break
			}
			if u.Phase.Complete() {
				got = append(got, u.Position.Revision)
				before := interrupted.Load()
				time.Sleep(40 * time.Second)
				if interrupted.Load() != before {
					t.Error("OnInterruption was called while the caller was busy")
				}
			}
			switch {
			case len(got) == 1:
				if diff := cmp.Diff([]string{"nothing", "e/7"}, s.starts()); diff != "" {
					t.Errorf("starts: -want +got:\n%s", diff)
				}
				reports.wantReports(t)
			case len(got) == 2: // the next stream is lost, too
				reports.wantReports(t, "watch-2 e/5", "watch-3 e/5")
			}
			if u.Position.Revision == 8 {
				break
			}
		}
		if diff := cmp.Diff([]int64{5, 6, 7, 7, 7, 8}, got); diff != "" {
			t.Errorf("revisions: -want +got:\n%s", diff)
		}
		reports.wantReports(t, "watch-3 e/6", "watch-3 e/7")
		if diff := cmp.Diff([]string{"nothing", "e/7", "e/7"}, s.starts()); diff != "" || interrupted.Load() != 2 {
			t.Errorf("%d interruptions, want 2; starts: -want +got:\n%s", interrupted.Load(), diff)
		}
	})
}

// An informer always reads. Its busy handler has applied less than the position at which the watch resumes.
func TestABusyHandlerReportsOnTheNextStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reports := &reportLog{}
		s := &scriptedServer{reports: reports.report, streams: []stream{
			{messages: []message{reset(), part(0, withValue(added("a", 1), "1")), synced(5)}, later: []delayed{
				{time.Minute, live(6, withValue(modified("a", 6), "6"))}, {time.Minute, live(7, withValue(modified("a", 7), "7"))},
			}, lasts: time.Second, end: errLost},
			{messages: []message{replay(7), synced(7)}, later: []delayed{{time.Minute, bookmark(8)}}},
		}}
		inf := client.NewInformer(connectTo(t, s), number, client.BookmarkInterval(time.Hour))
		release := make(chan struct{})
		inf.AddHandler(client.Handler[int]{Update: func(client.Item[int], client.Item[int]) error { <-release; return nil }})
		run(t, inf)
		time.Sleep(150 * time.Second)
		reports.wantReports(t, "watch-1 e/5", "watch-2 e/5")
		release <- struct{}{}
		time.Sleep(2 * time.Second)
		reports.wantReports(t, "watch-2 e/6")
		release <- struct{}{}
		time.Sleep(2 * time.Second)
		reports.wantReports(t, "watch-2 e/7")
	})
}

// A caller that is too slow for the shared stream goes to a stream of its own at once.
func TestATooSlowCallerReportsOnItsOwnStream(t *testing.T) {
	if lacksSubscribe() {
		t.Skip("is about Subscribe")
	}
	synctest.Test(t, func(t *testing.T) {
		const messages, size = 80, 64 << 10
		text := string(make([]byte, size))
		var all []message
		for i := range messages {
			all = append(all, live(int64(i+2), withValue(modified(strconv.Itoa(i), int64(i+2)), text)))
		}
		reports := &reportLog{}
		s := &scriptedServer{script: resumable(all...), reports: reports.report}
		next := int64(1)
		for u, err := range connectTo(t, s).Watch(t.Context(), client.BookmarkInterval(time.Hour)) {
			if err != nil {
				t.Fatal(err)
			}
			if !u.Phase.Complete() || len(u.Events) == 0 && u.Position.Revision > 1 {
				continue
			}
			if u.Position.Revision != next {
				t.Fatalf("got revision %d, want %d", u.Position.Revision, next)
			}
			if next++; next <= 4 {
				time.Sleep(time.Minute)
				synctest.Wait()
				if s.watches.Load() != 1 {
					t.Fatalf("got %d streams of a watch while the caller is busy, want 1", s.watches.Load())
				}
			}
			if next == messages+2 {
				break
			}
		}
		if lines := reports.take(); !slices.Equal(lines[:2], []string{"watch-2 e/1", "watch-2 e/2"}) {
			t.Errorf("got reports %q, want first those of the updates before the watch has moved", lines)
		}
	})
}

// What waits for a busy caller is bounded, however often its streams are lost.
func TestABusyCallerHoldsABoundedAmount(t *testing.T) {
	if lacksSubscribe() {
		t.Skip("is about Subscribe")
	}
	synctest.Test(t, func(t *testing.T) {
		const messages, size = 60, 64 << 10 // 3.75 MiB: a stream does not lose the watch for this
		text := string(make([]byte, size))
		begin := func(after int64) stream {
			s := stream{messages: []message{replay(after), synced(after)}, lasts: 10 * time.Second, end: errLost}
			if after == 0 {
				s.messages = []message{reset(), synced(1)}
				after = 1
			}
			for i := range int64(messages) {
				s.messages = append(s.messages, live(after+i+1, withValue(modified("a", after+i+1), text)))
			}
			return s
		}
		var last atomic.Int64
		s := &scriptedServer{}
		s.script = resumeWith(&last, begin)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		next := int64(1)
		for u, err := range connectTo(t, s).Watch(ctx, client.BookmarkInterval(time.Hour)) {
			if err != nil {
				t.Fatal(err)
			}
			if u.Phase == client.PhaseSynced && next == 1 {
				time.Sleep(30 * time.Minute)
				if most := int64(2*messages + 2); last.Load() > most {
					t.Errorf("the client has received everything up to revision %d, want at most %d", last.Load(), most)
				}
			}
			for _, e := range u.Events {
				if next++; e.Revision != next {
					t.Fatalf("got revision %d, want %d", e.Revision, next)
				}
			}
			if next > 4*messages {
				break
			}
		}
		time.Sleep(time.Minute) // until the scripts have ended
	})
}

// resumeWith returns a script that begins streams at the positions that the client asks for, and notes the last
// one.
func resumeWith(last *atomic.Int64, begin func(after int64) stream) func(*fanoutv1.WatchRequest) stream {
	return func(req *fanoutv1.WatchRequest) stream {
		after := req.GetAfter().GetRevision()
		last.Store(after)
		return begin(after)
	}
}
