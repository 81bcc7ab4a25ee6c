package store_test

import (
	"bytes"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store"
	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/poll"
)

// faultyEtcd returns a store that assumes a version of etcd with broken progress
// requests, and the log of the store.
func faultyEtcd(t *testing.T) (*etcd, *bytes.Buffer) {
	t.Helper()
	address := etcdproc.Start(t, "http")
	var log bytes.Buffer
	s, err := store.Dial(t.Context(), store.ExternalConfig{Endpoints: []string{address}}, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	s.AssumeVersion("3.5.12")
	return &etcd{s, etcdClient(t, address)}, &log
}

// await requests progress until the stream has reached the revision. It fails if the
// stream delivers a change before.
func await(t *testing.T, s object.Watch, through object.Revision) {
	t.Helper()
	ctx := contextFor(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			u, err := s.Next(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			if len(u.Records) > 0 {
				t.Errorf("got %s", show(u.Records))
			}
			if u.Through >= through {
				return
			}
		}
	}()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
			if err := s.RequestProgress(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// With a faulty version of etcd, the watch of an idle resource learns its progress from a
// progress mark. The mark is invisible to clients.
func TestProgressMarksWithAFaultyEtcd(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	e, log := faultyEtcd(t)
	c, busy := e.collection(), e.Plain("busy", "/busy/")
	first := commit(t, c, put("k", "v"))
	idle := watch(t, c, first)
	for range 3 {
		elsewhere := commit(t, busy, put("k", "v"))
		for range 10 { // before an answer can have arrived
			if err := idle.RequestProgress(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		await(t, idle, elsewhere)
		now, err := c.Revision(contextFor(t))
		if err != nil {
			t.Fatal(err)
		}
		if now > elsewhere+1 {
			t.Errorf("learning of revision %d took %d writes, want 1", elsewhere, now-elsewhere)
		}
		// Requests without progress write no further mark. The requests continue for more
		// than a second because one mark per second would be allowed.
		ticker := time.NewTicker(50 * time.Millisecond)
		for range 25 {
			<-ticker.C
			if err := idle.RequestProgress(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		ticker.Stop()
		if again, err := c.Revision(contextFor(t)); err != nil || again != now {
			t.Errorf("got %d needless writes, %v, want none", again-now, err)
		}
	}
	now, err := c.Revision(contextFor(t))
	if err != nil {
		t.Fatal(err)
	}
	if got := show(list(t, c, now, 10)); got != "k=v" {
		t.Errorf("the list has %s, want k=v", got)
	}
	if n := c.OmittedKeys(); n != 0 {
		t.Errorf("got %d omitted keys, want 0", n)
	}
	if n := strings.Count(log.String(), "does not answer progress requests reliably"); n != 1 || !strings.Contains(log.String(), "3.5.12") {
		t.Errorf("the faulty version is logged %d times, want once:\n%s", n, log.String())
	}
}

// A progress request on a watch that etcd has just ended leaks no stream.
func TestProgressRequestOnAnEndedWatch(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	both(t, func(t *testing.T, e *etcd) {
		c := e.collection()
		var last object.Revision
		for range 10 {
			last = commit(t, c, put("k", "v"))
		}
		if _, err := e.client.Compact(contextFor(t), int64(last)); err != nil {
			t.Fatal(err)
		}
		before := openWatchStreams()
		for range 20 {
			s, err := c.Watch(t.Context(), object.Scope{}, object.Position{Epoch: c.KnownEpoch(), Revision: 1}, false)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Next(contextFor(t)); !errors.Is(err, object.ErrCompacted) {
				t.Fatal(err)
			}
			_ = s.RequestProgress(contextFor(t)) // the caller does not know yet that the watch has ended
			s.Close()
		}
		// The goroutine of a stream is gone a moment after Close.
		poll.Until(t, "all 20 streams have ended", func() bool { return openWatchStreams() <= before })
	})
}

// openWatchStreams returns the number of gRPC watch streams of etcd clients in this
// process.
func openWatchStreams() int {
	all := make([]byte, 16<<20)
	return bytes.Count(all[:runtime.Stack(all, true)], []byte("watchGRPCStream).run("))
}

// A mark from before a restore will not arrive anymore. The store writes a new one.
func TestProgressMarksWithAFaultyEtcdAfterARestore(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	m := etcdproc.StartMember(t, "http")
	s, err := store.Dial(t.Context(), store.ExternalConfig{Endpoints: []string{m.Address}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	s.AssumeVersion("3.5.12")
	c, busy := s.Plain("test", prefix), s.Plain("busy", "/busy/")
	before := epochOf(t, c)
	at := commit(t, c, put("k", "v"))
	snapshot := m.Snapshot(t)
	idle := watch(t, c, at)
	putMany(t, busy, 50)
	await(t, idle, commit(t, busy, put("k", "v"))) // a mark reports the progress
	m.Kill(t)
	m.Restore(t, snapshot)
	m.Start(t)
	for epochOf(t, c) == before {
	}
	now, err := c.Revision(contextFor(t))
	if err != nil {
		t.Fatal(err)
	}
	idle = watch(t, c, now)
	await(t, idle, commit(t, busy, put("k", "w")))
}
