package load

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/fanoutd/fanoutd/bench/internal/raw"
)

// natsConnection reads NATS subscriptions from a connection with as little work as
// rawConnection needs for gRPC.
type natsConnection struct {
	*watchers
	number   int
	from, to int // its watchers
	conn     *raw.Clocked
	in       *bufio.Reader
	payload  []byte
}

func newNATS(w *watchers, number int) (connection, error) {
	conn, err := net.DialTimeout("tcp", w.config.Address, setupTimeout)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", w.config.Address, err)
	}
	from, to := w.config.share(number)
	clocked := &raw.Clocked{Conn: conn}
	return &natsConnection{
		watchers: w, number: number, from: from, to: to,
		conn: clocked, in: bufio.NewReaderSize(clocked, bufferFor(to-from)),
	}, nil
}

// open subscribes, then sends a ping. The server answers it after all subscriptions.
func (c *natsConnection) open(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok {
		if err := c.conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	var say bytes.Buffer
	fmt.Fprintf(&say, "CONNECT {\"verbose\":false,\"pedantic\":false,\"lang\":\"go\",\"version\":\"1\",\"protocol\":1}\r\n")
	for i := c.from; i < c.to; i++ {
		fmt.Fprintf(&say, "SUB %s %d\r\n", c.subject(i), i)
	}
	say.WriteString("PING\r\n")
	if _, err := say.WriteTo(c.conn); err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	for registered := false; !registered; {
		var err error
		if registered, err = c.next(); err != nil {
			return err
		}
	}
	return c.conn.SetDeadline(time.Time{})
}

// subject returns the subject of a watcher.
func (c *natsConnection) subject(watcher int) string {
	if key, ok := c.config.key(watcher); ok {
		return c.config.SubjectOf(key)
	}
	if c.config.Interest == InterestLabel {
		return Subject + "." + Group(watcher%c.config.Groups) + ".>"
	}
	return Subject + ".>"
}

func (c *natsConnection) receive() error {
	for {
		if _, err := c.next(); err != nil {
			return err
		}
	}
}

// next handles the next message of the server, and reports whether it answers our ping.
func (c *natsConnection) next() (pong bool, err error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return false, fmt.Errorf("read from NATS: %w", err)
	}
	words := bytes.Fields(line)
	if len(words) == 0 {
		return false, nil
	}
	switch string(words[0]) {
	case "MSG": // subject, number of the subscription, size
		return false, c.message(words)
	case "PING":
		_, err = io.WriteString(c.conn, "PONG\r\n")
	case "PONG":
		pong = true
	case "-ERR":
		err = fmt.Errorf("unexpected message of NATS: %q", line)
	}
	return pong, err
}

func (c *natsConnection) message(words [][]byte) error {
	if len(words) < 4 {
		return fmt.Errorf("unexpected message of NATS: %q", words)
	}
	watcher, err := strconv.Atoi(string(words[2]))
	if err != nil || watcher < c.from || watcher >= c.to {
		return fmt.Errorf("unknown subscription %q: %w", words[2], err)
	}
	size, err := strconv.Atoi(string(words[len(words)-1]))
	if err != nil {
		return fmt.Errorf("a message has size %q: %w", words[len(words)-1], err)
	}
	size += len("\r\n")
	if cap(c.payload) < size {
		c.payload = make([]byte, size)
	}
	payload := c.payload[:size]
	if _, err := io.ReadFull(c.in, payload); err != nil {
		return fmt.Errorf("read from NATS: %w", err)
	}
	c.counter.Receive(c.number, payload, c.conn.At, watcher)
	return nil
}

func (c *natsConnection) Close() error { return c.conn.Close() }
