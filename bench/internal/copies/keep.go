package copies

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fanoutd/fanoutd/client"

	"github.com/fanoutd/fanoutd/bench/internal/load"
)

// CommandName is the command of fanoutbench that runs [Keep].
const CommandName = "copy"

// keepers keep a copy with the clients for Go, until ctx ends.
var keepers = map[string]func(ctx context.Context, address string, p *progress) error{
	"fanoutd": keepFanoutd, "etcd": keepEtcd, "nats-kv": keepNATS,
}

// Keep keeps a copy with the client for Go of a system, and prints how far it is, until ctx ends.
func Keep(ctx context.Context, system, address string, objects int, out io.Writer) error {
	keep := keepers[system]
	if keep == nil {
		return fmt.Errorf("unknown system %q (want one of %s)", system, strings.Join(slices.Sorted(maps.Keys(keepers)), ", "))
	}
	if err := keep(ctx, address, &progress{objects: objects, out: out}); err != nil && ctx.Err() == nil {
		return fmt.Errorf("keep a copy with the client of %s: %w", system, err)
	}
	return nil
}

// progress counts the objects of a copy and the changes that follow.
type progress struct {
	objects int
	out     io.Writer
	loaded  bool
	changes int
}

// has is called with the size of the copy after each change to it, or when it is complete.
func (p *progress) has(objects int) {
	if !p.loaded && objects == p.objects {
		p.loaded = true
		fmt.Fprintln(p.out, "loaded")
	}
}

// changed is called for each change after the copy was complete.
func (p *progress) changed() {
	if p.changes++; p.changes == p.objects {
		fmt.Fprintln(p.out, "changed")
	}
}

func keepFanoutd(ctx context.Context, address string, p *progress) error {
	c, err := client.New(address, client.WithInsecure())
	if err != nil {
		return err
	}
	defer c.Close()
	text := func(o *client.Object) (string, error) { return string(o.Value), nil }
	informer := client.NewInformer(c.Resource(load.Resource), text)
	informer.AddHandler(client.Handler[string]{Update: func(_, _ client.Item[string]) error { p.changed(); return nil }})
	go func() {
		if informer.WaitForSync(ctx) == nil { // otherwise, Run returns the error
			p.has(informer.Lister().Len())
		}
	}()
	return informer.Run(ctx)
}

func keepEtcd(ctx context.Context, address string, p *progress) error {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer c.Close()
	all, err := c.Get(ctx, load.Prefix, clientv3.WithPrefix())
	if err != nil {
		return err
	}
	values := make(map[string]string, len(all.Kvs))
	for _, kv := range all.Kvs {
		values[string(kv.Key)] = string(kv.Value)
	}
	p.has(len(values))
	for response := range c.Watch(ctx, load.Prefix, clientv3.WithPrefix(), clientv3.WithRev(all.Header.Revision+1)) {
		if err := response.Err(); err != nil {
			return err
		}
		for _, e := range response.Events {
			if e.Type == clientv3.EventTypeDelete {
				delete(values, string(e.Kv.Key))
			} else {
				values[string(e.Kv.Key)] = string(e.Kv.Value)
			}
			p.changed()
		}
	}
	return ctx.Err()
}

func keepNATS(ctx context.Context, address string, p *progress) error {
	conn, err := nats.Connect("nats://" + address)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	bucket, err := js.KeyValue(ctx, load.Subject)
	if err != nil {
		return err
	}
	watcher, err := bucket.WatchAll(ctx)
	if err != nil {
		return err
	}
	values := map[string]string{}
	for entry := range watcher.Updates() {
		switch {
		case entry == nil: // the copy is complete
			p.has(len(values))
			continue
		case entry.Operation() == jetstream.KeyValuePut:
			values[entry.Key()] = string(entry.Value())
		default:
			delete(values, entry.Key())
		}
		if p.loaded {
			p.changed()
		}
	}
	return ctx.Err()
}
