package watch

import (
	"context"
	"time"
)

// reclaim returns memory to the system after very many watches have begun or ended. The
// collector runs when the program allocates, so without this the memory of ended watches
// would stay for minutes.
type reclaim struct {
	turns  func() int64 // number of watches that have begun or ended
	active func() int   // number of watches
	free   func()       // returns the memory; it costs a little for each watch
}

const (
	// reclaimAfter is how long no watch must have begun or ended; it may be twice as long.
	reclaimAfter = 5 * time.Second

	// reclaimTurns is how many watches must have begun or ended: some tens of megabytes. At
	// least a quarter of the present watches must have, too, because collecting costs
	// something for each of them.
	reclaimTurns = 5000
)

// run reclaims until ctx is done.
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
