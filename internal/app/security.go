package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/access/jwt"
	"github.com/fanoutd/fanoutd/internal/access/policy"
	"github.com/fanoutd/fanoutd/internal/certificate"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/internal/crypt"
	"github.com/fanoutd/fanoutd/internal/reload"
	"github.com/fanoutd/fanoutd/internal/server"
)

// security holds the certificates, the authentication and the policy of the server.
type security struct {
	certificates  *certificate.Files // nil: plain text
	tokens        *access.Tokens     // nil: no tokens are accepted
	jwts          *jwt.Verifier      // nil: no JWTs are accepted
	authenticator *access.Authenticator
	policy        *reload.Value[policy.Policy] // nil: everything is allowed

	files   []followed
	cancel  context.CancelFunc
	running sync.WaitGroup // follows the files
}

// followed is a part of the security that comes from files.
type followed struct {
	run   func(ctx context.Context, srv *server.Server)
	check func(ctx context.Context) // looks at the files at once
}

// openSecurity loads the files of the security settings.
func openSecurity(cfg config.Config, log *slog.Logger) (*security, error) {
	s := &security{}
	var err error
	if cfg.TLSCertFile != "" {
		s.certificates, err = certificate.Load(certificate.Config{
			CertFile: cfg.TLSCertFile, KeyFile: cfg.TLSKeyFile,
			ClientCAFile: cfg.TLSClientCAFile, ClientRequired: cfg.TLSClientAuth == config.ClientAuthRequired, Log: log,
		})
		if err != nil {
			return nil, err
		}
		s.follow(s.certificates.Check, func(ctx context.Context, _ *server.Server) { s.certificates.Run(ctx) })
	}
	if cfg.TokenFile != "" {
		if s.tokens, err = access.LoadTokens(cfg.TokenFile, log); err != nil {
			return nil, err
		}
		s.follow(s.tokens.Check, func(ctx context.Context, srv *server.Server) { s.tokens.Run(ctx, srv.Reexamine) })
	}
	if cfg.JWTIssuer != "" {
		s.jwts, err = jwt.Open(jwt.Config{
			Issuer: cfg.JWTIssuer, Audience: cfg.JWTAudience, KeysFile: cfg.JWTJWKSFile, CAFile: cfg.JWTCAFile,
			NameClaim: cfg.JWTNameClaim, GroupsClaim: cfg.JWTGroupsClaim, Log: log,
		})
		if err != nil {
			return nil, err
		}
		s.follow(s.jwts.Check, func(ctx context.Context, srv *server.Server) { s.jwts.Run(ctx, srv.Reexamine) })
	}
	if s.tokens != nil || s.jwts != nil || cfg.TLSClientCAFile != "" {
		s.authenticator = &access.Authenticator{Tokens: s.tokens}
		if s.jwts != nil {
			s.authenticator.JWTs = s.jwts
		}
	}
	if cfg.PolicyFile != "" {
		if s.policy, err = loadPolicy(cfg.PolicyFile, log); err != nil {
			return nil, err
		}
		s.follow(s.policy.Check, func(ctx context.Context, srv *server.Server) {
			s.policy.Run(ctx, func() { srv.UsePolicy(s.policy.Get()) })
		})
	}
	s.warn(cfg, log)
	return s, nil
}

func (s *security) follow(check func(context.Context), run func(context.Context, *server.Server)) {
	s.files = append(s.files, followed{run, check})
}

// warn logs settings that an operator may not have intended.
func (s *security) warn(cfg config.Config, log *slog.Logger) {
	if cfg.Insecure && s.certificates == nil {
		log.Warn("serving in plain text: anyone on the network can read and change all data, including tokens", "setting", "insecure")
	}
	if s.policy != nil && s.authenticator == nil {
		log.Warn("authentication is disabled: the policy treats all clients as anonymous",
			"settings", "tls-client-ca-file, token-file, jwt-issuer")
	}
	if s.certificates != nil && s.authenticator == nil && s.policy == nil {
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

// start reloads the files when they change, until stop is called. It makes the server
// reexamine its watches when credentials may have become invalid or the policy has changed.
func (s *security) start(ctx context.Context, srv *server.Server) {
	ctx, s.cancel = context.WithCancel(ctx)
	for _, f := range s.files {
		s.running.Go(func() { f.run(ctx, srv) })
	}
}

// checkFiles polls the files at once, and waits for that or until ctx is done.
func (s *security) checkFiles(ctx context.Context) {
	for _, f := range s.files {
		f.check(ctx)
	}
}

func (s *security) stop() {
	s.cancel()
	s.running.Wait()
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
	f, err := reload.Load(path, a.log, func(content []byte) error {
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
	a.files = append(a.files, f)
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

// loadPolicy reads a policy file.
func loadPolicy(path string, log *slog.Logger) (*reload.Value[policy.Policy], error) {
	v, err := reload.LoadValue(path, log, func(content []byte) (*policy.Policy, error) { return policy.Parse(path, content) })
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	return v, nil
}
