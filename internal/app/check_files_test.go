package app_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/internal/app"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/internal/crypt"
	"github.com/fanoutd/fanoutd/test/certs"
	"github.com/fanoutd/fanoutd/test/jwts"
)

// When CheckFiles returns, the new contents of all files are in use.
func TestCheckFilesUsesEveryChangedFile(t *testing.T) {
	for name, set := range map[string]func(cfg *config.Config, jwks, authorities string){
		"keys of JWTs from a file": func(cfg *config.Config, jwks, _ string) {
			cfg.JWTIssuer, cfg.JWTJWKSFile = "https://issuer.example.com", jwks
		},
		"keys of JWTs from their issuer": func(cfg *config.Config, _, authorities string) {
			cfg.JWTIssuer, cfg.JWTCAFile = "https://127.0.0.1:1", authorities
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(t)
			dir := t.TempDir()
			authority := certs.NewAuthority(t)
			pair := authority.Issue(t, certs.Server).Files(t)
			cfg.TLSCertFile, cfg.TLSKeyFile, cfg.TLSClientCAFile = pair.Cert, pair.Key, authority.File
			cfg.TokenFile, cfg.PolicyFile, cfg.KeysetFile = filepath.Join(dir, "tokens"), filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "keys.json")
			tokens(t.Context(), t, cfg.TokenFile)
			write(t, cfg.PolicyFile, aliceMay)
			keyset, _, err := crypt.Create()
			if err != nil {
				t.Fatal(err)
			}
			write(t, cfg.KeysetFile, string(keyset))
			jwks, authorities := filepath.Join(dir, "jwks.json"), filepath.Join(dir, "issuer-ca.pem")
			write(t, jwks, string(jwts.Set(t, jwts.NewKey(t, "a"))))
			write(t, authorities, string(authority.PEM()))
			cfg.JWTAudience = "fanoutd"
			set(&cfg, jwks, authorities)

			logFile, err := os.Create(filepath.Join(dir, "log"))
			if err != nil {
				t.Fatal(err)
			}
			defer logFile.Close()
			a, err := app.Build(t.Context(), cfg, slog.New(slog.NewTextHandler(logFile, nil)))
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- a.Run(ctx) }()
			changed := []string{cfg.TLSCertFile, cfg.TLSClientCAFile, cfg.TokenFile, cfg.PolicyFile, cfg.KeysetFile, cfg.JWTJWKSFile + cfg.JWTCAFile}
			for _, path := range changed {
				text, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				write(t, path, string(text)+"\n")
			}
			a.CheckFiles(ctx)
			logged, err := os.ReadFile(logFile.Name())
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(logged), "file has changed and is in use"); n != len(changed) {
				t.Errorf("got %d files in use, want %d:\n%s", n, len(changed), logged)
			}
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}
