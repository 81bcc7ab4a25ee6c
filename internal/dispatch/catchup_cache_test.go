package dispatch

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
	"github.com/fanoutd/fanoutd/test/cachertest"
)

// The memory of shared catch-ups is bounded. It is freed when the last watcher leaves or the
// catch-ups are out of date.
func TestBoundedCatchUpCache(t *testing.T) {
	for _, limit := range []int{2000, 1 << 20} {
		t.Run(fmt.Sprint("limit ", limit), func(t *testing.T) {
			cfg, window := Config{MessageBytes: 300, CatchUpBytes: limit}, cacher.WindowLimits{MaxChanges: 20}
			bubbleWithWindow(t, cfg, window, func(t *testing.T, d *Dispatcher, m *cachertest.Memory, q *sendqueue.Queue) {
				for i := range 50 {
					m.Put(object.Key(fmt.Sprint(i)), "value")
				}
				synctest.Wait()
				var watchers []*Pulled
				catchUp := func() {
					now := d.cfg.Source.State().Position()
					for _, begin := range []Begin{
						FromSnapshot(0),
						FromPosition(object.Position{Epoch: now.Epoch, Revision: 1}),
						FromPosition(object.Position{Epoch: now.Epoch, Revision: now.Revision - 10}),
					} {
						w := d.Pull(q, Interest{}, begin, Options{})
						watchers = append(watchers, w)
						for {
							message, err := w.Next(t.Context())
							if err != nil {
								t.Fatal(err)
							}
							if n := d.catchUps.bytes.Load(); n > int64(limit) {
								t.Fatalf("got %d cached bytes, want at most %d", n, limit)
							}
							if message.Header.Kind == object.Synced {
								break
							}
						}
					}
					if d.catchUps.bytes.Load() == 0 {
						t.Fatal("nothing is cached")
					}
					wantAccounted(t, d)
				}
				catchUp()
				catchUp() // the second use of a part coalesces its pieces
				time.Sleep(2 * catchUpCacheAge)
				m.Put("next", "value")
				synctest.Wait()
				if n := d.catchUps.bytes.Load(); n != 0 || len(d.caching) > 0 {
					t.Errorf("got %d cached bytes of %d feeds after they are out of date, want none", n, len(d.caching))
				}
				catchUp()
				for _, w := range watchers {
					w.Close()
				}
				if n := d.catchUps.bytes.Load(); n != 0 || len(d.caching) > 0 {
					t.Errorf("got %d cached bytes of %d feeds after all watchers have left, want none", n, len(d.caching))
				}
			})
		})
	}
}

// wantAccounted checks that the counted bytes are those of the cached parts.
func wantAccounted(t *testing.T, d *Dispatcher) {
	t.Helper()
	var all int64
	for f := range d.index.all() {
		var held int64
		for _, p := range f.catchUps.parts {
			held += p.size()
		}
		if f.catchUps.bytes != held {
			t.Errorf("got %d counted bytes of a cache, want %d", f.catchUps.bytes, held)
		}
		all += held
	}
	if n := d.catchUps.bytes.Load(); n != all {
		t.Errorf("got %d counted bytes of all caches, want %d", n, all)
	}
}

// A part that fits the limit only with coalesced pieces is cached.
func TestSmallObjectsAreShared(t *testing.T) {
	const objects = 100
	m, b := &catchUpCache{}, &catchUpBudget{}
	whole := part{end: batchCut{bytes: objects}, isLast: true}
	for range objects {
		whole.pieces = append(whole.pieces, []byte{1})
	}
	for limit, want := range map[int64]int{2 * whole.coalescedSize(): 1, 2*whole.coalescedSize() - 1: 3} {
		b.limit = limit
		m.startLocked(nil)
		calls := 0
		for range 3 {
			p := m.part(nil, partKey{}, b, func() part {
				calls++
				return whole
			})
			if n := len(p.pieces); want == 1 && n != 1 || want > 1 && n != objects {
				t.Errorf("limit %d: got a part of %d pieces", limit, n)
			}
		}
		if calls != want {
			t.Errorf("limit %d: the part was made %d times, want %d", limit, calls, want)
		}
		m.empty(b)
	}
}
