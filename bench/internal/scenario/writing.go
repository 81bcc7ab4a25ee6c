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

// writing is the writer. It has several writes in flight, each by a lane with keys of its
// own, so that the changes of one key have an order.
type writing struct {
	parameters Parameters
	writer     peer.Writer
	load       *load.Load // the watchers, once they have started

	seen    int      // changes of each key before the watchers started
	written []uint32 // changes by key; each lane uses those of its keys
	next    []int    // by lane: its next key
	issued  atomic.Int64
	writes  atomic.Int64
	behind  atomic.Int64

	mu  sync.Mutex // guards the following
	ack delivery.Latency
}

func newWriting(p Parameters, w peer.Writer) *writing {
	return &writing{
		parameters: p, writer: w,
		written: make([]uint32, p.Keys), next: make([]int, p.Outstanding), ack: delivery.NewLatency(),
	}
}

// keys returns the next keys of a lane.
func (w *writing) keys(lane int) []int {
	from, to := lane*w.parameters.Keys/w.parameters.Outstanding, (lane+1)*w.parameters.Keys/w.parameters.Outstanding
	keys := make([]int, w.parameters.Batch)
	for i := range keys {
		keys[i] = from + w.next[lane]
		w.next[lane] = (w.next[lane] + 1) % (to - from)
	}
	return keys
}

// write writes the next batch of a lane.
func (w *writing) write(ctx context.Context, lane int) error { return w.put(ctx, w.keys(lane)) }

// put writes new values of several keys in one write.
func (w *writing) put(ctx context.Context, keys []int) error {
	changes := make([]peer.Change, len(keys))
	began := stamp.Now()
	for i, key := range keys {
		event := uint64(w.written[key])*uint64(w.parameters.Keys) + uint64(key)
		w.written[key]++
		changes[i] = peer.Change{Key: key, Value: w.parameters.value(key, stamp.Stamp{Event: event, Written: began}.Value)}
	}
	w.writes.Add(1)
	if err := w.writer.Write(ctx, changes); err != nil {
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

// patience bounds the time until all watchers have an event.
const patience = 20 * time.Second

// await waits until all watchers have received a number of events.
func (w *writing) await(ctx context.Context, events int64) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if w.parameters.Watchers == 0 {
		return nil
	}
	return w.load.Await(ctx, events)
}

// all waits until all watchers have received all events.
func (w *writing) all(ctx context.Context) error { return w.await(ctx, w.issued.Load()) }

// warm writes a few times, one write after another, to warm the system up.
func (w *writing) warm(ctx context.Context, times int) error {
	for i := range times {
		w.issued.Add(int64(w.parameters.Batch))
		if err := w.write(ctx, i%w.parameters.Outstanding); err != nil {
			return err
		}
		if err := w.all(ctx); err != nil {
			return err
		}
	}
	w.ack.Reset()
	return nil
}

// run writes for the duration, as fast as events are delivered or at the rate.
func (w *writing) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := time.Now().Add(w.parameters.Duration)
	due := w.due(ctx, ended)
	var lanes sync.WaitGroup
	for lane := range w.parameters.Outstanding {
		lanes.Go(func() {
			for range due {
				if err := w.step(ctx, lane); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	lanes.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return w.all(ctx)
}

// due returns a channel with a value for each write that is due, until the time is over.
func (w *writing) due(ctx context.Context, ended time.Time) <-chan struct{} {
	due := make(chan struct{})
	go func() {
		defer close(due)
		for began, i := time.Now(), 0; time.Now().Before(ended); i++ {
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
				default: // all lanes are busy
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

// step starts a write when a lane is free. Paced writes do not wait for deliveries.
func (w *writing) step(ctx context.Context, lane int) error {
	batch := int64(w.parameters.Batch)
	issued := w.issued.Add(batch)
	if w.parameters.Rate == 0 {
		if err := w.await(ctx, issued-batch*int64(w.parameters.Outstanding)); err != nil {
			return err
		}
	}
	return w.write(ctx, lane)
}
