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

// relist has the cacher list the store again because of a write that it could not
// read, and returns the revisions before and after.
func relist(t *testing.T, m *cachertest.Memory, writes ...map[object.Key][]byte) (after, until object.Revision) {
	t.Helper()
	synctest.Wait()
	after = m.Now()
	m.Change(func() { m.Quiet = true })
	for _, w := range writes {
		until = m.Commit(w)
	}
	m.Change(func() { m.Quiet, m.Compacted = false, until })
	time.Sleep(time.Minute) // the second in a row is not tried at once
	return after, until
}

func put(key object.Key) map[object.Key][]byte    { return map[object.Key][]byte{key: {}} }
func remove(key object.Key) map[object.Key][]byte { return map[object.Key][]byte{key: nil} }

// What is remembered of relists is bounded, too: beyond that many, the oldest one
// hides all that was before it.
func TestGapsAreForgottenWithWhatWasBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cachertest.NewMemory()
		c := run(t, m)
		type gap struct{ after, until object.Revision }
		var gaps []gap
		for i := range rememberedGaps + 4 {
			after, until := relist(t, m, put(object.Key(fmt.Sprint(i))), put("k"), put("l"))
			gaps = append(gaps, gap{after, until})
		}
		s := read(t, c, cacher.Any())
		for i, g := range gaps {
			kept := i >= 4
			if got := s.HasDelta(g.after); got != kept {
				t.Errorf("before gap %d of %d: %v", i, len(gaps), got)
			}
			if s.HasDelta(g.after+1) || s.HasDelta(g.until-1) {
				t.Errorf("a position within gap %d is served", i)
			}
			if got := s.HasDelta(g.until); got != (i >= 3) { // where the next one begins
				t.Errorf("behind gap %d of %d: %v", i, len(gaps), got)
			}
		}
	})
}

// What became of a key since a position is said whatever became of it in between.
func TestWhatBecameOfAKey(t *testing.T) {
	type steps []map[object.Key][]byte
	tests := map[string]struct {
		before, since, lost steps
		want                string
	}{
		"deleted":                           {before: steps{put("k")}, since: steps{remove("k")}, want: "-k"},
		"came and went":                     {since: steps{put("k"), remove("k")}, want: "-k"},
		"deleted, came back":                {before: steps{put("k")}, since: steps{remove("k"), put("k")}, want: "+k"},
		"deleted, came and went":            {before: steps{put("k")}, since: steps{remove("k"), put("k"), remove("k")}, want: "-k"},
		"deleted before, came back":         {before: steps{put("k"), remove("k")}, since: steps{put("k")}, want: "+k"},
		"deleted before, came and went":     {before: steps{put("k"), remove("k")}, since: steps{put("k"), remove("k")}, want: "-k"},
		"came, went and came":               {since: steps{put("k"), remove("k"), put("k")}, want: "+k"},
		"changed":                           {before: steps{put("k")}, since: steps{put("k")}, want: "+k"},
		"changed, having been deleted once": {before: steps{put("k"), remove("k"), put("k")}, since: steps{put("k")}, want: "+k"},
		"deleted out of sight":              {before: steps{put("k")}, lost: steps{remove("k")}, want: "-k"},
		"came out of sight":                 {lost: steps{put("k")}, want: "+k"},
		"came and went out of sight":        {lost: steps{put("k"), remove("k")}, want: ""},
		"replaced out of sight":             {before: steps{put("k")}, lost: steps{remove("k"), put("k"), put("k")}, want: "+k"},
		"deleted, came back out of sight":   {before: steps{put("k")}, since: steps{remove("k")}, lost: steps{put("k")}, want: "+k"},
		"came, was replaced out of sight":   {since: steps{put("k")}, lost: steps{remove("k"), put("k")}, want: "+k"},
		"replaced, and replaced out of sight": {
			before: steps{put("k")}, since: steps{remove("k"), put("k")}, lost: steps{remove("k"), put("k")}, want: "+k",
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
				if len(tc.lost) > 0 {
					relist(t, m, tc.lost...)
				}
				synctest.Wait()
				s := read(t, c, cacher.Any())
				if !s.HasDelta(after) {
					t.Fatal("the position is not served")
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

// Tombstones are bounded by their number, whatever is deleted: a key that comes and
// goes all the time costs one of them, and of keys that never come back the last
// ones are remembered.
func TestTombstonesAreBounded(t *testing.T) {
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
				t.Errorf("%d deletions have taken %d bytes", deletions, grown)
			}
			deleted := map[object.Key]bool{}
			oldest := s.Revision() // after it not more was deleted than is remembered
			for ; oldest > 1; oldest -= 2 {
				if len(deleted) == limit && !deleted[keyAt(oldest)] {
					break
				}
				deleted[keyAt(oldest)] = true
			}
			if !s.HasDelta(oldest) {
				t.Errorf("what was deleted after %d is not known", oldest)
			}
			if oldest > 1 && s.HasDelta(oldest-1) {
				t.Errorf("what was deleted after %d is known", oldest-1)
			}
			if got := slices.Collect(s.Since(oldest, object.Scope{}, cacher.ChangeID{})); len(got) != len(deleted) {
				t.Errorf("%d differences after %d, want %d", len(got), oldest, len(deleted))
			}
		})
	}
}

// heap returns the bytes that are in use.
func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// BenchmarkSince reads the differences of a tenth of 100,000 objects that have
// changed: all of them, those of a scope of ten objects, and a page of a hundred in
// the middle.
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
	count := func(b *testing.B, after object.Revision, scope object.Scope, behind cacher.ChangeID, limit, want int) {
		for b.Loop() {
			n := 0
			for range s.Since(after, scope, behind) {
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

// runQuietly starts a cacher without a log until the test ends.
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

// reach has the store go on to a revision, and the cacher follow.
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
