package load

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/bench/internal/raw"
)

// The ways not to read.
const (
	StallFrozen = "frozen" // nothing is read from the connection: a process that hangs
	StallWindow = "window" // the connection is alive, but its streams are given no window: an application that hangs
)

// Stalls are the values of Config.Stall, besides "".
var Stalls = []string{StallFrozen, StallWindow}

// smallWindow is what a stream may send to a client that has asked for nothing else.
const smallWindow = 65535

// stalledConnection is a connection whose watchers stop reading as soon as they are
// registered.
type stalledConnection struct {
	watchers *watchers
	another  func() (connection, error)
	now      connection // the present one
	once     sync.Once
	closed   chan struct{} // by Close
}

// newStalled returns what lets the connections of a connector stall.
func newStalled(dial connector) connector {
	return func(w *watchers, number int) (connection, error) {
		c := &stalledConnection{watchers: w, closed: make(chan struct{})}
		c.another = func() (connection, error) { return dial(w, number) }
		var err error
		c.now, err = c.another()
		return c, err
	}
}

func (c *stalledConnection) open(ctx context.Context) error { return c.now.open(ctx) }

// receive does not, until Close. Where the configuration says so, it leaves after a time
// and comes again.
func (c *stalledConnection) receive() error {
	defer func() { c.now.Close() }()
	for {
		if !c.stall() {
			return nil
		}
		c.now.Close()
		if err := c.again(); err != nil {
			return fmt.Errorf("come again: %w", err)
		}
	}
}

// stall reads nothing for a while, and reports whether it is to come again.
func (c *stalledConnection) stall() bool {
	var over <-chan time.Time
	if c.watchers.config.StallFor > 0 {
		timer := time.NewTimer(c.watchers.config.StallFor)
		defer timer.Stop()
		over = timer.C
	}
	if c.watchers.config.Stall == StallWindow {
		reading := make(chan struct{})
		go func() {
			defer close(reading)
			_ = c.now.receive() // until the connection is closed here or there
		}()
		defer func() {
			c.now.Close()
			<-reading
		}()
	}
	select {
	case <-c.closed:
		return false
	case <-over:
		return true
	}
}

// again makes another connection with the same watches.
func (c *stalledConnection) again() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	go func() { // Close does not wait for it
		select {
		case <-c.closed:
			cancel()
		case <-stop:
		}
	}()
	next, err := c.another()
	if err != nil {
		return err
	}
	c.now = next
	if err := next.open(ctx); err != nil {
		return err
	}
	c.watchers.returned.Add(1)
	return nil
}

func (c *stalledConnection) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

// options say how a connection is read.
func (c Config) options(watchers int) raw.Options {
	o := raw.Options{Buffer: bufferFor(watchers)}
	if c.Stall == StallWindow {
		o.Window = smallWindow
	}
	return o
}
