package certificate_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/fanoutd/fanoutd/internal/certificate"
	"github.com/fanoutd/fanoutd/internal/reload"
	"github.com/fanoutd/fanoutd/test/certs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server accepts connections and sends each client the name in its certificate.
func server(t *testing.T, cfg certificate.Config) (address string) {
	t.Helper()
	followed := reload.New(cfg.Log)
	files, err := certificate.Load(cfg, followed)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", files.TLS("test"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { followed.Run(ctx, func() {}) })
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				if conn.(*tls.Conn).Handshake() != nil {
					return
				}
				name := "nobody"
				if chains := conn.(*tls.Conn).ConnectionState().VerifiedChains; len(chains) > 0 {
					name = chains[0][0].Subject.CommonName
				}
				buf := make([]byte, 1)
				for { // an answer for each byte
					if _, err := conn.Read(buf); err != nil {
						return
					}
					if _, err := conn.Write([]byte(name + "\n")); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		stop()
		_ = l.Close()
		running.Wait()
	})
	return l.Addr().String()
}

// dial opens a connection. It returns the client name that the server answers, and the name
// in the server certificate.
func dial(t *testing.T, address string, cfg *tls.Config) (conn *tls.Conn, us, server string, err error) {
	t.Helper()
	cfg.NextProtos = []string{"test"}
	conn, err = tls.Dial("tcp", address, cfg)
	if err != nil {
		return nil, "", "", err
	}
	t.Cleanup(func() { _ = conn.Close() })
	us, err = ask(conn)
	return conn, us, conn.ConnectionState().PeerCertificates[0].Subject.CommonName, err
}

// ask requests the client name from the server of a connection.
func ask(conn net.Conn) (string, error) {
	if _, err := conn.Write([]byte{0}); err != nil {
		return "", err
	}
	line := make([]byte, 64)
	n, err := conn.Read(line)
	return strings.TrimSpace(string(line[:n])), err
}

func named(name string) certs.Subject {
	return certs.Subject{CommonName: name, DNSNames: []string{"localhost"}, IPs: []string{"127.0.0.1"}}
}

func TestClientsConnectIfTheirCertificateAllowsIt(t *testing.T) {
	ours, theirs := certs.NewAuthority(t), certs.NewAuthority(t)
	pair := ours.Issue(t, named("server")).Files(t)
	good, foreign := ours.Issue(t, named("web")).TLS(t), theirs.Issue(t, named("stranger")).TLS(t)
	for name, c := range map[string]struct {
		ca       string
		required bool
		shows    []tls.Certificate
		want     string // empty: refused
	}{
		"no certificate requested": {"", false, []tls.Certificate{good}, "nobody"},
		"optional, valid":          {ours.File, false, []tls.Certificate{good}, "web"},
		"optional, absent":         {ours.File, false, nil, "nobody"},
		"optional, foreign":        {ours.File, false, []tls.Certificate{foreign}, ""},
		"required, valid":          {ours.File, true, []tls.Certificate{good}, "web"},
		"required, absent":         {ours.File, true, nil, ""},
		"required, foreign":        {ours.File, true, []tls.Certificate{foreign}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			address := server(t, certificate.Config{
				CertFile: pair.Cert, KeyFile: pair.Key, ClientCAFile: c.ca, ClientRequired: c.required, Log: slog.New(slog.DiscardHandler),
			})
			show := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				if len(c.shows) == 0 {
					return &tls.Certificate{}, nil
				}
				return &c.shows[0], nil // even if the server would not accept it
			}
			_, us, _, err := dial(t, address, &tls.Config{RootCAs: ours.Pool(), GetClientCertificate: show})
			if us != c.want || (err == nil) != (c.want != "") {
				t.Errorf("client name: got %q (%v), want %q", us, err, c.want)
			}
			old := &tls.Config{RootCAs: ours.Pool(), GetClientCertificate: show, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
			if _, _, _, err := dial(t, address, old); err == nil {
				t.Error("TLS 1.1: got a connection, want an error")
			}
		})
	}
}

// lines collects log lines and signals each one.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.more <- struct{}{}
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// New connections use the present files and open ones go on. Invalid contents change
// nothing and are logged.
func TestCertificatesAreReplaced(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	ours, theirs := certs.NewAuthority(t), certs.NewAuthority(t)
	pair := ours.Issue(t, named("one")).Files(t)
	ca := filepath.Join(t.TempDir(), "clients.pem")
	certs.Write(t, ca, ours.PEM())
	logged := &lines{more: make(chan struct{}, 100)}
	address := server(t, certificate.Config{
		CertFile: pair.Cert, KeyFile: pair.Key, ClientCAFile: ca, ClientRequired: true, Log: slog.New(slog.NewTextHandler(logged, nil)),
	})
	us, stranger := ours.Issue(t, named("us")).TLS(t), theirs.Issue(t, named("stranger")).TLS(t)
	trusting := func(mine tls.Certificate) *tls.Config {
		return &tls.Config{RootCAs: ours.Pool(), GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &mine, nil }}
	}
	conn, _, first, err := dial(t, address, trusting(us))
	if err != nil || first != "one" {
		t.Fatal(first, err)
	}
	next := func(mine tls.Certificate, server, who string) {
		t.Helper()
		<-logged.more
		_, got, name, err := dial(t, address, trusting(mine))
		if name != server && err == nil || got != who || (err == nil) != (who != "") {
			t.Errorf("server and client: got %q and %q (%v), want %q and %q\n%s", name, got, err, server, who, logged)
		}
		if got, err := ask(conn); got != "us" {
			t.Errorf("open connection: got %q (%v), want \"us\"", got, err)
		}
	}
	pair.Replace(t, ours.Issue(t, named("two")))
	next(us, "two", "us")
	other := ours.Issue(t, named("three"))
	certs.Write(t, pair.Key, other.Key)
	next(us, "two", "us")
	if strings.Contains(logged.String(), "PRIVATE KEY") || strings.Contains(logged.String(), string(bytes.Split(other.Key, []byte("\n"))[1])) {
		t.Error("the log contains a private key")
	}
	certs.Write(t, pair.Cert, other.Cert)
	next(us, "three", "us")
	certs.Write(t, ca, []byte("no certificate"))
	next(us, "three", "us")
	certs.Write(t, ca, theirs.PEM())
	next(us, "", "")
	logged.more <- struct{}{}
	next(stranger, "three", "stranger")
	if n := strings.Count(logged.String(), "level=ERROR"); n != 2 {
		t.Errorf("errors logged: got %d, want 2:\n%s", n, logged)
	}
}

func TestLoadRefusesInvalidFiles(t *testing.T) {
	a := certs.NewAuthority(t)
	one, two := a.Issue(t, named("one")).Files(t), a.Issue(t, named("two")).Files(t)
	for want, cfg := range map[string]certificate.Config{
		"private key does not match":       {CertFile: one.Cert, KeyFile: two.Key},
		"nowhere.pem":                      {CertFile: "nowhere.pem", KeyFile: one.Key},
		"nowhere.key":                      {CertFile: one.Cert, KeyFile: "nowhere.key"},
		"nobody.pem":                       {CertFile: one.Cert, KeyFile: one.Key, ClientCAFile: "nobody.pem"},
		"the file contains no certificate": {CertFile: one.Cert, KeyFile: one.Key, ClientCAFile: one.Key},
		one.Key + ": tls: failed to find":  {CertFile: one.Key, KeyFile: one.Key},
	} {
		cfg.Log = slog.New(slog.DiscardHandler)
		if _, err := certificate.Load(cfg, reload.New(cfg.Log)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
