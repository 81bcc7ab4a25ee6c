package follow

import (
	"context"
	"sync"

	"github.com/fanoutd/fanoutd/client"
)

// update is an element of a [Stream].
type update struct {
	*client.Update
	err error
}

// reader reads a watch in a goroutine of its own, one update ahead of its owner, who can wait for other things meanwhile.
// So the server does not send much faster than the updates are handled.
type reader struct {
	received chan update // closed when the watch has ended
	cancel   context.CancelFunc
	running  sync.WaitGroup
}

// read starts a watch. The caller must call stop.
func read(ctx context.Context, updates Updates) *reader {
	ctx, cancel := context.WithCancel(ctx)
	r := &reader{received: make(chan update), cancel: cancel}
	r.running.Go(func() {
		defer close(r.received)
		for u, err := range updates(ctx) {
			select {
			case <-ctx.Done():
				return
			case r.received <- update{u, err}:
			}
		}
	})
	return r
}

// stop ends the watch, and waits for the goroutine.
func (r *reader) stop() {
	r.cancel()
	r.running.Wait()
}
