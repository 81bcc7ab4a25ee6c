package store

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

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

// reconnect says how long to wait between attempts to connect. gRPC's default goes
// up to two minutes, for which etcd would be back and we would not know.
var reconnect = backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second}

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
	made := &connections{}
	options := []grpc.DialOption{
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: cfg.DialTimeout}),
		grpc.WithChainStreamInterceptor(countOpened),
		grpc.WithStatsHandler(made),
	}
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
		// A connection that is dead without saying so is noticed within 15 s of
		// anything being asked on it. etcd sends away whoever pings and has nothing
		// to ask.
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 5 * time.Second,
		Logger:               zapLogger(log.With("component", "etcd-client"), new(atomic.Bool)),
	})
	if err != nil {
		return nil, fmt.Errorf("connect to etcd at %v: %w", cfg.Endpoints, err)
	}
	// Asking for a member's status goes over the connection that is there, to any
	// member; the client's own way is a new connection each time.
	client.Maintenance = clientv3.NewMaintenanceFromMaintenanceClient(
		clientv3.RetryMaintenanceClient(client, client.ActiveConnection()), client)
	s := &Store{
		client: client, log: log, epochs: newEpochs(client, made, log), versions: newVersions(client, log),
		newWatcher: func() clientv3.Watcher { return clientv3.NewWatcher(client) },
	}
	if cfg.Username != "" {
		s.epochs.signIn = func(ctx context.Context) error { return signIn(ctx, client) }
	}
	guarding, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stopGuard = stop
	s.guarding.Go(func() { s.guard(guarding) })
	return s, nil
}

// signIn makes the client get a new token, as it does for every new stream. The
// tokens that etcd makes by default begin to be valid at an index of raft's log. A
// token of before etcd went back lies ahead of it; etcd does not refuse that, it
// waits until the log is there.
func signIn(ctx context.Context, client *clientv3.Client) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_, err := etcdserverpb.NewWatchClient(client.ActiveConnection()).Watch(ctx)
	return err
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
