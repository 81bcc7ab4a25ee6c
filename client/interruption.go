package client

import "context"

// interruptionLoop calls one function of [OnInterruption] of an informer. Its goroutine belongs to [Informer.Run],
// which waits for it. So a function that does not return delays nothing else.
type interruptionLoop struct {
	call    func(error)
	waiting chan error // while a call runs; what it has no room for is forgotten
}

// startInterruptionLoop starts a loop, which runs until ctx ends.
func (i *Informer[T]) startInterruptionLoop(ctx context.Context, call func(error)) *interruptionLoop {
	l := &interruptionLoop{call: call, waiting: make(chan error, 16)}
	i.handling.Go(func() {
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case why := <-l.waiting:
				if _, err := callInGoroutine(func() (struct{}, error) { l.call(why); return struct{}{}, nil }); err != nil {
					i.resource.client.log.Warn("callback failed", "resource", i.resource.name, "error", err)
				}
			}
		}
	})
	return l
}

// tell makes the loop call its function soon.
func (l *interruptionLoop) tell(why error) {
	select {
	case l.waiting <- why:
	default:
	}
}
