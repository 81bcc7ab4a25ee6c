package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// sameConnections has a connection for each client, by the connection that the client should use.
var sameConnections = struct {
	sync.Mutex
	found map[*grpc.ClientConn]*grpc.ClientConn // guarded by Mutex
}{found: map[*grpc.ClientConn]*grpc.ClientConn{}}

// sameConnection returns a connection that a client never replaces: it has no keepalive, and ignores GOAWAY.
func sameConnection(cc *grpc.ClientConn) (*grpc.ClientConn, error) {
	sameConnections.Lock()
	defer sameConnections.Unlock()
	if same := sameConnections.found[cc]; same != nil {
		return same, nil
	}
	same, err := grpc.NewClient(cc.Target(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(dialWithoutGoAway))
	if err == nil {
		sameConnections.found[cc] = same
	}
	return same, err
}

func dialWithoutGoAway(ctx context.Context, address string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &withoutGoAway{Conn: c, frame: bytes.NewReader(nil)}, nil
}

// withoutGoAway drops the GOAWAY frames of a connection.
type withoutGoAway struct {
	net.Conn
	frame io.Reader // the rest of a frame
}

// The header of a frame of HTTP/2 has the length in its first three bytes, and then the type.
const (
	headerBytes = 9
	goAway      = 7
)

// Read implements net.Conn.
func (c *withoutGoAway) Read(p []byte) (int, error) {
	for {
		n, err := c.frame.Read(p)
		if n > 0 || err != io.EOF { //nolint:errorlint // the readers of frames do not wrap it
			return n, err
		}
		header := make([]byte, headerBytes)
		if _, err := io.ReadFull(c.Conn, header); err != nil {
			return 0, err
		}
		content := io.LimitReader(c.Conn, int64(header[0])<<16|int64(header[1])<<8|int64(header[2]))
		if header[3] != goAway {
			c.frame = io.MultiReader(bytes.NewReader(header), content)
		} else if _, err := io.Copy(io.Discard, content); err != nil {
			return 0, err
		}
	}
}
