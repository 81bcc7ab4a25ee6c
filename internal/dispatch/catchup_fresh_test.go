package dispatch_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
)

// catchUpKinds are starts whose catch-up is made from a state.
var catchUpKinds = map[string]struct {
	begin catchup.Begin
	kind  object.CatchUpKind
}{
	"snapshot":             {catchup.FromSnapshot(0), object.Reset},
	"from another epoch":   {catchup.FromPosition(object.Position{Epoch: "old", Revision: 1}), object.Reset},
	"from a lost revision": {catchup.FromPosition(object.Position{Epoch: "e1", Revision: 1}), object.Delta},
}

// A watch never begins with a state that is older than what the server has sent to another watch, though
// watches that begin at the same time share a state.
func TestCatchUpIsAsNewAsWhatOthersHaveReceived(t *testing.T) {
	for name, c := range catchUpKinds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := start(t, limits{window: 5})
				for i := range 10 {
					f.store.Put("k", fmt.Sprint(i))
				}
				synctest.Wait()
				watch := func(options dispatch.Options) *watcher {
					return f.watchWith(t, feed.Interest{Scope: object.ExactKey("k")}, c.begin, options)
				}
				first := watch(dispatch.Options{})
				first.sync(t, c.kind)
				s := f.stream(t, dispatch.StreamConfig{})
				for i := range 20 {
					want := fmt.Sprint("new ", i)
					f.store.Put("k", want)
					received := first.next(t, object.Live).Position
					second := watch(dispatch.Options{Latest: i%2 > 0})
					if events := second.sync(t, c.kind); len(events) != 1 || string(events[0].Object.Value) != want {
						t.Errorf("got %q after another watch has received %q", show(events), want)
					}
					messages := second.stream.Messages
					if at := messages[len(messages)-1].Position; at.Revision < received.Revision {
						t.Errorf("synced at %d after another watch has received %d", at.Revision, received.Revision)
					}
					s.begin(f.dispatcher, uint64(i), feed.Interest{Scope: object.ExactKey("k")}, c.begin, dispatch.Options{Latest: i%2 > 0})
					for _, r := range s.take() {
						for _, e := range r.entries {
							for _, event := range e.message.Events {
								if string(event.Object.Value) != want {
									t.Errorf("a watch of a stream got %q after another watch has received %q", show(e.message.Events), want)
								}
							}
						}
					}
				}
			})
		})
	}
}

// While nothing of their interest changes, watches that begin at the same time share a state and its
// parts. The snapshot still has the position that the server has reached.
func TestCatchUpsShareAStateWhileOtherKeysChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{messageBytes: 300})
		for i := range 20 {
			f.store.Put(object.Key(fmt.Sprint("k/", i)), "v")
		}
		synctest.Wait()
		interest := feed.Interest{Scope: prefix(t, "k")}
		interest.Projection.OmitValues = true
		for i := range 20 {
			if events := f.watchInterest(t, interest, catchup.FromSnapshot(0)).sync(t, object.Reset); len(events) != 20 {
				t.Fatalf("got %d objects, want 20", len(events))
			}
			if n := f.encoder.objects.Load(); n > 25 { // some begin a part that has no room for them
				t.Fatalf("got %d encodings of 20 objects for %d watches", n, i+1)
			}
			f.store.Put(object.Key(fmt.Sprint("other/", i)), "v")
			synctest.Wait()
		}
		w := f.watchInterest(t, interest, catchup.FromSnapshot(0))
		w.sync(t, object.Reset)
		messages := w.stream.Messages
		if at := messages[len(messages)-1].Position.Revision; at != f.store.Now() {
			t.Errorf("synced at %d, want the present revision %d", at, f.store.Now())
		}
		f.store.Put("k/0", "w")
		if got := show(w.next(t, object.Live).Events); got != "~k/0=" {
			t.Errorf("got %q after the snapshot", got)
		}
	})
}

// Watches that have begun and wait for their turn share a state, although the interest changes meanwhile:
// what they may not miss is older than their beginning.
func TestCatchUpsThatWaitedShareAState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{})
		for i := range 20 {
			f.store.Put(object.Key(fmt.Sprint("k/", i)), "v")
		}
		synctest.Wait()
		interest := feed.Interest{Scope: prefix(t, "k")}
		interest.Projection.OmitValues = true
		waiting := make([]*slotSink, 10)
		for i := range waiting {
			waiting[i] = f.slotSink(interest, catchup.FromSnapshot(0))
		}
		for i, s := range waiting {
			if err := s.Serve(); err != nil {
				t.Error(err)
			}
			f.store.Put("k/0", fmt.Sprint(i))
			synctest.Wait()
		}
		if n, most := int(f.encoder.objects.Load()), 20+len(waiting); n > most {
			t.Errorf("got %d encodings of 20 objects and %d changes for %d watches, want at most %d", n, len(waiting), len(waiting), most)
		}
	})
}

// heldObserver holds the rounds of the dispatcher.
type heldObserver struct {
	holds   atomic.Bool
	release chan struct{}
}

func (o *heldObserver) Wants() bool {
	if o.holds.Load() {
		<-o.release
	}
	return false
}

func (*heldObserver) Dispatched(feed.Dispatched) {}

// A watch that begins after another one has read a change from the window gets this change, also before
// it is dispatched.
func TestCatchUpIsAsNewAsTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &heldObserver{release: make(chan struct{})}
		f := start(t, limits{observer: o})
		defer close(o.release)
		f.store.Put("k", "1")
		synctest.Wait()
		at := f.cacher.State().Position()
		if got := show(f.watch(t, object.Scope{}, catchup.FromSnapshot(0)).sync(t, object.Reset)); got != "+k=1" {
			t.Fatalf("got %q, want the only object", got)
		}
		o.holds.Store(true) // nothing is dispatched any more
		f.store.Put("k", "2")
		synctest.Wait()
		if got := show(f.watch(t, object.Scope{}, catchup.FromPosition(at)).sync(t, object.Replay)); got != "~k=2" {
			t.Fatalf("got %q, want the change", got)
		}
		if got := show(f.watch(t, object.Scope{}, catchup.FromSnapshot(0)).sync(t, object.Reset)); got != "+k=2" {
			t.Errorf("got %q after another watch has received the change", got)
		}
	})
}
