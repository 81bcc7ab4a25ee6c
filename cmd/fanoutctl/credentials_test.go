package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// identity makes a certificate for a name, which is its own authority, and returns the
// files of it and of its key.
func identity(t *testing.T, name string) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write := func(kind string, der []byte) string {
		file := filepath.Join(t.TempDir(), name+".pem")
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	return write("CERTIFICATE", cert), write("PRIVATE KEY", der)
}

// gatekeeper is a server that answers every request by who it takes the caller for.
func gatekeeper(t *testing.T, certFile, keyFile, clientFile string) (address string) {
	t.Helper()
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	text, err := os.ReadFile(clientFile)
	if err != nil || !trusted.AppendCertsFromPEM(text) {
		t.Fatal(err)
	}
	s := grpc.NewServer(
		grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{cert}, ClientCAs: trusted, ClientAuth: tls.VerifyClientCertIfGiven})),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			md, _ := metadata.FromIncomingContext(stream.Context())
			who, _ := peer.FromContext(stream.Context())
			name := "nobody"
			if certs := who.AuthInfo.(credentials.TLSInfo).State.PeerCertificates; len(certs) > 0 {
				name = certs[0].Subject.CommonName
			}
			return status.Errorf(codes.PermissionDenied, "%s with %q may not", name, strings.Join(md.Get("authorization"), ","))
		}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		s.Stop()
		<-done
	})
	return l.Addr().String()
}

// What flags, variables and contexts say of credentials reaches the server, and what
// it does not like is told.
func TestCredentials(t *testing.T) {
	cert, key := identity(t, "fanoutd.example")
	clientCert, clientKey := identity(t, "somebody")
	address := gatekeeper(t, cert, key, clientCert)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	fanoutctl := func(code int, want string, environ []string, args ...string) {
		t.Helper()
		var out, errs strings.Builder
		got := run(t.Context(), args, append(environ, "HOME="+home), strings.NewReader(""), &out, &errs)
		if got != code || !strings.Contains(errs.String(), want) || strings.Count(errs.String(), "\n") > 1 {
			t.Errorf("fanoutctl %s: exit code %d, not %d, with %q, not %q", strings.Join(args, " "), got, code, errs.String(), want)
		}
	}
	t.Setenv("XDG_CONFIG_HOME", home)
	flags := []string{"get", "config", "a", "--server", address, "--ca-file", cert, "--server-name", "fanoutd.example"}

	fanoutctl(exitDenied, `refuses: nobody with "" may not; --token-file`, nil, flags...)
	fanoutctl(exitDenied, `nobody with "Bearer from-file" may not`, nil, append(flags, "--token-file", token)...)
	fanoutctl(exitDenied, `nobody with "Bearer from-variable" may not`, []string{"FANOUTCTL_TOKEN=from-variable"}, flags...)
	fanoutctl(exitDenied, `nobody with "Bearer from-file" may not`, []string{"FANOUTCTL_TOKEN=from-variable"}, append(flags, "--token-file", token)...)
	fanoutctl(exitDenied, `somebody with "" may not`, []string{"FANOUTCTL_CERT_FILE=" + clientCert, "FANOUTCTL_KEY_FILE=" + clientKey}, flags...)
	fanoutctl(exitOK, "", nil, "context", "set", "gate", "--server", address, "--ca-file", cert, "--server-name", "fanoutd.example",
		"--token-file", token, "--cert-file", clientCert, "--key-file", clientKey)
	fanoutctl(exitDenied, `somebody with "Bearer from-file" may not`, nil, "list", "config")

	// A server that is not the one it should be is not talked to.
	fanoutctl(exitUnavailable, "--ca-file says whom to trust", nil, "get", "config", "a", "--server", address, "--tls", "--context", "gate", "--ca-file", clientCert)
	fanoutctl(exitUnavailable, "fanoutd.example", nil, "get", "config", "a", "--context", "gate", "--server-name", "other.example")
}
