package server

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
)

// lastWords is how long a connection outlives the certificate that its client has
// shown, so that watches can be told.
const lastWords = 2 * time.Second

// transport is the beginning of all connections: those from outside with TLS, where
// that is configured, and those within the process as they are.
type transport struct {
	credentials.TransportCredentials
}

func newTransport(config *tls.Config) transport {
	if config == nil {
		return transport{insecure.NewCredentials()}
	}
	return transport{credentials.NewTLS(config)}
}

// ServerHandshake implements credentials.TransportCredentials.
func (t transport) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if _, ok := raw.(localConn); ok {
		return raw, localInfo{}, nil
	}
	// Linux counts the time for which a peer takes nothing, too, which keepalive gives it.
	if err := endUnacknowledged(raw, keepaliveParameters.Time+keepaliveParameters.Timeout); err != nil {
		return nil, nil, err
	}
	conn, info, err := t.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	if shown, ok := info.(credentials.TLSInfo); ok && len(shown.State.VerifiedChains) > 0 {
		conn = until(conn, shown.State.VerifiedChains[0][0].NotAfter.Add(lastWords))
	}
	noted := newFramed(conn)
	return noted, framedInfo{info, noted}, nil
}

// mortal is a connection that ends by itself. A client whose certificate has expired
// then opens another one, and shows the one that it has by that time.
type mortal struct {
	net.Conn
	end *time.Timer
}

func until(conn net.Conn, end time.Time) mortal {
	return mortal{conn, time.AfterFunc(time.Until(end), func() { _ = conn.Close() })}
}

// Close implements net.Conn.
func (m mortal) Close() error {
	m.end.Stop()
	return m.Conn.Close()
}

// Clone implements credentials.TransportCredentials.
func (t transport) Clone() credentials.TransportCredentials {
	return transport{t.TransportCredentials.Clone()}
}

// localListener marks the connections that it accepts as those within the process.
// Nobody outside can have such a connection, whatever address or headers it has.
type localListener struct{ net.Listener }

type localConn struct{ net.Conn }

// Accept implements net.Listener.
func (l localListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return localConn{conn}, nil
}

// localInfo is what is known of a connection within the process.
type localInfo struct{}

// AuthType implements credentials.AuthInfo.
func (localInfo) AuthType() string { return "local" }

// connectionOf returns the connection that a request comes over, or nil if that is within
// the process.
func connectionOf(ctx context.Context) *framed {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	info, _ := p.AuthInfo.(framedInfo)
	return info.conn
}

// isLocal reports whether a request comes over a connection within the process.
func isLocal(ctx context.Context) bool {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return false
	}
	_, local := p.AuthInfo.(localInfo)
	return local
}
