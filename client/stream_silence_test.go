package client_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// slowStarts is a stream whose server needs a time for each start.
type slowStarts struct {
	subscribeStream
	each time.Duration
}

func (s slowStarts) Recv() (*fanoutv1.SubscribeRequest, error) {
	req, err := s.subscribeStream.Recv()
	if req.GetStart() != nil {
		select {
		case <-time.After(s.each):
		case <-s.Context().Done():
		}
	}
	return req, err
}

// lostStarts is a stream whose server answers only the first starts.
type lostStarts struct {
	subscribeStream
	answered int
}

func (s *lostStarts) Recv() (*fanoutv1.SubscribeRequest, error) {
	for {
		req, err := s.subscribeStream.Recv()
		if err != nil || req.GetStart() == nil {
			return req, err
		}
		if s.answered--; s.answered >= 0 {
			return req, nil
		}
	}
}

// A server that answers one start after the other is not silent for the watches that wait long for their answer.
func TestAServerThatStartsManyWatchesIsNotSilent(t *testing.T) {
	needsSubscribe(t)
	const n = 200
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{script: eachWatch}
		s.subscribe = func(st subscribeStream) error { return s.serveSubscribe(slowStarts{st, time.Second}) }
		// Few of these requests fit into the buffers.
		all := watchMany(t, connectTo(t, s), n, client.Prefix(strings.Repeat("long/", 1000)))
		time.Sleep((n + 1) * time.Second)
		synctest.Wait()
		if all.synced.Load() != n || s.shared.Load() != 1 || s.watches.Load() != 0 || all.interruptions.Load() != 0 {
			t.Errorf("%d watches are synced after %d calls of Subscribe, %d of Watch and %d interruptions, want %d, 1, 0 and 0",
				all.synced.Load(), s.shared.Load(), s.watches.Load(), all.interruptions.Load(), n)
		}
	})
}

// pausedReads is a stream whose server reads nothing before a time.
type pausedReads struct {
	subscribeStream
	until *atomic.Pointer[time.Time]
}

func (s pausedReads) Recv() (*fanoutv1.SubscribeRequest, error) {
	req, err := s.subscribeStream.Recv()
	if until := s.until.Load(); until != nil {
		select {
		case <-time.After(time.Until(*until)):
		case <-s.Context().Done():
		}
	}
	return req, err
}

// The server cannot answer a start that the client has not written yet.
func TestAnUnwrittenStartIsNotSilence(t *testing.T) {
	needsSubscribe(t)
	for name, c := range map[string]struct {
		pause   time.Duration
		streams int64
	}{"a while": {50 * time.Second, 1}, "too long": {80 * time.Second, 2}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var until atomic.Pointer[time.Time]
				s := &scriptedServer{script: eachWatch}
				s.subscribe = func(st subscribeStream) error {
					if s.shared.Load() == 1 {
						return s.serveSubscribe(pausedReads{st, &until})
					}
					return s.serveSubscribe(st)
				}
				r := connectTo(t, s)
				first := watchMany(t, r, 1)
				synctest.Wait()
				paused := time.Now().Add(c.pause)
				until.Store(&paused)
				ctx, cancel := context.WithCancel(t.Context())
				var others sync.WaitGroup
				for range 100 { // their starts fill the buffers
					others.Go(func() {
						for range r.Watch(ctx, client.Prefix(strings.Repeat("long/", 1000))) {
						}
					})
				}
				time.Sleep(time.Second)
				cancel()
				others.Wait()
				last := watchMany(t, r, 1)
				time.Sleep(c.pause)
				synctest.Wait()
				if last.synced.Load() != 1 || first.synced.Load() != 1 || s.shared.Load() != c.streams || s.watches.Load() != 0 {
					t.Errorf("synced %d and %d times with %d calls of Subscribe and %d of Watch, want once with %d and 0",
						last.synced.Load(), first.synced.Load(), s.shared.Load(), s.watches.Load(), c.streams)
				}
			})
		})
	}
}

// If a server does not answer starts, the watches that wait for it leave together, and the others stay.
func TestWatchesWithoutAnAnswerLeaveTogether(t *testing.T) {
	needsSubscribe(t)
	const n = 100
	for _, answered := range []int{0, 10} {
		t.Run(fmt.Sprint(answered), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scriptedServer{script: eachWatch}
				s.subscribe = func(st subscribeStream) error {
					if s.shared.Load() == 1 {
						return s.serveSubscribe(&lostStarts{st, answered})
					}
					return s.serveSubscribe(st)
				}
				log := &bytes.Buffer{}
				r := connectTo(t, s, client.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
				var begun []*manyWatches
				for range n {
					begun = append(begun, watchMany(t, r, 1))
					time.Sleep(100 * time.Millisecond)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				var synced, interruptions int64
				for _, w := range begun {
					synced += w.synced.Load()
					interruptions += w.interruptions.Load()
				}
				if synced != n || interruptions != int64(n-answered) || s.shared.Load() != 2 || s.watches.Load() != 0 {
					t.Errorf("%d watches are synced after %d interruptions, %d calls of Subscribe and %d of Watch, want %d, %d, 2 and 0",
						synced, interruptions, s.shared.Load(), s.watches.Load(), n, n-answered)
				}
				if lines := strings.Count(log.String(), "\n"); lines != 1 {
					t.Errorf("%d lines in the log, want 1:\n%s", lines, log)
				}
			})
		})
	}
}

// A client that is late itself does not take its own delay for a silent server.
func TestALateClientDoesNotLeaveItsServer(t *testing.T) {
	needsSubscribe(t)
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{script: eachWatch}
		var until atomic.Pointer[time.Time]
		r := connectTo(t, s, client.WithKeepalive(time.Hour),
			client.WithDialOptions(grpc.WithTransportCredentials(lateReads{insecure.NewCredentials(), &until})))
		all := watchMany(t, r, 20)
		synctest.Wait()
		late := time.Now().Add(40 * time.Second)
		until.Store(&late)
		more := watchMany(t, r, 20)
		time.Sleep(time.Minute)
		synctest.Wait()
		synced, interruptions := all.synced.Load()+more.synced.Load(), all.interruptions.Load()+more.interruptions.Load()
		if synced != 40 || s.shared.Load() != 1 || s.watches.Load() != 0 || interruptions > 0 {
			t.Errorf("%d watches are synced after %d calls of Subscribe, %d of Watch and %d interruptions, want 40, 1, 0 and 0",
				synced, s.shared.Load(), s.watches.Load(), interruptions)
		}
	})
}

// A server that sends nothing, and answers no other request, is left after half as much time again.
func TestAServerWithoutAnyAnswerIsLeft(t *testing.T) {
	needsSubscribe(t)
	synctest.Test(t, func(t *testing.T) {
		const silentAfter = 10 * time.Second
		began := time.Now()
		var asked sync.Map // the times of other requests
		s := &scriptedServer{script: eachWatch, reports: func(req *fanoutv1.ReportRequest) error {
			if req.GetWatch() == "" { // not the report of a watch
				asked.Store(time.Since(began), true)
				time.Sleep(time.Minute)
			}
			return nil
		}}
		s.subscribe = func(st subscribeStream) error {
			if s.shared.Load() == 1 {
				return s.serveSubscribe(&mutedStream{subscribeStream: st, from: began.Add(silentAfter)})
			}
			return s.serveSubscribe(st)
		}
		all := watchMany(t, connectTo(t, s), 20)
		time.Sleep(44 * time.Second)
		if _, ok := asked.Load(30 * time.Second); !ok || s.shared.Load() != 1 || all.interruptions.Load() > 0 {
			t.Errorf("asked: %v, with %d calls of Subscribe and %d interruptions before the limit, want true, 1 and 0", ok, s.shared.Load(), all.interruptions.Load())
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if s.shared.Load() != 2 || all.interruptions.Load() != 20 || all.synced.Load() != 40 {
			t.Errorf("%d calls of Subscribe, %d interruptions, synced %d times; want 2, 20 and 40", s.shared.Load(), all.interruptions.Load(), all.synced.Load())
		}
		time.Sleep(time.Minute) // the request without an answer ends
	})
}
