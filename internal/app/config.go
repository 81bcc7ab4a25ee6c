package app

import "time"

// Config is everything that can be set. It is put together and validated once,
// at start, and only read after that. The koanf tags are the keys of the
// configuration file; settings.go has what each of them means.
//
// The zero Config is not valid. Begin with [Defaults].
type Config struct {
	Listen                   string           `koanf:"listen"`
	ShutdownGrace            time.Duration    `koanf:"shutdown-grace"`
	Log                      LogConfig        `koanf:"log"`
	Etcd                     EtcdConfig       `koanf:"etcd"`
	Embedded                 EmbeddedConfig   `koanf:"embedded"`
	Writes                   bool             `koanf:"writes"`
	MaxValueBytes            int              `koanf:"max-value-bytes"`
	MaxTransactionOperations int              `koanf:"max-transaction-operations"`
	Resources                []ResourceConfig `koanf:"resources"`
}

// LogConfig says what is logged, and how.
type LogConfig struct {
	Level  string `koanf:"level"`
	Format string `koanf:"format"`
}

// EtcdConfig is how to reach an etcd outside of this process. Without endpoints
// there is an embedded one, and nothing else here may be set but DialTimeout.
type EtcdConfig struct {
	Endpoints   []string      `koanf:"endpoints"`
	DialTimeout time.Duration `koanf:"dial-timeout"`
	CAFile      string        `koanf:"ca-file"`
	CertFile    string        `koanf:"cert-file"`
	KeyFile     string        `koanf:"key-file"`
	ServerName  string        `koanf:"server-name"`
	Username    string        `koanf:"username"`
	Password    string        `koanf:"password"` // of PasswordFile, where that is set

	// PasswordFile is where the password was read from, for config print. Only
	// Password is used.
	PasswordFile string `koanf:"password-file"`
}

// EmbeddedConfig is about the etcd server inside this process. It is not used
// when there are etcd endpoints.
type EmbeddedConfig struct {
	DataDir             string        `koanf:"data-dir"`
	Listen              string        `koanf:"listen"` // empty: no socket
	QuotaBytes          Size          `koanf:"quota"`
	CompactionRetention time.Duration `koanf:"compaction-retention"`
}

// ResourceConfig is one resource.
type ResourceConfig struct {
	Name   string       `koanf:"name"`
	Prefix string       `koanf:"prefix"` // in etcd, with a slash at its end
	Codec  string       `koanf:"codec"`  // a name that object.CodecByName knows
	Window WindowConfig `koanf:"window"`
}

// WindowConfig bounds the window of recent changes of a resource.
type WindowConfig struct {
	MaxEvents int  `koanf:"max-events"`
	MaxBytes  Size `koanf:"max-bytes"`
}

// Defaults returns the configuration that fanoutd has when nothing is set.
func Defaults() Config {
	return Config{
		Listen:        "127.0.0.1:7420",
		ShutdownGrace: 10 * time.Second,
		Log:           LogConfig{Level: "info", Format: "text"},
		Etcd:          EtcdConfig{DialTimeout: 5 * time.Second},
		Embedded: EmbeddedConfig{
			DataDir:             "data",
			QuotaBytes:          2 * GiB,
			CompactionRetention: time.Hour,
		},
		Writes:                   true,
		MaxValueBytes:            int(MiB),
		MaxTransactionOperations: 128,
		Resources:                []ResourceConfig{DefaultResource("config")},
	}
}

// DefaultResource returns a resource of which only the name is known.
func DefaultResource(name string) ResourceConfig {
	return ResourceConfig{
		Name:   name,
		Prefix: "/fanoutd/" + name + "/",
		Codec:  "object",
		Window: WindowConfig{MaxEvents: 10_000, MaxBytes: 64 * MiB},
	}
}
