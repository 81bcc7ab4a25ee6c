package scenario

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanoutd/fanoutd/bench/internal/delivery"
	"github.com/fanoutd/fanoutd/bench/internal/load"
	"github.com/fanoutd/fanoutd/bench/internal/peer"
	"github.com/fanoutd/fanoutd/bench/internal/stamp"
)

// writer writes the events of a run. It has several workers, each with one write in flight
// and with keys of its own, so that the changes of one key have an order.
type writer struct {
	parameters Parameters
	store      peer.Writer
	load       audience // the watchers, once they have started

	seen    int      // changes of each key before the watchers started
	written []uint32 // changes by key; each worker uses those of its keys
	next    []int    // next key, by worker
	issued  atomic.Int64
	writes  atomic.Int64
	behind  atomic.Int64

	mu  sync.Mutex // guards the following
	ack delivery.Latency
}

// audience waits until all its watchers have received a number of events.
type audience interface {
	Await(ctx context.Context, events int64) error
}

func newWriter(p Parameters, store peer.Writer) *writer {
	return &writer{
		parameters: p, store: store,
		written: make([]uint32, p.Keys), next: make([]int, p.Outstanding), ack: delivery.NewLatency(),
	}
}

// keys returns the next keys of a worker.
func (w *writer) keys(worker int) []int {
	from, to := worker*w.parameters.Keys/w.parameters.Outstanding, (worker+1)*w.parameters.Keys/w.parameters.Outstanding
	keys := make([]int, w.parameters.Batch)
	for i := range keys {
		keys[i] = from + w.next[worker]
		w.next[worker] = (w.next[worker] + 1) % (to - from)
	}
	return keys
}

// write writes the next batch of a worker.
func (w *writer) write(ctx context.Context, worker int) error { return w.put(ctx, w.keys(worker)) }

// put writes new values of several keys in one write.
func (w *writer) put(ctx context.Context, keys []int) error {
	changes := make([]peer.Change, len(keys))
	began := stamp.Now()
	for i, key := range keys {
		event := uint64(w.written[key])*uint64(w.parameters.Keys) + uint64(key)
		w.written[key]++
		changes[i] = peer.Change{Key: key, Value: w.parameters.value(key, stamp.Stamp{Event: event, Written: began}.Value)}
	}
	w.writes.Add(1)
	if err := w.store.Write(ctx, changes); err != nil {
		return err
	}
	took := stamp.Now() - began
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ack.Record(took)
	return nil
}

// value returns the stored value of some content: a document with a label if watchers
// select by label, otherwise the content alone.
func (p *Parameters) value(key int, content func(size int) []byte) []byte {
	if p.Interest != load.InterestLabel {
		return content(p.ValueSize)
	}
	const document = `{"metadata":{"labels":{%q:%q}},"value":"%s"}`
	label := load.Group(key % p.Groups)
	around := len(fmt.Sprintf(document, load.Label, label, ""))
	return fmt.Appendf(nil, document, load.Label, label, content(p.ValueSize-around))
}

// deliveryTimeout bounds the time until all watchers have an event.
const deliveryTimeout = 20 * time.Second

// await waits until all watchers have received a number of events.
func (w *writer) await(ctx context.Context, events int64) error {
	ctx, cancel := context.WithTimeout(ctx, deliveryTimeout)
	defer cancel()
	if w.parameters.Watchers == 0 {
		return nil
	}
	return w.load.Await(ctx, events)
}

// awaitAll waits until all watchers have received all events.
func (w *writer) awaitAll(ctx context.Context) error { return w.await(ctx, w.issued.Load()) }

// writeOneByOne makes some writes, each after the deliveries of the previous one, and then
// drops their latencies.
func (w *writer) writeOneByOne(ctx context.Context, times int) error {
	for i := range times {
		w.issued.Add(int64(w.parameters.Batch))
		if err := w.write(ctx, i%w.parameters.Outstanding); err != nil {
			return err
		}
		if err := w.awaitAll(ctx); err != nil {
			return err
		}
	}
	w.ack.Reset()
	return nil
}

// run writes for the duration, as fast as events are delivered or at the rate.
func (w *writer) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := time.Now().Add(w.parameters.Duration)
	due := w.due(ctx, ended)
	var workers sync.WaitGroup
	for worker := range w.parameters.Outstanding {
		workers.Go(func() {
			for range due {
				if err := w.step(ctx, worker); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	workers.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return w.awaitAll(ctx)
}

// due returns a channel with a value for each write that is due, until the time is over or all
// writes of the run were due.
func (w *writer) due(ctx context.Context, ended time.Time) <-chan struct{} {
	due := make(chan struct{})
	go func() {
		defer close(due)
		for began, i := time.Now(), 0; w.isDue(i, ended); i++ {
			if w.parameters.Rate > 0 {
				at := began.Add(time.Duration(float64(i) / w.parameters.Rate * float64(time.Second)))
				timer := time.NewTimer(time.Until(at))
				select {
				case <-timer.C:
				case <-ctx.Done():
					timer.Stop()
					return
				}
				select {
				case due <- struct{}{}:
					continue
				default: // all workers are busy
					w.behind.Add(1)
				}
			}
			select {
			case due <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return due
}

// isDue reports whether another write is due after n.
func (w *writer) isDue(n int, ended time.Time) bool {
	if w.parameters.Writes > 0 {
		return n < w.parameters.Writes
	}
	return time.Now().Before(ended)
}

// step writes the next batch of a worker. Unless writes are paced, it first waits until the
// deliveries of an earlier write have made room for it.
func (w *writer) step(ctx context.Context, worker int) error {
	batch := int64(w.parameters.Batch)
	issued := w.issued.Add(batch)
	if w.parameters.Rate == 0 {
		if err := w.await(ctx, issued-batch*int64(w.parameters.Outstanding)); err != nil {
			return err
		}
	}
	return w.write(ctx, worker)
}
