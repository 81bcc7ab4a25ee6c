package app

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/internal/cluster"
)

// observer looks at the other servers of a cluster while too few of them run or vote, and logs what it finds
// wrong. One goroutine at a time uses it.
type observer struct {
	look *cluster.Observer
	log  *slog.Logger
	said string
}

// The pauses between two looks. They double.
const (
	firstLook = time.Second
	lastLook  = time.Minute
)

// showWaiting calls set with the servers for which etcd waits until stop is called.
func (o *observer) showWaiting(ctx context.Context, set func(cluster.Waiting)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var looking sync.WaitGroup
	looking.Go(func() {
		ticker := time.NewTicker(firstLook)
		defer ticker.Stop()
		for {
			if view, ok := o.see(ctx); ok {
				set(view.Waiting)
			}
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	})
	return func() {
		cancel()
		looking.Wait()
	}
}

// awaitFormed looks until writes are accepted or ctx is done.
func (o *observer) awaitFormed(ctx context.Context, formed func() bool) {
	for pause := firstLook; !formed(); pause = min(2*pause, lastLook) {
		o.see(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// see looks once. It returns false if ctx is done. Two servers that found a cluster at the same moment both start:
// neither has a majority, and without this, neither says why.
func (o *observer) see(ctx context.Context) (cluster.View, bool) {
	view := o.look.Look(ctx)
	if ctx.Err() != nil {
		return cluster.View{}, false
	}
	if view.Foreign != "" && view.Foreign != o.said {
		o.log.Error("there is another cluster, so this one may never get a majority: stop the server whose data is not needed, and empty its data directory",
			"other", view.Foreign)
	}
	o.said = view.Foreign
	return view, true
}
