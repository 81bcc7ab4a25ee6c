package client

import (
	"context"
	"crypto/tls"
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

// TokenSource returns the bearer token of a request. ctx is that of the request.
type TokenSource func(ctx context.Context) (string, error)

// errPlaintext is what a request with a token gets instead of being sent.
var errPlaintext = errors.New("a token is not sent in plaintext to another machine: use TLS")

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (source TokenSource) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	info, _ := credentials.RequestInfoFromContext(ctx)
	if !keepsSecrets(info.AuthInfo) {
		return nil, status.Error(codes.Unauthenticated, errPlaintext.Error())
	}
	token, err := source(ctx)
	if err != nil {
		// Whoever issues tokens may be back soon, so this is no verdict on the caller.
		return nil, status.Errorf(codes.Unavailable, "get a token: %v", err)
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials. The decision is
// made for each connection.
func (source TokenSource) RequireTransportSecurity() bool { return false }

// keepsSecrets reports whether nobody else can read what is sent over a connection.
func keepsSecrets(info credentials.AuthInfo) bool {
	if p, ok := info.(plaintextInfo); ok {
		return p.local
	}
	return info != nil && credentials.CheckSecurityLevel(info, credentials.PrivacyAndIntegrity) == nil
}

// plaintext is the credentials that are none, for connections that remember whether
// they leave the machine.
type plaintext struct {
	credentials.TransportCredentials
}

type plaintextInfo struct {
	credentials.AuthInfo
	local bool
}

// ClientHandshake implements credentials.TransportCredentials.
func (p plaintext) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := p.TransportCredentials.ClientHandshake(ctx, authority, raw)
	return conn, plaintextInfo{info, staysHere(raw.RemoteAddr())}, err
}

// Clone implements credentials.TransportCredentials.
func (p plaintext) Clone() credentials.TransportCredentials {
	return plaintext{p.TransportCredentials.Clone()}
}

// staysHere reports whether a connection ends on this machine: on its loopback
// interface, or where there is no network at all.
func staysHere(remote net.Addr) bool {
	address, err := netip.ParseAddrPort(remote.String())
	return err != nil && remote.Network() != "tcp" || err == nil && address.Addr().Unmap().IsLoopback()
}

// WithTokenFile sends the bearer token that a file has with every request. The file is
// read for each of them, so that it can be replaced, as Kubernetes does with the tokens
// of service accounts. Space around the token does not belong to it.
func WithTokenFile(path string) Option {
	return WithTokenSource(func(context.Context) (string, error) { return readToken(path) })
}

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

// WithCertificateFiles shows the server the certificate (PEM) of a file, with the key
// of another one. They are read for each connection, so that they can be replaced;
// servers have clients open a new one every quarter of an hour. Connections are
// encrypted, with what [WithTLS] says besides.
func WithCertificateFiles(certFile, keyFile string) Option {
	return func(s *settings) {
		s.certificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(certFile, keyFile)
			if err != nil {
				return nil, fmt.Errorf("read the certificate: %w", err)
			}
			return &pair, nil
		}
	}
}
