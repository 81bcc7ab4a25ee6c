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

// security is what says who can read along and who may come in.
type security struct {
	certificates  *certificate.Files // nil: plain text
	tokens        *access.Tokens     // nil: none are good
	jwts          *jwt.Verifier      // nil: none are good
	authenticator *access.Authenticator
	policy        *policyFile // nil: everything is allowed

	cancel  context.CancelFunc
	running sync.WaitGroup // follows the files
}

// openSecurity reads the files that the configuration names.
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
	}
	if cfg.TokenFile != "" {
		if s.tokens, err = access.LoadTokens(cfg.TokenFile, log); err != nil {
			return nil, err
		}
	}
	if cfg.JWTIssuer != "" {
		s.jwts, err = jwt.Open(jwt.Config{
			Issuer: cfg.JWTIssuer, Audience: cfg.JWTAudience, KeysFile: cfg.JWTJWKSFile, CAFile: cfg.JWTCAFile,
			NameClaim: cfg.JWTNameClaim, GroupsClaim: cfg.JWTGroupsClaim, Log: log,
		})
		if err != nil {
			return nil, err
		}
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
	}
	s.warn(cfg, log)
	return s, nil
}

// warn says what an operator may not have meant.
func (s *security) warn(cfg config.Config, log *slog.Logger) {
	if cfg.Insecure && s.certificates == nil {
		log.Warn("plain text: whoever is on the way can read and change everything, tokens included", "setting", "insecure")
	}
	if s.policy != nil && s.authenticator == nil {
		log.Warn("nobody is asked who they are: callers may do what the policy says of anonymous, and no more",
			"settings", "tls-client-ca-file, token-file, jwt-issuer")
	}
	if s.certificates != nil && s.authenticator == nil && s.policy == nil {
		log.Warn("nobody is asked who they are: whoever reaches the server can do everything",
			"settings", "tls-client-ca-file, token-file, jwt-issuer")
	}
}

// tls returns the configuration of a listener, nil for plain text.
func (s *security) tls(protocols ...string) *tls.Config {
	if s.certificates == nil {
		return nil
	}
	return s.certificates.TLS(protocols...)
}

// start follows the files until stop is called, and tells the server when credentials
// that were good may be so no longer, and when the policy has changed.
func (s *security) start(ctx context.Context, srv *server.Server) {
	ctx, s.cancel = context.WithCancel(ctx)
	if s.certificates != nil {
		s.running.Go(func() { s.certificates.Run(ctx) })
	}
	if s.tokens != nil {
		s.running.Go(func() { s.tokens.Run(ctx, srv.Reexamine) })
	}
	if s.jwts != nil {
		s.running.Go(func() { s.jwts.Run(ctx, srv.Reexamine) })
	}
	if s.policy != nil {
		s.running.Go(func() { s.policy.run(ctx, srv.UsePolicy) })
	}
}

func (s *security) stop() {
	s.cancel()
	s.running.Wait()
}

// forOthers are the permissions of a file for those who are neither its owner nor of
// its group. Groups are left alone: Kubernetes gives mounted secrets to one.
const forOthers = 0o007

// openKeys reads the keyset, if there is one. Without keys there is a keyring all the
// same: it knows what is encrypted, and nobody is sent that.
func (a *App) openKeys() error {
	a.keys = crypt.NewKeyring(a.log)
	path := a.cfg.KeysetFile
	if path == "" {
		return nil
	}
	running := false
	f, err := reload.Load(path, a.log, func(content []byte) error {
		switch err := private(path); {
		case err != nil && !running:
			return err
		case err != nil:
			// Values may be encrypted with its keys already, so it is needed.
			a.log.Error("the keyset is not protected", "file", path, "error", err)
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

// private returns an error if others can use a file.
func private(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("look at its permissions: %w", err)
	}
	if mode := info.Mode().Perm(); mode&forOthers != 0 {
		return fmt.Errorf("everybody on this machine can use it (its mode is %04o); make it 0600, or 0440 for a group", mode)
	}
	return nil
}

// policyFile is a policy that is changed while the server runs.
type policyFile struct {
	file   *reload.File
	policy *policy.Policy       // the newest
	use    func(*policy.Policy) // puts it into use; of the goroutine of run, nil before
}

func loadPolicy(path string, log *slog.Logger) (*policyFile, error) {
	f := &policyFile{}
	read := func(content []byte) error {
		p, err := policy.Parse(path, content)
		if err != nil {
			return err
		}
		if f.policy = p; f.use != nil {
			f.use(p)
		}
		return nil
	}
	var err error
	if f.file, err = reload.Load(path, log, read); err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	return f, nil
}

// latest returns the policy, or nil where there is no file.
func (f *policyFile) latest() *policy.Policy {
	if f == nil {
		return nil
	}
	return f.policy
}

// run follows the file until ctx is done and calls use with each new policy.
func (f *policyFile) run(ctx context.Context, use func(*policy.Policy)) {
	f.use = use
	f.file.Run(ctx)
}
