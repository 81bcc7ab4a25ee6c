package certs_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/rafthttp"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/internal/cluster/certs"
	"github.com/fanoutd/fanoutd/test/poll"
)

// tlsInfo returns the settings of etcd, as the documentation of [certs.Verification] has them.
func tlsInfo(t *testing.T, f certs.Files) transport.TLSInfo {
	t.Helper()
	s, err := f.Read(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	v := s.Verification(nil)
	return transport.TLSInfo{
		TrustedCAFile: f.CA, CertFile: f.Cert, KeyFile: f.Key, ClientCertAuth: true,
		ServerName: v.ServerName, AllowedHostnames: v.AllowedNames, SkipClientSANVerify: true,
	}
}

// member is an etcd member with a certificate.
type member struct {
	*embed.Etcd
	files       certs.Files
	dir         string
	name        string
	peer, calls string // URLs for members and for clients
}

// freeURL returns a URL at the address with a port that is free.
func freeURL(t *testing.T, address string) string {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "https://" + l.Addr().String()
}

// newMember returns a member that listens at the address and does not run yet.
func newMember(t *testing.T, d certs.Directory, name, address string) *member {
	t.Helper()
	return &member{files: files(d, name), dir: t.TempDir(), name: name, peer: freeURL(t, address), calls: freeURL(t, address)}
}

// start starts the member. A list of members forms a cluster; with existing, it joins one.
func (m *member) start(t *testing.T, list []*member, existing bool) {
	t.Helper()
	peer, err := url.Parse(m.peer)
	if err != nil {
		t.Fatal(err)
	}
	calls, err := url.Parse(m.calls)
	if err != nil {
		t.Fatal(err)
	}
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir = m.name, m.dir
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*calls}, []url.URL{*calls}
	cfg.PeerTLSInfo, cfg.ClientTLSInfo = tlsInfo(t, m.files), tlsInfo(t, m.files)
	var names []string
	for _, other := range list {
		names = append(names, other.name+"="+other.peer)
	}
	cfg.InitialCluster = strings.Join(names, ",")
	if existing {
		cfg.ClusterState = embed.ClusterStateFlagExisting
	}
	cfg.TickMs, cfg.ElectionMs = 20, 500
	cfg.UnsafeNoFsync = true
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	if m.Etcd, err = embed.StartEtcd(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.stop)
}

// stop stops the member if it runs.
func (m *member) stop() {
	if m.Etcd != nil {
		m.Close()
		m.Etcd = nil
	}
}

// ready waits until the members run.
func ready(t *testing.T, members ...*member) {
	t.Helper()
	ctx := poll.Context(t)
	for _, m := range members {
		select {
		case <-m.Server.ReadyNotify():
		case err := <-m.Err():
			t.Fatal(err)
		case <-ctx.Done():
			t.Fatalf("%s is not ready", m.name)
		}
	}
}

// client returns a client of a member, with the files of another one.
func client(t *testing.T, at *member, f certs.Files) *clientv3.Client {
	t.Helper()
	s, err := f.Read(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	v := s.Verification(nil)
	config, err := f.Client(v)
	if err != nil {
		t.Fatal(err)
	}
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{at.calls}, TLS: config, Logger: zap.NewNop(), DialOptions: []grpc.DialOption{grpc.WithAuthority(v.ServerName)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// put writes through a member and reads through all of them. It repeats what an election ends: one follows when a
// leader was stopped, or when the machine is busy.
func put(t *testing.T, value string, members ...*member) {
	t.Helper()
	ctx := poll.Context(t)
	writer := client(t, members[0], members[0].files)
	poll.Until(t, value+" is written", func() bool {
		_, err := writer.Put(ctx, "key", value)
		return err == nil
	})
	for _, m := range members {
		reader := client(t, m, members[0].files)
		poll.Until(t, value+" is read through "+m.name, func() bool {
			r, err := reader.Get(ctx, "key")
			if err == nil && (len(r.Kvs) != 1 || string(r.Kvs[0].Value) != value) {
				t.Fatalf("%s: got %v, want %s", m.name, r, value)
			}
			return err == nil
		})
	}
}

// The members have addresses that their certificates do not contain, as pods have. One of them gets another
// address, and a certificate that has just been renewed.
func TestEtcdClusterWithoutAddressesInCertificates(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	d := newDirectory(t, terms(time.Now()), "a.invalid", "b.invalid", "c.invalid")
	var members []*member
	for i := range 3 {
		members = append(members, newMember(t, d, name(i), fmt.Sprintf("127.0.7.%d", i+1)))
	}
	for _, m := range members {
		m.start(t, members, false)
	}
	ready(t, members...)
	put(t, "formed", members...)

	third := members[2]
	id := uint64(third.Server.MemberID())
	third.stop()
	third.peer, third.calls = freeURL(t, "127.0.7.9"), freeURL(t, "127.0.7.9")
	updater := client(t, members[0], third.files)
	poll.Until(t, "the address of node-3 is changed", func() bool { // it may have been the leader
		_, err := updater.MemberUpdate(poll.Context(t), id, []string{third.peer})
		return err == nil
	})
	if _, err := d.Renew([]certs.Member{{Name: "node-3"}}, terms(time.Now())); err != nil {
		t.Fatal(err)
	}
	third.start(t, members, false)
	ready(t, third)
	put(t, "moved", members...)

	// Two of three are a majority only if they reach each other, so a write needs the third one's new address.
	members[1].stop()
	put(t, "without node-2", members[0], third)
}

// refusal asks for the members at the peer port of m, as another member with these settings does.
func refusal(t *testing.T, m *member, as transport.TLSInfo) error {
	t.Helper()
	rt, err := rafthttp.NewRoundTripper(as, poll.Patience)
	if err != nil {
		t.Fatal(err)
	}
	defer rt.(*http.Transport).CloseIdleConnections()
	req, err := http.NewRequestWithContext(poll.Context(t), http.MethodGet, m.peer+"/members", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("got %s, %v", resp.Status, err)
	}
	return nil
}

// A running member of etcd accepts the certificates of its cluster and no others, at both ports.
func TestEtcdMemberAcceptsItsClusterOnly(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	now := time.Now()
	d, theirs := newDirectory(t, terms(now), "a.invalid", "b.invalid"), newDirectory(t, terms(now), "a.invalid", "b.invalid")
	m := newMember(t, d, "node-1", "127.0.7.1")
	m.start(t, []*member{m}, false)
	ready(t, m)

	expired := copied(t, d)
	if _, err := expired.Renew([]certs.Member{{Name: "node-2"}}, terms(now.Add(-366*day))); err != nil {
		t.Fatal(err)
	}
	// A certificate of the same authority for something else than a member.
	stranger := files(copied(t, d), "node-2")
	issueWithoutMemberName(t, d, stranger)

	own := tlsInfo(t, files(d, "node-2"))
	foreign := own
	foreign.CertFile, foreign.KeyFile = files(theirs, "node-2").Cert, files(theirs, "node-2").Key
	old := own
	old.CertFile, old.KeyFile = files(expired, "node-2").Cert, files(expired, "node-2").Key
	other := own
	other.CertFile, other.KeyFile = stranger.Cert, stranger.Key
	byHost := own
	byHost.ServerName = ""
	distrusting := tlsInfo(t, files(theirs, "node-2"))
	distrusting.CertFile, distrusting.KeyFile = own.CertFile, own.KeyFile
	for _, c := range []struct {
		name string
		as   transport.TLSInfo
		want string // empty: accepted
	}{
		{"own", own, ""},
		{"of another authority", foreign, "bad certificate|unknown certificate authority|certificate authority"},
		{"expired", old, "expired certificate|bad certificate"},
		{"without a certificate", transport.TLSInfo{TrustedCAFile: own.TrustedCAFile, ServerName: own.ServerName}, "certificate required"},
		{"not of a member", other, "bad certificate"},
		{"the other way round: an unknown authority", distrusting, "unknown authority"},
		{"the other way round: by host, as etcd does by default", byHost, "certificate is valid for"},
	} {
		t.Run(c.name, func(t *testing.T) {
			check := func(port string, err error) {
				accepted := err == nil
				if accepted != (c.want == "") || !accepted && !containsOne(err.Error(), c.want) {
					t.Errorf("%s port: got %v, want %q", port, err, c.want)
				}
			}
			check("peer", refusal(t, m, c.as))
			config, err := c.as.ClientConfig()
			if err != nil {
				t.Fatal(err)
			}
			if c.as.ServerName == "" {
				return
			}
			config.NextProtos = []string{"h2"}
			check("client", handshake(t, m.calls, config))
		})
	}
}

func containsOne(text, want string) bool {
	for w := range strings.SplitSeq(want, "|") {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// handshake connects and waits until the other side has accepted the certificate: with TLS 1.3 it may
// refuse it after the handshake of the client.
func handshake(t *testing.T, at string, config *tls.Config) error {
	t.Helper()
	dialer := &tls.Dialer{Config: config}
	conn, err := dialer.DialContext(poll.Context(t), "tcp", strings.TrimPrefix(at, "https://"))
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}

// etcd's own check of the caller's address is the reason for SkipClientSANVerify: it fails for a name
// that does not resolve, and for an address that has changed.
func TestEtcdByDefaultRefusesAddressesThatCertificatesDoNotContain(t *testing.T) {
	d := newDirectory(t, terms(time.Now()), "127.0.7.2", "127.0.7.2")
	for _, c := range []struct {
		skip bool
		from string
		ok   bool
	}{{false, "127.0.7.2", true}, {false, "127.0.7.3", false}, {true, "127.0.7.3", true}} {
		info := tlsInfo(t, files(d, "node-1"))
		info.SkipClientSANVerify = c.skip
		l, err := transport.NewListener("127.0.7.1:0", "https", &info)
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: http.NotFoundHandler()}
		served := make(chan error, 1)
		go func() { served <- server.Serve(l) }()
		config, err := tlsInfo(t, files(d, "node-2")).ClientConfig()
		if err != nil {
			t.Fatal(err)
		}
		config.NextProtos = nil
		dialer := &tls.Dialer{Config: config, NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(c.from)}}}
		conn, err := dialer.DialContext(poll.Context(t), "tcp", l.Addr().String())
		if err == nil {
			_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			if err == nil {
				_, err = conn.Read(make([]byte, 1))
			}
			_ = conn.Close()
		}
		if (err == nil) != c.ok {
			t.Errorf("skip %v, from %s: got %v, want accepted: %v", c.skip, c.from, err, c.ok)
		}
		_ = server.Close()
		<-served
	}
}

// New files need no restart of etcd, also while the authority is replaced.
func TestEtcdUsesRenewedFilesWithoutARestart(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	now := time.Now()
	d := newDirectory(t, terms(now), "a.invalid", "b.invalid")
	m := newMember(t, d, "node-1", "127.0.7.1")
	m.start(t, []*member{m}, false)
	ready(t, m)
	before := tlsInfo(t, files(copied(t, d), "node-2")) // a member with the old files, also after the renewals
	check := func(when string, accepted bool, as transport.TLSInfo) {
		t.Helper()
		if err := refusal(t, m, as); (err == nil) != accepted {
			t.Errorf("%s: got %v, want accepted: %v", when, err, accepted)
		}
		leaf, err := files(d, "node-1").Read(now)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []string{m.peer, m.calls} {
			if got := serial(t, at, as); accepted && got != leaf.Leaf.SerialNumber.String() {
				t.Errorf("%s: %s shows certificate %s, want %s", when, at, got, leaf.Leaf.SerialNumber)
			}
		}
	}
	check("at first", true, before)
	if _, err := d.Renew(nil, terms(now)); err != nil {
		t.Fatal(err)
	}
	check("after a renewal, with an old certificate", true, before)
	check("after a renewal, with a new certificate", true, tlsInfo(t, files(d, "node-2")))
	if _, err := d.RenewAuthority(terms(now)); err != nil {
		t.Fatal(err)
	}
	check("during the overlap, with an old certificate", true, before)
	check("during the overlap, with a new certificate", true, tlsInfo(t, files(d, "node-2")))
	m.stop()
	m.start(t, []*member{m}, false)
	ready(t, m)
	check("after the restart, with an old certificate", true, before)
	check("after the restart, with a new certificate", true, tlsInfo(t, files(d, "node-2")))
	if _, err := d.EndOverlap(terms(now)); err != nil {
		t.Fatal(err)
	}
	check("after the overlap, with a new certificate", true, tlsInfo(t, files(d, "node-2")))
	m.stop()
	m.start(t, []*member{m}, false)
	ready(t, m)
	check("after the overlap and a restart, with an old certificate", false, before)
	check("after the overlap and a restart, with a new certificate", true, tlsInfo(t, files(d, "node-2")))
}

// serial returns the serial number of the certificate that a server shows.
func serial(t *testing.T, at string, as transport.TLSInfo) string {
	t.Helper()
	config, err := as.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	dialer := &tls.Dialer{Config: config}
	conn, err := dialer.DialContext(poll.Context(t), "tcp", strings.TrimPrefix(at, "https://"))
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// Files.Server and Files.Client work with etcd's side of a connection.
func TestListenerBeforeEtcdRuns(t *testing.T) {
	now := time.Now()
	d, theirs := newDirectory(t, terms(now), "a.invalid", "b.invalid"), newDirectory(t, terms(now), "a.invalid", "b.invalid")
	s, err := files(d, "node-1").Read(now)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.7.1:0", files(d, "node-1").Server(s.Verification(nil)))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer func() {
		_ = server.Close()
		<-served
	}()
	m := &member{peer: "https://" + l.Addr().String()}
	if err := refusal(t, m, tlsInfo(t, files(d, "node-2"))); err != nil {
		t.Errorf("etcd of another member: %v", err)
	}
	if err := refusal(t, m, tlsInfo(t, files(theirs, "node-2"))); err == nil {
		t.Error("etcd of another cluster: got an answer, want an error")
	}
	// This listener reads the authorities for each connection, unlike etcd.
	if _, err := d.RenewAuthority(terms(now)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.EndOverlap(terms(now)); err != nil {
		t.Fatal(err)
	}
	if err := refusal(t, m, tlsInfo(t, files(d, "node-2"))); err != nil {
		t.Errorf("after the authority was replaced: %v", err)
	}
	config, err := files(d, "node-2").Client(s.Verification(nil))
	if err != nil {
		t.Fatal(err)
	}
	rt := &http.Transport{TLSClientConfig: config}
	defer rt.CloseIdleConnections()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, m.peer, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	stranger := files(copied(t, d), "node-2")
	issueWithoutMemberName(t, d, stranger)
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(stranger.Cert, stranger.Key)
		return &pair, err
	}
	if err := handshake(t, m.peer, config); err == nil || !strings.Contains(err.Error(), "bad certificate") && !strings.Contains(err.Error(), "internal error") {
		t.Errorf("a certificate that is not of a member: got %v, want it refused", err)
	}
}

// issueWithoutMemberName replaces the certificate in f by one that the authority of d has signed for something else.
func issueWithoutMemberName(t *testing.T, d certs.Directory, f certs.Files) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(string(d), "authority.pem"))
	if err != nil {
		t.Fatal(err)
	}
	cert, key := signWith(t, content, "web.example.com")
	for path, content := range map[string][]byte{f.Cert: cert, f.Key: key} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
