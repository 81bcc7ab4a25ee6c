package client

import (
	"runtime"
	"testing"
	"weak"
)

// An update may have as many events as the whole resource. It must not stay in memory because of
// the position that is reported.
func TestReportsDoNotKeepUpdates(t *testing.T) {
	t.Parallel()
	w := (&Resource{client: &Client{}}).newWatcher(nil)
	applied := w.reportApplied()
	u := &Update{Phase: PhaseLive, Position: Position{Epoch: "e", Revision: 7}}
	kept := weak.Make(u)
	applied(u)
	runtime.GC()
	if kept.Value() != nil {
		t.Error("the update is still in memory")
	}
	if got := w.reporter.progress().applied.Revision; got != 7 {
		t.Errorf("got revision %d, want 7", got)
	}
}
