package client_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// resumable returns a script that sends messages and resumes at any position. The position of the
// n-th message is n+2.
func resumable(messages ...message) func(*fanoutv1.WatchRequest) stream {
	return func(req *fanoutv1.WatchRequest) stream {
		after := int(req.GetAfter().GetRevision())
		if after == 0 {
			return stream{messages: slices.Concat([]message{reset(), synced(1)}, messages)}
		}
		return stream{messages: slices.Concat([]message{replay(int64(after)), synced(int64(after))}, messages[min(after-1, len(messages)):])}
	}
}

// Callers that do not read hold a bounded amount of messages. Other watches of the client go on, and
// the slow ones later continue where they were.
func TestASlowCallerDelaysNoOtherWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow, messages, size = 6, 80, 64 << 10
		text := string(make([]byte, size))
		var all []message
		for i := range messages {
			all = append(all, live(int64(i+2), withValue(modified(strconv.Itoa(i), int64(i+2)), text)))
		}
		// The server waits until the client has handled a message before it sends the next one. Otherwise the machine
		// decides how much it sends to a watch that has left the shared stream and whose stop is on its way.
		s := &scriptedServer{script: func(req *fanoutv1.WatchRequest) stream {
			script := resumable(all...)(req)
			script.paced = true
			return script
		}}
		r := connectTo(t, s)
		release := make(chan struct{})
		// read watches until it has the last event, and waits before each update.
		read := func(wait func()) {
			next := int64(2)
			for u, err := range r.Watch(t.Context(), client.OnInterruption(func(err error) { t.Errorf("interrupted: %v", err) })) {
				if err != nil {
					t.Error(err)
					return
				}
				wait()
				for _, e := range u.Events {
					if e.Revision != next {
						t.Errorf("got revision %d, want %d", e.Revision, next)
					}
					next++
				}
				if next == messages+2 {
					return
				}
			}
		}
		var reading sync.WaitGroup
		for range slow {
			reading.Go(func() { read(func() { <-release }) })
		}
		time.Sleep(time.Second) // until the server can send no more
		// All of them may hold 16 MiB together, and each of them 256 KiB besides. Then each of them has
		// a stream of its own, with a window of 256 KiB, as much in the client, and one message more. The server
		// counts a message as sent when gRPC has taken it, up to 64 KiB ahead of the connection.
		if sent, most := s.sent.Load(), int64(16<<20/size+slow*(2+256<<10/size+4+1+2*(256<<10/size)+2)); sent > most {
			t.Errorf("the server sent %d messages that nobody reads, want at most %d", sent, most)
		}
		began := time.Now()
		read(func() {})
		if took, pace := time.Since(began), (messages+2)*time.Millisecond; took > pace {
			t.Errorf("the fast watch took %v beside %d slow ones, want at most the %v of the server", took, slow, pace)
		}
		close(release)
		reading.Wait()
		time.Sleep(time.Millisecond) // the server pauses after its last message, too
		if shared, own := s.shared.Load(), s.watches.Load(); !lacksSubscribe() && (shared != 2 || own != slow) {
			// The first shared stream has ended, because all of its watches were slow.
			t.Errorf("got %d shared streams and %d streams of a watch, want 2 and %d", shared, own, slow)
		}
	})
}

// A caller that is slower than the network gets the whole of a snapshot that is larger than all
// buffers, on a stream of its own. Then it comes back to the shared stream.
func TestASlowCallerGetsALargeSnapshot(t *testing.T) {
	if lacksSubscribe() {
		t.Skip("is about Subscribe")
	}
	synctest.Test(t, func(t *testing.T) {
		const parts, size = 40, 256 << 10
		snapshot := stream{messages: []message{reset()}}
		for i := range parts {
			snapshot.messages = append(snapshot.messages, part(0, withValue(added(strconv.Itoa(i), 3), string(make([]byte, size)))))
		}
		snapshot.messages = append(snapshot.messages, synced(5))
		snapshot.later = []delayed{{10 * time.Second, bookmark(6)}}
		s := &scriptedServer{script: func(req *fanoutv1.WatchRequest) stream {
			if req.GetAfter() == nil {
				return snapshot
			}
			return stream{messages: []message{replay(6), synced(6)}, later: []delayed{{time.Second, live(7, deleted("0", 7))}}}
		}}
		r := connectTo(t, s)
		// The watch below is not the only one of its stream.
		go func() {
			for range r.Watch(t.Context(), client.After(client.Position{Epoch: "e", Revision: 6})) {
			}
		}()
		synctest.Wait()
		keys, complete := map[string]bool{}, client.Position{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for u, err := range r.Watch(ctx, client.OnInterruption(func(err error) { t.Errorf("interrupted: %v", err) })) {
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
			if u.Phase == client.PhaseReset {
				clear(keys)
			}
			for _, e := range u.Events {
				keys[e.Object.Key] = e.Type != client.Deleted
			}
			if u.Phase.Complete() {
				complete = u.Position
			}
			if complete.Revision == 7 {
				break
			}
		}
		if len(keys) != parts || keys["0"] || !keys["1"] {
			t.Errorf("got %d keys, the first %v, want %d without the first", len(keys), keys["0"], parts)
		}
		synctest.Wait()
		if starts, want := s.starts(), []string{"e/6", "nothing", "nothing", "e/6"}; !slices.Equal(starts, want) || s.shared.Load() != 1 || s.watches.Load() != 1 {
			t.Errorf("got starts %q, %d shared streams and %d streams of a watch, want %q, 1 and 1", starts, s.shared.Load(), s.watches.Load(), want)
		}
	})
}

// An informer reads as fast as the server sends, whatever its handlers do.
func TestABusyHandlerDoesNotPauseTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const messages = 200
		var all []message
		big := string(make([]byte, 32<<10))
		for i := range messages {
			all = append(all, live(int64(i+2), withValue(added("a", int64(i+2)), big)))
		}
		s := &scriptedServer{script: resumable(all...)}
		inf := client.NewInformer(connectTo(t, s), client.ObjectDecoder())
		release := make(chan struct{})
		inf.AddHandler(client.Handler[*client.Object]{Add: func(client.Item[*client.Object]) error { <-release; return nil }})
		ctx, cancel := context.WithCancel(t.Context())
		stop := runUntil(t, ctx, inf)
		synctest.Wait()
		if at := inf.Lister().Position().Revision; at != messages+1 {
			t.Errorf("the informer is at revision %d while the handler has the first object, want %d", at, messages+1)
		}
		close(release)
		cancel()
		_ = stop()
	})
}
