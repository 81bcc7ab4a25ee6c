package app_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/app"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/internal/crypt"
	"github.com/fanoutd/fanoutd/test/certs"
	"github.com/fanoutd/fanoutd/test/inprocess"
	"github.com/fanoutd/fanoutd/test/jwts"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

// CheckFiles finds each wrong file, with the setting that names it, and creates nothing.
func TestCheckFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ca := certs.NewAuthority(t)
	server, other := ca.Issue(t, certs.Subject{CommonName: "a"}).Files(t), ca.Issue(t, certs.Subject{CommonName: "b"}).Files(t)
	expired := ca.Issue(t, certs.Subject{CommonName: "c", NotAfter: time.Now().Add(-time.Hour)}).Files(t)
	keyset, _, err := crypt.Create()
	if err != nil {
		t.Fatal(err)
	}
	_, token, err := access.NewToken("alice", nil)
	if err != nil {
		t.Fatal(err)
	}
	valid := func() config.Config {
		cfg := config.Defaults()
		cfg.TLSCertFile, cfg.TLSKeyFile, cfg.TLSClientCAFile = server.Cert, server.Key, ca.File
		cfg.TokenFile = file("tokens", token+"\n", 0o600)
		cfg.JWTIssuer, cfg.JWTAudience = "issuer", "fanoutd"
		cfg.JWTJWKSFile = file("keys", string(jwts.Set(t, jwts.NewKey(t, "k"))), 0o600)
		cfg.PolicyFile = file("policy", aliceMay, 0o600)
		cfg.KeysetFile = file("keyset", string(keyset), 0o600)
		cfg.DataDir, cfg.AuditLog = filepath.Join(dir, "new", "data"), filepath.Join(dir, "audit.log")
		return cfg
	}
	external := func(cfg *config.Config) {
		cfg.EtcdEndpoints = []string{"127.0.0.1:1"}
		cfg.EtcdCAFile, cfg.EtcdCertFile, cfg.EtcdKeyFile = ca.File, server.Cert, server.Key
	}
	empty, missing := file("empty", "", 0o600), filepath.Join(dir, "missing")
	for name, c := range map[string]struct {
		change func(*config.Config)
		want   []string // settings with the ends of their messages
	}{
		"all files":         {func(*config.Config) {}, nil},
		"all files of etcd": {external, nil},
		"none":              {func(cfg *config.Config) { *cfg = config.Defaults(); cfg.DataDir = dir }, nil},
		"missing": {func(cfg *config.Config) {
			external(cfg)
			cfg.TLSCertFile, cfg.TLSKeyFile, cfg.TLSClientCAFile, cfg.TokenFile, cfg.JWTJWKSFile = missing, missing, missing, missing, missing
			cfg.PolicyFile, cfg.KeysetFile, cfg.EtcdCAFile, cfg.EtcdCertFile, cfg.EtcdKeyFile = missing, missing, missing, missing, missing
		}, []string{
			"tls-cert-file no such file or directory", "tls-key-file no such file or directory", "tls-client-ca-file no such file or directory",
			"token-file no such file or directory", "jwt-jwks-file no such file or directory", "policy-file no such file or directory",
			"keyset-file no such file or directory", "etcd-ca-file no such file or directory", "etcd-cert-file no such file or directory",
			"etcd-key-file no such file or directory",
		}},
		"wrong key":        {func(cfg *config.Config) { cfg.TLSKeyFile = other.Key }, []string{"tls-cert-file private key does not match public key"}},
		"expired":          {func(cfg *config.Config) { cfg.TLSCertFile, cfg.TLSKeyFile = expired.Cert, expired.Key }, []string{"tls-cert-file has expired on"}},
		"no authorities":   {func(cfg *config.Config) { cfg.TLSClientCAFile = empty }, []string{"tls-client-ca-file the file contains no certificate"}},
		"no tokens":        {func(cfg *config.Config) { cfg.TokenFile = file("bad tokens", "x", 0o600) }, []string{"token-file line 1: must be"}},
		"no keys of JWTs":  {func(cfg *config.Config) { cfg.JWTJWKSFile = empty }, []string{"jwt-jwks-file "}},
		"no policy":        {func(cfg *config.Config) { cfg.PolicyFile = file("bad policy", "rules:\n- {subject: [x]}\n", 0o600) }, []string{"policy-file :2:4: "}},
		"no keyset":        {func(cfg *config.Config) { cfg.KeysetFile = empty }, []string{"keyset-file "}},
		"readable keyset":  {func(cfg *config.Config) { cfg.KeysetFile = file("open", string(keyset), 0o644) }, []string{"keyset-file (mode 0644)"}},
		"data in a file":   {func(cfg *config.Config) { cfg.DataDir = empty }, []string{"data-dir is not a directory"}},
		"data below files": {func(cfg *config.Config) { cfg.DataDir = filepath.Join(empty, "data") }, []string{"data-dir not a directory"}},
		"audit log":        {func(cfg *config.Config) { cfg.AuditLog = dir }, []string{"audit-log is a directory"}},
		"audit directory":  {func(cfg *config.Config) { cfg.AuditLog = filepath.Join(empty, "log") }, []string{"audit-log not a directory"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := valid()
			c.change(&cfg)
			var got []string
			for i, p := range app.CheckFiles(cfg) {
				line := p.Key + " " + p.Message
				if i < len(c.want) {
					if setting, part, _ := strings.Cut(c.want[i], " "); setting == p.Key && strings.Contains(p.Message, part) {
						line = c.want[i]
					}
				}
				got = append(got, line)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, name := range []string{"new", "audit.log"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s was created", name)
		}
	}
}

// checkEtcd returns the error of CheckEtcd as a text.
func checkEtcd(ctx context.Context, cfg config.Config) string {
	_, err := app.CheckEtcd(ctx, cfg, slog.New(slog.DiscardHandler))
	return fmt.Sprint(err)
}

// CheckEtcd reads from etcd with the configured credentials, until its time is up.
func TestCheckEtcd(t *testing.T) {
	cfg := inprocess.Config(t)
	cfg.EmbeddedEtcdListen = loopback.FreeAddress(t)
	inprocess.Start(t, cfg)
	ctx := poll.Context(t)
	check := func(ctx context.Context, change func(*config.Config), want string) {
		t.Helper()
		cfg := config.Defaults()
		cfg.EtcdEndpoints = []string{cfg.EmbeddedEtcdListen}
		cfg.EtcdDialTimeout = config.Duration(time.Minute) // the machine may be busy
		change(&cfg)
		got := checkEtcd(ctx, cfg)
		if !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	here := []string{cfg.EmbeddedEtcdListen}
	check(ctx, func(c *config.Config) { c.EtcdEndpoints = here }, "<nil>")
	check(ctx, func(c *config.Config) { c.EtcdEndpoints = nil }, "etcd-endpoints is not set")

	etcd, err := clientv3.New(clientv3.Config{Endpoints: here, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	for _, step := range []func() error{
		func() error { _, err := etcd.UserAdd(ctx, "root", "secret"); return err },
		func() error { _, err := etcd.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := etcd.UserAdd(ctx, "fanoutd", "pass"); return err },
		func() error { _, err := etcd.UserAdd(ctx, "reader", "pass"); return err },
		func() error { _, err := etcd.RoleAdd(ctx, "reader"); return err },
		func() error {
			_, err := etcd.RoleGrantPermission(ctx, "reader", "\x00", "\x00", clientv3.PermissionType(clientv3.PermRead))
			return err
		},
		func() error { _, err := etcd.UserGrantRole(ctx, "reader", "reader"); return err },
		func() error { _, err := etcd.AuthEnable(ctx); return err },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	as := func(user, password string) func(*config.Config) {
		return func(c *config.Config) {
			c.EtcdEndpoints, c.EtcdUsername, c.EtcdPassword = here, user, config.Secret(password)
		}
	}
	check(ctx, as("root", "secret"), "<nil>")
	check(ctx, as("root", "wrong"), "invalid user ID or password")
	check(ctx, as("fanoutd", "pass"), "cannot read resource config (prefix /fanoutd/config/) from etcd at ["+here[0]+"]: etcdserver: permission denied")
	check(ctx, as("reader", "pass"), "cannot write the key fanoutd-epoch in etcd at ["+here[0]+"]: etcdserver: permission denied")
	// The check ends with its time.
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	check(short, func(c *config.Config) { c.EtcdEndpoints = []string{loopback.FreeAddress(t)} }, "cannot read resource config (prefix /fanoutd/config/) from etcd at")
}
