package app

import "time"

// Config is everything that can be configured. [Defaults] works as it is.
type Config struct {
	Listen        string        `yaml:"listen"`
	ShutdownGrace time.Duration `yaml:"shutdown-grace"`
	Log           LogConfig     `yaml:"log"`

	Etcd     EtcdConfig     `yaml:"etcd"`
	Embedded EmbeddedConfig `yaml:"embedded-etcd"`

	Writes                   bool `yaml:"writes"`
	MaxValueBytes            Size `yaml:"max-value-bytes"`
	MaxTransactionOperations int  `yaml:"max-transaction-operations"`

	Resources []ResourceConfig `yaml:"resources"`
}

// LogConfig says what is logged and how.
type LogConfig struct {
	Level  string `yaml:"level"`  // debug, info, warn or error
	Format string `yaml:"format"` // text or json
}

// EtcdConfig says how to reach an external etcd. Without endpoints the embedded
// one is used.
type EtcdConfig struct {
	Endpoints   []string      `yaml:"endpoints,omitempty"`
	DialTimeout time.Duration `yaml:"dial-timeout"`
	CAFile      string        `yaml:"ca-file,omitempty"`
	CertFile    string        `yaml:"cert-file,omitempty"`
	KeyFile     string        `yaml:"key-file,omitempty"`
	ServerName  string        `yaml:"server-name,omitempty"`
	Username    string        `yaml:"username,omitempty"`
	Password    string        `yaml:"password,omitempty"`
}

// EmbeddedConfig says how to run the embedded etcd.
type EmbeddedConfig struct {
	DataDir             string        `yaml:"data-dir"`
	Listen              string        `yaml:"listen,omitempty"`
	QuotaBytes          Size          `yaml:"quota-bytes"`
	CompactionRetention time.Duration `yaml:"compaction-retention"`
}

// ResourceConfig is one resource.
type ResourceConfig struct {
	Name   string       `yaml:"name"`
	Prefix string       `yaml:"prefix"` // default: /fanoutd/NAME/
	Codec  string       `yaml:"codec"`  // default: object
	Window WindowConfig `yaml:"window"`
}

// WindowConfig bounds the window of recent changes of a resource.
type WindowConfig struct {
	MaxEvents int  `yaml:"max-events"`
	MaxBytes  Size `yaml:"max-bytes"`
}

// Defaults returns the configuration of a server that was told nothing.
func Defaults() Config {
	return Config{
		Listen:                   "127.0.0.1:7420",
		ShutdownGrace:            10 * time.Second,
		Log:                      LogConfig{Level: "info", Format: "text"},
		Etcd:                     EtcdConfig{DialTimeout: 5 * time.Second},
		Embedded:                 EmbeddedConfig{DataDir: "data", QuotaBytes: 2 * GiB, CompactionRetention: time.Hour},
		Writes:                   true,
		MaxValueBytes:            MiB,
		MaxTransactionOperations: 128,
		Resources:                []ResourceConfig{DefaultResource("config")},
	}
}

// DefaultResource returns a resource of which only the name is configured.
func DefaultResource(name string) ResourceConfig {
	return ResourceConfig{
		Name:   name,
		Prefix: "/fanoutd/" + name + "/",
		Codec:  "object",
		Window: WindowConfig{MaxEvents: 10_000, MaxBytes: 64 * MiB},
	}
}
