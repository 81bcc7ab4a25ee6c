package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// manyWatches runs watches of a resource until the test ends.
type manyWatches struct {
	synced        atomic.Int64
	interruptions atomic.Int64
}

func watchMany(t *testing.T, r *client.Resource, n int, opts ...client.WatchOption) *manyWatches {
	t.Helper()
	all := &manyWatches{}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for range n {
		running.Go(func() {
			for u, err := range r.Watch(ctx, append(opts[:len(opts):len(opts)], client.OnInterruption(func(error) { all.interruptions.Add(1) }))...) {
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				if u != nil && u.Phase == client.PhaseSynced {
					all.synced.Add(1)
				}
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return all
}

// eachWatch is the script of a server that any number of watches can resume at.
func eachWatch(req *fanoutv1.WatchRequest) stream {
	s := stream{messages: []message{reset(), synced(5)}}
	if req.GetAfter() != nil {
		s.messages[0] = replay(5)
	}
	for range 40 {
		s.later = append(s.later, delayed{25 * time.Second, bookmark(5)})
	}
	return s
}

// needsSubscribe skips the test if servers lack Subscribe.
func needsSubscribe(t *testing.T) {
	t.Helper()
	if lacksSubscribe() {
		t.Skip("needs Subscribe")
	}
}

// Many watches share a stream. When they lose it, they open one other stream, and log one line.
func TestManyWatchesReconnectTogether(t *testing.T) {
	needsSubscribe(t)
	const n = 50
	for name, c := range map[string]struct {
		lose  func(*scriptedServer, subscribeStream) error // serves the first stream
		after time.Duration
		lines int64
	}{
		"after an error": {lose: func(s *scriptedServer, st subscribeStream) error {
			go s.serveSubscribe(st)
			time.Sleep(time.Minute)
			return errLost
		}, after: time.Minute + 10*time.Second, lines: 1},
		"after many failures": {lose: func(s *scriptedServer, st subscribeStream) error {
			if s.shared.Load() < 5 {
				return errLost
			}
			return s.serveSubscribe(st)
		}, after: time.Minute, lines: 4},
		"after silence": {lose: func(s *scriptedServer, st subscribeStream) error {
			ended := make(chan error)
			go func() {
				ended <- s.serveSubscribe(&mutedStream{subscribeStream: st, from: time.Now().Add(15 * time.Second)})
			}()
			return <-ended
		}, after: time.Minute, lines: 1},
		"after a drain": {lose: func(s *scriptedServer, st subscribeStream) error {
			session := &scriptedSession{server: s, stream: st, watches: map[uint64]*scriptedWatch{}}
			defer session.running.Wait()
			go func() {
				for req, err := st.Recv(); err == nil; req, err = st.Recv() {
					session.handle(req)
				}
			}()
			time.Sleep(time.Minute)
			return session.drain()
		}, after: time.Minute + 10*time.Second, lines: 1},
		"after a time limit": {lose: func(s *scriptedServer, st subscribeStream) error {
			go s.serveSubscribe(st)
			time.Sleep(time.Minute)
			return nil
		}, after: time.Minute + 10*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scriptedServer{script: eachWatch}
				healthy := atomic.Bool{}
				s.subscribe = func(st subscribeStream) error {
					if healthy.Load() {
						return s.serveSubscribe(st)
					}
					if name != "after many failures" {
						healthy.Store(true)
					}
					return c.lose(s, st)
				}
				log := &bytes.Buffer{}
				r := connectTo(t, s, client.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
				all := watchMany(t, r, n)
				time.Sleep(c.after)
				synctest.Wait()
				want, streams := int64(2*n), int64(2)
				if name == "after many failures" {
					want, streams = n, 5
				}
				if got := all.synced.Load(); got != want || s.shared.Load() != streams || s.watches.Load() != 0 {
					t.Errorf("synced %d times on %d shared streams and %d streams of a watch, want %d on %d and 0", got, s.shared.Load(), s.watches.Load(), want, streams)
				}
				if lines := int64(strings.Count(log.String(), "\n")); lines != c.lines || (all.interruptions.Load() > 0) != (c.lines > 0) {
					t.Errorf("got %d interruptions and log lines\n%s, want %d lines", all.interruptions.Load(), log, c.lines)
				}
			})
		})
	}
}

// drain ends all watches of a session, and returns the error of the stream.
func (s *scriptedSession) drain() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	end := refusal(codes.Unavailable, client.ErrDraining)
	var ids []uint64
	for id, w := range s.watches {
		w.stopped = true
		w.cancel()
		ids = append(ids, id)
	}
	last := &fanoutv1.SubscribeResponse_Entry{WatchIds: ids, Content: &fanoutv1.SubscribeResponse_Entry_Response{Response: draining(5)}}
	ended := &fanoutv1.SubscribeResponse_Entry{WatchIds: ids, Content: &fanoutv1.SubscribeResponse_Entry_Ended{Ended: status.Convert(end).Proto()}}
	if err := s.stream.Send(&fanoutv1.SubscribeResponse{Entries: []*fanoutv1.SubscribeResponse_Entry{last, ended}}); err != nil {
		return err
	}
	return end
}

// mutedStream drops all responses from a time on.
type mutedStream struct {
	subscribeStream
	from time.Time
}

func (s *mutedStream) Send(m *fanoutv1.SubscribeResponse) error {
	if time.Now().After(s.from) {
		return s.Context().Err()
	}
	return s.subscribeStream.Send(m)
}

// Where Subscribe is missing, each watch uses Watch. That costs one round trip, or one timeout if a
// proxy does not answer. Later watches do not wait.
func TestWatchesWorkWithoutSubscribe(t *testing.T) {
	needsSubscribe(t)
	for name, c := range map[string]struct {
		fails func(subscribeStream) error
		waits time.Duration
	}{
		"unknown": {fails: func(subscribeStream) error { return status.Error(codes.Unimplemented, "no") }},
		"denied":  {fails: func(subscribeStream) error { return status.Error(codes.PermissionDenied, "no") }},
		"no answer": {fails: func(s subscribeStream) error {
			<-s.Context().Done()
			return s.Context().Err()
		}, waits: 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, has := &scriptedServer{script: eachWatch}, atomic.Bool{}
				s.subscribe = func(st subscribeStream) error {
					if has.Load() {
						return s.serveSubscribe(st)
					}
					return c.fails(st)
				}
				r := connectTo(t, s)
				all := watchMany(t, r, 20)
				time.Sleep(c.waits)
				synctest.Wait()
				if got := all.synced.Load(); got != 20 || s.shared.Load() != 1 || all.interruptions.Load() > 0 {
					t.Errorf("%d watches are synced after %v, with %d calls of Subscribe and %d interruptions, want 20, 1 and 0", got, c.waits, s.shared.Load(), all.interruptions.Load())
				}
				more := watchMany(t, r, 20)
				synctest.Wait()
				if got := more.synced.Load(); got != 20 || s.shared.Load() != 1 {
					t.Errorf("later, %d watches are synced at once, with %d calls of Subscribe, want 20 and 1", got, s.shared.Load())
				}
				// Later the server has Subscribe. Five minutes after the failure, a watch finds out, and none waits.
				has.Store(true)
				for _, wait := range []time.Duration{5*time.Minute - time.Second, time.Second} {
					if s.shared.Load() != 1 {
						t.Errorf("%d calls of Subscribe within five minutes, want 1", s.shared.Load())
					}
					time.Sleep(wait)
					last := watchMany(t, r, 1)
					synctest.Wait()
					if got := last.synced.Load(); got != 1 {
						t.Error("a watch waits while the client finds out whether Subscribe works")
					}
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if s.active.Load() != 42 || s.shared.Load() != 3 || all.interruptions.Load() > 0 {
					t.Errorf("%d watches, %d calls of Subscribe and %d interruptions, want 42, 3 and 0", s.active.Load(), s.shared.Load(), all.interruptions.Load())
				}
			})
		})
	}
}

// If Watch fails as well, Subscribe is not to blame.
func TestSubscribeIsUsedAgainIfWatchFailsAsWell(t *testing.T) {
	needsSubscribe(t)
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{streams: []stream{{end: status.Error(codes.Unavailable, "no")}, {messages: []message{reset(), synced(5)}}}}
		s.subscribe = func(st subscribeStream) error {
			if s.shared.Load() == 1 {
				return status.Error(codes.Internal, "a proxy is broken")
			}
			return s.serveSubscribe(st)
		}
		all := watchMany(t, connectTo(t, s), 1)
		time.Sleep(20 * time.Second)
		if all.synced.Load() != 1 || s.shared.Load() != 2 || s.watches.Load() != 1 {
			t.Errorf("synced %d times with %d calls of Subscribe and %d of Watch, want 1, 2 and 1", all.synced.Load(), s.shared.Load(), s.watches.Load())
		}
	})
}

// A server that does not answer after Subscribe has worked is in trouble. The watches leave it, and
// use Subscribe at another one.
func TestAStuckServerDoesNotMakeSubscribeMissing(t *testing.T) {
	needsSubscribe(t)
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{script: eachWatch}
		s.subscribe = func(st subscribeStream) error {
			switch s.shared.Load() {
			case 1:
				go s.serveSubscribe(st)
				time.Sleep(time.Minute)
				return errLost
			case 2:
				<-st.Context().Done()
				return nil
			}
			return s.serveSubscribe(st)
		}
		all := watchMany(t, connectTo(t, s), 10)
		time.Sleep(2 * time.Minute)
		if all.synced.Load() != 20 || s.shared.Load() != 3 || s.watches.Load() != 0 {
			t.Errorf("synced %d times with %d calls of Subscribe and %d of Watch, want 20, 3 and 0", all.synced.Load(), s.shared.Load(), s.watches.Load())
		}
	})
}

// These watches cannot share a stream.
func TestSomeWatchesUseTheirOwnStream(t *testing.T) {
	needsSubscribe(t)
	for name, c := range map[string]struct {
		metadata bool
		opts     []client.WatchOption
	}{
		"metadata":      {metadata: true},
		"large request": {opts: []client.WatchOption{client.Labels("a in (" + strings.Repeat("b,", 40<<10) + "c)")}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scriptedServer{script: eachWatch}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if c.metadata {
					ctx = metadata.AppendToOutgoingContext(ctx, "tenant", "one")
				}
				for _, err := range connectTo(t, s).Watch(ctx, c.opts...) {
					if err != nil && !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
				}
				if s.shared.Load() != 0 || s.watches.Load() != 1 {
					t.Errorf("got %d calls of Subscribe and %d of Watch, want 0 and 1", s.shared.Load(), s.watches.Load())
				}
			})
		})
	}
}

// The server sends messages of a watch until it has handled the stop. A watch that begins meanwhile
// does not get them.
func TestAWatchGetsNoMessagesOfAnEarlierOne(t *testing.T) {
	needsSubscribe(t)
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{}
		starts := make(chan uint64, 10)
		stops := make(chan uint64, 10)
		var out subscribeStream
		s.subscribe = func(st subscribeStream) error {
			out = st
			if err := st.SendHeader(nil); err != nil {
				return err
			}
			for {
				req, err := st.Recv()
				if err != nil {
					return err
				}
				if start := req.GetStart(); start != nil {
					starts <- start.GetWatchId()
				} else if stop := req.GetStop(); stop != nil {
					stops <- stop.GetWatchId()
				}
			}
		}
		send := func(id uint64, messages ...message) {
			for _, m := range messages {
				e := &fanoutv1.SubscribeResponse_Entry{WatchIds: []uint64{id}, Content: &fanoutv1.SubscribeResponse_Entry_Response{Response: m}}
				if err := out.Send(&fanoutv1.SubscribeResponse{Entries: []*fanoutv1.SubscribeResponse_Entry{e}}); err != nil {
					t.Error(err)
				}
			}
		}
		r := connectTo(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { // keeps the stream open
			for range r.Watch(ctx) {
			}
		}()
		<-starts
		used := map[uint64]bool{}
		for round := range 20 {
			got := make(chan string, 10)
			watching, stop := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for u, err := range r.Watch(watching) {
					if err != nil {
						return
					}
					got <- formatUpdate(u)
				}
			}()
			id := <-starts
			if used[id] {
				t.Errorf("round %d: the id %d is used before its watch has ended", round, id)
			}
			for old := range used {
				send(old, live(99, added("old", 99)))
			}
			send(id, reset(), synced(int64(round+5)))
			for _, want := range []string{"replace [e/0]", fmt.Sprintf("synced e/%d", round+5)} {
				if u := <-got; u != want {
					t.Errorf("round %d: got %s, want %s", round, u, want)
				}
			}
			stop()
			<-ended
			if <-stops != id {
				t.Error("another watch was stopped")
			}
			used[id] = true
			if round%3 == 2 {
				for old := range used {
					e := &fanoutv1.SubscribeResponse_Entry{WatchIds: []uint64{old}, Content: &fanoutv1.SubscribeResponse_Entry_Ended{}}
					if err := out.Send(&fanoutv1.SubscribeResponse{Entries: []*fanoutv1.SubscribeResponse_Entry{e}}); err != nil {
						t.Error(err)
					}
				}
				synctest.Wait()
				clear(used)
			}
		}
	})
}

// Watches that receive the same have the same objects in memory.
func TestWatchesOfAStreamShareObjects(t *testing.T) {
	needsSubscribe(t)
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{}
		s.subscribe = func(st subscribeStream) error {
			var ids []uint64
			for len(ids) < 2 {
				req, err := st.Recv()
				if err != nil {
					return err
				}
				if start := req.GetStart(); start != nil {
					ids = append(ids, start.GetWatchId())
				}
			}
			for _, m := range []message{reset(), synced(5), live(6, added("a", 6), added("b", 6))} {
				e := &fanoutv1.SubscribeResponse_Entry{WatchIds: ids, Content: &fanoutv1.SubscribeResponse_Entry_Response{Response: m}}
				if err := st.Send(&fanoutv1.SubscribeResponse{Entries: []*fanoutv1.SubscribeResponse_Entry{e}}); err != nil {
					return err
				}
			}
			<-st.Context().Done()
			return nil
		}
		r := connectTo(t, s)
		received := make(chan []client.Event, 2)
		for range 2 {
			go func() {
				for u, err := range r.Watch(t.Context()) {
					if err == nil && len(u.Events) > 0 {
						received <- u.Events
						return
					}
				}
			}()
		}
		one, other := <-received, <-received
		if one[0].Object != other[0].Object || one[1].Object != other[1].Object {
			t.Error("two watches have different copies of an object")
		}
		one[0] = client.Event{}
		if other[0].Object == nil {
			t.Error("two watches share a slice of events, which a caller may change")
		}
	})
}

// A watch that ends with an error leaves the other watches of its stream alone.
func TestARefusedWatchEndsAlone(t *testing.T) {
	needsSubscribe(t)
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{script: func(req *fanoutv1.WatchRequest) stream {
			if req.GetScope() != nil {
				return stream{end: refusal(codes.PermissionDenied, client.ErrPermissionDenied)}
			}
			return eachWatch(req)
		}}
		r := connectTo(t, s)
		all := watchMany(t, r, 10)
		synctest.Wait()
		for _, err := range r.Watch(t.Context(), client.Key("secret")) {
			if !errors.Is(err, client.ErrPermissionDenied) {
				t.Errorf("got %v, want %v", err, client.ErrPermissionDenied)
			}
		}
		time.Sleep(time.Minute)
		if all.interruptions.Load() > 0 || s.shared.Load() != 1 || s.active.Load() != 10 {
			t.Errorf("%d interruptions, %d streams, %d watches, want 0, 1 and 10", all.interruptions.Load(), s.shared.Load(), s.active.Load())
		}
	})
}

// connectionEnd calls a function when gRPC has closed a connection.
type connectionEnd struct {
	connectionCounter
	call func()
}

// HandleConn implements stats.Handler.
func (c *connectionEnd) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, ok := s.(*stats.ConnEnd); ok {
		c.call()
	}
}

// settled returns messages when nothing else happens in the bubble any more.
type settled struct{ grpc.ClientStream }

func (s settled) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	synctest.Wait()
	return err
}

// A drain replaces the connection. If the server has ended the stream by then, gRPC closes the connection at once,
// which takes time, and calls hooks of the user, which may use other watches.
func TestAConnectionIsReplacedWithoutHoldingWatches(t *testing.T) {
	needsSubscribe(t)
	real := testContext(t).Done() // its time passes, unlike that of the bubble, while a goroutine waits for a mutex
	synctest.Test(t, func(t *testing.T) {
		drained := false
		s := &scriptedServer{subscribe: func(st subscribeStream) error {
			if err := st.SendHeader(metadata.MD{}); err != nil {
				return err
			}
			session := &scriptedSession{stream: st}
			for range 3 { // the subscriber and two watches
				if _, err := st.Recv(); err != nil || drained {
					return errLost
				}
			}
			drained = true
			return session.write(&fanoutv1.SubscribeResponse_Entry{
				WatchIds: []uint64{0, 1}, Content: &fanoutv1.SubscribeResponse_Entry_Response{Response: drainedInTurn(0)},
			})
		}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		other, cancelOther := context.WithCancel(t.Context())
		var watching, otherWatching sync.WaitGroup
		once := sync.Once{}
		hook := &connectionEnd{call: func() {
			once.Do(func() {
				cancelOther()
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					otherWatching.Wait()
				}()
				select {
				case <-ended:
				case <-real:
					t.Error("a watch cannot end while a connection is closed")
				}
				cancel()
			})
		}}
		r := connectTo(t, s, client.WithDialOptions(grpc.WithStatsHandler(hook), grpc.WithChainStreamInterceptor(
			func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
				stream, err := open(ctx, desc, conn, method, opts...)
				return settled{stream}, err
			})))
		watch := func(ctx context.Context) {
			for range r.Watch(ctx) {
			}
		}
		watching.Go(func() { watch(ctx) })
		otherWatching.Go(func() { watch(other) })
		watching.Wait()
	})
}
