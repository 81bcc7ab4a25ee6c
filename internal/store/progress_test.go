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
)

// faultyEtcd returns a store in an etcd that is taken for one of a version that does
// not answer progress requests rightly, and its log.
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

// await asks for progress, as somebody does who waits, until the stream has reached
// the revision. There must be no changes on the way.
func await(t *testing.T, s object.Stream, through object.Revision) {
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

// Where etcd cannot be relied on when it is asked for progress, a quiet resource
// learns how far it is by a write of its own, which nobody sees.
func TestProgressOfFaultyEtcd(t *testing.T) {
	e, log := faultyEtcd(t)
	c, busy := e.collection(), e.Collection("busy", "/busy/")
	first := commit(t, c, put("k", "v"))
	quietOne := watch(t, c, first)
	for range 3 {
		elsewhere := commit(t, busy, put("k", "v"))
		for range 10 { // before any answer can have come
			if err := quietOne.RequestProgress(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		await(t, quietOne, elsewhere)
		now, err := c.Revision(contextFor(t))
		if err != nil {
			t.Fatal(err)
		}
		if now > elsewhere+1 {
			t.Errorf("to learn of revision %d it took %d writes", elsewhere, now-elsewhere)
		}
		// While there is nothing to tell nothing is written, however often and for how
		// long one asks: a mark may be written each second.
		ticker := time.NewTicker(50 * time.Millisecond)
		for range 25 {
			<-ticker.C
			if err := quietOne.RequestProgress(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		ticker.Stop()
		if again, err := c.Revision(contextFor(t)); err != nil || again != now {
			t.Errorf("%d writes were made for nothing, %v", again-now, err)
		}
	}
	now, err := c.Revision(contextFor(t))
	if err != nil {
		t.Fatal(err)
	}
	if got := show(list(t, c, now, 10)); got != "k=v" {
		t.Errorf("the list has %s", got)
	}
	if n := c.OmittedKeys(); n != 0 {
		t.Errorf("%d keys are counted as left out", n)
	}
	if n := strings.Count(log.String(), "cannot be relied on"); n != 1 || !strings.Contains(log.String(), "3.5.12") {
		t.Errorf("that is logged %d times:\n%s", n, log.String())
	}
}

// What is asked of a watch that etcd has just ended leaves nothing behind.
func TestProgressOfAWatchThatHasEnded(t *testing.T) {
	both(t, func(t *testing.T, e *etcd) {
		c := e.collection()
		var last object.Revision
		for range 10 {
			last = commit(t, c, put("k", "v"))
		}
		if _, err := e.client.Compact(contextFor(t), int64(last)); err != nil {
			t.Fatal(err)
		}
		before := watchesOfClients()
		for range 20 {
			s, err := c.Watch(t.Context(), object.Position{Epoch: c.KnownEpoch(), Revision: 1})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Next(contextFor(t)); !errors.Is(err, object.ErrCompacted) {
				t.Fatal(err)
			}
			_ = s.RequestProgress(contextFor(t)) // whoever asks has not been told yet
			s.Close()
		}
		if n := watchesOfClients(); n > before {
			t.Errorf("%d of 20 streams are left behind", n-before)
		}
	})
}

// watchesOfClients returns how many gRPC streams of etcd's client there are in this
// process.
func watchesOfClients() int {
	all := make([]byte, 16<<20)
	return bytes.Count(all[:runtime.Stack(all, true)], []byte("watchGRPCStream).run("))
}

// A mark of before a restore is none that is on its way.
func TestProgressOfFaultyEtcdAfterARestore(t *testing.T) {
	m := etcdproc.StartMember(t, "http")
	s, err := store.Dial(t.Context(), store.ExternalConfig{Endpoints: []string{m.Address}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	s.AssumeVersion("3.5.12")
	c, busy := s.Collection("test", prefix), s.Collection("busy", "/busy/")
	before := epochOf(t, c)
	at := commit(t, c, put("k", "v"))
	snapshot := m.Snapshot(t)
	quietOne := watch(t, c, at)
	putMany(t, busy, 50)
	await(t, quietOne, commit(t, busy, put("k", "v"))) // by a mark
	m.Kill(t)
	m.Restore(t, snapshot)
	m.Start(t)
	for epochOf(t, c) == before {
	}
	now, err := c.Revision(contextFor(t))
	if err != nil {
		t.Fatal(err)
	}
	quietOne = watch(t, c, now)
	await(t, quietOne, commit(t, busy, put("k", "w")))
}
