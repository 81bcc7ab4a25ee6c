package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/access/jwt"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/certificate"
	"github.com/fanoutd/fanoutd/internal/cluster/certs"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/internal/crypt"
	"github.com/fanoutd/fanoutd/internal/reload"
	"github.com/fanoutd/fanoutd/internal/validation"
)

// fileCheck collects the problems of files.
type fileCheck struct{ problems config.Problems }

// CheckFiles opens the files that a configuration names as [Build] does, and checks that the server could
// write its own. It changes nothing. Descriptor sets and the password of etcd are a part of the
// configuration and are not checked again.
func CheckFiles(cfg config.Config) config.Problems {
	c, log := &fileCheck{}, slog.New(slog.DiscardHandler)
	c.pair("tls-cert-file", cfg.TLSCertFile, "tls-key-file", cfg.TLSKeyFile)
	c.file("tls-client-ca-file", cfg.TLSClientCAFile, checkAuthorities)
	c.file("token-file", cfg.TokenFile, func([]byte) error {
		_, err := access.ReadIdentities(cfg.TokenFile)
		return err
	})
	c.file("jwt-ca-file", cfg.JWTCAFile, checkAuthorities)
	c.file("jwt-jwks-file", cfg.JWTJWKSFile, func([]byte) error {
		_, err := jwt.Open(jwt.Config{Issuer: cfg.JWTIssuer, KeysFile: cfg.JWTJWKSFile, Log: log}, reload.New(log))
		return err
	})
	c.file("policy-file", cfg.PolicyFile, func(content []byte) error {
		_, err := policy.Parse(cfg.PolicyFile, content)
		return err
	})
	c.file("keyset-file", cfg.KeysetFile, func(content []byte) error {
		return errors.Join(checkPermissions(cfg.KeysetFile), crypt.NewKeyring(log).Use(content))
	})
	for i, r := range cfg.Resources {
		c.file(fmt.Sprintf("resources[%d].validation-file", i), r.ValidationFile, func([]byte) error {
			_, err := validation.Load(r.ValidationFile, reload.New(log))
			return err
		})
	}
	if len(cfg.EtcdEndpoints) > 0 {
		c.file("etcd-ca-file", cfg.EtcdCAFile, checkAuthorities)
		c.pair("etcd-cert-file", cfg.EtcdCertFile, "etcd-key-file", cfg.EtcdKeyFile)
	} else {
		c.add("data-dir", checkWritableDir(cfg.DataDir))
	}
	if cfg.Cluster != nil {
		c.add("cluster", checkMemberFiles(cfg))
	}
	if cfg.AuditLog != "" && cfg.AuditLog != "-" {
		c.add("audit-log", checkWritableFile(cfg.AuditLog))
	}
	return c.problems
}

// CheckSubjects returns warnings about the subjects and groups of the policy that no caller can have,
// as far as that is known: names of certificates and JWTs are not. All files of the configuration must
// be valid.
func CheckSubjects(cfg config.Config) ([]string, error) {
	if cfg.PolicyFile == "" || cfg.JWTIssuer != "" {
		return nil, nil
	}
	content, err := os.ReadFile(cfg.PolicyFile)
	if err != nil {
		return nil, err
	}
	rules, err := policy.Parse(cfg.PolicyFile, content)
	if err != nil {
		return nil, err
	}
	var known []access.Identity
	if cfg.TokenFile != "" {
		if known, err = access.ReadIdentities(cfg.TokenFile); err != nil {
			return nil, err
		}
	}
	subjects, groups := rules.Unmatched(known)
	var warnings []string
	if cfg.TLSClientCAFile == "" { // certificates have names, but no groups
		for _, subject := range subjects {
			warnings = append(warnings, fmt.Sprintf("policy-file: no token has the subject %q", subject))
		}
	}
	for _, group := range groups {
		warnings = append(warnings, fmt.Sprintf("policy-file: the group %q has no members, and no token has it", group))
	}
	return warnings, nil
}

func (c *fileCheck) add(key string, err error) {
	if err != nil {
		c.problems = append(c.problems, config.Problem{Key: key, Message: err.Error()})
	}
}

// file checks a file, unless the setting is empty. It reports whether there is no problem.
func (c *fileCheck) file(key, path string, check func(content []byte) error) bool {
	if path == "" {
		return true
	}
	content, err := os.ReadFile(path)
	if err == nil {
		if err = check(content); err != nil && !strings.Contains(err.Error(), path) {
			err = fmt.Errorf("%s: %w", path, err)
		}
	}
	c.add(key, err)
	return err == nil
}

// pair checks a certificate with its key.
func (c *fileCheck) pair(certKey, certFile, keyKey, keyFile string) {
	readable := func([]byte) error { return nil }
	found := c.file(certKey, certFile, readable)
	if found = c.file(keyKey, keyFile, readable) && found; !found || certFile == "" || keyFile == "" {
		return
	}
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err == nil && time.Now().After(pair.Leaf.NotAfter) {
		err = fmt.Errorf("%s has expired on %s", certFile, pair.Leaf.NotAfter.Format(time.DateTime))
	}
	c.add(certKey, err)
}

// checkMemberFiles checks the certificate with which this server is a member of its cluster.
func checkMemberFiles(cfg config.Config) error {
	files := memberFiles(cfg)
	if files == (certs.Files{}) {
		return nil
	}
	status, err := files.Read(time.Now())
	if err != nil {
		return err
	}
	return status.Valid(time.Now())
}

func checkAuthorities(content []byte) error {
	_, err := certificate.Authorities(content)
	return err
}

// checkWritableDir checks that a directory is writable, or that it can be created.
func checkWritableDir(dir string) error {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) && filepath.Dir(dir) != dir {
		return checkWritableDir(filepath.Dir(dir))
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", dir)
	}
	probe, err := os.CreateTemp(dir, ".fanoutd-check-*")
	if err != nil {
		return fmt.Errorf("cannot write to %s: %w", dir, err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// checkWritableFile checks that a file can be appended to, or created.
func checkWritableFile(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return checkWritableDir(filepath.Dir(path))
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// CheckEtcd reads from the external etcd of a configuration, for each resource, and checks that the
// server could write its epoch, until ctx ends. It writes nothing. It returns warnings about values
// that do not fit the codec of their resource.
func CheckEtcd(ctx context.Context, cfg config.Config, log *slog.Logger) (warnings []string, err error) {
	if len(cfg.EtcdEndpoints) == 0 {
		return nil, errors.New("etcd-endpoints is not set: the embedded etcd runs only in the server")
	}
	keys := crypt.NewKeyring(log)
	if cfg.KeysetFile != "" {
		if err := reload.New(log).Load(cfg.KeysetFile, keys.Use); err != nil {
			return nil, err
		}
	}
	s, err := openStore(ctx, cfg, beginning{}, log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close(context.WithoutCancel(ctx))) }()
	if warnings, err = sampleValues(ctx, s, cfg, keys); err != nil {
		return nil, err
	}
	if err := s.CheckRights(ctx); err != nil {
		return nil, err
	}
	for _, r := range cfg.Resources {
		if r.History == nil || !cfg.Writes {
			continue
		}
		if err := s.Collection(r.Name, r.Prefix, keys.Values(cfg.Encrypts(&r))).KeepHistory().CheckRight(ctx); err != nil {
			return nil, fmt.Errorf("resource %s: %w", r.Name, err)
		}
	}
	return warnings, nil
}
