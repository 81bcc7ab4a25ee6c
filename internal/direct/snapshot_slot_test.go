package direct_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/fanoutd/fanoutd/internal/direct"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
)

// A watcher needs a snapshot slot for the parts of a snapshot, and not for SYNCED or a replay.
func TestOnlySnapshotsNeedASlot(t *testing.T) {
	f := start(t, direct.Config{PageSize: 2})
	first := f.position(t)
	for i := range 4 {
		f.commit(t, f.put(fmt.Sprintf("a/%d", i), "v", nil))
	}
	recent := f.position(t)
	f.commit(t, f.put("b", "v", nil))
	f.compact(t, first.Revision+1)
	for name, test := range map[string]struct {
		scope object.Scope
		begin catchup.Begin
		want  []string
	}{
		"snapshot":         {below(t, "a"), catchup.FromSnapshot(0), []string{"slot", "begin", "slot", "part", "slot", "part", "synced"}},
		"empty snapshot":   {below(t, "c"), catchup.FromSnapshot(0), []string{"slot", "begin", "synced"}},
		"expired position": {below(t, "a"), catchup.FromPosition(first), []string{"begin", "slot", "part", "slot", "part", "synced"}},
		"replay":           {object.Scope{}, catchup.FromPosition(recent), []string{"begin", "part", "synced"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := f.watch(t, feed.Interest{Scope: test.scope}, test.begin, dispatch.Options{})
			var got []string
			for !slices.Contains(got, "synced") {
				if w.ReadsSnapshot() {
					got = append(got, "slot")
				}
				m, err := w.receive(contextFor(t))
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, map[object.MessageKind]string{object.CatchUpBegin: "begin", object.CatchUpPart: "part", object.Synced: "synced"}[m.Kind])
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
