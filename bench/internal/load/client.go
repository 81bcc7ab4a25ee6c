package load

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/fanoutd/fanoutd/client"

	"github.com/fanoutd/fanoutd/bench/internal/stamp"
)

// clientConnection is a client of package client with its watches. The client decides which
// streams and connections carry them.
type clientConnection struct {
	*watchers
	number   int
	from, to int // its watchers
	client   *client.Client
	ctx      context.Context // of its watches
	cancel   context.CancelFunc
	watching sync.WaitGroup
	ended    chan error // has room for the error of each watch
}

func newClient(w *watchers, number int) (connection, error) {
	c, err := client.New(w.config.Address)
	if err != nil {
		return nil, err
	}
	from, to := w.config.share(number)
	ctx, cancel := context.WithCancel(context.Background())
	return &clientConnection{
		watchers: w, number: number, from: from, to: to, client: c, ctx: ctx, cancel: cancel,
		ended: make(chan error, to-from),
	}, nil
}

func (c *clientConnection) open(ctx context.Context) error {
	var begun sync.WaitGroup
	begun.Add(c.to - c.from)
	for i := c.from; i < c.to; i++ {
		c.watching.Go(func() { c.ended <- c.watch(i, sync.OnceFunc(begun.Done)) })
	}
	all := make(chan struct{})
	go func() {
		begun.Wait()
		close(all)
	}()
	select {
	case <-all:
		return nil
	case err := <-c.ended:
		return err
	case <-ctx.Done():
		return fmt.Errorf("begin %d watches: %w", c.to-c.from, context.Cause(ctx))
	}
}

// watch receives one watch until it ends, and calls begun when it has received its state.
func (c *clientConnection) watch(watcher int, begun func()) error {
	defer begun()
	for u, err := range c.client.Resource(Resource).Watch(c.ctx, c.options(watcher)...) {
		if err != nil {
			return err
		}
		at := stamp.Now()
		for i := range u.Events {
			if object := u.Events[i].Object; object != nil {
				c.counter.Receive(c.number, object.Value, at, watcher)
			}
		}
		if u.Phase.Complete() {
			begun()
		}
	}
	return errors.New("the watch has ended")
}

// options returns the options of a watch. Those that are not necessary have their defaults, so a
// watch begins with the state, unless events were written before that it must not count.
func (c *clientConnection) options(watcher int) []client.WatchOption {
	var all []client.WatchOption
	if key, ok := c.config.key(watcher); ok {
		all = append(all, client.Key(Key(key)))
	}
	if selector := c.config.selector(watcher); selector != "" {
		all = append(all, client.Labels(selector))
	}
	if c.config.Bookmarks > 0 {
		all = append(all, client.BookmarkInterval(c.config.Bookmarks))
	}
	switch after := c.config.After; {
	case after != nil:
		all = append(all, client.After(client.Position{Epoch: after.Epoch, Revision: after.Revision}))
	case c.config.Seen > 0 && !c.config.Snapshot:
		all = append(all, client.FromNow())
	}
	return all
}

// receive returns when a watch has ended, which it should not before Close.
func (c *clientConnection) receive() error {
	err := <-c.ended
	c.cancel()
	c.watching.Wait()
	return err
}

// Close ends the watches and waits for them.
func (c *clientConnection) Close() error {
	c.cancel()
	c.watching.Wait()
	return c.client.Close()
}
