package transport

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"

	"github.com/fanoutd/fanoutd/internal/server/frames"
)

// expiryGrace is how long a connection outlives the certificate of its client, so that its
// watches can end properly.
const expiryGrace = 2 * time.Second

// credentialsOrLocal does the handshake of connections from outside, with TLS if that is
// configured. Connections within the process need none.
type credentialsOrLocal struct {
	credentials.TransportCredentials
	budgets StreamBudgets
	failed  HandshakeFailed
}

// HandshakeFailed is called with the address of a client whose TLS handshake has failed, and why.
// gRPC does not log that.
type HandshakeFailed func(address string, err error)

// StreamBudgets returns the budget of a new connection from an address, or nil.
type StreamBudgets func(address string) frames.Budget

func newCredentials(config *tls.Config, budgets StreamBudgets, failed HandshakeFailed) credentialsOrLocal {
	if config == nil {
		return credentialsOrLocal{insecure.NewCredentials(), budgets, failed}
	}
	return credentialsOrLocal{credentials.NewTLS(config), budgets, failed}
}

// ServerHandshake implements credentials.TransportCredentials.
func (t credentialsOrLocal) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if _, ok := raw.(localConn); ok {
		return raw, LocalInfo{}, nil
	}
	// Linux also counts the time for which the peer accepts no data. Keepalive allows as much.
	if err := setUserTimeout(raw, keepaliveParameters.Time+keepaliveParameters.Timeout); err != nil {
		return nil, nil, err
	}
	conn, info, err := t.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		t.failed(raw.RemoteAddr().String(), err)
		return nil, nil, err
	}
	if shown, ok := info.(credentials.TLSInfo); ok && len(shown.State.VerifiedChains) > 0 {
		conn = closeAt(conn, shown.State.VerifiedChains[0][0].NotAfter.Add(expiryGrace))
	}
	address := raw.RemoteAddr().String()
	followed := frames.NewConn(conn, t.budgets(address))
	return followed, ConnInfo{info, followed, address}, nil
}

// expiringConn is a connection that closes at a given time. A client whose certificate has
// expired then connects again with its new one.
type expiringConn struct {
	net.Conn
	expiry *time.Timer
}

func closeAt(conn net.Conn, end time.Time) expiringConn {
	return expiringConn{conn, time.AfterFunc(time.Until(end), func() { _ = conn.Close() })}
}

// Close implements net.Conn.
func (m expiringConn) Close() error {
	m.expiry.Stop()
	return m.Conn.Close()
}

// Clone implements credentials.TransportCredentials.
func (t credentialsOrLocal) Clone() credentials.TransportCredentials {
	return credentialsOrLocal{t.TransportCredentials.Clone(), t.budgets, t.failed}
}

// LocalListener marks the connections that it accepts as connections within the process. A
// client outside cannot have such a connection, whatever its address and headers are.
type LocalListener struct{ net.Listener }

type localConn struct{ net.Conn }

// Accept implements net.Listener.
func (l LocalListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return localConn{conn}, nil
}

// LocalInfo is the AuthInfo of a connection within the process.
type LocalInfo struct{}

// AuthType implements credentials.AuthInfo.
func (LocalInfo) AuthType() string { return "local" }

// FramesOf returns the connection of a request, or nil if it is within the process.
func FramesOf(ctx context.Context) *frames.Conn {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	info, _ := p.AuthInfo.(ConnInfo)
	return info.Frames
}

// IsLocal reports whether the connection of a request is within the process.
func IsLocal(ctx context.Context) bool {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return false
	}
	_, local := p.AuthInfo.(LocalInfo)
	return local
}

// ConnInfo is the AuthInfo of a connection from outside.
type ConnInfo struct {
	credentials.AuthInfo
	Frames  *frames.Conn
	address string // of the client
}

// GetSecurityValue implements credentials.ChannelzSecurityInfo.
func (i ConnInfo) GetSecurityValue() credentials.ChannelzSecurityValue {
	if known, ok := i.AuthInfo.(credentials.ChannelzSecurityInfo); ok {
		return known.GetSecurityValue()
	}
	return nil
}
