package load

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/bench/internal/raw"
)

// The values of Config.Stall, besides "": ways not to read.
const (
	StallFrozen = "frozen" // reads nothing from the connection, like a process that hangs
	StallWindow = "window" // keeps the connection alive but gives its streams no window, like an application that hangs
)

// Stalls lists the values of Config.Stall, besides "".
var Stalls = []string{StallFrozen, StallWindow}

// smallWindow is the default window of a stream in HTTP/2.
const smallWindow = 65535

// stalledConnection is a connection whose watchers stop reading as soon as they are
// registered.
type stalledConnection struct {
	watchers *watchers
	dial     func() (connection, error)
	current  connection
	once     sync.Once
	closed   chan struct{} // closed by Close
}

// newStalled returns a connector whose connections stall.
func newStalled(dial connector) connector {
	return func(w *watchers, number int) (connection, error) {
		c := &stalledConnection{watchers: w, closed: make(chan struct{})}
		c.dial = func() (connection, error) { return dial(w, number) }
		var err error
		c.current, err = c.dial()
		return c, err
	}
}

func (c *stalledConnection) open(ctx context.Context) error { return c.current.open(ctx) }

// receive reads nothing until Close. If StallFor is set, it reconnects after that time.
func (c *stalledConnection) receive() error {
	defer func() { c.current.Close() }()
	for {
		if !c.stall() {
			return nil
		}
		c.current.Close()
		if err := c.reconnect(); err != nil {
			return fmt.Errorf("reconnect: %w", err)
		}
	}
}

// stall reads nothing until Close or for StallFor, and reports whether to reconnect.
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
			_ = c.current.receive() // until either side closes the connection
		}()
		defer func() {
			c.current.Close()
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

// reconnect opens another connection with the same watches.
func (c *stalledConnection) reconnect() error {
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	go func() { // ends after reconnect; Close does not wait for it
		select {
		case <-c.closed:
			cancel()
		case <-stop:
		}
	}()
	next, err := c.dial()
	if err != nil {
		return err
	}
	c.current = next
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

// options returns the options for reading a connection.
func (c Config) options(watchers int) raw.Options {
	o := raw.Options{Buffer: bufferFor(watchers)}
	if c.Stall == StallWindow {
		o.Window = smallWindow
	}
	return o
}
