package client

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"strings"
)

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
