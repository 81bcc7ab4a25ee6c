package registry

import (
	"context"
	"time"
)

// reclaim returns memory to the system after very many watches have begun or ended. The
// garbage collector runs only while the program allocates, so without reclaim the memory of
// ended watches would stay for minutes.
type reclaim struct {
	begunAndEnded func() int64 // number of watches that have begun plus number of those that have ended
	active        func() int   // number of present watches
	free          func()       // returns memory to the system; the cost grows with the number of watches
}

const (
	// reclaimAfter is the interval of the checks. A check returns memory only if no watch has
	// begun or ended since the previous check. So memory is returned 5 to 10 s after the last
	// watch has begun or ended.
	reclaimAfter = 5 * time.Second

	// reclaimMin is the number of watches that must have begun or ended since memory was last
	// returned. That many watches hold some tens of megabytes. With more than 20,000 present
	// watches, the number is a quarter of them, because returning memory has a cost for each
	// present watch.
	reclaimMin = 5000
)

// run checks at intervals, until ctx is done, whether to return memory.
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
		now := r.begunAndEnded()
		if now == before && now-freed >= int64(max(reclaimMin, r.active()/4)) {
			r.free()
			freed = now
		}
		before = now
	}
}
