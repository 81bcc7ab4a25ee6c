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
	"github.com/fanoutd/fanoutd/test/certs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server accepts connections and says to each whose certificate it has shown.
func server(t *testing.T, cfg certificate.Config) (address string) {
	t.Helper()
	files, err := certificate.Load(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", files.TLS("test"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { files.Run(ctx) })
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

// dial opens a connection and returns whom the server takes us for, and who it is.
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

// ask has the server answer over a connection.
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

func TestWhoMayConnect(t *testing.T) {
	ours, theirs := certs.NewAuthority(t), certs.NewAuthority(t)
	pair := ours.Issue(t, named("server")).Files(t)
	good, foreign := ours.Issue(t, named("web")).TLS(t), theirs.Issue(t, named("stranger")).TLS(t)
	for name, c := range map[string]struct {
		ca       string
		required bool
		shows    []tls.Certificate
		want     string // empty: nothing
	}{
		"nobody is asked":                    {"", false, []tls.Certificate{good}, "nobody"},
		"a certificate may be shown":         {ours.File, false, []tls.Certificate{good}, "web"},
		"it need not be":                     {ours.File, false, nil, "nobody"},
		"but a bad one is refused":           {ours.File, false, []tls.Certificate{foreign}, ""},
		"where one is required it is":        {ours.File, true, []tls.Certificate{good}, "web"},
		"and nobody else gets in":            {ours.File, true, nil, ""},
		"least of all with that of somebody": {ours.File, true, []tls.Certificate{foreign}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			address := server(t, certificate.Config{
				CertFile: pair.Cert, KeyFile: pair.Key, ClientCAFile: c.ca, ClientRequired: c.required, Log: slog.New(slog.DiscardHandler),
			})
			show := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				if len(c.shows) == 0 {
					return &tls.Certificate{}, nil
				}
				return &c.shows[0], nil // also if the server says that it would not like it
			}
			_, us, _, err := dial(t, address, &tls.Config{RootCAs: ours.Pool(), GetClientCertificate: show})
			if us != c.want || (err == nil) != (c.want != "") {
				t.Errorf("the server takes us for %q (%v), want %q", us, err, c.want)
			}
			old := &tls.Config{RootCAs: ours.Pool(), GetClientCertificate: show, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
			if _, _, _, err := dial(t, address, old); err == nil {
				t.Error("TLS 1.1 is spoken")
			}
		})
	}
}

// lines counts what is logged, and says when there is something new.
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

// New connections get what is in the files, open ones go on, and what is bad changes
// nothing and is told.
func TestCertificatesAreReplaced(t *testing.T) {
	ours, theirs := certs.NewAuthority(t), certs.NewAuthority(t)
	pair := ours.Issue(t, named("one")).Files(t)
	ca := filepath.Join(t.TempDir(), "clients.pem")
	certs.Write(t, ca, ours.PEM())
	said := &lines{more: make(chan struct{}, 100)}
	address := server(t, certificate.Config{
		CertFile: pair.Cert, KeyFile: pair.Key, ClientCAFile: ca, ClientRequired: true, Log: slog.New(slog.NewTextHandler(said, nil)),
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
		<-said.more
		_, got, name, err := dial(t, address, trusting(mine))
		if name != server && err == nil || got != who || (err == nil) != (who != "") {
			t.Errorf("%q serves %q (%v), want %q and %q\n%s", name, got, err, server, who, said)
		}
		if got, err := ask(conn); got != "us" {
			t.Errorf("the connection that was open: %q, %v", got, err)
		}
	}
	pair.Replace(t, ours.Issue(t, named("two")))
	next(us, "two", "us")
	other := ours.Issue(t, named("three"))
	certs.Write(t, pair.Key, other.Key)
	next(us, "two", "us")
	if strings.Contains(said.String(), "PRIVATE KEY") || strings.Contains(said.String(), string(bytes.Split(other.Key, []byte("\n"))[1])) {
		t.Error("the log has a private key")
	}
	certs.Write(t, pair.Cert, other.Cert)
	next(us, "three", "us")
	certs.Write(t, ca, []byte("no certificate"))
	next(us, "three", "us")
	certs.Write(t, ca, theirs.PEM())
	next(us, "", "")
	said.more <- struct{}{}
	next(stranger, "three", "stranger")
	if n := strings.Count(said.String(), "level=ERROR"); n != 2 {
		t.Errorf("%d errors were told:\n%s", n, said)
	}
}

func TestFilesThatAreRefused(t *testing.T) {
	a := certs.NewAuthority(t)
	one, two := a.Issue(t, named("one")).Files(t), a.Issue(t, named("two")).Files(t)
	for want, cfg := range map[string]certificate.Config{
		"private key does not match":      {CertFile: one.Cert, KeyFile: two.Key},
		"nowhere.pem":                     {CertFile: "nowhere.pem", KeyFile: one.Key},
		"nowhere.key":                     {CertFile: one.Cert, KeyFile: "nowhere.key"},
		"nobody.pem":                      {CertFile: one.Cert, KeyFile: one.Key, ClientCAFile: "nobody.pem"},
		"there is no certificate in it":   {CertFile: one.Cert, KeyFile: one.Key, ClientCAFile: one.Key},
		one.Key + ": tls: failed to find": {CertFile: one.Key, KeyFile: one.Key},
	} {
		cfg.Log = slog.New(slog.DiscardHandler)
		if _, err := certificate.Load(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
