// Package collector sets how far the heap grows between two garbage collections.
//
// Go's default is as much again as is live. That is wasted on a server that holds a large state and
// allocates little, and right for one that allocates much: a collection costs about the same CPU
// however much garbage it finds. So [Run] lets the heap grow only as far as collections stay cheap.
package collector

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// minPercent and maxPercent limit the growth of the heap, relative to what is live. The
	// maximum is Go's default. Only a small heap may exceed it, see busyGrowth.
	minPercent, maxPercent = 25, 100

	// step is the smallest change of the growth, because each change stops the program for a moment.
	step = 5

	// releaseAfter is how far the heap must have been allowed to grow, so that memory is returned to
	// the system when it is large and quiet again.
	releaseAfter = 50

	// releaseInterval is the least time between two such returns.
	releaseInterval = time.Minute

	// minGrowth is how far a small heap may grow: less would save nothing.
	minGrowth = 32 << 20

	// busyGrowth is how far a small heap may grow while much is allocated. A server that only answers
	// reads would otherwise spend a sixth of its CPU on collections, to save a few MiB.
	busyGrowth = 64 << 20

	// maxShare is the part of all processors that collections may use before the heap may grow
	// further.
	maxShare = 0.03

	// interval is the time between two adjustments. fade is what is left of a burst of allocations
	// after it: the heap grows with a burst at once, and shrinks some seconds after it.
	interval = time.Second
	fade     = 0.7

	// maxRise is how much dearer collections may become from one second to the next. Go counts the
	// time of its workers, also while another process has the processor.
	maxRise = 1.1
)

// Run adjusts the garbage collector to the heap until ctx is done. It then restores the previous
// setting.
func Run(ctx context.Context) {
	previous := debug.SetGCPercent(maxPercent)
	defer debug.SetGCPercent(previous)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var t target
	percent, before := maxPercent, read()
	highest := percent // since memory was last returned to the system
	var released time.Time
	for {
		select {
		case <-ticker.C:
			now := read()
			if p := t.percent(before, now); p != percent {
				debug.SetGCPercent(p)
				percent = p
			}
			highest = max(highest, percent)
			if percent == minPercent && highest >= releaseAfter && now.at.Sub(released) >= t.pause(now) {
				debug.FreeOSMemory() // it collects, too; Go would keep what the heap had before
				highest, released = percent, now.at
			}
			before = now
		case <-ctx.Done():
			return
		}
	}
}

// reading is the state of the heap at one moment.
type reading struct {
	at         time.Time
	live       uint64  // bytes that the last collection found
	allocated  uint64  // bytes since the start
	cycles     uint64  // collections since the start
	cpu        float64 // seconds of CPU of all collections
	processors int
}

func read() reading {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/gc/cycles/total:gc-cycles"},
		{Name: "/cpu/classes/gc/total:cpu-seconds"},
	}
	metrics.Read(samples)
	return reading{
		at:         time.Now(),
		live:       samples[0].Value.Uint64(),
		allocated:  samples[1].Value.Uint64(),
		cycles:     samples[2].Value.Uint64(),
		cpu:        samples[3].Value.Float64(),
		processors: runtime.GOMAXPROCS(0),
	}
}

// target is what the percentage depends on, besides the live heap.
type target struct {
	costPerByte float64 // seconds of CPU for each live byte, in the last collections
	rate        float64 // bytes allocated per second, lately
}

// pause returns how long memory stays after it was last returned to the system, so that the collections
// for that take at most maxShare of the processors, also if the heap grows again and again.
func (t *target) pause(now reading) time.Duration {
	seconds := t.costPerByte * float64(now.live) / maxShare / float64(now.processors)
	return max(releaseInterval, time.Duration(seconds*float64(time.Second)))
}

// percent returns the percentage at which collections take maxShare of the processors: with the
// percentage p, one is due each time live × p / 100 bytes have been allocated.
func (t *target) percent(before, now reading) int {
	if n := now.cycles - before.cycles; n > 0 && now.live > 0 {
		cost := (now.cpu - before.cpu) / float64(n) / float64(now.live)
		if t.costPerByte > 0 {
			cost = min(cost, t.costPerByte*maxRise)
		}
		t.costPerByte = cost
	}
	t.rate = max(t.rate*fade, float64(now.allocated-before.allocated)/now.at.Sub(before.at).Seconds())
	cheap := 100 * t.costPerByte * t.rate / maxShare / float64(now.processors)
	live := float64(max(now.live, 1))
	least := min(max(100*minGrowth/live, minPercent), maxPercent)
	most := max(100*busyGrowth/live, maxPercent)
	return int(min(max(cheap, least), most)) / step * step
}
