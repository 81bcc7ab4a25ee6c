package config

import "time"

// Config is everything that can be configured. [Defaults] works as it is; the
// zero Config does not. The yaml tags are the names of the settings;
// docs/configuration.md says what each of them means.
type Config struct {
	Listen        string   `yaml:"listen"`
	ShutdownGrace Duration `yaml:"shutdown-grace"`
	LogLevel      string   `yaml:"log-level"`
	LogFormat     string   `yaml:"log-format"`

	// Without endpoints the embedded etcd is used, and no other setting of the
	// external one but EtcdDialTimeout may be set.
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

	Writes                   bool `yaml:"writes"`
	MaxValueSize             Size `yaml:"max-value-size"`
	MaxTransactionOperations int  `yaml:"max-transaction-operations"`

	Resources []Resource `yaml:"resources"`
}

// Resource is one resource.
type Resource struct {
	Name   string `yaml:"name"`
	Prefix string `yaml:"prefix"` // default: /fanoutd/NAME/
	Codec  string `yaml:"codec"`  // default: object
	Window Window `yaml:"window"`
}

// Window bounds the window of recent changes of a resource. Zero stands for the
// default: 10,000 changes and 64 MiB.
type Window struct {
	MaxEvents int  `yaml:"max-events"`
	MaxSize   Size `yaml:"max-size"`
}

// Defaults returns the configuration of a server that was told nothing.
func Defaults() Config {
	c := Config{
		Listen:                   "127.0.0.1:7420",
		ShutdownGrace:            Duration(10 * time.Second),
		LogLevel:                 "info",
		LogFormat:                "text",
		EtcdDialTimeout:          Duration(5 * time.Second),
		DataDir:                  "data",
		EmbeddedEtcdQuota:        2 * GiB,
		EmbeddedEtcdRetention:    Duration(time.Hour),
		Writes:                   true,
		MaxValueSize:             MiB,
		MaxTransactionOperations: 128,
		Resources:                []Resource{{Name: "config"}},
	}
	c.fill()
	return c
}

// fill completes resources of which only a part is configured.
func (c *Config) fill() {
	for i := range c.Resources {
		r := &c.Resources[i]
		if r.Prefix == "" {
			r.Prefix = "/fanoutd/" + r.Name + "/"
		}
		if r.Codec == "" {
			r.Codec = "object"
		}
		if r.Window.MaxEvents == 0 {
			r.Window.MaxEvents = 10_000
		}
		if r.Window.MaxSize == 0 {
			r.Window.MaxSize = 64 * MiB
		}
	}
}
