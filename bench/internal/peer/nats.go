package peer

import (
	"context"
	"fmt"
	"net"
	"time"

	natsclient "github.com/nats-io/nats.go"

	"github.com/fanoutd/fanoutd/bench/internal/load"
)

// nats drives NATS without a store: a message reaches only the current subscribers, and
// there is no history.
func nats(ctx context.Context, p *Peer, o Options) error {
	address, err := p.natsServer(ctx, o)
	if err != nil {
		return err
	}
	conn, err := natsclient.Connect("nats://" + address)
	if err != nil {
		return fmt.Errorf("connect to NATS: %w", err)
	}
	p.Address, p.Writer = address, &natsWriter{conn, o.Config}
	return nil
}

func (p *Peer) natsServer(ctx context.Context, o Options, args ...string) (address string, err error) {
	if address, err = freeAddress(); err != nil {
		return "", err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	return address, p.run(ctx, CommandNATS, address, o.Self, append([]string{CommandNATS, "--addr", host, "--port", port}, args...)...)
}

// flushTimeout bounds the time until the server has received a write.
const flushTimeout = time.Minute

// natsWriter publishes messages.
type natsWriter struct {
	conn   *natsclient.Conn
	config load.Config
}

// Write publishes all values, and waits until the server has received them.
func (w *natsWriter) Write(ctx context.Context, changes []Change) error {
	for _, c := range changes {
		if err := w.conn.Publish(w.config.SubjectOf(c.Key), c.Value); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	if err := w.conn.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	return nil
}

func (w *natsWriter) Close() error {
	w.conn.Close()
	return nil
}
