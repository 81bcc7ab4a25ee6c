package calls

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/fanoutd/fanoutd/bench/internal/load"
	"github.com/fanoutd/fanoutd/bench/internal/raw"
)

// natsConnection reads and writes keys of a JetStream bucket, with the messages that NATS's own
// clients send. A write is a message to the stream of the bucket, which acknowledges it. A read asks
// for the last message of the key.
type natsConnection struct {
	conn   *raw.Clocked
	in     *bufio.Reader
	out    *bufio.Writer
	method string
	least  int    // size of an answer
	inbox  string // subject of the answers, without the number of the call
	calls  int
	answer []byte
}

func dialNATS(ctx context.Context, c Config) (connection, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", c.Address)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", c.Address, err)
	}
	clocked := &raw.Clocked{Conn: conn}
	n := &natsConnection{conn: clocked, in: bufio.NewReaderSize(clocked, readBuffer), out: bufio.NewWriterSize(conn, readBuffer), method: c.Method}
	if c.Method == MethodGet {
		n.least = c.ValueSize
	}
	_, port, _ := net.SplitHostPort(conn.LocalAddr().String()) // differs between the connections
	n.inbox = "_INBOX.bench." + port
	_, err = fmt.Fprintf(n.out, "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true,\"lang\":\"go\",\"version\":\"1\",\"protocol\":1}\r\nSUB %s.* 1\r\n", n.inbox)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("subscribe to the answers: %w", err)
	}
	return n, nil
}

func (n *natsConnection) call(key int, value []byte) error {
	const subject = "$KV." + load.Subject + "."
	var err error
	if n.method == MethodPut {
		_, err = fmt.Fprintf(n.out, "PUB %s%s %s.%d %d\r\n%s\r\n", subject, load.Key(key), n.inbox, n.calls, len(value), value)
	} else {
		const read = "$JS.API.DIRECT.GET.KV_" + load.Subject + "."
		_, err = fmt.Fprintf(n.out, "PUB %s%s%s %s.%d 0\r\n\r\n", read, subject, load.Key(key), n.inbox, n.calls)
	}
	n.calls++
	if err != nil {
		return fmt.Errorf("send a request: %w", err)
	}
	return nil
}

func (n *natsConnection) Flush() error { return n.out.Flush() }

func (n *natsConnection) SetDeadline(t time.Time) error { return n.conn.SetDeadline(t) }

func (n *natsConnection) Close() error { return n.conn.Close() }

func (n *natsConnection) receive(answered func(call int, at int64) error) error {
	for {
		if err := n.next(answered); err != nil {
			return err
		}
		if n.in.Buffered() == 0 {
			return nil
		}
	}
}

// next handles the next message of the server.
func (n *natsConnection) next(answered func(call int, at int64) error) error {
	line, err := n.in.ReadSlice('\n')
	if err != nil {
		return fmt.Errorf("read from NATS: %w", err)
	}
	words := bytes.Fields(line)
	if len(words) == 0 {
		return nil
	}
	switch string(words[0]) {
	case "MSG", "HMSG": // subject, subscription, sizes; the last is that of all that follows
		subject := string(words[1])
		call, err := strconv.Atoi(subject[bytes.LastIndexByte(words[1], '.')+1:])
		if err != nil {
			return fmt.Errorf("an answer to %q: %w", subject, err)
		}
		size, err := strconv.Atoi(string(words[len(words)-1]))
		if err != nil {
			return fmt.Errorf("an answer has size %q: %w", words[len(words)-1], err)
		}
		if err := n.read(size); err != nil {
			return err
		}
		return answered(call, n.conn.At)
	case "PING":
		_, err = io.WriteString(n.out, "PONG\r\n")
	case "-ERR":
		err = fmt.Errorf("unexpected message of NATS: %q", line)
	}
	return err
}

// read reads an answer of some size, and checks that it is no error.
func (n *natsConnection) read(size int) error {
	size += len("\r\n")
	if cap(n.answer) < size {
		n.answer = make([]byte, size)
	}
	answer := n.answer[:size]
	if _, err := io.ReadFull(n.in, answer); err != nil {
		return fmt.Errorf("read from NATS: %w", err)
	}
	if len(answer) < n.least || n.method == MethodPut && !bytes.Contains(answer, []byte(`"seq"`)) {
		return fmt.Errorf("unexpected answer of NATS: %q", answer)
	}
	return nil
}
