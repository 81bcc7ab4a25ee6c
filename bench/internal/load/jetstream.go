package load

import (
	"context"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fanoutd/fanoutd/bench/internal/stamp"
)

// kvConnection has watchers of a NATS bucket. They use the NATS client, which manages a
// consumer for each watcher.
type kvConnection struct {
	*watchers
	number   int
	from, to int // its watchers
	conn     *nats.Conn
	running  []jetstream.KeyWatcher
}

func newKV(w *watchers, number int) (connection, error) {
	conn, err := nats.Connect("nats://"+w.config.Address, nats.Timeout(setupTimeout), nats.NoReconnect())
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", w.config.Address, err)
	}
	from, to := w.config.share(number)
	return &kvConnection{watchers: w, number: number, from: from, to: to, conn: conn}, nil
}

func (c *kvConnection) open(ctx context.Context) error {
	js, err := jetstream.New(c.conn)
	if err != nil {
		return fmt.Errorf("use JetStream: %w", err)
	}
	bucket, err := js.KeyValue(ctx, Subject)
	if err != nil {
		return fmt.Errorf("open the bucket: %w", err)
	}
	options := []jetstream.WatchOpt{jetstream.UpdatesOnly()}
	if c.config.Snapshot {
		options = nil
	}
	if c.config.After != nil {
		options = []jetstream.WatchOpt{jetstream.ResumeFromRevision(uint64(c.config.After.Revision) + 1)}
	}
	for i := c.from; i < c.to; i++ {
		// ctx ends after the setup, which must not end the watch.
		watcher, err := bucket.Watch(context.WithoutCancel(ctx), c.pattern(i), options...)
		if err != nil {
			return fmt.Errorf("watch the bucket: %w", err)
		}
		c.running = append(c.running, watcher)
	}
	return nil
}

// pattern returns the keys of the bucket that a watcher watches.
func (c *kvConnection) pattern(watcher int) string {
	if key, ok := c.config.key(watcher); ok {
		return Key(key)
	}
	if c.config.Interest == InterestLabel {
		return Group(watcher%c.config.Groups) + ".>"
	}
	return ">"
}

func (c *kvConnection) receive() error {
	var all sync.WaitGroup
	for i, watcher := range c.running {
		all.Go(func() {
			for entry := range watcher.Updates() {
				if entry != nil {
					c.counter.Receive(c.number, entry.Value(), stamp.Now(), c.from+i)
				}
			}
		})
	}
	all.Wait()
	return fmt.Errorf("the watchers have ended: %w", c.conn.LastError())
}

func (c *kvConnection) Close() error {
	for _, watcher := range c.running {
		_ = watcher.Stop() // the connection is closed anyway
	}
	c.conn.Close()
	return nil
}
