package server_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/store"
	"github.com/fanoutd/fanoutd/test/poll"
)

// A put of 1 KiB to a new key, with a history and without one. The processor time is that of the whole
// process: client, server and etcd.
func BenchmarkPut(b *testing.B) {
	for name, recorded := range map[string]bool{"plain": false, "history": true} {
		b.Run(name, func(b *testing.B) {
			in := startOver(b, openEtcdAlone(b, store.EmbeddedConfig{}), settings{history: recorded})
			value := strings.Repeat("x", 1024)
			var n atomic.Int64
			before := processorTime(b)
			b.SetParallelism(8)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					_, err := in.writes.Put(b.Context(), &fanoutv1.PutRequest{Resource: config, Put: putText(fmt.Sprintf("k%d", n.Add(1)), value), Message: "benchmark"})
					if err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.StopTimer()
			b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
}

// processorTime returns the processor time of the process so far.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// fillHistory writes so many records, in transactions of a few keys.
func (in *instance) fillHistory(t testing.TB, records, keys int) {
	t.Helper()
	ctx := t.Context()
	for n := 0; n < records; {
		req := &fanoutv1.TransactRequest{Resource: config, Message: "filled"}
		for range min(keys, records-n) {
			req.Operations = append(req.Operations, putOf2(fmt.Sprintf("d%d/k%d", n%100, n%10_000), "value"))
			n++
		}
		if _, err := in.writes.Transact(ctx, req); err != nil {
			t.Fatal(err)
		}
	}
}

// The page of a long history.
func BenchmarkHistoryPage(b *testing.B) {
	in := startOver(b, openEtcdAlone(b, store.EmbeddedConfig{}), settings{history: true})
	in.fillHistory(b, 100_000, 4)
	for name, req := range map[string]*fanoutv1.HistoryRequest{
		"newest": {},
		"middle": {Begin: &fanoutv1.HistoryRequest_Revision{Revision: 12_000}},
		"path":   {Scope: &fanoutv1.Scope{Scope: &fanoutv1.Scope_Prefix{Prefix: "d7"}}},
		"key":    {Scope: keyScope("d7/k7")},
		"values": {Values: true},
	} {
		req.Resource, req.PageSize = config, 100
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				page, err := in.reads.History(b.Context(), req)
				if err != nil || len(page.GetEntries()) == 0 {
					b.Fatalf("got %v, %v", page, err)
				}
			}
		})
	}
}

// A page of a history of any length takes a bounded part of memory.
func TestPageOfALongHistoryNeedsLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	in := startOver(t, openEtcdAlone(t, store.EmbeddedConfig{}), settings{history: true})
	ctx := poll.Context(t)
	in.fillHistory(t, 20_000, 4)
	req := &fanoutv1.HistoryRequest{Resource: config, PageSize: 100}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	page, err := in.reads.History(ctx, req)
	runtime.ReadMemStats(&after)
	if err != nil || len(page.GetEntries()) != 100 {
		t.Fatalf("got %d entries, %v", len(page.GetEntries()), err)
	}
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 10<<20 {
		t.Errorf("a page has allocated %d bytes", allocated)
	}
}
