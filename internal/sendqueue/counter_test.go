package sendqueue

import (
	"math"
	"testing"
)

// On a 32-bit platform the counter of queues exceeds the range of int. Run this with
// GOARCH=386, too.
func TestQueueCounterMayOverflow(t *testing.T) {
	workers := Start(3)
	defer workers.Stop()
	for _, created := range []uint32{math.MaxInt32 - 1, math.MaxUint32 - 2} {
		workers.created.Store(created)
		for range 6 {
			if n := workers.NewQueue().Worker(); n < 0 || n >= workers.Len() {
				t.Errorf("got worker %d after %d queues", n, created)
			}
		}
	}
}
