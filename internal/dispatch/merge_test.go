package dispatch_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
)

// With LATEST, an object that has left the view is DELETED at the revision at which it left,
// whatever happened to it out of view before the watcher was served.
func TestLatestDeletesAtTheRevisionAtWhichTheObjectLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{codec: "object"})
		write := func(key object.Key, value, env string) object.Revision {
			return f.store.Commit(map[object.Key][]byte{key: labelled(t, value, env)})
		}
		write("k", "1", "prod")
		write("l", "1", "prod")
		synctest.Wait()
		w := f.watchWith(t, picking(t, "env=prod"), catchup.FromSnapshot(0), dispatch.Options{Latest: true})
		w.sync(t, object.Reset)
		from := w.Position()
		write("k", "2", "prod")
		kLeft := write("k", "3", "test")
		lLeft := write("l", "2", "test")
		between := write("m", "1", "prod")
		write("k", "4", "test")
		f.remove("l")
		synctest.Wait()

		resumed := f.watchWith(t, picking(t, "env=prod"), catchup.FromPosition(from), dispatch.Options{Latest: true})
		live, replayed := w.next(t, object.Live).Events, resumed.sync(t, object.Replay)
		for name, events := range map[string][]object.Revision{"live": revisions(live), "replay": revisions(replayed)} {
			if want := []object.Revision{kLeft, lLeft, between}; !slices.Equal(events, want) {
				t.Errorf("%s: got events at revisions %v, want %v", name, events, want)
			}
		}
		if got, want := show(live), "-k -l +m=1"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func revisions(events []check.Event) []object.Revision {
	var all []object.Revision
	for _, e := range events {
		all = append(all, e.Revision)
	}
	return all
}
