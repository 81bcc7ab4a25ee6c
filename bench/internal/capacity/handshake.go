package capacity

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Handshake measures the CPU that a server takes for a TLS handshake: the mean of so
// many, each on a connection of its own, with a certificate of ECDSA P-256 and what Go
// and its clients agree upon by default.
func Handshake(ctx context.Context, handshakes int) (time.Duration, error) {
	certificate, roots, err := selfSigned()
	if err != nil {
		return 0, fmt.Errorf("make a certificate: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("listen: %w", err)
	}
	defer listener.Close()
	clients := make(chan error, 1)
	go func() { clients <- connect(ctx, listener.Addr().String(), roots, handshakes) }()
	took, err := accept(ctx, listener, certificate, handshakes)
	if err != nil {
		listener.Close() // so that clients end
	}
	if failed := <-clients; err == nil {
		err = failed
	}
	return took, err
}

// accept is the server. It has a thread of its own, because that is what the system
// counts the CPU of.
func accept(ctx context.Context, listener net.Listener, certificate tls.Certificate, handshakes int) (time.Duration, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cfg := &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS13}
	one := func() error {
		conn, err := listener.Accept()
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		defer conn.Close()
		if err := tls.Server(conn, cfg).HandshakeContext(ctx); err != nil {
			return fmt.Errorf("handshake: %w", err)
		}
		return nil
	}
	before, err := threadCPU()
	if err != nil {
		return 0, err
	}
	for range handshakes {
		if err := one(); err != nil {
			return 0, err
		}
	}
	after, err := threadCPU()
	return (after - before) / time.Duration(handshakes), err
}

func threadCPU() (time.Duration, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		return 0, fmt.Errorf("ask for the CPU of a thread: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

func connect(ctx context.Context, address string, roots *x509.CertPool, handshakes int) error {
	d := tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: "localhost", NextProtos: []string{"h2"}}}
	for range handshakes {
		conn, err := d.DialContext(ctx, "tcp", address)
		if err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		conn.Close()
	}
	return nil
}

func selfSigned() (tls.Certificate, *x509.CertPool, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, roots, nil
}
