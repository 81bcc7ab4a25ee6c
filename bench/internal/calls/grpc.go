package calls

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/fanoutd/fanoutd/bench/internal/load"
	"github.com/fanoutd/fanoutd/bench/internal/raw"
)

// readBuffer is the size of the read buffer of a connection.
const readBuffer = 64 << 10

// grpcConnection makes calls of one method.
type grpcConnection struct {
	*raw.Conn
	method method
	least  int // size of an answer
	encode []byte
}

func (m method) dial(ctx context.Context, c Config) (connection, error) {
	conn, err := raw.Dial(ctx, c.Address, raw.Options{Buffer: readBuffer})
	if err != nil {
		return nil, err
	}
	g := &grpcConnection{Conn: conn, method: m}
	if m.reads {
		g.least = c.ValueSize
	}
	return g, nil
}

func (g *grpcConnection) call(key int, value []byte) error {
	var err error
	if g.encode, err = (proto.MarshalOptions{}).MarshalAppend(g.encode[:0], g.method.request(load.Key(key), value)); err != nil {
		return fmt.Errorf("encode a request: %w", err)
	}
	return g.Call(g.method.path, g.encode)
}

func (g *grpcConnection) receive(answered func(call int, at int64) error) error {
	return g.Read(func(stream int, message []byte, at int64) error {
		if len(message) < g.least {
			return fmt.Errorf("an answer of %d bytes, want a value of %d", len(message), g.least)
		}
		return answered(stream, at)
	}, func() bool { return g.Buffered() == 0 })
}
