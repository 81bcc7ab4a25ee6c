package server

import (
	"context"
	"time"
)

// reclaim gives memory back to the system when very many watches have begun or ended and
// then none does for a while. The collector runs when memory is asked for: without it,
// what setting them up has left, or they themselves, would stay for minutes.
type reclaim struct {
	turns  func() int64 // watches that have begun, and those that have ended
	active func() int   // watches
	free   func()       // takes a moment of a processor for each watch
}

const (
	// reclaimAfter is for how long no watch has begun or ended, or up to twice that.
	reclaimAfter = 5 * time.Second

	// reclaimTurns is how many have begun or ended at least: some tens of megabytes. It
	// is also a quarter of those that there are, because to collect costs that much.
	reclaimTurns = 5000
)

// run does so until ctx is done.
func (r *reclaim) run(ctx context.Context) {
	ticker := time.NewTicker(reclaimAfter)
	defer ticker.Stop()
	var before, freed int64
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		now := r.turns()
		if now == before && now-freed >= int64(max(reclaimTurns, r.active()/4)) {
			r.free()
			freed = now
		}
		before = now
	}
}
