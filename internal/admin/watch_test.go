package admin_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/poll"
)

// Each event arrives as a line of its own as soon as it happens.
func TestWatchSendsLinesAsTheyCome(t *testing.T) {
	s := open(t, nil)
	first := s.put(t, "team/a", "1")
	w := s.watch(t, "prefix=team&bookmark_interval=500ms")
	if m := w.next(fanoutv1.WatchResponse_KIND_CATCH_UP_BEGIN); m.GetCatchUp() != fanoutv1.WatchResponse_CATCH_UP_RESET {
		t.Errorf("the watch began with %v", m)
	}
	if m := w.next(fanoutv1.WatchResponse_KIND_CATCH_UP_PART); m.GetEvents()[0].GetObject().GetModRevision() != first {
		t.Errorf("got %v", m)
	}
	w.next(fanoutv1.WatchResponse_KIND_SYNCED)
	for i := range 3 {
		at := s.put(t, "team/a", fmt.Sprint(i))
		m := w.skip(fanoutv1.WatchResponse_KIND_BOOKMARK)
		if o := m.GetEvents()[0].GetObject(); o.GetModRevision() != at || o.GetText() != fmt.Sprint(i) {
			t.Errorf("got %v, want revision %d", m, at)
		}
	}
	w.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
}

// A watch sends bookmarks by default.
func TestWatchHasHeartbeats(t *testing.T) {
	s := open(t, nil)
	s.watch(t, "").next(fanoutv1.WatchResponse_KIND_CATCH_UP_BEGIN)
	if got := s.watchers(t)[0].GetRequest().GetBookmarkInterval().AsDuration().Seconds(); got != 30 {
		t.Errorf("the interval is %v s", got)
	}
}

func TestWatchResumes(t *testing.T) {
	s := open(t, nil)
	at := s.put(t, "a", "1")
	w := s.watch(t, "")
	w.next(fanoutv1.WatchResponse_KIND_CATCH_UP_BEGIN)
	w.next(fanoutv1.WatchResponse_KIND_CATCH_UP_PART)
	synced := w.next(fanoutv1.WatchResponse_KIND_SYNCED).GetPosition()
	next := s.put(t, "a", "2")
	s.get(t, "a") // the server has it now, so it is part of the catch-up
	w = s.watch(t, fmt.Sprintf("epoch=%s&revision=%d", synced.GetEpoch(), at))
	if m := w.next(fanoutv1.WatchResponse_KIND_CATCH_UP_BEGIN); m.GetCatchUp() != fanoutv1.WatchResponse_CATCH_UP_REPLAY {
		t.Errorf("the watch began with %v", m)
	}
	if m := w.next(fanoutv1.WatchResponse_KIND_CATCH_UP_PART); len(m.GetEvents()) != 1 || m.GetPosition().GetRevision() != next {
		t.Errorf("got %v", m)
	}
}

// A server that stops sends watches over HTTP their position.
func TestStopEndsWatchesWithTheirPosition(t *testing.T) {
	s := open(t, nil)
	s.put(t, "a", "1")
	w := s.watch(t, "")
	w.next(fanoutv1.WatchResponse_KIND_CATCH_UP_BEGIN)
	w.next(fanoutv1.WatchResponse_KIND_CATCH_UP_PART)
	want := w.next(fanoutv1.WatchResponse_KIND_SYNCED).GetPosition()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.stop()
	}()
	got := w.next(fanoutv1.WatchResponse_KIND_DRAINING).GetPosition()
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if reason := w.end(); reason != "DRAINING" {
		t.Errorf("it ends with %s", reason)
	}
	<-stopped
}

// While the server drains, it closes connections after their requests. So a client behind a
// load balancer reaches another server.
func TestConnectionsEndWhileTheServerDrains(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	s := open(t, func(c *config.Config) { c.ShutdownGrace = config.Duration(time.Hour) })
	// A client that does not read keeps the server from stopping.
	unread := s.send(t, t.Context(), http.MethodGet, "/v1/resources/config/watch", "")
	defer unread.Body.Close()
	s.overfill(t)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.stop()
	}()
	poll.Until(t, "responses end their connections", func() bool {
		resp, err := s.client.Get("http://" + s.address + "/readyz")
		if err != nil {
			return false // the server closes a connection that has had no request for seconds, as on a busy machine
		}
		defer resp.Body.Close()
		return resp.Close
	})
	if _, err := io.Copy(io.Discard, unread.Body); err != nil {
		t.Error(err)
	}
	<-stopped
}

// A watch that reaches its time limit ends with a position and without an error.
func TestTimeLimitEndsWatchWithoutError(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	s := open(t, nil)
	w := s.watch(t, "from_now=true&time_limit=3s") // the first message must not be later than the last bookmark
	w.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
	w.next(fanoutv1.WatchResponse_KIND_BOOKMARK) // the last one
	w.next(fanoutv1.WatchResponse_KIND_DRAINING)
	if _, err := w.decoder.Token(); err != io.EOF {
		t.Errorf("after the last message: got %v", err)
	}
}

// A watch ends when its client goes away.
func TestWatchEndsWithItsClient(t *testing.T) {
	s := open(t, nil)
	w := s.watch(t, "from_now=true")
	w.next(fanoutv1.WatchResponse_KIND_BOOKMARK)
	w.leave()
	s.awaitWatchers(t, func(all []*fanoutv1.WatcherStatus) bool { return len(all) == 0 })
}

// overfill writes more than the buffers on the way to a client hold that does not read, and waits until its watch is
// blocked. Less would block it only as long as the buffers grow.
func (s *site) overfill(t *testing.T) {
	t.Helper()
	const written = 16 << 20 // the buffers held less than half of it
	value := strings.Repeat("x", 512<<10)
	for i := range written / len(value) {
		s.put(t, fmt.Sprint("large/", i), value) // of one key, only the last value would be sent
	}
	s.awaitWatchers(t, func(all []*fanoutv1.WatcherStatus) bool { return all[0].GetBlocked() })
}

// awaitWatchers waits until the number of watches is as wanted.
func (s *site) awaitWatchers(t *testing.T, are func([]*fanoutv1.WatcherStatus) bool) []*fanoutv1.WatcherStatus {
	t.Helper()
	ctx, cancel := context.WithCancel(poll.Context(t))
	defer cancel()
	for {
		all := s.watchers(t)
		if are(all) {
			return all
		}
		if ctx.Err() != nil {
			t.Fatalf("the watches are %v", all)
		}
	}
}

// The server stops sending to a client that does not read, and buffers nothing on the way.
// A client that reads again catches up.
func TestPausedReaderIsNotBuffered(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	s := open(t, nil)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "GET /v1/resources/config/watch?from_now=true HTTP/1.1\r\nHost: %s\r\n\r\n", s.address); err != nil {
		t.Fatal(err)
	}
	s.awaitWatchers(t, func(all []*fanoutv1.WatcherStatus) bool { return len(all) == 1 && all[0].GetMessages() > 0 })

	const written, kept = 16 << 20, 8 << 20 // nearly all of it in socket buffers
	value := strings.Repeat("x", 512<<10)
	var last int64
	for range written / len(value) {
		last = s.put(t, "large", value)
	}
	all := s.awaitWatchers(t, func(all []*fanoutv1.WatcherStatus) bool { return all[0].GetBlocked() && all[0].GetLagRevisions() > 0 })
	if sent := all[0].GetBytes(); sent > kept {
		t.Errorf("sent %d bytes to a client that does not read", sent)
	} else {
		t.Logf("%d bytes were sent", sent)
	}
	drained := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, conn)
		drained <- err
	}()
	s.awaitWatchers(t, func(all []*fanoutv1.WatcherStatus) bool { return all[0].GetPosition().GetRevision() == last })
	s.stop()
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

// A client that does not read does not delay a stop.
func TestStopDoesNotWaitForReaders(t *testing.T) {
	s := open(t, func(c *config.Config) { c.ShutdownGrace = config.Duration(time.Second) })
	resp := s.send(t, t.Context(), http.MethodGet, "/v1/resources/config/watch", "")
	defer resp.Body.Close()
	s.overfill(t)
	s.stop()
}

// The number of requests per connection is limited. HTTP clients share one internal
// connection, which has no such limit: they do not wait for each other.
func TestWatchesOfOneClientDoNotBlockOthers(t *testing.T) {
	s := open(t, func(cfg *config.Config) { cfg.MaxStreamsPerConnection = 2 })
	for range 2 {
		defer s.send(t, t.Context(), "GET", "/v1/resources/config/watch", "").Body.Close() // it is open by then
	}
	ctx, cancel := context.WithCancel(poll.Context(t))
	defer cancel()
	resp := s.send(t, ctx, "GET", "/v1/resources", "")
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Error(resp.Status)
	}
}
