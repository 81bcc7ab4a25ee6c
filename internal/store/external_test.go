package store_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store"
	"github.com/fanoutd/fanoutd/test/certs"
	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/loopback"
)

func dialStore(t *testing.T, cfg store.ExternalConfig) *store.Collection {
	t.Helper()
	s, err := store.Dial(t.Context(), cfg, quiet())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	return s.Plain("test", prefix)
}

// wantRefused fails the test if a write succeeds. The write must fail by the caller's
// deadline.
func wantRefused(t *testing.T, c *store.Collection) {
	t.Helper()
	// The store would try again until the deadline.
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := c.Commit(ctx, []object.Op{put("k", "v")}); err == nil {
		t.Error("the write succeeded, want an error")
	}
}

func named(name string) certs.Subject {
	return certs.Subject{CommonName: name, DNSNames: []string{name}}
}

func TestTLSToEtcd(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	ours, theirs := certs.NewAuthority(t), certs.NewAuthority(t)
	server := ours.Issue(t, named("etcd.internal")).Files(t)
	client := ours.Issue(t, named("fanoutd")).Files(t)
	foreign := theirs.Issue(t, named("stranger")).Files(t)
	address := etcdproc.Start(t, "https",
		"--cert-file", server.Cert, "--key-file", server.Key, "--client-cert-auth", "--trusted-ca-file", ours.File)
	good := store.ExternalConfig{
		Endpoints: []string{"https://" + address}, ServerName: "etcd.internal",
		CAFile: ours.File, CertFile: client.Cert, KeyFile: client.Key,
	}
	commit(t, dialStore(t, good), put("k", "v"))

	for name, spoil := range map[string]func(*store.ExternalConfig){
		"a certificate of another authority": func(c *store.ExternalConfig) { c.CertFile, c.KeyFile = foreign.Cert, foreign.Key },
		"no certificate":                     func(c *store.ExternalConfig) { c.CertFile, c.KeyFile = "", "" },
		"another trusted authority":          func(c *store.ExternalConfig) { c.CAFile = theirs.File },
		"the system's trusted authorities":   func(c *store.ExternalConfig) { c.CAFile = "" },
		"another expected name":              func(c *store.ExternalConfig) { c.ServerName = "other.internal" },
		"the address as expected name":       func(c *store.ExternalConfig) { c.ServerName = "" },
		"no TLS":                             func(c *store.ExternalConfig) { *c = store.ExternalConfig{Endpoints: []string{"http://" + address}} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := good
			spoil(&cfg)
			wantRefused(t, dialStore(t, cfg))
		})
	}
}

func TestDialFailsWithUnusableFiles(t *testing.T) {
	a := certs.NewAuthority(t)
	pair := a.Issue(t, named("fanoutd")).Files(t)
	for name, cfg := range map[string]store.ExternalConfig{
		"missing authority file":               {CAFile: "nowhere.pem"},
		"authority file without a certificate": {CAFile: pair.Key},
		"missing certificate file":             {CertFile: "nowhere.pem", KeyFile: pair.Key},
		"key file without a key":               {CertFile: pair.Cert, KeyFile: pair.Cert},
	} {
		cfg.Endpoints = []string{"https://127.0.0.1:1"}
		s, err := store.Dial(t.Context(), cfg, quiet())
		if err == nil {
			closeStore(t, s)
			t.Errorf("%s: Dial succeeded", name)
		} else if !strings.Contains(err.Error(), "configure TLS to etcd") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDialChecksThePassword(t *testing.T) {
	address := etcdproc.Start(t, "http")
	admin := etcdClient(t, address)
	ctx := contextFor(t)
	if _, err := admin.UserAdd(ctx, "root", "secret"); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.UserGrantRole(ctx, "root", "root"); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.AuthEnable(ctx); err != nil {
		t.Fatal(err)
	}
	cfg := store.ExternalConfig{Endpoints: []string{address}, Username: "root", Password: "secret"}
	commit(t, dialStore(t, cfg), put("k", "v"))

	wantRefused(t, dialStore(t, store.ExternalConfig{Endpoints: []string{address}}))
	cfg.Password = "wrong"
	s, err := store.Dial(t.Context(), cfg, quiet())
	if err == nil {
		closeStore(t, s)
		t.Fatal("Dial accepted a wrong password")
	}
	if strings.Contains(err.Error(), "wrong") && !strings.Contains(err.Error(), "authentication failed") {
		t.Errorf("got %v, want an error without the password", err)
	}
}

// A server starts while etcd is unreachable. Calls that need etcd fail in bounded time,
// even without a deadline.
func TestCallsFailWhileEtcdIsUnreachable(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	c := dialStore(t, store.ExternalConfig{Endpoints: []string{loopback.FreeAddress(t)}, DialTimeout: time.Second})
	var calls sync.WaitGroup
	for name, call := range map[string]func() error{
		"Epoch":    func() error { _, err := c.Epoch(t.Context()); return err },
		"Revision": func() error { _, err := c.Revision(t.Context()); return err },
		"Commit":   func() error { _, err := c.Commit(t.Context(), []object.Op{put("k", "v")}); return err },
	} {
		calls.Go(func() {
			if err := call(); !errors.Is(err, object.ErrUnavailable) {
				t.Errorf("%s: got %v, want %v", name, err, object.ErrUnavailable)
			}
		})
	}
	calls.Wait()
}
