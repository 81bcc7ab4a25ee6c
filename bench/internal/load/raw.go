package load

import (
	"context"
	"fmt"
	"time"

	"github.com/fanoutd/fanoutd/bench/internal/raw"
)

// rawConnection is a connection whose frames are read by the benchmark itself.
type rawConnection struct {
	*watchers
	service  service
	number   int
	from, to int // its watchers
	conn     *raw.Conn
	waiting  map[int]bool // watchers that have not been told yet that they are registered
}

func newRaw(w *watchers, number int, s service) (connection, error) {
	from, to := w.config.share(number)
	c := &rawConnection{watchers: w, service: s, number: number, from: from, to: to, waiting: map[int]bool{}}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var err error
	c.conn, err = raw.Dial(ctx, w.config.Address, w.config.options(to-from))
	return c, err
}

// bufferFor returns how much is read at once: many watchers receive much at once; many
// connections must not take too much memory.
func bufferFor(watchers int) int { return min(max(8<<10, watchers<<10), 256<<10) }

func (c *rawConnection) open(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok {
		if err := c.conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	for i := c.from; i < c.to; i++ {
		c.waiting[i] = true
		watch := (i - c.from) % c.config.PerStream
		request, err := c.service.request(c.config, c.interests[i])
		if err != nil {
			return err
		}
		if watch == 0 {
			err = c.conn.Open(c.service.path, request, c.service.half)
		} else {
			err = c.conn.Send((i-c.from)/c.config.PerStream, request)
		}
		if err != nil {
			return err
		}
	}
	if err := c.conn.Flush(); err != nil {
		return err
	}
	if err := c.conn.Read(c.handle, func() bool { return len(c.waiting) == 0 }); err != nil {
		return err
	}
	c.waiting = nil
	return c.conn.SetDeadline(time.Time{})
}

func (c *rawConnection) receive() error {
	return c.conn.Read(c.handle, func() bool { return false })
}

func (c *rawConnection) handle(stream int, message []byte, at int64) error {
	watch, err := c.service.watch(message)
	if err != nil {
		return err
	}
	watcher := c.from + stream*c.config.PerStream + watch
	if watcher >= c.to {
		return fmt.Errorf("watch %d of stream %d is none of ours", watch, stream)
	}
	delete(c.waiting, watcher)
	c.tally.Receive(c.number, watcher, message, at)
	return nil
}

func (c *rawConnection) Close() error {
	if c.conn == nil {
		return nil
	}
	return c.conn.Close()
}
