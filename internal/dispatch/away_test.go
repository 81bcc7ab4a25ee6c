package dispatch_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
	"github.com/fanoutd/fanoutd/internal/wire"
	"github.com/fanoutd/fanoutd/test/cachertest"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/race"
	"github.com/fanoutd/fanoutd/test/seed"
)

// A client that was away during a day's worth of writes gets each changed object once. It gets
// neither every change nor every object.
func TestAwayForADay(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	objects, writes := 100_000, 1_000_000
	if race.Enabled {
		objects, writes = objects/5, writes/5 // still twenty times the window
	}
	a := startAway(t, objects)
	a.advance(t, objects) // creates each of them

	t.Run("a million changes", func(t *testing.T) {
		here := a.leave()
		// Some keys are written all the time, others hardly ever.
		a.next = func(rng *rand.Rand) int { u := rng.Float64(); return int(float64(objects) * u * u * u) }
		a.advance(t, writes)
		changed, deleted := a.comeBack(t, here)
		if unchanged := objects - changed - deleted; unchanged < objects/1000 || changed < objects/2 || deleted < objects/100 {
			t.Errorf("the test is too easy: %d objects changed and %d were deleted", changed, deleted)
		}
	})
	t.Run("a thousand objects", func(t *testing.T) {
		here := a.leave()
		a.next = func(rng *rand.Rand) int { return 19 * rng.IntN(1000) }
		a.advance(t, 20_000)
		if changed, deleted := a.comeBack(t, here); changed+deleted > 1000 || changed < 100 || deleted < 10 {
			t.Errorf("got %d changed and %d deleted objects of a thousand that were written", changed, deleted)
		}
	})
	t.Run("nothing", func(t *testing.T) {
		here := a.leave()
		if changed, deleted := a.comeBack(t, here); changed+deleted > 0 {
			t.Errorf("got %d changed and %d deleted objects, but nothing was written", changed, deleted)
		}
	})
}

// away is a server of a store with many objects and very many changes.
type away struct {
	store      *cachertest.Generator
	cacher     *cacher.Cacher
	dispatcher *dispatch.Dispatcher
	workers    *sendqueue.Workers
	now        object.Revision

	// The fields below belong to the store while it advances.

	rng  *rand.Rand
	next func(*rand.Rand) int // returns the object to change; nil: one object after another
	keys []generated
}

// generated is the state of a key in the store.
type generated struct {
	object.Record                 // the last put
	changed       object.Revision // the last put or deletion
}

func startAway(t *testing.T, objects int) *away {
	t.Helper()
	a := &away{rng: seed.New(t).Rand(0), keys: make([]generated, objects), now: 1}
	for i := range a.keys {
		a.keys[i].Key = object.Key(fmt.Sprintf("%03d/%05d", i%1000, i))
		a.keys[i].Deleted = true
	}
	a.store = cachertest.NewGenerator(a.generate)
	codec, err := object.CodecByName("raw")
	if err != nil {
		t.Fatal(err)
	}
	a.cacher = cacher.New(cacher.Config{Resource: "test", Store: a.store, Codec: codec, Preencode: wire.Preencode, Log: slog.New(slog.DiscardHandler)})
	a.dispatcher = dispatch.New(feed.Config{Source: a.cacher, Encoder: wire.Encoder{}})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { a.cacher.Run(ctx) })
	running.Go(func() { a.dispatcher.Run(ctx) })
	a.workers = sendqueue.Start(1)
	t.Cleanup(func() { cancel(); running.Wait(); a.workers.Stop() })
	<-a.cacher.Ready()
	return a
}

// generate returns the write of a revision: a put or, now and then, a deletion.
func (a *away) generate(at object.Revision) []object.Record {
	i := int(at-2) % len(a.keys)
	if a.next != nil {
		i = a.next(a.rng)
	}
	k := &a.keys[i]
	k.changed = at
	if !k.Deleted && a.next != nil && a.rng.IntN(10) == 0 {
		k.Deleted = true
		return []object.Record{{Key: k.Key, ModRevision: at, Deleted: true}}
	}
	if k.Deleted {
		k.Record = object.Record{Key: k.Key, CreateRevision: at}
	}
	k.ModRevision = at
	k.Version++
	k.Value = fmt.Appendf(nil, "value %d", at)
	return []object.Record{k.Record}
}

// advance writes a number of revisions, and waits until the cacher has applied them.
func (a *away) advance(t *testing.T, revisions int) {
	t.Helper()
	a.now += object.Revision(revisions)
	a.store.Advance(a.now)
	for s := a.cacher.State(); s.Revision() < a.now; s = a.cacher.State() {
		select {
		case <-s.Superseded():
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}

// absent is a client that has left.
type absent struct {
	position object.Position
	objects  map[object.Key]string // its copy of the state, as [written] describes objects
}

// leave returns a client that has received everything so far.
func (a *away) leave() absent {
	s := a.cacher.State()
	return absent{s.Position(), listed(s)}
}

// listed returns the objects of a List.
func listed(s *cacher.State) map[object.Key]string {
	all := make(map[object.Key]string, s.Len())
	for o := range s.Objects(object.Scope{}, "") {
		all[o.Key] = written(wire.Decode(o))
	}
	return all
}

// written describes an object by its revisions, version and value.
func written(o object.Decoded) string {
	return fmt.Sprint(o.CreateRevision, " ", o.ModRevision, " ", o.Version, " ", string(o.Value))
}

// comeBack resumes the watch of a client, checks its catch-up, and returns the numbers of
// changed and deleted objects.
func (a *away) comeBack(t *testing.T, client absent) (changed, deleted int) {
	t.Helper()
	s := a.cacher.State()
	due := map[object.Key]object.Revision{} // the last change of each changed key
	size := 0                               // of the events that are due
	for _, k := range a.keys {
		switch {
		case k.changed <= client.position.Revision:
			continue
		case k.Deleted:
			gone := object.Event{Type: object.Deleted, Revision: k.changed, Key: k.Key}
			size += len(wire.Encoder{}.AppendEvent(nil, gone, object.Projection{}))
			deleted++
		default:
			size += len(s.Get(k.Key).Encoded())
			changed++
		}
		due[k.Key] = k.changed
	}

	w := a.dispatcher.Pull(a.workers.NewQueue(), feed.Interest{}, catchup.FromPosition(client.position), dispatch.Options{})
	defer w.Close()
	next := func() check.Message {
		raw, err := w.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, piece := range raw.Events {
			size -= len(piece)
		}
		return decode(t, raw)
	}
	want := object.Delta
	if client.position.Revision >= s.Replayable() {
		want = object.Replay // the client was not away for long
	}
	if m := next(); m.CatchUp != want {
		t.Fatalf("got catch-up %+v, want kind %d", m, want)
	}
	for m := next(); m.Kind != object.Synced; m = next() {
		for _, e := range m.Events {
			key := e.Object.Key
			if due[key] != e.Revision {
				t.Fatalf("got %q at revision %d, want %d", key, e.Revision, due[key])
			}
			delete(due, key)
			if e.Type == object.Deleted {
				delete(client.objects, key)
			} else {
				client.objects[key] = written(e.Object)
			}
		}
	}
	if len(due) > 0 {
		t.Errorf("got no event for %d changed keys", len(due))
	}
	if size != 0 {
		t.Errorf("the events have %d bytes more than those that are due", -size)
	}
	if w.Position() != s.Position() {
		t.Errorf("caught up to %v, want %v", w.Position(), s.Position())
	}
	wrong := 0
	now := listed(s)
	for key, value := range now {
		if client.objects[key] != value {
			if wrong++; wrong < 5 {
				t.Errorf("key %q: got %s, want %s", key, client.objects[key], value)
			}
		}
	}
	if len(client.objects) != len(now) || wrong > 0 {
		t.Errorf("got %d objects, %d of them wrong; a List has %d", len(client.objects), wrong, len(now))
	}
	return changed, deleted
}
