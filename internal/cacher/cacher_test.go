package cacher_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/wire"
	"github.com/fanoutd/fanoutd/test/cachertest"
	"github.com/fanoutd/fanoutd/test/seed"
)

// run runs a cacher of the store until the test ends.
func run(t *testing.T, m *cachertest.Memory, change ...func(*cacher.Config)) *cacher.Cacher {
	t.Helper()
	codec, err := object.CodecByName("raw")
	if err != nil {
		t.Fatal(err)
	}
	cfg := cacher.Config{
		Resource:  "test",
		Store:     m,
		Codec:     codec,
		Preencode: wire.Preencode,
		Log:       slog.New(slog.NewTextHandler(t.Output(), nil)),
		PageSize:  3,
	}
	for _, f := range change {
		f(&cfg)
	}
	c := cacher.New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { c.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return c
}

func windowOf(changes int) func(*cacher.Config) {
	return func(c *cacher.Config) { c.Window.MaxChanges = changes }
}

func read(t *testing.T, c *cacher.Cacher, want object.Consistency) *cacher.State {
	t.Helper()
	s, err := c.Read(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// values returns the keys and values of a sequence of objects. It fails the test if the
// keys are not in ascending order.
func values(t *testing.T, objects func(func(*object.Object) bool)) map[object.Key]string {
	t.Helper()
	got := map[object.Key]string{}
	last := object.Key("")
	for o := range objects {
		if len(got) > 0 && o.Key <= last {
			t.Errorf("key %q comes after %q", o.Key, last)
		}
		last = o.Key
		got[o.Key] = string(wire.Decode(o).Value)
	}
	return got
}

// writeRandomly commits n random transactions over a few keys in three folders.
func writeRandomly(m *cachertest.Memory, random *rand.Rand, n int) {
	for range n {
		writes := map[object.Key][]byte{}
		for range random.IntN(4) { // none means a write to another resource
			key := object.Key(fmt.Sprintf("%c/%d", 'a'+random.IntN(3), random.IntN(8)))
			if random.IntN(3) == 0 {
				writes[key] = nil
			} else {
				writes[key] = []byte(strconv.Itoa(random.IntN(1000)))
			}
		}
		m.Commit(writes)
	}
}

func TestStatesAndOlderStatesEqualTheStore(t *testing.T) {
	random := seed.New(t).Rand(0)
	synctest.Test(t, func(t *testing.T) {
		m := cachertest.NewMemory()
		writeRandomly(m, random, 50)
		const window = 40
		c := run(t, m, windowOf(window))
		folder, err := object.ParsePrefix("b")
		if err != nil {
			t.Fatal(err)
		}
		for range 30 {
			writeRandomly(m, random, random.IntN(30))
			s := read(t, c, object.Consistency{})
			if s.Revision() < m.Now() {
				t.Fatalf("linearizable read: got revision %d, want %d", s.Revision(), m.Now())
			}
			if s.WindowLen() > window {
				t.Errorf("changes in the window: got %d, want at most %d", s.WindowLen(), window)
			}
			for at := s.Replayable(); at <= s.Revision(); at++ {
				objects, ok := s.ObjectsAt(at, object.Scope{}, "")
				if !ok {
					t.Fatalf("state at revision %d of the window: got false, want true", at)
				}
				if diff := cmp.Diff(m.State(at), values(t, objects)); diff != "" {
					t.Fatalf("state at revision %d, seen from %d, differs (-want +got):\n%s", at, s.Revision(), diff)
				}
				inFolder, _ := s.ObjectsAt(at, folder, "b/3")
				want := m.State(at)
				for key := range want {
					if !folder.Contains(key) || key < "b/3" {
						delete(want, key)
					}
				}
				if diff := cmp.Diff(want, values(t, inFolder)); diff != "" {
					t.Fatalf("folder at revision %d, seen from %d, differs (-want +got):\n%s", at, s.Revision(), diff)
				}
				replayed := m.State(at)
				changes, _ := s.Changes(at)
				for change := range changes {
					if change.New == nil {
						delete(replayed, change.Key)
					} else {
						replayed[change.Key] = string(wire.Decode(change.New).Value)
					}
				}
				if diff := cmp.Diff(m.State(s.Revision()), replayed); diff != "" {
					t.Fatalf("changes after %d do not lead to %d (-want +got):\n%s", at, s.Revision(), diff)
				}
			}
			if s.Replayable() > 0 {
				if _, ok := s.ObjectsAt(s.Replayable()-1, object.Scope{}, ""); ok {
					t.Errorf("state before the window: got true, want false")
				}
			}
		}
	})
}

func TestWindowIsFilledFromTheHistoryOfTheStore(t *testing.T) {
	tests := map[string]struct {
		writes, window int
		compacted      object.Revision
		replayable     object.Revision
	}{
		"all of it":               {writes: 20, window: 100, replayable: 1},
		"up to the compaction":    {writes: 20, window: 100, compacted: 15, replayable: 15},
		"up to the limit":         {writes: 50, window: 10, replayable: 41},
		"not beyond the lookback": {writes: 50, window: 2, replayable: 49},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := cachertest.NewMemory()
				for i := range tc.writes {
					m.Put("k", strconv.Itoa(i))
				}
				m.Compacted = tc.compacted
				s := read(t, run(t, m, windowOf(tc.window)), object.Consistency{})
				if s.Replayable() != tc.replayable {
					t.Errorf("replayable: got %d, want %d", s.Replayable(), tc.replayable)
				}
			})
		})
	}
}

// The last revisions have many more changes than those before, so they say nothing about how far the
// window reaches back.
func TestWindowIsFilledThoughTheLastRevisionsAreLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cachertest.NewMemory()
		for i := range 400 {
			m.Put("k", strconv.Itoa(i))
		}
		for range 4 {
			large := map[object.Key][]byte{}
			for i := range 40 {
				large[object.Key(strconv.Itoa(i))] = []byte("v")
			}
			m.Commit(large)
		}
		const window = 300
		s := read(t, run(t, m, windowOf(window)), object.Consistency{})
		if n := s.WindowLen(); n < window-40 {
			t.Errorf("changes in the window: got %d, want at least %d", n, window-40)
		}
	})
}

func TestWindowIsBoundedByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cachertest.NewMemory()
		c := run(t, m, func(cfg *cacher.Config) { cfg.Window.MaxBytes = 100_000 })
		for range 100 {
			m.Put("k", string(make([]byte, 10_000)))
		}
		s := read(t, c, object.Consistency{})
		if n := s.WindowLen(); n == 0 || n > 5 { // each holds two objects
			t.Errorf("changes of 20 kB in a window of 100 kB: got %d, want 1 to 5", n)
		}
	})
}

// After a relist, the change index has the difference. The window is empty, so a reader cannot
// mistake the difference for the changes.
func TestRelistPublishesDifferences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cachertest.NewMemory()
		m.Commit(map[object.Key][]byte{"kept": []byte("1"), "changed": []byte("1"), "deleted": []byte("1")})
		c := run(t, m)
		m.Put("changed", "2")
		before := read(t, c, object.Consistency{})

		m.Change(func() { m.Quiet = true })
		m.Commit(map[object.Key][]byte{"deleted": nil})
		changed := m.Put("changed", "3")
		created := m.Put("new", "1")
		m.Put("passing", "1")
		now := m.Commit(map[object.Key][]byte{"passing": nil})
		m.Change(func() { m.Quiet, m.Compacted = false, now })

		s := read(t, c, object.Consistency{})
		if diff := cmp.Diff(m.State(s.Revision()), values(t, s.Objects(object.Scope{}, ""))); diff != "" {
			t.Errorf("state differs (-want +got):\n%s", diff)
		}
		if _, ok := s.Changes(before.Revision()); ok || s.WindowLen() > 0 {
			t.Errorf("window: got %d changes, and changes since the relist: %v; want none", s.WindowLen(), ok)
		}
		if _, ok := s.ObjectsAt(before.Revision(), object.Scope{}, ""); ok {
			t.Error("state before the relist: got one, want none")
		}
		if s.Replayable() != now {
			t.Errorf("replayable: got %d, want %d, because changes before are unknown", s.Replayable(), now)
		}
		if !s.HasDelta(before.Revision()) {
			t.Fatal("there is no difference")
		}
		var got []cacher.ChangeID
		for d := range s.Since(before.Revision(), object.Scope{}, cacher.ChangeID{}) {
			got = append(got, d.ChangeID)
		}
		// The revision of a deletion is not known.
		want := []cacher.ChangeID{{At: changed, Key: "changed"}, {At: created, Key: "new"}, {At: now, Key: "deleted"}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("differences (-want +got):\n%s", diff)
		}
		m.Put("changed", "4")
		if s = read(t, c, object.Consistency{}); s.WindowLen() != 1 {
			t.Errorf("changes after the relist: got %d, want 1", s.WindowLen())
		}
	})
}

func TestNewEpochStartsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cachertest.NewMemory()
		for range 10 {
			m.Put("old", "1")
		}
		c := run(t, m)
		read(t, c, object.Consistency{})

		m.Change(func() { m.Down = object.ErrUnavailable })
		synctest.Wait()
		m.Change(func() { m.Down = nil })
		m.Restart("e2")
		m.Put("new", "1")

		time.Sleep(time.Minute) // for the backoff
		s := read(t, c, object.Consistency{})
		if got := s.Position(); got != (object.Position{Epoch: "e2", Revision: m.Now()}) {
			t.Errorf("position: got %v, want revision %d of e2", got, m.Now())
		}
		if diff := cmp.Diff(map[object.Key]string{"new": "1"}, values(t, s.Objects(object.Scope{}, ""))); diff != "" {
			t.Errorf("state differs (-want +got):\n%s", diff)
		}
	})
}

func TestReadsWhileTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cachertest.NewMemory()
		m.Down = object.ErrUnavailable
		c := run(t, m)
		if _, err := c.Read(t.Context(), object.Consistency{Level: object.AnyRevision}); !errors.Is(err, cacher.ErrNotReady) {
			t.Errorf("before the first fill: got %v, want %v", err, cacher.ErrNotReady)
		}
		m.Change(func() { m.Down = nil })
		m.Put("k", "1")
		time.Sleep(time.Minute)
		if !c.Following() {
			t.Error("following the store after it is back: got false, want true")
		}

		m.Change(func() { m.Down = object.ErrUnavailable })
		synctest.Wait()
		if c.Following() {
			t.Error("following a store that is away: got true, want false")
		}
		s := read(t, c, object.Consistency{Level: object.AnyRevision})
		if s.Get("k") == nil {
			t.Error("object while the store is away: got none, want one")
		}
		read(t, c, object.Consistency{Level: object.AtLeast, Revision: s.Revision()})
		if _, err := c.Read(t.Context(), object.Consistency{}); !errors.Is(err, object.ErrUnavailable) {
			t.Errorf("linearizable read: got %v, want %v", err, object.ErrUnavailable)
		}
	})
}

func TestReadsOfQuietResourcesAreAnsweredByProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cachertest.NewMemory()
		m.Put("k", "1")
		c := run(t, m)
		read(t, c, object.Consistency{})
		start := time.Now()
		elsewhere := m.Commit(nil)
		if s := read(t, c, object.Consistency{}); s.Revision() < elsewhere {
			t.Errorf("read at revision %d, the store is at %d", s.Revision(), elsewhere)
		}
		if waited := time.Since(start); waited > 0 {
			t.Errorf("wait: got %v, want none, because progress is requested at once", waited)
		}
		m.Commit(nil)
		time.Sleep(6 * time.Second)
		if s := read(t, c, object.Consistency{Level: object.AnyRevision}); s.Revision() != m.Now() {
			t.Errorf("revision while no reader waits: got %d, want %d", s.Revision(), m.Now())
		}
	})
}

func TestReadWaitsForItsMinimumRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cachertest.NewMemory()
		now := m.Put("k", "1")
		c := run(t, m)
		read(t, c, object.Consistency{})

		var future *cacher.FutureError
		if _, err := c.Read(t.Context(), object.Consistency{Level: object.AtLeast, Revision: now + 1}); !errors.As(err, &future) || future.Asked != now+1 || future.Current != now {
			t.Errorf("revision that does not exist: got %v", err)
		}
		m.Change(func() { m.Quiet = true })
		m.Put("k", "2")
		start := time.Now()
		var behind *cacher.BehindError
		if _, err := c.Read(t.Context(), object.Consistency{Level: object.AtLeast, Revision: now + 1}); !errors.As(err, &behind) || behind.Asked != now+1 || behind.Have != now {
			t.Errorf("revision that does not arrive: got %v", err)
		}
		if waited := time.Since(start); waited != 3*time.Second {
			t.Errorf("wait: got %v, want 3s", waited)
		}
		m.Change(func() { m.Quiet = false })
		if s := read(t, c, object.Consistency{Level: object.AtLeast, Revision: now + 1}); s.Revision() != now+1 {
			t.Errorf("read at revision: got %d, want %d", s.Revision(), now+1)
		}
	})
}

// A read may use the answer to a request that was sent after the read began. All reads that
// begin while a request is in flight share the next one.
func TestConcurrentLinearizableReadsShareRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cachertest.NewMemory()
		c := run(t, m)
		read(t, c, object.Consistency{})
		m.Change(func() { m.Requests, m.Answer = 0, make(chan struct{}) })

		var readers sync.WaitGroup
		readers.Go(func() { read(t, c, object.Consistency{}) })
		synctest.Wait() // the first request is in flight
		for range 100 {
			readers.Go(func() { read(t, c, object.Consistency{}) })
		}
		synctest.Wait()
		close(m.Answer)
		readers.Wait()
		if m.Requests != 2 {
			t.Errorf("requests for 101 readers: got %d, want 2", m.Requests)
		}
	})
}

func TestReadsSurviveTheCallerThatSentTheirRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cachertest.NewMemory()
		c := run(t, m)
		read(t, c, object.Consistency{})
		m.Change(func() { m.Requests, m.Answer = 0, make(chan struct{}) })

		sender, leave := context.WithCancel(t.Context())
		var readers sync.WaitGroup
		readers.Go(func() {
			if _, err := c.Read(sender, object.Consistency{}); !errors.Is(err, context.Canceled) {
				t.Errorf("reader that left: got %v, want %v", err, context.Canceled)
			}
		})
		synctest.Wait()
		for range 100 {
			readers.Go(func() { read(t, c, object.Consistency{}) })
		}
		synctest.Wait()
		leave()
		synctest.Wait()
		close(m.Answer)
		readers.Wait()
		if m.Requests != 2 {
			t.Errorf("requests: got %d, want 2: of the reader that left, and of all others", m.Requests)
		}
	})
}

func TestReadEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cachertest.NewMemory()
		m.Put("k", "1")
		c := run(t, m)
		read(t, c, object.Consistency{})
		m.Change(func() { m.Answer = make(chan struct{}) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Read(ctx, object.Consistency{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		close(m.Answer)
		m.Change(func() { m.Answer = nil })
		read(t, c, object.Consistency{})
	})
}

func TestOpaqueValuesAreServedUnchanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cachertest.NewMemory()
		m.Put("k", "not json")
		m.Put("fine", `{"a":1}`)
		c := run(t, m, func(cfg *cacher.Config) { cfg.Codec, _ = object.CodecByName("json") })
		s := read(t, c, object.Consistency{})
		if o := s.Get("k"); o == nil || !o.Opaque() || string(wire.Decode(o).Value) != "not json" {
			t.Errorf("object: got %+v", o)
		}
		if o := s.Get("fine"); o == nil || o.Opaque() {
			t.Errorf("object: got %+v", o)
		}
		if n := c.Counts().Opaque; n != 1 {
			t.Errorf("opaque values: got %d, want 1", n)
		}
	})
}

// The log says how many objects a resource has. What it had before the window would look like a loss.
func TestLogNamesTheObjectsThatWereLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cachertest.NewMemory()
		const objects = 211
		for i := range objects {
			m.Put(object.Key(fmt.Sprint(i)), "1")
		}
		var log bytes.Buffer
		c := run(t, m, func(cfg *cacher.Config) { cfg.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		<-c.Ready()
		synctest.Wait()
		m.Put("another", "1")
		synctest.Wait()
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `level=INFO msg="resource loaded" resource=test objects=211 revision=`) {
			t.Errorf("got log:\n%s", got)
		}
	})
}

// However often values are read and keys are written, each opaque value is counted once and each key
// logged at most once.
func TestOpaqueValuesAreCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys, logged = 1100, 1000
		key := func(i int) object.Key { return object.Key(fmt.Sprintf("k%04d", i)) }
		m := cachertest.NewMemory()
		writes := map[object.Key][]byte{}
		for i := range keys {
			writes[key(i)] = []byte("not json")
		}
		last := m.Commit(writes)
		pages := 0
		m.Change(func() {
			m.Compacted = last // the fill lists them
			m.Fault = func(method string) error {
				if method == "List" {
					if pages++; pages == 5 {
						return object.ErrUnavailable
					}
				}
				return nil
			}
		})
		var log bytes.Buffer
		c := run(t, m, func(cfg *cacher.Config) {
			cfg.Codec, _ = object.CodecByName("json")
			cfg.PageSize = 250
			cfg.CheckInterval = time.Minute
			cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
		})
		check := func(when string, counted int64, lines int) {
			t.Helper()
			synctest.Wait()
			if n := c.Counts().Opaque; n != counted {
				t.Errorf("%s: count: got %d, want %d", when, n, counted)
			}
			if n := strings.Count(log.String(), "cannot decode value"); n != lines {
				t.Errorf("%s: log lines: got %d, want %d", when, n, lines)
			}
		}
		<-c.Ready()
		check("after a second attempt to list", keys, logged)
		m.Put(key(0), "again")
		check("newer value of a logged key", keys+1, logged)
		m.Put(key(keys-1), "again")
		check("newer value of another key", keys+2, logged)

		m.Change(func() { m.Lose = func(object.Record) bool { return true } })
		m.Put("lost", "{}")
		time.Sleep(5 * time.Minute)
		if c.Counts().Mismatches == 0 {
			t.Fatal("mismatches: got none, want one")
		}
		check("after filling again", keys+2, logged)
	})
}

// A quiet store has no revision after the one that was listed, and etcd does not answer
// progress requests of a watch that begins in the future.
func TestQuietStoreIsReadyAndFollowedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cachertest.NewMemory()
		c := run(t, m, windowOf(1))
		synctest.Wait()
		if c.State() == nil || !c.Following() {
			t.Errorf("got state %v and following %v, want a state and true", c.State(), c.Following())
		}
	})
}
