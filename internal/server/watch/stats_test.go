package watch

import (
	"testing"

	"github.com/fanoutd/fanoutd/test/poll"
)

// After the epoch has changed, the window has no event of the epoch of a watch that receives
// nothing. The lag is a minimum that goes on growing.
func TestLagGrowsAfterANewEpoch(t *testing.T) {
	srv, memory, _ := watched(t, 1)
	before := srv.Stats()["r"]
	if before.Behind != 1 || before.BeyondWindow != 0 || before.Lag <= 0 {
		t.Fatalf("got %+v, want a watch that is behind", before)
	}
	memory.Restart("e2")
	poll.Until(t, "the watch is beyond the window", func() bool {
		now := srv.Stats()["r"]
		if now.Behind != 1 || now.Lag <= before.Lag {
			t.Fatalf("got a lag of %v, and %v before that", now.Lag, before.Lag)
		}
		before = now
		return now.BeyondWindow == 1
	})
	if now := srv.Stats()["r"]; now.BeyondWindow != 1 || now.Lag <= before.Lag {
		t.Errorf("got a lag of %v, and %v before that", now.Lag, before.Lag)
	}
}
