package app

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/access/jwt"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/certificate"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/internal/crypt"
	"github.com/fanoutd/fanoutd/internal/reload"
)

// security holds the certificates, the authentication and the policy of the server.
type security struct {
	certificates  *certificate.Files // nil: plain text
	jwts          *jwt.Verifier      // nil: no JWTs are accepted
	authenticator *access.Authenticator
	policy        atomic.Pointer[policy.Policy] // nil: everything is allowed
}

// openSecurity loads the files of the security settings. Those on which the rights of clients depend
// are rights, the others files.
func openSecurity(cfg config.Config, files, rights *reload.Files, log *slog.Logger) (*security, error) {
	s := &security{}
	var err error
	if cfg.TLSCertFile != "" {
		s.certificates, err = certificate.Load(certificate.Config{
			CertFile: cfg.TLSCertFile, KeyFile: cfg.TLSKeyFile,
			ClientCAFile: cfg.TLSClientCAFile, ClientRequired: cfg.TLSClientAuth == config.ClientAuthRequired, Log: log,
		}, files)
		if err != nil {
			return nil, err
		}
	}
	authenticator := &access.Authenticator{}
	if cfg.TokenFile != "" {
		if authenticator.Tokens, err = access.LoadTokens(cfg.TokenFile, rights); err != nil {
			return nil, err
		}
	}
	if cfg.JWTIssuer != "" {
		s.jwts, err = jwt.Open(jwt.Config{
			Issuer: cfg.JWTIssuer, Audience: cfg.JWTAudience, KeysFile: cfg.JWTJWKSFile, CAFile: cfg.JWTCAFile,
			NameClaim: cfg.JWTNameClaim, GroupsClaim: cfg.JWTGroupsClaim, Log: log,
		}, rights)
		if err != nil {
			return nil, err
		}
		authenticator.JWTs = s.jwts
	}
	if cfg.TokenFile != "" || cfg.JWTIssuer != "" || cfg.TLSClientCAFile != "" {
		s.authenticator = authenticator
	}
	if cfg.PolicyFile != "" {
		parse := func(content []byte) (*policy.Policy, error) { return policy.Parse(cfg.PolicyFile, content) }
		if err := rights.Load(cfg.PolicyFile, reload.Into(&s.policy, parse)); err != nil {
			return nil, fmt.Errorf("policy: %w", err)
		}
	}
	s.warn(cfg, log)
	return s, nil
}

// warn logs settings that an operator may not have intended.
func (s *security) warn(cfg config.Config, log *slog.Logger) {
	if cfg.Insecure && s.certificates == nil {
		log.Warn("serving in plain text: anyone on the network can read and change all data, including tokens", "setting", "insecure")
	}
	if cfg.PolicyFile != "" && s.authenticator == nil {
		log.Warn("authentication is disabled: the policy treats all clients as anonymous",
			"settings", "tls-client-ca-file, token-file, jwt-issuer")
	}
	if s.certificates != nil && s.authenticator == nil && cfg.PolicyFile == "" {
		log.Warn("authentication is disabled: anyone who can reach the server has full access",
			"settings", "tls-client-ca-file, token-file, jwt-issuer")
	}
}

// tls returns the TLS configuration of a listener, or nil for plain text.
func (s *security) tls(protocols ...string) *tls.Config {
	if s.certificates == nil {
		return nil
	}
	return s.certificates.TLS(protocols...)
}

// otherPermissions are the permissions of users other than the owner and the group. Group
// permissions are allowed, because Kubernetes mounts secrets for a group.
const otherPermissions = 0o007

// openKeys loads the keyset, if there is one. Without a keyset there is a keyring without
// keys, which recognizes encrypted values so that they are not served as they are.
func (a *App) openKeys() error {
	a.keys = crypt.NewKeyring(a.log)
	path := a.cfg.KeysetFile
	if path == "" {
		return nil
	}
	running := false
	err := a.files.Load(path, func(content []byte) error {
		switch err := checkPermissions(path); {
		case err != nil && !running:
			return err
		case err != nil:
			// Values may already be encrypted with its keys, so use it anyway.
			a.log.Error("keyset file has insecure permissions", "file", path, "error", err)
		}
		running = true
		return a.keys.Use(content)
	})
	if err != nil {
		return fmt.Errorf("keyset: %w", err)
	}
	return nil
}

// checkPermissions returns an error if other users can access a file.
func checkPermissions(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("cannot check permissions: %w", err)
	}
	if mode := info.Mode().Perm(); mode&otherPermissions != 0 {
		return fmt.Errorf("all users of this machine can access the file (mode %04o); set its mode to 0600, or 0440 for a group", mode)
	}
	return nil
}
