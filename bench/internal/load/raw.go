package load

import (
	"context"
	"time"

	"github.com/fanoutd/fanoutd/bench/internal/raw"
)

// rawConnection reads gRPC messages with package raw instead of grpc-go.
type rawConnection struct {
	*watchers
	service  service
	number   int
	from, to int // its watchers
	conn     *raw.Conn
	waiting  map[int]bool // watchers whose registration is not confirmed yet
	streams  []*streamReader
}

func newRaw(w *watchers, number int, s service) (connection, error) {
	from, to := w.config.share(number)
	c := &rawConnection{watchers: w, service: s, number: number, from: from, to: to, waiting: map[int]bool{}}
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	var err error
	c.conn, err = raw.Dial(ctx, w.config.Address, w.config.options(to-from))
	return c, err
}

// bufferFor returns the size of the read buffer. Many watchers on a connection receive much
// data at once; many connections must not use too much memory.
func bufferFor(watchers int) int { return min(max(8<<10, watchers<<10), 256<<10) }

func (c *rawConnection) open(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok {
		if err := c.conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	for i := c.from; i < c.to; i++ {
		c.waiting[i] = true
		if err := c.request(i); err != nil {
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

// request sends the request for a watch. If the state needs a separate request, it has a
// stream of its own before the stream of the watch.
func (c *rawConnection) request(watcher int) error {
	i := watcher - c.from
	request, err := c.service.request(c.config, watcher, i%c.config.streamSize())
	if err != nil {
		return err
	}
	if c.readsState() {
		read, err := c.service.readRequest(c.config, watcher)
		if err != nil {
			return err
		}
		if err := c.conn.Call(c.service.read, read); err != nil {
			return err
		}
	}
	if i%c.config.streamSize() > 0 {
		return c.send(i/c.config.streamSize(), request)
	}
	c.streams = append(c.streams, c.stream(c.service, c.number, watcher, c.to))
	return c.conn.Open(c.service.path, request, c.service.half)
}

// send sends a request on a stream, as soon as the server has room for it.
func (c *rawConnection) send(stream int, request []byte) error {
	fits := func() bool { return c.conn.Fits(stream, request) }
	if !fits() {
		if err := c.conn.Flush(); err != nil {
			return err
		}
		if err := c.conn.Read(c.handle, fits); err != nil {
			return err
		}
	}
	return c.conn.Send(stream, request)
}

// readsState reports whether each watch needs a separate request for the state.
func (c *rawConnection) readsState() bool { return c.config.Snapshot && c.service.readRequest != nil }

func (c *rawConnection) receive() error {
	return c.conn.Read(c.handle, func() bool { return false })
}

func (c *rawConnection) handle(stream int, message []byte, at int64) error {
	if c.readsState() {
		if read := stream%2 == 0; read {
			c.counter.Receive(c.number, message, at, c.from+stream/2)
			return nil
		}
		stream /= 2
	}
	watchers, err := c.streams[stream].receive(message, at)
	for _, watcher := range watchers {
		delete(c.waiting, watcher)
	}
	if err != nil {
		return err
	}
	return c.report(stream)
}

// report sends the reports of a stream that are due.
func (c *rawConnection) report(stream int) error {
	reports := c.streams[stream].reports
	if reports == nil || len(reports.due) == 0 {
		return nil
	}
	for len(reports.due) > 0 && c.conn.Fits(stream, reports.due[0]) { // the others are sent later
		if err := c.conn.Send(stream, reports.due[0]); err != nil {
			return err
		}
		reports.due = reports.due[1:]
	}
	return c.conn.Flush()
}

func (c *rawConnection) Close() error {
	if c.conn == nil {
		return nil
	}
	return c.conn.Close()
}
