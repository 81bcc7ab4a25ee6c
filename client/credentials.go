package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

// TokenSource returns the bearer token for a request. ctx is the context of the
// request.
type TokenSource func(ctx context.Context) (string, error)

// errPlaintext is why the client refuses to send a token.
var errPlaintext = errors.New("a token is not sent in plaintext to another machine: use TLS")

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (source TokenSource) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	info, _ := credentials.RequestInfoFromContext(ctx)
	if !isConfidential(info.AuthInfo) {
		return nil, status.Error(codes.Unauthenticated, errPlaintext.Error())
	}
	token, err := callInGoroutine(func() (string, error) { return source(ctx) })
	if err != nil {
		// The issuer of the token may be back soon, so this is not Unauthenticated.
		return nil, status.Errorf(codes.Unavailable, "get a token: %v", err)
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials. It returns false
// because GetRequestMetadata decides for each connection.
func (source TokenSource) RequireTransportSecurity() bool { return false }

// isConfidential reports whether no third party can read the connection.
func isConfidential(info credentials.AuthInfo) bool {
	if p, ok := info.(plaintextInfo); ok {
		return p.local
	}
	return info != nil && credentials.CheckSecurityLevel(info, credentials.PrivacyAndIntegrity) == nil
}

// readToken reads the token for [WithTokenFile].
func readToken(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", fmt.Errorf("read the token: %s is empty", path)
	}
	return token, nil
}

// certificateFiles returns a source of certificates for [WithCertificateFiles].
func certificateFiles(certFile, keyFile string) func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil, fmt.Errorf("read the certificate: %w", err)
		}
		return &pair, nil
	}
}

// withOwnGoroutines returns a configuration whose callbacks run in goroutines of their own. If one could end the
// goroutine of a handshake, gRPC would wait until the time for the connection is over.
func withOwnGoroutines(config *tls.Config) *tls.Config {
	config = config.Clone()
	if f := config.GetClientCertificate; f != nil {
		config.GetClientCertificate = func(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return callInGoroutine(func() (*tls.Certificate, error) { return f(info) })
		}
	}
	if f := config.VerifyPeerCertificate; f != nil {
		config.VerifyPeerCertificate = func(raw [][]byte, chains [][]*x509.Certificate) error {
			_, err := callInGoroutine(func() (struct{}, error) { return struct{}{}, f(raw, chains) })
			return err
		}
	}
	if f := config.VerifyConnection; f != nil {
		config.VerifyConnection = func(state tls.ConnectionState) error {
			_, err := callInGoroutine(func() (struct{}, error) { return struct{}{}, f(state) })
			return err
		}
	}
	return config
}

// plaintext is transport credentials without encryption. They note whether a connection
// leaves the machine.
type plaintext struct {
	credentials.TransportCredentials
}

type plaintextInfo struct {
	credentials.AuthInfo
	local bool // the connection stays on this machine
}

// ClientHandshake implements credentials.TransportCredentials.
func (p plaintext) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := p.TransportCredentials.ClientHandshake(ctx, authority, raw)
	return conn, plaintextInfo{info, isLocalAddr(raw.RemoteAddr())}, err
}

// Clone implements credentials.TransportCredentials.
func (p plaintext) Clone() credentials.TransportCredentials {
	return plaintext{p.TransportCredentials.Clone()}
}

// isLocalAddr reports whether an address is on this machine: on the loopback interface,
// or not on a network at all.
func isLocalAddr(remote net.Addr) bool {
	address, err := netip.ParseAddrPort(remote.String())
	return err != nil && remote.Network() != "tcp" || err == nil && address.Addr().Unmap().IsLoopback()
}
