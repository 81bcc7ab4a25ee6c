package cacher_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/wire"
	"github.com/fanoutd/fanoutd/test/cachertest"
)

// scanned is a store that scans, two records at a time.
type scanned struct {
	*cachertest.Memory
	parts  atomic.Int64 // the parts that a scan has sent
	failed error        // ends the next scan after its first part
}

const partRecords = 2

func (s *scanned) Scan(ctx context.Context, at object.Revision) iter.Seq2[[]object.Record, error] {
	return func(yield func([]object.Record, error) bool) {
		records, _, err := s.Memory.List(ctx, at, object.Scope{}, "", 1<<20)
		if err != nil {
			yield(nil, err)
			return
		}
		for part := range slices.Chunk(records, partRecords) {
			if !yield(part, ctx.Err()) {
				return
			}
			s.parts.Add(1)
			if err := s.failed; err != nil {
				s.failed = nil
				yield(nil, err)
				return
			}
		}
	}
}

const scannedObjects = 200

// newScanned returns a store whose last revisions are empty, so that a fill lists all objects.
func newScanned() *scanned {
	s := &scanned{Memory: cachertest.NewMemory()}
	for i := range scannedObjects {
		s.Put(object.Key(fmt.Sprintf("k%03d", i)), "v")
	}
	for range 1000 {
		s.Commit(nil)
	}
	return s
}

// checkObjects checks that a state has all objects, in order of keys and of revisions.
func checkObjects(t *testing.T, s *cacher.State) {
	t.Helper()
	var got []object.Key
	for o := range s.Objects(object.Scope{}, "") {
		got = append(got, o.Key)
	}
	if len(got) != scannedObjects || s.Len() != scannedObjects || !slices.IsSorted(got) {
		t.Errorf("got %d of %d objects, %v", len(got), scannedObjects, got)
	}
	var last object.Revision
	changes := 0
	for d := range s.Since(s.Replayable()-1, object.Scope{}, cacher.ChangeID{}) {
		if d.At < last {
			t.Errorf("revision %d after %d", d.At, last)
		}
		last = d.At
		changes++
	}
	if changes != 0 {
		t.Errorf("%d objects have changed since the fill", changes)
	}
}

// A fill reads only a few parts before those that it is decoding, and ends with its context.
func TestFillReadsAFewPartsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, proceed := newScanned(), make(chan struct{})
		var decoding, most atomic.Int64
		c := run(t, s.Memory, windowOf(1), func(cfg *cacher.Config) {
			cfg.Store = s
			cfg.Preencode = func(d object.Decoded) *object.Object {
				most.Store(max(most.Load(), decoding.Add(1)))
				defer decoding.Add(-1)
				<-proceed
				return wire.Preencode(d)
			}
		})
		synctest.Wait()
		limit := int64(min(4, runtime.GOMAXPROCS(0))) + 2 // those that wait, the next and the one that is handled
		if n := s.parts.Load(); n > limit {
			t.Errorf("%d parts were read, want at most %d", n, limit)
		}
		if n := most.Load(); n < 2 || n > limit {
			t.Errorf("%d parts are decoded at once, want 2 to %d", n, limit)
		}
		close(proceed)
		<-c.Ready()
		checkObjects(t, c.State())
	})
}

// A fill that is cancelled in the middle ends, and leaves no goroutine behind.
func TestFillIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, proceed := newScanned(), make(chan struct{})
		codec, _ := object.CodecByName("raw")
		c := cacher.New(cacher.Config{
			Resource: "test", Store: s, Codec: codec, Log: slog.New(slog.DiscardHandler), Window: cacher.WindowLimits{MaxChanges: 1},
			Preencode: func(d object.Decoded) *object.Object {
				<-proceed
				return wire.Preencode(d)
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { c.Run(ctx) })
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(proceed)
		running.Wait()
		if c.State() != nil {
			t.Error("a part of the objects was published")
		}
	})
}

// A scan that fails in the middle is repeated; no state has a part of the objects.
func TestFillFailsInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScanned()
		s.failed = errors.New("broken")
		c := run(t, s.Memory, windowOf(1), func(cfg *cacher.Config) { cfg.Store = s })
		<-c.Ready()
		checkObjects(t, c.State())
		if n := c.Counts(); n.Interruptions != 1 || n.Fills != 1 {
			t.Errorf("got %+v, want one interruption and one fill", n)
		}
	})
}

// A fill goes back as far as it needs to fill the window, so that the store does not have to send
// many more changes than those.
func TestFillGoesBackAsFarAsTheWindow(t *testing.T) {
	const window = 2000
	for name, test := range map[string]struct {
		revisions int
		changes   func(revision int) int // of a revision
		replayed  int                    // the most changes to replay
		window    int                    // changes in the window
	}{
		"all revisions":       {30_000, func(int) int { return 1 }, 2 * window, window},
		"one of two":          {30_000, func(i int) int { return 1 - i%2 }, 2 * window, window},
		"one of twenty":       {30_000, func(i int) int { return max(0, 1-i%20) }, window / 2, window / 2}, // ten times the window
		"no revision":         {30_000, func(int) int { return 0 }, 0, 0},
		"a hundred at a time": {3000, func(int) int { return 100 }, 2 * window, window},
		"large ones at last":  {30_000, func(i int) int { return 1 + 19*(i/29_984) }, 2 * window, window},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := cachertest.NewMemory()
				for i := range test.revisions {
					writes := map[object.Key][]byte{}
					for j := range test.changes(i) {
						writes[object.Key(fmt.Sprintf("k%03d", (i+j)%200))] = []byte("v")
					}
					m.Commit(writes)
				}
				c := run(t, m, windowOf(window), func(cfg *cacher.Config) { cfg.PageSize = 1000 })
				<-c.Ready()
				if n := int(c.Counts().Changes); n > test.replayed {
					t.Errorf("replayed %d changes, want at most %d", n, test.replayed)
				}
				if n := c.State().WindowLen(); n != test.window {
					t.Errorf("the window has %d changes, want %d", n, test.window)
				}
			})
		})
	}
}
