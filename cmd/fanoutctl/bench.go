package main

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
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
	"github.com/fanoutd/fanoutd/internal/ctl/transfer"
)

func benchCommand(t *tool) *cobra.Command {
	var (
		format output.Format
		b      benchmark
	)
	cmd := &cobra.Command{
		Use:   "bench RESOURCE",
		Short: "Measure the latency of writes and watch events",
		Long: `Write test objects while watchers receive them. Report the latency of the writes, and the
time from the start of a write until each watcher has received its event.

The writers and watchers share this process, so the results include its own overhead. The
objects get a random path of their own and are deleted afterwards.`,
		Example: `  # 10,000 writes, 16 at a time, with 100 watchers
  fanoutctl bench config --writes 10000 --writers 16 --watchers 100`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if b.writes < 1 || b.writers < 1 {
				return usagef("--writes and --writers must be at least 1")
			}
			r := t.client.Resource(args[0])
			ctx, cancel := t.withTimeout(cmd.Context(), 0)
			defer cancel()
			bar := t.countObjects("Writing", int64(b.writes))
			b.resource, b.written = r, func() { bar.add(1) }
			result, err := b.run(ctx)
			bar.finish()
			if err != nil {
				return err
			}
			return output.Records(t.printer(format), latencyColumns, result)
		},
	}
	formatFlag(cmd, &format, output.Table)
	cmd.Flags().IntVar(&b.writes, "writes", 1000, "`number` of writes")
	cmd.Flags().IntVar(&b.writers, "writers", 1, "`number` of concurrent writes")
	cmd.Flags().IntVar(&b.watchers, "watchers", 10, "`number` of watchers")
	cmd.Flags().IntVar(&b.size, "size", 256, "size of each value in `bytes`")
	return cmd
}

// benchmark writes objects and measures when watchers receive them.
type benchmark struct {
	resource *client.Resource
	writes   int    // number of objects to write
	writers  int    // number of concurrent writes
	watchers int    // number of watches; each covers all objects
	size     int    // bytes per value
	written  func() // called after each write, possibly from several goroutines at once
}

// latency is the latency distribution of the writes or of the watch events.
type latency struct {
	What  string  `json:"what"`
	Count int64   `json:"count"`
	Rate  float64 `json:"perSecond"`
	P50   float64 `json:"p50Milliseconds"`
	P90   float64 `json:"p90Milliseconds"`
	P99   float64 `json:"p99Milliseconds"`
	Max   float64 `json:"maxMilliseconds"`
}

var latencyColumns = []output.Column[latency]{
	{Title: "WHAT", Cell: func(l latency) string { return l.What }, Style: output.Name},
	{Title: "COUNT", Cell: func(l latency) string { return strconv.FormatInt(l.Count, 10) }, Right: true},
	{Title: "PER SECOND", Cell: func(l latency) string { return fmt.Sprintf("%.0f", l.Rate) }, Right: true},
	{Title: "P50", Cell: func(l latency) string { return milliseconds(l.P50) }, Right: true},
	{Title: "P90", Cell: func(l latency) string { return milliseconds(l.P90) }, Right: true},
	{Title: "P99", Cell: func(l latency) string { return milliseconds(l.P99) }, Right: true},
	{Title: "MAX", Cell: func(l latency) string { return milliseconds(l.Max) }, Right: true},
}

func milliseconds(ms float64) string { return fmt.Sprintf("%.2fms", ms) }

// benchCleanup limits how long deleting the objects may take.
const benchCleanup = time.Minute

// histogram records latencies in microseconds.
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
	_ = h.h.RecordValue(max(1, d.Microseconds())) // fails only above an hour
}

// latency summarizes the recorded values; elapsed is the time over which they occurred.
func (h *histogram) latency(what string, elapsed time.Duration) latency {
	at := func(q float64) float64 { return float64(h.h.ValueAtQuantile(q)) / 1000 }
	return latency{
		What: what, Count: h.h.TotalCount(), Rate: float64(h.h.TotalCount()) / elapsed.Seconds(),
		P50: at(50), P90: at(90), P99: at(99), Max: float64(h.h.Max()) / 1000,
	}
}

// run measures, and always deletes the objects afterwards.
func (b *benchmark) run(ctx context.Context) (result []latency, err error) {
	prefix := fmt.Sprintf("fanoutctl-bench/%08x", rand.Uint32())
	began := make([]atomic.Int64, b.writes) // start of each write, in nanoseconds since start
	start := time.Now()
	defer func() { err = errors.Join(err, b.remove(ctx, prefix)) }()

	received := newHistogram()
	watchParent, cancel := context.WithCancel(ctx)
	watches, watchCtx := errgroup.WithContext(watchParent)
	defer func() {
		cancel()
		_ = watches.Wait() // after a failed write, the watches wait for events that never come
	}()
	var ready sync.WaitGroup
	for range b.watchers {
		ready.Add(1)
		watches.Go(func() error {
			return b.watch(watchCtx, prefix, sync.OnceFunc(ready.Done), func(i int) {
				received.record(time.Since(start) - time.Duration(began[i].Load()))
			})
		})
	}
	// A watch that fails also reports ready.
	ready.Wait()
	if watchCtx.Err() != nil {
		return nil, errors.Join(context.Cause(watchCtx), watches.Wait())
	}

	written := newHistogram()
	first := time.Now()
	writes, writeCtx := errgroup.WithContext(watchCtx)
	writes.SetLimit(b.writers)
	value := client.Text(strings.Repeat("x", b.size))
	for i := range b.writes {
		writes.Go(func() error {
			if writeCtx.Err() != nil {
				return context.Cause(writeCtx)
			}
			t := time.Now()
			began[i].Store(int64(t.Sub(start)))
			if _, err := b.resource.Put(writeCtx, fmt.Sprintf("%s/%d", prefix, i), value); err != nil {
				return err
			}
			written.record(time.Since(t))
			b.written()
			return nil
		})
	}
	if err := writes.Wait(); err != nil {
		return nil, err
	}
	elapsed := time.Since(first)
	if err := watches.Wait(); err != nil {
		return nil, err
	}
	result = []latency{written.latency("write", elapsed)}
	if b.watchers > 0 {
		result = append(result, received.latency("watch", time.Since(first)))
	}
	return result, nil
}

// watch calls ready once the watch is in sync, and received with the number of each written
// object. It returns when all objects have arrived.
func (b *benchmark) watch(ctx context.Context, prefix string, ready func(), received func(i int)) error {
	defer ready()
	seen := 0
	for u, err := range b.resource.Watch(ctx, client.Prefix(prefix), client.WithoutReports()) {
		if err != nil {
			return err
		}
		for _, e := range u.Events {
			i, err := strconv.Atoi(strings.TrimPrefix(e.Object.Key, prefix+"/"))
			if err != nil || i < 0 || i >= b.writes {
				return fmt.Errorf("another client wrote %q during the benchmark", e.Object.Key)
			}
			received(i)
			seen++
		}
		if u.Phase == client.PhaseSynced {
			ready()
		}
		if seen >= b.writes {
			return nil
		}
	}
	return context.Cause(ctx)
}

// remove deletes the objects of the benchmark, even if ctx has ended.
func (b *benchmark) remove(ctx context.Context, prefix string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), benchCleanup)
	defer cancel()
	changes, err := transfer.Deletions(ctx, b.resource, client.Prefix(prefix))
	var failures []error
	if err == nil {
		w := transfer.Writer{
			Resource: b.resource, Retry: benchCleanup, Done: func(int) {},
			Failed: func(_ transfer.Change, err error) { failures = append(failures, err) },
		}
		_, _, err = w.Apply(ctx, changes)
	}
	if err := errors.Join(append(failures, err)...); err != nil {
		return fmt.Errorf("cannot delete the test objects: %w", err)
	}
	return nil
}
