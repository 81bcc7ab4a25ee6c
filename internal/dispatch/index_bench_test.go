package dispatch_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/selector"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
	"github.com/fanoutd/fanoutd/internal/wire"
	"github.com/fanoutd/fanoutd/test/cachertest"
	"github.com/fanoutd/fanoutd/test/ratio"
)

// schema has an indexed field and another one.
var schema = object.Schema{Fields: []object.Field{{Name: "color", Path: "color", Indexed: true}, {Name: "size", Path: "spec.size"}}}

// BenchmarkIndex delivers a change from the store to the one watcher that it concerns, or to two
// if the value of a field changes. The other watchers have other interests of the same kind.
// Interests in an unindexed field are for comparison: the dispatcher must test each of them.
func BenchmarkIndex(b *testing.B) {
	kinds := []struct {
		name     string
		interest func(i int) feed.Interest
		most     int
	}{
		{"key", func(i int) feed.Interest {
			return feed.Interest{Scope: object.ExactKey(object.Key(fmt.Sprintf("folder-%d/object", i)))}
		}, 100_000},
		{"prefix", func(i int) feed.Interest { return feed.Interest{Scope: prefix(b, fmt.Sprintf("folder-%d", i))} }, 100_000},
		{"field", func(i int) feed.Interest { return ofField(b, fmt.Sprintf("color=%d", i)) }, 100_000},
		{"key and field", func(i int) feed.Interest {
			interest := ofField(b, fmt.Sprintf("color=%d", i%2))
			interest.Scope = object.ExactKey(object.Key(fmt.Sprintf("folder-%d/object", i/2)))
			return interest
		}, 100_000},
		{"label", func(i int) feed.Interest { return picking(b, fmt.Sprintf("color=%d", i)) }, 100_000},
		{"unindexed field", func(i int) feed.Interest { return ofField(b, fmt.Sprintf("size=%d", i)) }, 10_000},
	}
	for _, kind := range kinds {
		var row ratio.Row
		for _, interests := range []int{100, kind.most} {
			b.Run(fmt.Sprintf("%s/interests=%d", kind.name, interests), func(b *testing.B) {
				f := startIndexed(b)
				begin := catchup.FromNow(f.cacher.State().Position())
				for i := range interests - 1 {
					w := f.dispatcher.Pull(f.workers.NewQueue(), kind.interest(1+i), begin, dispatch.Options{})
					b.Cleanup(w.Close)
				}
				w := f.dispatcher.Pull(f.workers.NewQueue(), kind.interest(0), begin, dispatch.Options{})
				b.Cleanup(w.Close)
				if _, err := w.Next(b.Context()); err != nil { // the bookmark
					b.Fatal(err)
				}
				if n := f.dispatcher.Interests(); n != interests {
					b.Fatalf("got %d interests, want %d", n, interests)
				}
				values := [][]byte{[]byte(`{"color":"0","metadata":{"labels":{"color":"0"}},"spec":{"size":"0"}}`), []byte(`{"color":"1","metadata":{"labels":{"color":"1"}},"spec":{"size":"1"}}`)}
				b.ReportAllocs()
				n := 0
				for b.Loop() {
					f.store.Commit(map[object.Key][]byte{"folder-0/object": values[n%2]})
					n++
					if _, err := w.Next(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
				row.Report(b)
			})
		}
	}
}

func ofField(b *testing.B, fields string) feed.Interest {
	b.Helper()
	s, err := selector.ParseFields(fields, schema.Names())
	if err != nil {
		b.Fatal(err)
	}
	return feed.Interest{Selector: s}
}

// startIndexed starts a dispatcher of documents with the schema.
func startIndexed(b *testing.B) *fixture {
	b.Helper()
	codec, err := object.NewCodec("json", schema)
	if err != nil {
		b.Fatal(err)
	}
	f := &fixture{store: cachertest.NewMemory(), workers: sendqueue.Start(1)}
	b.Cleanup(f.workers.Stop)
	f.cacher = cacher.New(cacher.Config{Resource: "test", Store: f.store, Codec: codec, Preencode: wire.Preencode, Log: slog.New(slog.DiscardHandler)})
	f.dispatcher = dispatch.New(feed.Config{Source: f.cacher, Encoder: wire.Encoder{}, Indexed: schema.Indexed()})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { f.cacher.Run(ctx) })
	running.Go(func() { f.dispatcher.Run(ctx) })
	<-f.cacher.Ready()
	b.Cleanup(func() { cancel(); running.Wait() })
	return f
}
