package main

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/test/certs"
	"github.com/fanoutd/fanoutd/test/inprocess"
)

// denyingServer starts a server that denies every request and reports the caller's identity.
func denyingServer(t *testing.T, cert tls.Certificate, trusted *x509.CertPool) (address string) {
	t.Helper()
	s := grpc.NewServer(
		grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{cert}, ClientCAs: trusted, ClientAuth: tls.VerifyClientCertIfGiven})),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			md, _ := metadata.FromIncomingContext(stream.Context())
			caller, _ := peer.FromContext(stream.Context())
			name := "anonymous"
			if certs := caller.AuthInfo.(credentials.TLSInfo).State.PeerCertificates; len(certs) > 0 {
				name = certs[0].Subject.CommonName
			}
			return status.Errorf(codes.PermissionDenied, "%s with token %q", name, strings.Join(md.Get("authorization"), ","))
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

// Credentials from flags, variables and contexts reach the server, and its refusal is
// reported.
func TestCredentialsReachTheServer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	ours, theirs := certs.NewAuthority(t), certs.NewAuthority(t)
	address := denyingServer(t, ours.Issue(t, certs.Subject{DNSNames: []string{"fanoutd.example"}}).TLS(t), theirs.Pool())
	mine := theirs.Issue(t, certs.Subject{CommonName: "alice"}).Files(t)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	const hint = "set credentials with --token-file"
	fanoutctl := func(code int, want string, environ []string, args ...string) {
		t.Helper()
		var out, errs strings.Builder
		got := run(t.Context(), args, append(environ, "HOME="+home), strings.NewReader(""), &out, &errs)
		lines := slices.DeleteFunc(strings.Split(errs.String(), "\n"), func(line string) bool { return strings.Contains(line, "still waiting for") })
		if got != code || !strings.Contains(errs.String(), want) || len(lines) > 2 {
			t.Errorf("fanoutctl %s: got exit code %d and %q, want %d and %q", strings.Join(args, " "), got, errs.String(), code, want)
		}
		if strings.Contains(errs.String(), hint) != strings.Contains(want, hint) {
			t.Errorf("fanoutctl %s: the hint is for callers without credentials: %q", strings.Join(args, " "), errs.String())
		}
	}
	t.Setenv("XDG_CONFIG_HOME", home)
	flags := []string{"get", "config", "a", "--server", address, "--ca-file", ours.File, "--server-name", "fanoutd.example"}

	fanoutctl(exitDenied, `denied the request: anonymous with token ""; `+hint, nil, flags...)
	fanoutctl(exitDenied, `anonymous with token "Bearer from-file"`, nil, append(flags, "--token-file", token)...)
	fanoutctl(exitDenied, `anonymous with token "Bearer from-variable"`, []string{"FANOUTCTL_TOKEN=from-variable"}, flags...)
	fanoutctl(exitDenied, `anonymous with token "Bearer from-file"`, []string{"FANOUTCTL_TOKEN=from-variable"}, append(flags, "--token-file", token)...)
	fanoutctl(exitDenied, `alice with token ""`, []string{"FANOUTCTL_CERT_FILE=" + mine.Cert, "FANOUTCTL_KEY_FILE=" + mine.Key}, flags...)
	fanoutctl(exitOK, "", nil, "context", "set", "gate", "--server", address, "--ca-file", ours.File, "--server-name", "fanoutd.example",
		"--token-file", token, "--cert-file", mine.Cert, "--key-file", mine.Key)
	fanoutctl(exitDenied, `alice with token "Bearer from-file"`, nil, "list", "config")

	// What a context of the command line lacks does not come from a variable: that is for another server.
	fanoutctl(exitOK, "", nil, "context", "set", "bare", "--server", address, "--ca-file", ours.File, "--server-name", "fanoutd.example")
	foreign := []string{
		"FANOUTCTL_SERVER=127.0.0.1:1", "FANOUTCTL_TOKEN=from-variable", "FANOUTCTL_TOKEN_FILE=" + token, "FANOUTCTL_CA_FILE=" + theirs.File,
		"FANOUTCTL_SERVER_NAME=other.example", "FANOUTCTL_CERT_FILE=" + mine.Cert, "FANOUTCTL_KEY_FILE=" + mine.Key,
	}
	fanoutctl(exitDenied, `anonymous with token ""; `+hint, foreign, "list", "config", "--context", "bare")
	fanoutctl(exitDenied, `alice with token "Bearer from-file"`, foreign, "list", "config", "--context", "gate")
	fanoutctl(exitDenied, `anonymous with token "Bearer from-file"`, foreign, "list", "config", "--context", "bare", "--token-file", token)
	fanoutctl(exitDenied, `anonymous with token "Bearer from-variable"`, []string{"FANOUTCTL_CONTEXT=bare", "FANOUTCTL_TOKEN=from-variable"}, "list", "config")

	// The certificate of the server is verified.
	fanoutctl(exitUnavailable, "set the trusted certificate authority with --ca-file", nil, "get", "config", "a", "--server", address, "--tls", "--context", "gate", "--ca-file", theirs.File)
	fanoutctl(exitUnavailable, "fanoutd.example", nil, "get", "config", "a", "--context", "gate", "--server-name", "other.example")
}

// fanoutd accepts a valid token or client certificate, and nothing else.
func TestServerChecksCredentials(t *testing.T) {
	authority := certs.NewAuthority(t)
	pair, mine := authority.Issue(t, certs.Server).Files(t), authority.Issue(t, certs.Subject{CommonName: "alice"}).Files(t)
	token, line, err := access.NewToken("alice", nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	tokens, tokenFile, wrong := filepath.Join(dir, "tokens"), filepath.Join(dir, "token"), filepath.Join(dir, "wrong")
	certs.Write(t, tokens, []byte(line))
	certs.Write(t, tokenFile, []byte(token+"\n"))
	certs.Write(t, wrong, []byte(token[1:]))
	cfg := inprocess.Config(t)
	cfg.TLSCertFile, cfg.TLSKeyFile, cfg.TLSClientCAFile, cfg.TokenFile = pair.Cert, pair.Key, authority.File, tokens
	inprocess.Start(t, cfg)
	for _, c := range []struct {
		code int
		args []string
	}{
		{exitOK, []string{"--token-file", tokenFile}},
		{exitOK, []string{"--cert-file", mine.Cert, "--key-file", mine.Key}},
		{exitDenied, nil},
		{exitDenied, []string{"--token-file", wrong}},
		{exitDenied, []string{"--token-file", wrong, "--cert-file", mine.Cert, "--key-file", mine.Key}},
		{exitUsage, []string{"--token-file", filepath.Join(dir, "nowhere")}},
		{exitUsage, []string{"--cert-file", mine.Cert, "--key-file", pair.Key}},
	} {
		args := append([]string{"list", "config", "--server", cfg.Listen, "--ca-file", authority.File, "--server-name", "localhost"}, c.args...)
		var out, errs strings.Builder
		if code := run(t.Context(), args, []string{"HOME=" + dir}, strings.NewReader(""), &out, &errs); code != c.code {
			t.Errorf("%q: got exit code %d, want %d: %s", c.args, code, c.code, &errs)
		}
	}
}
