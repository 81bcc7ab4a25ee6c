package calls

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fanoutd/fanoutd/bench/internal/delivery"
	"github.com/fanoutd/fanoutd/bench/internal/stamp"
)

const (
	// dialTimeout bounds the time to connect.
	dialTimeout = time.Minute
	// answerTimeout bounds the wait for the last answers.
	answerTimeout = time.Minute
)

// connection makes calls. Calls are numbered from 0.
type connection interface {
	// call makes the next call. Flush sends it.
	call(key int, value []byte) error
	Flush() error
	// receive handles answers until all that have arrived are handled, at least one message.
	receive(answered func(call int, at int64) error) error
	SetDeadline(t time.Time) error
	Close() error
}

type connector func(ctx context.Context, c Config) (connection, error)

// caller makes the calls of one connection.
type caller struct {
	connection
	config Config
	share  int // calls in flight
	first  int // key of the first call
	value  []byte

	began   []int64 // when each call began, from stamp.Now
	waiting int     // calls without an answer
}

// callers are all connections of the process.
type callers []*caller

func connect(ctx context.Context, c Config) (callers, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	dial, err := c.connector()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	all := make(callers, 0, c.Connections)
	for i := range c.Connections {
		conn, err := dial(ctx, c)
		if err != nil {
			all.close()
			return nil, err
		}
		all = append(all, &caller{
			connection: conn, config: c, share: c.share(i), first: i * c.Keys / c.Connections,
			value: stamp.Stamp{}.Value(c.ValueSize),
		})
	}
	return all, nil
}

func (a callers) close() {
	for _, c := range a {
		c.Close()
	}
}

// callFor makes calls on all connections for a duration, and waits for their answers.
func (a callers) callFor(d time.Duration) (*Report, error) {
	began := time.Now()
	until := stamp.Now() + d.Nanoseconds()
	times := make([]delivery.Latency, len(a))
	var group errgroup.Group
	for i, c := range a {
		times[i] = delivery.NewLatency()
		group.Go(func() error { return c.callUntil(until, times[i]) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	r := &Report{Elapsed: time.Since(began)}
	for _, t := range times[1:] {
		times[0].Merge(t)
	}
	r.Each = times[0].Summary()
	return r, nil
}

// callUntil makes calls until a time from stamp.Now, and waits for their answers.
func (c *caller) callUntil(until int64, times delivery.Latency) error {
	if err := c.SetDeadline(time.Now().Add(time.Duration(until-stamp.Now()) + answerTimeout)); err != nil {
		return err
	}
	for range c.share {
		if err := c.next(stamp.Now()); err != nil {
			return err
		}
	}
	for c.waiting > 0 {
		if err := c.Flush(); err != nil {
			return err
		}
		err := c.receive(func(call int, at int64) error {
			if call >= len(c.began) {
				return fmt.Errorf("an answer to call %d of %d", call, len(c.began))
			}
			c.waiting--
			times.Record(at - c.began[call])
			if at >= until {
				return nil
			}
			return c.next(at)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// next makes the next call, which begins now.
func (c *caller) next(now int64) error {
	key := (c.first + len(c.began)) % c.config.Keys
	c.began = append(c.began, now)
	c.waiting++
	return c.call(key, c.value)
}
