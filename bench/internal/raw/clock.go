package raw

import (
	"net"

	"github.com/fanoutd/fanoutd/bench/internal/stamp"
)

// Clocked is a connection that records the time of its last read, from stamp.Now.
type Clocked struct {
	net.Conn
	At int64
}

func (c *Clocked) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.At = stamp.Now()
	return n, err
}
