package store

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/internal/object"
)

// ExternalConfig says how to reach an etcd cluster. Endpoints are required.
type ExternalConfig struct {
	Endpoints []string // host:port or URL; https URLs and any of the files below mean TLS

	CAFile     string // certificates to trust; default: the system's
	CertFile   string // client certificate, with KeyFile
	KeyFile    string
	ServerName string // to expect in the server's certificate; default: the endpoint's host

	Username string // etcd user; needs Password
	Password string

	DialTimeout time.Duration // for one attempt to connect; default 5 s
}

// Dial returns a store in an external etcd. It does not wait for a connection,
// so a server starts and serves what it can while etcd is away; only with a user
// name must etcd be there, to check the password. Files that cannot be used are
// an error at once.
func Dial(ctx context.Context, cfg ExternalConfig, log *slog.Logger) (*Store, error) {
	tlsConfig, err := cfg.tls()
	if err != nil {
		return nil, fmt.Errorf("TLS towards etcd: %w", err)
	}
	if cfg.DialTimeout == 0 {
		cfg.DialTimeout = 5 * time.Second
	}
	var options []grpc.DialOption
	if cfg.ServerName != "" {
		// The client takes the name from the endpoint, whatever tlsConfig says.
		options = append(options, grpc.WithAuthority(cfg.ServerName))
	}
	client, err := clientv3.New(clientv3.Config{
		DialOptions: options,
		Context:     context.WithoutCancel(ctx), // ended by Close, not by whoever opened it
		Endpoints:   cfg.Endpoints,
		TLS:         tlsConfig,
		Username:    cfg.Username,
		Password:    cfg.Password,
		DialTimeout: cfg.DialTimeout,
		// A connection that is dead without saying so is noticed within 15 s.
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 5 * time.Second,
		PermitWithoutStream:  true,
		Logger:               zapLogger(log.With("component", "etcd-client")),
	})
	if err != nil {
		return nil, fmt.Errorf("connect to etcd at %v: %w", cfg.Endpoints, err)
	}
	return &Store{client: client, log: log}, nil
}

// tls returns the TLS configuration, nil for none: then the schemes of the
// endpoints decide.
func (cfg ExternalConfig) tls() (*tls.Config, error) {
	if cfg.CAFile == "" && cfg.CertFile == "" && cfg.KeyFile == "" && cfg.ServerName == "" {
		return nil, nil
	}
	info := transport.TLSInfo{
		TrustedCAFile: cfg.CAFile,
		CertFile:      cfg.CertFile,
		KeyFile:       cfg.KeyFile,
		ServerName:    cfg.ServerName,
	}
	tlsConfig, err := info.ClientConfig()
	if err != nil {
		return nil, err
	}
	tlsConfig.MinVersion = max(tlsConfig.MinVersion, tls.VersionTLS12)
	return tlsConfig, nil
}

var _ object.Stream = (*stream)(nil)
