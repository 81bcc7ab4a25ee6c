package dispatch

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
	"github.com/fanoutd/fanoutd/internal/wire"
	"github.com/fanoutd/fanoutd/test/cachertest"
)

// What watchers who catch up share is bounded, and given back when the last of them
// leaves or when it is out of date. From outside it cannot be seen.
func TestBoundedWhatIsShared(t *testing.T) {
	for _, limit := range []int{2000, 1 << 20} {
		t.Run(fmt.Sprint("limit ", limit), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				codec, err := object.CodecByName("raw")
				if err != nil {
					t.Fatal(err)
				}
				m := cachertest.NewMemory()
				c := cacher.New(cacher.Config{
					Resource: "test", Store: m, Codec: codec, Preencode: wire.Preencode, Log: slog.New(slog.DiscardHandler),
					Window: cacher.WindowLimits{MaxChanges: 20},
				})
				d := New(Config{Source: c, Encoder: wire.Encoder{}, MessageBytes: 300, CatchUpBytes: limit})
				workers := sendqueue.Start(1)
				defer workers.Stop()
				go c.Run(t.Context())
				go d.Run(t.Context())
				for i := range 50 {
					m.Put(object.Key(fmt.Sprint(i)), "value")
				}
				synctest.Wait()
				var watchers []*Watcher
				catchUp := func() {
					now := c.State().Position()
					for _, begin := range []Begin{
						FromSnapshot(0),
						After(object.Position{Epoch: now.Epoch, Revision: 1}),
						After(object.Position{Epoch: now.Epoch, Revision: now.Revision - 10}),
					} {
						w := d.Pull(workers.NewQueue(), Interest{}, begin, Options{})
						watchers = append(watchers, w)
						for {
							message, err := w.Next(t.Context())
							if err != nil {
								t.Fatal(err)
							}
							if n := d.catchUps.bytes.Load(); n > int64(limit) {
								t.Fatalf("%d bytes are shared, the limit is %d", n, limit)
							}
							if message.Header.Kind == object.Synced {
								break
							}
						}
					}
					if d.catchUps.bytes.Load() == 0 {
						t.Fatal("nothing is shared")
					}
					wantAccounted(t, d)
				}
				catchUp()
				catchUp() // who takes what is there has it put together
				time.Sleep(2 * catchUpCacheAge)
				m.Put("next", "value")
				synctest.Wait()
				if n := d.catchUps.bytes.Load(); n != 0 || len(d.caching) > 0 {
					t.Errorf("%d bytes of %d feeds are still shared when they are out of date", n, len(d.caching))
				}
				catchUp()
				for _, w := range watchers {
					w.Close()
				}
				if n := d.catchUps.bytes.Load(); n != 0 || len(d.caching) > 0 {
					t.Errorf("%d bytes of %d feeds are still shared when nobody is left", n, len(d.caching))
				}
			})
		})
	}
}

// wantAccounted checks that what is shared holds what it is said to.
func wantAccounted(t *testing.T, d *Dispatcher) {
	t.Helper()
	var all int64
	for _, f := range d.feeds {
		var held int64
		for _, p := range f.catchUps.parts {
			held += p.size()
		}
		if f.catchUps.bytes != held {
			t.Errorf("a memo holds %d bytes, and is said to hold %d", held, f.catchUps.bytes)
		}
		all += held
	}
	if n := d.catchUps.bytes.Load(); n != all {
		t.Errorf("all memos hold %d bytes, and are said to hold %d", all, n)
	}
}

// A part that fits only if its pieces are put together is shared.
func TestSmallObjectsAreShared(t *testing.T) {
	const objects = 100
	m, b := &catchUpCache{}, &catchUpBudget{}
	whole := part{end: batchCut{bytes: objects}, last: true}
	for range objects {
		whole.pieces = append(whole.pieces, []byte{1})
	}
	for limit, want := range map[int64]int{2 * whole.joinedSize(): 1, 2*whole.joinedSize() - 1: 3} {
		b.limit = limit
		m.beginLocked(nil)
		made := 0
		for range 3 {
			p := m.part(nil, partKey{}, b, func() part {
				made++
				return whole
			})
			if n := len(p.pieces); want == 1 && n != 1 || want > 1 && n != objects {
				t.Errorf("limit %d: the part is of %d pieces", limit, n)
			}
		}
		if made != want {
			t.Errorf("limit %d: the part is made %d times, want %d", limit, made, want)
		}
		m.drop(b)
	}
}
