// Package config defines the settings of the server: their names, defaults, file format and
// validation.
//
// [Defaults] returns the configuration of a server without any settings. [ReadFile] reads a
// YAML file on top of it. [Config.Problems] validates the result and reports all problems at
// once; [yamlfile.File.Locate] adds the places in the file.
//
// A setting has the same name as a key of the file, as a flag, and as an environment variable
// (in capitals, after FANOUTD_). cmd/fanoutd reads flags and variables; this package does not.
package config

import "time"

// Config contains all settings. The zero Config is not valid; start from [Defaults]. The yaml
// tags are the names of the settings. cmd/fanoutd/flags.go and docs/reference/configuration.md describe
// them.
type Config struct {
	Listen        string   `yaml:"listen"`
	ShutdownGrace Duration `yaml:"shutdown-grace"`
	LogLevel      string   `yaml:"log-level"`
	LogFormat     string   `yaml:"log-format"`

	DrainDelay  Duration `yaml:"drain-delay"`
	DrainPeriod Duration `yaml:"drain-period"`

	// 0 means no limit, except for MaxRequestSize.
	MaxWatchers             int     `yaml:"max-watchers"`
	MaxWatchersPerClient    int     `yaml:"max-watchers-per-client"`
	MaxWaits                int     `yaml:"max-waits"`
	MaxWaitsPerClient       int     `yaml:"max-waits-per-client"`
	MaxSelectors            int     `yaml:"max-selectors"`
	MaxSelectorsPerClient   int     `yaml:"max-selectors-per-client"`
	MaxSnapshots            int     `yaml:"max-snapshots"`
	MaxWaitingSnapshots     int     `yaml:"max-waiting-snapshots"`
	MaxListMemory           Size    `yaml:"max-list-memory"`
	MaxRequestSize          Size    `yaml:"max-request-size"`
	MaxRequestMemory        Size    `yaml:"max-request-memory"`
	MaxRequestRate          float64 `yaml:"max-request-rate"`
	MaxRequestBurst         int     `yaml:"max-request-burst"` // 0: max-request-rate
	MaxReportRate           float64 `yaml:"max-report-rate"`
	MaxStreamsPerConnection int     `yaml:"max-streams-per-connection"`
	MaxConnections          int     `yaml:"max-connections"`
	MaxConnectionsPerClient int     `yaml:"max-connections-per-client"`
	MaxConnectionRate       float64 `yaml:"max-connection-rate"`
	MaxConnectionBurst      int     `yaml:"max-connection-burst"` // 0: max-connection-rate
	MaxResetRate            float64 `yaml:"max-reset-rate"`
	MaxResetRatePerClient   float64 `yaml:"max-reset-rate-per-client"`

	// ReservedFiles are file descriptors that connections leave free. It may not be 0.
	ReservedFiles int `yaml:"reserved-files"`

	AuditLog        string `yaml:"audit-log"` // empty: disabled; "-": standard error
	AuditLogSize    Size   `yaml:"audit-log-size"`
	AuditLogBackups int    `yaml:"audit-log-backups"` // 0: all

	AdminListen string   `yaml:"admin-listen"` // empty: disabled
	AdminHosts  []string `yaml:"admin-hosts"`
	HTTPOrigins []string `yaml:"http-origins"`

	// StatusPageServers are the origins of the HTTP services of all servers over the same etcd.
	StatusPageServers []string `yaml:"status-page-servers"`

	Pprof    string `yaml:"pprof"`
	Channelz bool   `yaml:"channelz"`

	SlowRequest      Duration `yaml:"slow-request"`  // 0: never
	OTLPEndpoint     string   `yaml:"otlp-endpoint"` // empty: no traces
	TraceSampleRatio float64  `yaml:"trace-sample-ratio"`

	TLSCertFile     string `yaml:"tls-cert-file"` // empty: plain text
	TLSKeyFile      string `yaml:"tls-key-file"`
	TLSClientCAFile string `yaml:"tls-client-ca-file"`
	TLSClientAuth   string `yaml:"tls-client-auth"`
	Insecure        bool   `yaml:"insecure"`

	TokenFile      string `yaml:"token-file"`
	JWTIssuer      string `yaml:"jwt-issuer"` // empty: no JWTs
	JWTAudience    string `yaml:"jwt-audience"`
	JWTJWKSFile    string `yaml:"jwt-jwks-file"` // empty: download from the issuer
	JWTCAFile      string `yaml:"jwt-ca-file"`
	JWTNameClaim   string `yaml:"jwt-name-claim"`
	JWTGroupsClaim string `yaml:"jwt-groups-claim"`

	// Without endpoints the server uses an embedded etcd, and no other setting of the
	// external etcd may be set, except EtcdDialTimeout.
	EtcdEndpoints    []string `yaml:"etcd-endpoints"`
	EtcdDialTimeout  Duration `yaml:"etcd-dial-timeout"`
	EtcdCAFile       string   `yaml:"etcd-ca-file"`
	EtcdCertFile     string   `yaml:"etcd-cert-file"`
	EtcdKeyFile      string   `yaml:"etcd-key-file"`
	EtcdServerName   string   `yaml:"etcd-server-name"`
	EtcdUsername     string   `yaml:"etcd-username"`
	EtcdPassword     Secret   `yaml:"etcd-password"`
	EtcdPasswordFile string   `yaml:"etcd-password-file"`

	DataDir               string   `yaml:"data-dir"`
	EmbeddedEtcdListen    string   `yaml:"embedded-etcd-listen"`
	EmbeddedEtcdQuota     Size     `yaml:"embedded-etcd-quota"`
	EmbeddedEtcdRetention Duration `yaml:"embedded-etcd-retention"`
	EmbeddedEtcdUnsafe    bool     `yaml:"-"` // for tests: starts and writes fast, and loses data in a crash of the machine

	Cluster *Cluster `yaml:"cluster,omitempty"` // nil: a server alone, or an external etcd

	PolicyFile string `yaml:"policy-file"` // empty: everything is allowed

	Writes                   bool `yaml:"writes"`
	MaxValueSize             Size `yaml:"max-value-size"`
	MaxTransactionOperations int  `yaml:"max-transaction-operations"`

	MaxTTL Duration `yaml:"max-ttl"`

	KeysetFile string `yaml:"keyset-file"` // empty: values are not encrypted

	WatchTimeLimit    Duration `yaml:"watch-time-limit"`    // 0: no limit
	SelfCheckInterval Duration `yaml:"self-check-interval"` // 0: never

	Resources []Resource `yaml:"resources"`
}

// Defaults returns the configuration of a server without any settings.
func Defaults() Config {
	return Config{
		Listen:                   "127.0.0.1:7420",
		ShutdownGrace:            Duration(10 * time.Second),
		LogLevel:                 "info",
		LogFormat:                "text",
		DrainPeriod:              Duration(5 * time.Second),
		MaxWatchers:              200_000,
		MaxWatchersPerClient:     50_000,
		MaxWaits:                 1_000,
		MaxWaitsPerClient:        200,
		MaxSelectors:             5_000,
		MaxSelectorsPerClient:    1_000,
		MaxSnapshots:             256,
		MaxWaitingSnapshots:      10_000,
		MaxListMemory:            512 * MiB,
		MaxRequestSize:           4 * MiB,
		MaxRequestMemory:         128 * MiB,
		MaxReportRate:            10_000,
		MaxStreamsPerConnection:  10_000,
		MaxConnections:           50_000,
		MaxConnectionsPerClient:  10_000,
		MaxConnectionRate:        200,
		MaxResetRate:             500,
		MaxResetRatePerClient:    1_000,
		ReservedFiles:            100,
		AuditLogSize:             100 * MiB,
		AuditLogBackups:          10,
		AdminListen:              "127.0.0.1:7421",
		Pprof:                    PprofLoopback,
		SlowRequest:              Duration(time.Second),
		TraceSampleRatio:         0.01,
		TLSClientAuth:            ClientAuthOptional,
		JWTNameClaim:             "sub",
		JWTGroupsClaim:           "groups",
		EtcdDialTimeout:          Duration(5 * time.Second),
		DataDir:                  "data",
		EmbeddedEtcdQuota:        2 * GiB,
		EmbeddedEtcdRetention:    Duration(time.Hour),
		Writes:                   true,
		MaxValueSize:             MiB,
		MaxTransactionOperations: 128,
		MaxTTL:                   Duration(30 * 24 * time.Hour),
		WatchTimeLimit:           Duration(time.Hour),
		SelfCheckInterval:        Duration(10 * time.Minute),
		Resources:                defaultResources(),
	}
}
