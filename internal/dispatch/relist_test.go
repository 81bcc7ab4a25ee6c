package dispatch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
)

// The differences after a relist come in order of their revisions. That includes objects that
// leave the view, and merged events.
func TestOrderedDifferencesOfARelist(t *testing.T) {
	tests := map[string]struct {
		options dispatch.Options
		want    string
	}{
		"every":  {dispatch.Options{}, "~stays=2 -leaves +comes=3 ~stays=3 -vanishes"},
		"latest": {dispatch.Options{Latest: true}, "-leaves +comes=3 ~stays=3 -vanishes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := start(t, limits{codec: "object"})
				write := func(key object.Key, value, env string) {
					f.store.Commit(map[object.Key][]byte{key: labelled(t, value, env)})
				}
				for _, key := range []object.Key{"leaves", "stays", "vanishes"} {
					write(key, "1", "prod")
				}
				synctest.Wait()
				w := &watcher{Watcher: f.dispatcher.Pull(f.workers.NewQueue(), picking(t, "env=prod"), dispatch.FromSnapshot(0), test.options)}
				t.Cleanup(w.Close)
				w.sync(t, object.Reset)

				write("stays", "2", "prod") // is still waiting
				synctest.Wait()
				f.store.Change(func() { f.store.Quiet = true })
				f.store.Commit(map[object.Key][]byte{"vanishes": nil})
				write("leaves", "3", "test")
				write("comes", "3", "prod")
				write("stays", "3", "prod")
				now := f.store.Now()
				f.store.Change(func() { f.store.Compacted, f.store.Quiet = now, false })

				time.Sleep(time.Second) // until the relist
				m := w.next(t, object.Live)
				if got := show(m.Events); got != test.want {
					t.Errorf("got %q, want %q", got, test.want)
				}
				last := object.Revision(0)
				for _, e := range m.Events {
					if e.Revision < last {
						t.Errorf("%v comes after revision %d", &e, last)
					}
					last = e.Revision
				}
			})
		})
	}
}
