// Package bench measures how long writes take, and how long it is until watchers
// hear of them.
package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sync/errgroup"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

// Run is what to measure.
type Run struct {
	Resource *client.Resource
	Writes   int    // objects that are written
	Writers  int    // writes at the same time
	Watchers int    // watches of all the objects
	Size     int    // bytes of a value
	Done     func() // is called after each write, by several goroutines at once
}

// Latency is the result of one kind.
type Latency struct {
	What  string  `json:"what"`
	Count int64   `json:"count"`
	Rate  float64 `json:"perSecond"`
	P50   float64 `json:"p50Milliseconds"`
	P90   float64 `json:"p90Milliseconds"`
	P99   float64 `json:"p99Milliseconds"`
	Max   float64 `json:"maxMilliseconds"`
}

// Columns are those of [Latency.Cells].
func Columns() []output.Column {
	return []output.Column{
		{Title: "WHAT", Style: output.Name},
		{Title: "COUNT", Right: true},
		{Title: "PER SECOND", Right: true},
		{Title: "P50", Right: true},
		{Title: "P90", Right: true},
		{Title: "P99", Right: true},
		{Title: "MAX", Right: true},
	}
}

// Cells show it in a table.
func (l Latency) Cells() []string {
	ms := func(v float64) string { return fmt.Sprintf("%.2fms", v) }
	return []string{l.What, strconv.FormatInt(l.Count, 10), fmt.Sprintf("%.0f", l.Rate), ms(l.P50), ms(l.P90), ms(l.P99), ms(l.Max)}
}

// cleanUp is how long deleting the objects may take.
const cleanUp = time.Minute

// histogram counts microseconds.
type histogram struct {
	mu sync.Mutex // guards h
	h  *hdrhistogram.Histogram
}

func newHistogram() *histogram {
	return &histogram{h: hdrhistogram.New(1, time.Hour.Microseconds(), 3)}
}

func (h *histogram) record(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_ = h.h.RecordValue(max(1, d.Microseconds())) // nothing takes an hour
}

func (h *histogram) latency(what string, over time.Duration) Latency {
	at := func(q float64) float64 { return float64(h.h.ValueAtQuantile(q)) / 1000 }
	return Latency{
		What: what, Count: h.h.TotalCount(), Rate: float64(h.h.TotalCount()) / over.Seconds(),
		P50: at(50), P90: at(90), P99: at(99), Max: float64(h.h.Max()) / 1000,
	}
}

// Do measures. The objects are deleted again, whatever happens.
func (b *Run) Do(ctx context.Context) (result []Latency, err error) {
	prefix := fmt.Sprintf("fanoutctl-bench/%08x", rand.Uint32())
	began := make([]atomic.Int64, b.Writes) // when each write began, in nanoseconds since start
	start := time.Now()
	defer func() { err = errors.Join(err, b.remove(ctx, prefix)) }()

	heard := newHistogram()
	watchParent, cancel := context.WithCancel(ctx)
	watching, watchCtx := errgroup.WithContext(watchParent)
	defer func() {
		cancel()
		_ = watching.Wait() // whoever is left was only waiting for what did not come
	}()
	var ready sync.WaitGroup
	for range b.Watchers {
		ready.Add(1)
		watching.Go(func() error {
			return b.watch(watchCtx, prefix, sync.OnceFunc(ready.Done), func(i int) {
				heard.record(time.Since(start) - time.Duration(began[i].Load()))
			})
		})
	}
	if err := wait(watchCtx, &ready); err != nil {
		return nil, errors.Join(err, watching.Wait())
	}

	written := newHistogram()
	first := time.Now()
	writing, writeCtx := errgroup.WithContext(watchCtx)
	writing.SetLimit(b.Writers)
	value := client.Text(strings.Repeat("x", b.Size))
	for i := range b.Writes {
		writing.Go(func() error {
			if writeCtx.Err() != nil {
				return context.Cause(writeCtx)
			}
			t := time.Now()
			began[i].Store(int64(t.Sub(start)))
			if _, err := b.Resource.Put(writeCtx, fmt.Sprintf("%s/%d", prefix, i), value); err != nil {
				return err
			}
			written.record(time.Since(t))
			b.Done()
			return nil
		})
	}
	if err := writing.Wait(); err != nil {
		return nil, err
	}
	wrote := time.Since(first)
	if err := watching.Wait(); err != nil {
		return nil, err
	}
	result = []Latency{written.latency("write", wrote)}
	if b.Watchers > 0 {
		result = append(result, heard.latency("watch", time.Since(first)))
	}
	return result, nil
}

// watch waits until it has heard of all writes.
func (b *Run) watch(ctx context.Context, prefix string, ready func(), heard func(i int)) error {
	defer ready()
	seen := 0
	for u, err := range b.Resource.Watch(ctx, client.Prefix(prefix)) {
		if err != nil {
			return err
		}
		for _, e := range u.Events {
			i, err := strconv.Atoi(strings.TrimPrefix(e.Object.Key, prefix+"/"))
			if err != nil || i < 0 || i >= b.Writes {
				return fmt.Errorf("somebody else writes %q", e.Object.Key)
			}
			heard(i)
			seen++
		}
		if u.Synced {
			ready()
		}
		if seen >= b.Writes {
			return nil
		}
	}
	return context.Cause(ctx)
}

// wait waits for a group, or the end of ctx. Those who are in the group leave it when
// ctx ends.
func wait(ctx context.Context, group *sync.WaitGroup) error {
	group.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// remove deletes what was written, also after an interruption.
func (b *Run) remove(ctx context.Context, prefix string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
	defer cancel()
	var ops []client.Op
	flush := func() error {
		if len(ops) == 0 {
			return nil
		}
		_, err := b.Resource.Transact(ctx, ops...)
		ops = ops[:0]
		return err
	}
	for o, err := range b.Resource.List(ctx, client.Prefix(prefix)) {
		if err != nil {
			return fmt.Errorf("delete what was written: %w", err)
		}
		ops = append(ops, client.OpDelete(o.Key))
		if len(ops) == 100 {
			if err := flush(); err != nil {
				return fmt.Errorf("delete what was written: %w", err)
			}
		}
	}
	if err := flush(); err != nil {
		return fmt.Errorf("delete what was written: %w", err)
	}
	return nil
}
