package failures

import (
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/etcdproc"
)

// TestEtcdRestoredFromABackup restores etcd: the epoch changes, and streams receive a RESET.
// So does a subscriber that resumes later at an older position, even if fanoutd was down
// during the restore.
func TestEtcdRestoredFromABackup(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	for name, during := range map[string]struct {
		before, after func(t *testing.T, f *instance)
	}{
		"while fanoutd runs": {func(*testing.T, *instance) {}, func(*testing.T, *instance) {}},
		"while fanoutd is away": {
			func(t *testing.T, f *instance) { f.end(t, os.Kill) },
			func(t *testing.T, f *instance) { f.start(t) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := etcdproc.StartMember(t, "http")
			client := dialEtcd(t, m.Address)
			f := startFanoutd(t, over(m.Address)...)
			client.put(t, "kept", "as it was")
			client.put(t, "changed", "as it was")
			backup := m.Snapshot(t)
			client.put(t, "changed", "lost")
			client.put(t, "lost", "lost")
			s, away := newSubscribers("subscriber"), newSubscribers("absent subscriber")
			all := append(slices.Clone(s), away...)
			all.subscribe(t, f.reads)
			all.until(t, object.Synced)
			away.leave()
			epoch := s[0].now().Messages[0].Position.Epoch

			during.before(t, f)
			m.Kill(t)
			m.Restore(t, backup)
			m.Start(t)
			// Write more than was lost, so that every lost revision exists again.
			client.putMany(t, "new", 10)
			during.after(t, f)

			away.subscribe(t, f.reads)
			for _, s := range all {
				// Before fanoutd notices the restore, it still serves the old state.
				for m := (check.Message{}); m.Kind != object.Synced || m.Position.Epoch == epoch; {
					var err error
					if m, err = s.receive(t); err != nil {
						s.subscribe(t, f.reads) // fanoutd was down
					}
				}
				if all := s.catchUps(); all[len(all)-1] != object.Reset {
					t.Errorf("%s: got catch-ups %v", s.history.Watcher, all)
				}
				state := s.state()
				maps.DeleteFunc(state, func(key, _ string) bool { return key[:4] == "new/" })
				if want := map[string]string{"kept": "as it was", "changed": "as it was"}; !maps.Equal(state, want) {
					t.Errorf("%s: got state %v, want %v", s.history.Watcher, state, want)
				}
			}
			s.reach(t, client.put(t, "more", "new"))
		})
	}
}
