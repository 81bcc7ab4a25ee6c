package dispatch_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/object"
)

// A snapshot at an exact revision that starts over in another epoch is not made from a state
// before that revision: the watch would miss the events in between.
func TestExactSnapshotThatStartsOverInAnotherEpochIsComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{messageBytes: 10, catchUpStates: 1}) // one object in each message
		for i := range 20 {
			f.store.Put(object.Key(fmt.Sprint("k", i%3)), "old")
		}
		synctest.Wait()
		exact := f.store.Now()
		w := f.watch(t, object.Scope{}, catchup.FromExactly(exact))
		w.next(t, object.CatchUpBegin)
		w.next(t, object.CatchUpPart)

		f.store.Change(func() { f.store.Down = object.ErrUnavailable })
		synctest.Wait()
		f.store.Restart("e2")
		for i := range 5 {
			f.store.Put(object.Key(fmt.Sprint("k", i%3)), "new")
		}
		f.store.Change(func() { f.store.Down = nil })
		time.Sleep(time.Minute)
		// Another watch begins at a revision before the exact one, and takes the place of the
		// state that the first watch reads.
		other := f.watch(t, object.Scope{}, catchup.FromSnapshot(0))
		other.next(t, object.CatchUpBegin)
		for f.store.Now() < exact {
			f.store.Put("k0", fmt.Sprint("at ", f.store.Now()+1))
		}
		synctest.Wait()

		want := fmt.Sprint("at ", exact)
		m, err := w.receive(t)
		for ; err == nil && m.Kind != object.Synced; m, err = w.receive(t) {
			for _, e := range m.Events {
				if m.Position.Epoch == "e2" && e.Object.Key == "k0" && string(e.Object.Value) != want {
					t.Errorf("the snapshot at revision %d has %q, want %q", exact, e.Object.Value, want)
				}
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		if m.Position != (object.Position{Epoch: "e2", Revision: exact}) {
			t.Errorf("synced at %v", m.Position)
		}
	})
}
