package cacher_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/wire"
	"github.com/fanoutd/fanoutd/test/cachertest"
)

// relist makes the cacher list the store again, because of writes that it could not read.
// It returns the revisions before and after.
func relist(t *testing.T, m *cachertest.Memory, writes ...map[object.Key][]byte) (after, until object.Revision) {
	t.Helper()
	synctest.Wait()
	after = m.Now()
	m.Change(func() { m.Quiet = true })
	for _, w := range writes {
		until = m.Commit(w)
	}
	m.Change(func() { m.Quiet, m.Compacted = false, until })
	time.Sleep(time.Minute) // a second relist in a row waits for its backoff
	return after, until
}

func put(key object.Key) map[object.Key][]byte    { return map[object.Key][]byte{key: {}} }
func remove(key object.Key) map[object.Key][]byte { return map[object.Key][]byte{key: nil} }

// The number of gaps is limited. When the oldest gap is dropped, so is everything before
// its end.
func TestOldestGapIsDroppedWithEverythingBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cachertest.NewMemory()
		c := run(t, m)
		type gap struct{ after, until object.Revision }
		var gaps []gap
		for i := range rememberedGaps + 4 {
			after, until := relist(t, m, put(object.Key(fmt.Sprint(i))), put("k"), put("l"))
			gaps = append(gaps, gap{after, until})
		}
		s := read(t, c, object.Consistency{Level: object.AnyRevision})
		for i, g := range gaps {
			kept := i >= 4
			if got := s.HasDelta(g.after); got != kept {
				t.Errorf("before gap %d of %d: got %v, want %v", i, len(gaps), got, kept)
			}
			if s.HasDelta(g.after+1) || s.HasDelta(g.until-1) {
				t.Errorf("inside gap %d: got true, want false", i)
			}
			if got := s.HasDelta(g.until); got != (i >= 3) { // the next gap begins there
				t.Errorf("after gap %d of %d: got %v", i, len(gaps), got)
			}
		}
	})
}

// The last change of a key is known, whatever happened to the key before.
func TestSinceFindsTheLastChangeOfAKey(t *testing.T) {
	type steps []map[object.Key][]byte
	tests := map[string]struct {
		before, since, unseen steps
		want                  string
	}{
		"deleted":                          {before: steps{put("k")}, since: steps{remove("k")}, want: "-k"},
		"created, deleted":                 {since: steps{put("k"), remove("k")}, want: "-k"},
		"deleted, created":                 {before: steps{put("k")}, since: steps{remove("k"), put("k")}, want: "+k"},
		"deleted, created, deleted":        {before: steps{put("k")}, since: steps{remove("k"), put("k"), remove("k")}, want: "-k"},
		"deleted before, created":          {before: steps{put("k"), remove("k")}, since: steps{put("k")}, want: "+k"},
		"deleted before, created, deleted": {before: steps{put("k"), remove("k")}, since: steps{put("k"), remove("k")}, want: "-k"},
		"created, deleted, created":        {since: steps{put("k"), remove("k"), put("k")}, want: "+k"},
		"changed":                          {before: steps{put("k")}, since: steps{put("k")}, want: "+k"},
		"changed, after a deletion before": {before: steps{put("k"), remove("k"), put("k")}, since: steps{put("k")}, want: "+k"},
		"deleted unseen":                   {before: steps{put("k")}, unseen: steps{remove("k")}, want: "-k"},
		"created unseen":                   {unseen: steps{put("k")}, want: "+k"},
		"created and deleted unseen":       {unseen: steps{put("k"), remove("k")}, want: ""},
		"replaced unseen":                  {before: steps{put("k")}, unseen: steps{remove("k"), put("k"), put("k")}, want: "+k"},
		"deleted, created unseen":          {before: steps{put("k")}, since: steps{remove("k")}, unseen: steps{put("k")}, want: "+k"},
		"created, replaced unseen":         {since: steps{put("k")}, unseen: steps{remove("k"), put("k")}, want: "+k"},
		"replaced, replaced unseen": {
			before: steps{put("k")}, since: steps{remove("k"), put("k")}, unseen: steps{remove("k"), put("k")}, want: "+k",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := cachertest.NewMemory()
				c := run(t, m)
				synctest.Wait()
				for _, w := range tc.before {
					m.Commit(w)
				}
				after := m.Now()
				for _, w := range tc.since {
					m.Commit(w)
				}
				if len(tc.unseen) > 0 {
					relist(t, m, tc.unseen...)
				}
				synctest.Wait()
				s := read(t, c, object.Consistency{Level: object.AnyRevision})
				if !s.HasDelta(after) {
					t.Fatal("HasDelta: got false, want true")
				}
				var got strings.Builder
				for d := range s.Since(after, object.Scope{}, cacher.ChangeID{}) {
					got.WriteString(map[bool]string{true: "-", false: "+"}[d.Object == nil] + string(d.Key))
				}
				if got.String() != tc.want {
					t.Errorf("got %q, want %q", got.String(), tc.want)
				}
			})
		})
	}
}

// The number of tombstones is limited, whatever is deleted. A key that is created and
// deleted again and again needs one of them. Of keys that stay deleted, the most recent
// ones are kept.
func TestTombstonesAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	const limit, deletions = 100, 100_000
	tests := map[string]func(object.Revision) object.Key{
		"of one key":   func(object.Revision) object.Key { return "k" },
		"of many keys": func(at object.Revision) object.Key { return object.Key(fmt.Sprint(at / 2)) },
		"of both": func(at object.Revision) object.Key {
			if at/2%100 > 0 {
				return "k"
			}
			return object.Key(fmt.Sprint(at / 2))
		},
	}
	for name, keyAt := range tests {
		t.Run(name, func(t *testing.T) {
			m := cachertest.NewGenerator(func(at object.Revision) []object.Record {
				if at%2 == 0 {
					return []object.Record{{Key: keyAt(at), CreateRevision: at, ModRevision: at, Version: 1}}
				}
				return []object.Record{{Key: keyAt(at), ModRevision: at, Deleted: true}}
			})
			c := runQuietly(t, m, func(cfg *cacher.Config) {
				cfg.Window.MaxChanges, cfg.MaxTombstones = 1, limit
			})
			reach(t, c, m, 20*limit+1)
			before := heap()
			reach(t, c, m, 2*deletions+1)
			s := c.State()
			if grown := heap() - before; grown > 2<<20 {
				t.Errorf("memory for %d deletions: got %d bytes, want at most 2 MiB", deletions, grown)
			}
			deleted := map[object.Key]bool{}
			oldest := s.Revision() // at most limit keys were deleted after it
			for ; oldest > 1; oldest -= 2 {
				if len(deleted) == limit && !deleted[keyAt(oldest)] {
					break
				}
				deleted[keyAt(oldest)] = true
			}
			if !s.HasDelta(oldest) {
				t.Errorf("delta after %d: got false, want true", oldest)
			}
			if oldest > 1 && s.HasDelta(oldest-1) {
				t.Errorf("delta after %d: got true, want false", oldest-1)
			}
			if got := slices.Collect(s.Since(oldest, object.Scope{}, cacher.ChangeID{})); len(got) != len(deleted) {
				t.Errorf("differences after %d: got %d, want %d", oldest, len(got), len(deleted))
			}
		})
	}
}

// heap returns the size of the live heap.
func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// BenchmarkSince reads differences when a tenth of 100,000 objects has changed: all of
// them, those of a scope of ten objects, and a page of a hundred in the middle.
func BenchmarkSince(b *testing.B) {
	const objects = 100_000
	m := cachertest.NewGenerator(func(at object.Revision) []object.Record {
		key := object.Key(fmt.Sprintf("%05d/%d", at%objects/10, at%10))
		return []object.Record{{Key: key, CreateRevision: (at-1)%objects + 1, ModRevision: at, Version: int64(1 + (at-1)/objects)}}
	})
	c := runQuietly(b, m)
	reach(b, c, m, objects+objects/10)
	s := c.State()
	narrow, err := object.ParsePrefix("00042")
	if err != nil {
		b.Fatal(err)
	}
	count := func(b *testing.B, after object.Revision, scope object.Scope, last cacher.ChangeID, limit, want int) {
		for b.Loop() {
			n := 0
			for range s.Since(after, scope, last) {
				if n++; n == limit {
					break
				}
			}
			if n != want {
				b.Fatalf("%d differences, want %d", n, want)
			}
		}
	}
	b.Run("all", func(b *testing.B) { count(b, objects, object.Scope{}, cacher.ChangeID{}, -1, objects/10) })
	b.Run("scope", func(b *testing.B) { count(b, objects, narrow, cacher.ChangeID{}, -1, 10) })
	b.Run("key", func(b *testing.B) { count(b, objects, object.ExactKey("00042/1"), cacher.ChangeID{}, -1, 1) })
	b.Run("page", func(b *testing.B) {
		count(b, objects, object.Scope{}, cacher.ChangeID{At: objects + objects/20, Key: "x"}, 100, 100)
	})
}

// runQuietly runs a cacher without a log until the test ends.
func runQuietly(t testing.TB, store cacher.Store, change ...func(*cacher.Config)) *cacher.Cacher {
	t.Helper()
	codec, err := object.CodecByName("raw")
	if err != nil {
		t.Fatal(err)
	}
	cfg := cacher.Config{Resource: "test", Store: store, Codec: codec, Preencode: wire.Preencode, Log: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&cfg)
	}
	c := cacher.New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); c.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return c
}

// reach advances the store to a revision and waits until the cacher has reached it.
func reach(t testing.TB, c *cacher.Cacher, m *cachertest.Generator, to object.Revision) {
	t.Helper()
	m.Advance(to)
	<-c.Ready()
	for s := c.State(); s.Revision() < to; s = c.State() {
		select {
		case <-s.Superseded():
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}
