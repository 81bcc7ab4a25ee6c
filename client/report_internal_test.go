package client

import (
	"io"
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

// An object that still fails in a new epoch was not applied there either.
func TestFailureLastsIntoANewEpoch(t *testing.T) {
	t.Parallel()
	var f Failures
	f.Defer()
	old, now := Position{Epoch: "old", Revision: 6}, Position{Epoch: "new", Revision: 9}
	event := Event{Type: Modified, Revision: 7, Object: &Object{Key: "a"}}
	f.Applied(old)
	f.Add(io.EOF, Position{}, event)
	f.Applied(now)
	want := Position{Epoch: "new", Revision: 6}
	for range 2 {
		if p := f.progress(); p.applied != want || p.attempted != now || p.err == nil {
			t.Errorf("got %+v, want that %v is applied", p, want)
		}
		f.Add(io.EOF, Position{}, event) // the second attempt
	}
}
