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

// run starts a cacher of the store until the test ends.
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

func read(t *testing.T, c *cacher.Cacher, want cacher.Consistency) *cacher.State {
	t.Helper()
	s, err := c.Read(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// values returns the objects of a sequence as keys and values, and fails the test
// where they are not in ascending order of keys.
func values(t *testing.T, objects func(func(*object.Object) bool)) map[object.Key]string {
	t.Helper()
	got := map[object.Key]string{}
	last := object.Key("")
	for o := range objects {
		if len(got) > 0 && o.Key <= last {
			t.Errorf("key %q comes after %q", o.Key, last)
		}
		last = o.Key
		got[o.Key] = string(o.Value)
	}
	return got
}

// writeRandomly commits n random transactions over a few keys in three folders.
func writeRandomly(m *cachertest.Memory, random *rand.Rand, n int) {
	for range n {
		writes := map[object.Key][]byte{}
		for range random.IntN(4) { // also none: a write of another resource
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

func TestEveryStateIsThatOfTheStoreAndSoIsItsPast(t *testing.T) {
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
			s := read(t, c, cacher.Consistency{})
			if s.Revision() < m.Now() {
				t.Fatalf("a linearizable read is at revision %d, the store at %d", s.Revision(), m.Now())
			}
			if s.WindowLen() > window {
				t.Errorf("the window has %d changes", s.WindowLen())
			}
			for at := s.Replayable(); at <= s.Revision(); at++ {
				objects, ok := s.ObjectsAt(at, object.Scope{}, "")
				if !ok {
					t.Fatalf("revision %d is in the window but its state is not known", at)
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
						replayed[change.Key] = string(change.New.Value)
					}
				}
				if diff := cmp.Diff(m.State(s.Revision()), replayed); diff != "" {
					t.Fatalf("changes after %d do not lead to %d (-want +got):\n%s", at, s.Revision(), diff)
				}
			}
			if s.Replayable() > 0 {
				if _, ok := s.ObjectsAt(s.Replayable()-1, object.Scope{}, ""); ok {
					t.Errorf("a state before the window is said to be known")
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
		"as much as there is":     {writes: 20, window: 100, compacted: 15, replayable: 15},
		"as much as fits":         {writes: 50, window: 10, replayable: 41},
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
				s := read(t, run(t, m, windowOf(tc.window)), cacher.Consistency{})
				if s.Replayable() != tc.replayable {
					t.Errorf("replayable from revision %d, want %d", s.Replayable(), tc.replayable)
				}
			})
		})
	}
}

func TestWindowIsBoundedByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cachertest.NewMemory()
		c := run(t, m, func(cfg *cacher.Config) { cfg.Window.MaxBytes = 100_000 })
		for range 100 {
			m.Put("k", string(make([]byte, 10_000)))
		}
		s := read(t, c, cacher.Consistency{})
		if n := s.WindowLen(); n == 0 || n > 5 { // each remembers two objects
			t.Errorf("the window has %d changes of 20 kB, its limit is 100 kB", n)
		}
	})
}

func TestCompactionCostsDifferencesNotState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cachertest.NewMemory()
		m.Commit(map[object.Key][]byte{"kept": []byte("1"), "changed": []byte("1"), "deleted": []byte("1")})
		c := run(t, m)
		before := read(t, c, cacher.Consistency{})

		m.Change(func() { m.Quiet = true })
		m.Put("changed", "2")
		m.Put("new", "1")
		m.Commit(map[object.Key][]byte{"deleted": nil})
		now := m.Now()
		m.Change(func() { m.Quiet, m.Compacted = false, now })

		s := read(t, c, cacher.Consistency{})
		if diff := cmp.Diff(m.State(s.Revision()), values(t, s.Objects(object.Scope{}, ""))); diff != "" {
			t.Errorf("state differs (-want +got):\n%s", diff)
		}
		changes, ok := s.Changes(before.Revision())
		if !ok {
			t.Fatal("the differences are not in the window")
		}
		got := map[object.Key]string{}
		for change := range changes {
			if change.Revision != s.Revision() {
				t.Errorf("difference of %q is at revision %d, want that of the list, %d", change.Key, change.Revision, s.Revision())
			}
			got[change.Key] = fmt.Sprint(change.Old != nil, " to ", change.New != nil)
		}
		want := map[object.Key]string{"changed": "true to true", "new": "false to true", "deleted": "true to false"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("differences (-want +got):\n%s", diff)
		}
		if s.Replayable() != s.Revision() {
			t.Errorf("replayable from %d although changes before %d are unknown", s.Replayable(), s.Revision())
		}
	})
}

func TestAnotherEpochIsAnotherHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cachertest.NewMemory()
		for range 10 {
			m.Put("old", "1")
		}
		c := run(t, m)
		read(t, c, cacher.Consistency{})

		m.Change(func() { m.Down = object.ErrUnavailable })
		synctest.Wait()
		m.Change(func() { m.Down = nil })
		m.Restart("e2")
		m.Put("new", "1")

		time.Sleep(time.Minute) // of the bubble: the attempts are spaced out
		s := read(t, c, cacher.Consistency{})
		if got := s.Position(); got != (object.Position{Epoch: "e2", Revision: m.Now()}) {
			t.Errorf("position is %v", got)
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
		if _, err := c.Read(t.Context(), cacher.Any()); !errors.Is(err, cacher.ErrNotReady) {
			t.Errorf("before the first fill: %v", err)
		}
		m.Change(func() { m.Down = nil })
		m.Put("k", "1")
		time.Sleep(time.Minute)
		if !c.Following() {
			t.Error("does not follow the store, which is back")
		}

		m.Change(func() { m.Down = object.ErrUnavailable })
		synctest.Wait()
		if c.Following() {
			t.Error("says it follows a store that is away")
		}
		s := read(t, c, cacher.Any())
		if s.Get("k") == nil {
			t.Error("has forgotten what it knew")
		}
		read(t, c, cacher.AtLeast(s.Revision()))
		if _, err := c.Read(t.Context(), cacher.Consistency{}); !errors.Is(err, object.ErrUnavailable) {
			t.Errorf("linearizable: %v", err)
		}
	})
}

func TestReadsOfQuietResourcesAreAnsweredByProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cachertest.NewMemory()
		m.Put("k", "1")
		c := run(t, m)
		read(t, c, cacher.Consistency{})
		start := time.Now()
		elsewhere := m.Commit(nil)
		if s := read(t, c, cacher.Consistency{}); s.Revision() < elsewhere {
			t.Errorf("read at revision %d, the store is at %d", s.Revision(), elsewhere)
		}
		if waited := time.Since(start); waited > 0 {
			t.Errorf("waited for %v of fake time: the question was not asked at once", waited)
		}
		m.Commit(nil)
		time.Sleep(6 * time.Second)
		if s := read(t, c, cacher.Any()); s.Revision() != m.Now() {
			t.Errorf("with nobody waiting the revision stays at %d, the store is at %d", s.Revision(), m.Now())
		}
	})
}

func TestMinimumRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cachertest.NewMemory()
		now := m.Put("k", "1")
		c := run(t, m)
		read(t, c, cacher.Consistency{})

		var future *cacher.FutureError
		if _, err := c.Read(t.Context(), cacher.AtLeast(now+1)); !errors.As(err, &future) || future.Asked != now+1 || future.Current != now {
			t.Errorf("a revision that does not exist: %v", err)
		}
		m.Change(func() { m.Quiet = true })
		m.Put("k", "2")
		start := time.Now()
		var behind *cacher.BehindError
		if _, err := c.Read(t.Context(), cacher.AtLeast(now+1)); !errors.As(err, &behind) || behind.Asked != now+1 || behind.Have != now {
			t.Errorf("a revision that does not arrive: %v", err)
		}
		if waited := time.Since(start); waited != 3*time.Second {
			t.Errorf("gave up after %v, want 3s", waited)
		}
		m.Change(func() { m.Quiet = false })
		if s := read(t, c, cacher.AtLeast(now+1)); s.Revision() != now+1 {
			t.Errorf("read at revision %d", s.Revision())
		}
	})
}

// A read may use the answer to a question that was asked after it came, so all
// that come while one is under way share the next.
func TestConcurrentLinearizableReadsShareQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cachertest.NewMemory()
		c := run(t, m)
		read(t, c, cacher.Consistency{})
		m.Change(func() { m.Asked, m.Answer = 0, make(chan struct{}) })

		var readers sync.WaitGroup
		readers.Go(func() { read(t, c, cacher.Consistency{}) })
		synctest.Wait() // the first question is under way
		for range 100 {
			readers.Go(func() { read(t, c, cacher.Consistency{}) })
		}
		synctest.Wait()
		close(m.Answer)
		readers.Wait()
		if m.Asked != 2 {
			t.Errorf("the store was asked %d times for 101 readers, want 2", m.Asked)
		}
	})
}

func TestReadsSurviveTheOneThatAsksForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cachertest.NewMemory()
		c := run(t, m)
		read(t, c, cacher.Consistency{})
		m.Change(func() { m.Asked, m.Answer = 0, make(chan struct{}) })

		asker, leave := context.WithCancel(t.Context())
		var readers sync.WaitGroup
		readers.Go(func() {
			if _, err := c.Read(asker, cacher.Consistency{}); !errors.Is(err, context.Canceled) {
				t.Errorf("the reader that left got %v", err)
			}
		})
		synctest.Wait()
		for range 100 {
			readers.Go(func() { read(t, c, cacher.Consistency{}) })
		}
		synctest.Wait()
		leave()
		synctest.Wait()
		close(m.Answer)
		readers.Wait()
		if m.Asked != 2 {
			t.Errorf("the store was asked %d times, want 2: by the reader that left, and for all the others", m.Asked)
		}
	})
}

func TestReadStopsWithItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cachertest.NewMemory()
		m.Put("k", "1")
		c := run(t, m)
		read(t, c, cacher.Consistency{})
		m.Change(func() { m.Answer = make(chan struct{}) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Read(ctx, cacher.Consistency{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		close(m.Answer)
		m.Change(func() { m.Answer = nil })
		read(t, c, cacher.Consistency{})
	})
}

func TestValuesThatDoNotDecodeAreServedAsTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cachertest.NewMemory()
		m.Put("k", "not json")
		m.Put("fine", `{"a":1}`)
		c := run(t, m, func(cfg *cacher.Config) { cfg.Codec, _ = object.CodecByName("json") })
		s := read(t, c, cacher.Consistency{})
		if o := s.Get("k"); o == nil || !o.Opaque || string(o.Value) != "not json" {
			t.Errorf("object is %+v", o)
		}
		if o := s.Get("fine"); o == nil || o.Opaque {
			t.Errorf("object is %+v", o)
		}
		if n := c.Counts().Opaque; n != 1 {
			t.Errorf("counted %d opaque values", n)
		}
	})
}

// However many there are and however often they are read, each value is counted
// once; and each of those whose keys are logged is logged once.
func TestValuesThatDoNotDecodeAreCountedOnce(t *testing.T) {
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
			m.Compacted = last // so that they are listed
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
				t.Errorf("%s: counted %d, want %d", when, n, counted)
			}
			if n := strings.Count(log.String(), "cannot decode value"); n != lines {
				t.Errorf("%s: logged %d, want %d", when, n, lines)
			}
		}
		<-c.Ready()
		check("listed at the second attempt", keys, logged)
		m.Put(key(0), "again")
		check("a newer value of a key that was logged", keys+1, logged+1)
		m.Put(key(keys-1), "again")
		check("a newer value of another key", keys+2, logged+1)

		m.Change(func() { m.Lose = func(object.Record) bool { return true } })
		m.Put("lost", "{}")
		time.Sleep(5 * time.Minute)
		if c.Counts().Mismatches == 0 {
			t.Fatal("nothing was read again")
		}
		check("everything is read again", keys+2, logged+1)
	})
}

// Nothing has happened since the revision at which a quiet store is listed, and
// etcd does not answer progress requests of a watch that begins in the future.
func TestQuietStoreIsReadyAndFollowedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cachertest.NewMemory()
		c := run(t, m, windowOf(1))
		synctest.Wait()
		if c.State() == nil || !c.Following() {
			t.Errorf("state %v, following %v", c.State(), c.Following())
		}
	})
}
