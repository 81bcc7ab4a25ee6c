package client_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/client"
)

// Callers that do not read hold a bounded amount of messages, which is less than what the
// connection lets through. Other watches of the connection go on, and the slow ones later continue
// where they were.
func TestASlowCallerDelaysNoOtherWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow, messages, size = 40, 100, 32 << 10
		text := string(make([]byte, size))
		a := stream{messages: []message{reset(), synced(1)}}
		for i := range messages {
			a.messages = append(a.messages, live(int64(i+2), withValue(modified(strconv.Itoa(i), int64(i+2)), text)))
		}
		s := &scriptedServer{streams: []stream{a}}
		r := connectTo(t, s)
		release := make(chan struct{})
		// read watches until it has the last event, and waits before each update.
		read := func(wait func()) {
			next := int64(2)
			for u, err := range r.Watch(t.Context()) {
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
		synctest.Wait()
		// The server counts a message as sent when gRPC has taken it, up to 64 KiB ahead of the
		// connection.
		if sent, most := s.sent.Load(), int64(slow*(2+2*64<<10/size+3)); sent > most {
			t.Errorf("the server sent %d messages that nobody reads, want at most %d", sent, most)
		}
		began := time.Now()
		read(func() {})
		if took := time.Since(began); took > 0 {
			t.Errorf("the fast watch took %v beside %d slow ones, want no wait", took, slow)
		}
		close(release)
		reading.Wait()
		if n := len(s.starts()); n != slow+1 {
			t.Errorf("got %d streams, want %d: one for each watch", n, slow+1)
		}
	})
}

// An informer reads as fast as the server sends, whatever its handlers do.
func TestABusyHandlerDoesNotPauseTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const messages = 1000
		a := stream{messages: []message{reset(), synced(1)}}
		big := string(make([]byte, 32<<10))
		for i := range messages {
			a.messages = append(a.messages, live(int64(i+2), withValue(added("a", int64(i+2)), big)))
		}
		s := &scriptedServer{streams: []stream{a}}
		inf := client.NewInformer(connectTo(t, s), client.ObjectDecoder())
		release := make(chan struct{})
		inf.AddHandler(client.Handler[*client.Object]{Add: func(client.Item[*client.Object]) error { <-release; return nil }})
		ctx, cancel := context.WithCancel(t.Context())
		stop := runUntil(t, ctx, inf)
		synctest.Wait()
		if n := s.sent.Load(); n != messages+2 {
			t.Errorf("the server sent %d of %d messages while the handler had the first", n, messages+2)
		}
		close(release)
		cancel()
		_ = stop()
	})
}
