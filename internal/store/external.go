package store

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/fanoutd/fanoutd/internal/store/epochs"
	"github.com/fanoutd/fanoutd/internal/store/etcdlog"
	"github.com/fanoutd/fanoutd/internal/store/failover"
)

// ExternalConfig configures the connection to an etcd cluster. Endpoints are required.
type ExternalConfig struct {
	Endpoints []string // host:port or URL; https URLs and each of the files below enable TLS

	CAFile     string // certificate authorities to trust; default: the system's
	CertFile   string // client certificate, with KeyFile
	KeyFile    string
	ServerName string // name in the server's certificate; default: the endpoint's host

	Username string // etcd user; needs Password
	Password string

	DialTimeout time.Duration // of one connection attempt; default 5 s

	// MaxTransactionOps is the number of operations of a transaction that etcd accepts.
	// Default: 128, as etcd's.
	MaxTransactionOps int
}

// defaultTransactionOps and defaultRequestBytes are etcd's defaults.
const (
	defaultTransactionOps = 128
	defaultRequestBytes   = 1536 << 10
)

// reconnect is the backoff between connection attempts. gRPC's default grows to two
// minutes, which would delay the recovery of the store after etcd is back.
var reconnect = backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second}

// The flow-control windows of the connection. Fixed ones keep gRPC from measuring the bandwidth: it
// would send a ping with almost every answer, and etcd would have to answer it.
const (
	streamWindow     = 1 << 20
	connectionWindow = 4 << 20
)

// kvOptions are the options with which etcd's client sends a transaction.
var kvOptions = []grpc.CallOption{
	grpc.WaitForReady(true), grpc.MaxCallSendMsgSize(2 << 20), grpc.MaxCallRecvMsgSize(math.MaxInt32),
}

// Dial returns a store in an external etcd. It does not wait for a connection, so a
// server can start while etcd is unreachable. With a user name, etcd must be reachable
// to check the password. Dial fails at once if a certificate file is unusable.
func Dial(ctx context.Context, cfg ExternalConfig, log *slog.Logger) (*Store, error) {
	tlsConfig, err := cfg.tls()
	if err != nil {
		return nil, fmt.Errorf("configure TLS to etcd: %w", err)
	}
	if cfg.DialTimeout == 0 {
		cfg.DialTimeout = 5 * time.Second
	}
	connections := &epochs.Connections{}
	members := failover.New(addresses(cfg.Endpoints), log)
	options := append(members.DialOptions(),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: cfg.DialTimeout}),
		grpc.WithInitialWindowSize(streamWindow), grpc.WithInitialConnWindowSize(connectionWindow),
		grpc.WithStatsHandler(connections),
	)
	if cfg.ServerName != "" {
		// The client ignores the name in tlsConfig and takes it from the endpoint.
		options = append(options, grpc.WithAuthority(cfg.ServerName))
	}
	client, err := clientv3.New(clientv3.Config{
		DialOptions: options,
		Context:     context.WithoutCancel(ctx), // Close ends it
		Endpoints:   cfg.Endpoints,
		TLS:         tlsConfig,
		Username:    cfg.Username,
		Password:    cfg.Password,
		DialTimeout: cfg.DialTimeout,
		// gRPC closes a dead connection within 15 s, or 5 s if the network drops its
		// packets. Until then members avoids it. gRPC allows no shorter times, and etcd
		// disconnects clients that send keepalives more often.
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 5 * time.Second,
		Logger:               etcdlog.New(log.With("component", "etcd-client"), nil),
	})
	if err != nil {
		return nil, fmt.Errorf("connect to etcd at %v: %w", cfg.Endpoints, err)
	}
	// Read the status of any member over the existing connection. By default the client
	// opens a new connection for each status request.
	client.Maintenance = clientv3.NewMaintenanceFromMaintenanceClient(
		clientv3.RetryMaintenanceClient(client, client.ActiveConnection()), client)
	s := &Store{
		client: client, log: log, epochs: epochs.New(client, connections, log), versions: &memberVersions{log: log, known: members.Versions},
		kv: clientv3.RetryKVClient(client), kvOptions: kvOptions, ranges: rangesOf(clientv3.RetryKVClient(client)),
		watches: etcdserverpb.NewWatchClient(client.ActiveConnection()),
		leases:  newLeaseCollector(client, log), grants: clientv3.RetryLeaseClient(client),
		maxTransactionOps: cmp.Or(cfg.MaxTransactionOps, defaultTransactionOps), maxRequestBytes: defaultRequestBytes, commitTimeout: callTimeout,
	}
	s.leases.start()
	monitoring, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stopMonitor = stop
	s.monitoring.Go(func() { s.monitor(monitoring) })
	s.monitoring.Go(func() { members.Run(monitoring, client.ActiveConnection()) })
	return s, nil
}

// addresses returns the addresses of endpoints as the etcd client dials them.
func addresses(endpoints []string) []string {
	all := make([]string, len(endpoints))
	for i, endpoint := range endpoints {
		all[i] = strings.TrimPrefix(strings.TrimPrefix(endpoint, "http://"), "https://")
	}
	return all
}

// tls returns the TLS configuration. It is nil if no TLS option is set; the schemes of
// the endpoints then decide.
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
