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

// Handshake measures the mean CPU time of the server for a TLS handshake. Each handshake has
// a connection of its own, an ECDSA P-256 certificate and the defaults of Go.
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
		listener.Close() // ends the clients
	}
	if failed := <-clients; err == nil {
		err = failed
	}
	return took, err
}

// accept is the server. It has a thread of its own, because the kernel counts CPU time by
// thread.
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
		return 0, fmt.Errorf("read the CPU time of a thread: %w", err)
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
