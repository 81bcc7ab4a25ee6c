package main

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fanoutd/fanoutd/client"
)

const (
	envPrefix     = "FANOUTCTL_"
	defaultServer = "127.0.0.1:7420"
)

// setting is one connection setting: a flag, an environment variable and a key of a
// context.
type setting struct {
	name  string
	usage string
	value func(*connection) *string
}

var settings = []setting{
	{"server", "`address` of the server: host:port, a comma-separated list of these, or a gRPC URI (default \"" + defaultServer + "\")", func(c *connection) *string { return &c.Server }},
	{"tls", "use TLS: `true|false` (default true, except for loopback addresses)", func(c *connection) *string { return &c.TLS }},
	{"ca-file", "`file` with the certificate authorities (PEM) to trust instead of the system's", func(c *connection) *string { return &c.CAFile }},
	{"cert-file", "`file` with the client certificate (PEM)", func(c *connection) *string { return &c.CertFile }},
	{"key-file", "`file` with the private key (PEM) of the client certificate", func(c *connection) *string { return &c.KeyFile }},
	{"server-name", "`name` to expect in the server's certificate instead of the host", func(c *connection) *string { return &c.ServerName }},
	{"token-file", "`file` with the bearer token; alternatively set " + envPrefix + "TOKEN to the token", func(c *connection) *string { return &c.TokenFile }},
}

// bindSettings defines a flag for each setting.
func bindSettings(fs *pflag.FlagSet, c *connection) {
	for _, s := range settings {
		short := ""
		if s.name == "server" {
			short = "s"
		}
		fs.StringVarP(s.value(c), s.name, short, "", s.usage)
		if s.name == "tls" {
			fs.Lookup(s.name).NoOptDefVal = "true"
		}
	}
}

// variableOf returns the environment variable of a setting.
func variableOf(name string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// resolve computes t.settings: flags override environment variables, which override the
// context. A context that a flag chooses is complete: the variables are for another server, and nothing of them,
// such as a token, must reach this one.
func (t *tool) resolve() error {
	file, err := readContexts(t.contextsPath())
	if err != nil {
		return usageError{err}
	}
	chosen, err := file.get(cmp.Or(t.contextName, t.vars[envPrefix+"CONTEXT"]))
	if err != nil {
		return exitError{exitNotFound, fmt.Errorf("%w in %s (contexts: %s)", err, t.contextsPath(), strings.Join(file.names(), ", "))}
	}
	var env connection
	known := map[string]bool{envPrefix + "CONTEXT": true, envPrefix + "CONFIG": true, envPrefix + "TOKEN": true, envPrefix + "EDITOR": true}
	for _, s := range settings {
		known[variableOf(s.name)] = true
		if t.contextName == "" {
			*s.value(&env) = t.vars[variableOf(s.name)]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.vars)) {
		if strings.HasPrefix(name, envPrefix) && !known[name] {
			return usagef("unknown environment variable %s", name)
		}
	}
	t.settings = t.flags.or(env).or(chosen.Connection).or(connection{Server: defaultServer})
	if t.settings.Server == chosen.Connection.Server {
		t.inContext = chosen.Name
	}
	return nil
}

// connectTo returns a client of another context. Flags and variables are for the present one: nothing of it, such as
// its token, must reach another server.
func (t *tool) connectTo(name string) (*client.Client, connection, error) {
	file, err := readContexts(t.contextsPath())
	if err != nil {
		return nil, connection{}, usageError{err}
	}
	chosen, err := file.get(name)
	if err != nil {
		return nil, connection{}, exitError{exitNotFound, fmt.Errorf("%w in %s (contexts: %s)", err, t.contextsPath(), strings.Join(file.names(), ", "))}
	}
	to := chosen.Connection.or(connection{Server: defaultServer})
	opts, err := credentialOptions(to, "")
	if err != nil {
		return nil, to, err
	}
	c, err := client.New(to.Server, append(opts, t.commonOptions(to.Server)...)...)
	if err != nil {
		return nil, to, usageError{err}
	}
	return c, to, nil
}

// contextsPath returns the path of the context file.
func (t *tool) contextsPath() string {
	if path := cmp.Or(t.configPath, t.vars[envPrefix+"CONFIG"]); path != "" {
		return path
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return filepath.Join(".fanoutctl", "config.yaml") // the user has no home directory
	}
	return filepath.Join(dir, "fanoutctl", "config.yaml")
}

// sendsCredentials reports whether requests have a token or a client certificate.
func (t *tool) sendsCredentials() bool {
	return t.token() != "" || t.settings.TokenFile != "" || t.settings.CertFile != ""
}

// token returns the token of the variable, unless a flag overrides it or chooses a context.
func (t *tool) token() string {
	if t.flags.TokenFile != "" || t.contextName != "" {
		return ""
	}
	return t.vars[envPrefix+"TOKEN"]
}

// credentialOptions returns the client options for TLS and tokens. A token has precedence over that of the settings.
func credentialOptions(s connection, token string) ([]client.Option, error) {
	var opts []client.Option
	encrypted := s.CAFile != "" || s.CertFile != "" || s.ServerName != ""
	if s.TLS != "" {
		on, err := strconv.ParseBool(s.TLS)
		if err != nil {
			return nil, usagef("tls: invalid value %q (want true or false)", s.TLS)
		}
		if !on && encrypted {
			return nil, usagef("tls is false, but ca-file, cert-file or server-name is set")
		}
		if !on {
			opts = append(opts, client.WithInsecure())
		}
		encrypted = on
	}
	if encrypted {
		config, err := tlsConfig(s)
		if err != nil {
			return nil, usageError{err}
		}
		opts = append(opts, client.WithTLS(config))
		if s.CertFile != "" {
			opts = append(opts, client.WithCertificateFiles(s.CertFile, s.KeyFile))
		}
	}
	if token != "" {
		return append(opts, client.WithToken(token)), nil
	}
	if s.TokenFile != "" {
		// Check the file now, so that a mistake is reported at once. The client reads it
		// again for each request, because a watch may run for months.
		text, err := os.ReadFile(s.TokenFile)
		if err != nil {
			return nil, usageError{fmt.Errorf("cannot read token: %w", err)}
		}
		if len(bytes.TrimSpace(text)) == 0 {
			return nil, usagef("cannot read token: %s is empty", s.TokenFile)
		}
		opts = append(opts, client.WithTokenFile(s.TokenFile))
	}
	return opts, nil
}

func tlsConfig(c connection) (*tls.Config, error) {
	config := &tls.Config{ServerName: c.ServerName}
	if c.CAFile != "" {
		text, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("cannot read certificate authorities: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("cannot read certificate authorities: %s contains no certificate", c.CAFile)
		}
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		return nil, errors.New("cert-file and key-file must be set together")
	}
	if c.CertFile != "" {
		// Check the files now, so that a mistake is reported at once. The client reads them
		// again for each connection.
		if _, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile); err != nil {
			return nil, fmt.Errorf("cannot read client certificate: %w", err)
		}
	}
	return config, nil
}
