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

// setting is a way to say a setting of a server.
type setting struct {
	name  string
	usage string
	value func(*connection) *string
}

// settings are all of them: each is a flag, a variable and a member of a context.
var settings = []setting{
	{"server", "`address` of the server as host:port, several with commas between them, or a gRPC URI (default \"" + defaultServer + "\")", func(s *connection) *string { return &s.Server }},
	{"tls", "whether connections are encrypted, `true` or false; default: they are, but not to this machine", func(s *connection) *string { return &s.TLS }},
	{"ca-file", "`file` with the certificate authorities (PEM) to trust instead of the system's", func(s *connection) *string { return &s.CAFile }},
	{"cert-file", "`file` with the certificate (PEM) that is shown to the server", func(s *connection) *string { return &s.CertFile }},
	{"key-file", "`file` with the private key (PEM) of that certificate", func(s *connection) *string { return &s.KeyFile }},
	{"server-name", "`name` that the server's certificate must have instead of the host", func(s *connection) *string { return &s.ServerName }},
	{"token-file", "`file` with the token that is sent; or else the variable " + envPrefix + "TOKEN has it", func(s *connection) *string { return &s.TokenFile }},
}

// bind makes a flag of each setting.
func bind(fs *pflag.FlagSet, s *connection) {
	for _, one := range settings {
		short := ""
		if one.name == "server" {
			short = "s"
		}
		fs.StringVarP(one.value(s), one.name, short, "", one.usage)
		if one.name == "tls" {
			fs.Lookup(one.name).NoOptDefVal = "true"
		}
	}
}

func variableOf(name string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// resolve puts the settings together: a context, then variables, then flags.
func (t *tool) resolve() error {
	file, err := readContexts(t.contextsPath())
	if err != nil {
		return usageError{err}
	}
	chosen, err := file.get(cmp.Or(t.contextName, t.vars[envPrefix+"CONTEXT"]))
	if err != nil {
		return usagef("%w in %s; \"fanoutctl context list\" shows those there are", err, t.contextsPath())
	}
	var env connection
	known := map[string]bool{envPrefix + "CONTEXT": true, envPrefix + "CONFIG": true, envPrefix + "TOKEN": true, envPrefix + "EDITOR": true}
	for _, one := range settings {
		known[variableOf(one.name)] = true
		*one.value(&env) = t.vars[variableOf(one.name)]
	}
	for _, name := range slices.Sorted(maps.Keys(t.vars)) {
		if !known[name] {
			return usagef("%s: there is no such setting", name)
		}
	}
	t.settings = t.flags.or(env).or(chosen.Connection).or(connection{Server: defaultServer})
	return nil
}

// contextsPath is the file that has the contexts.
func (t *tool) contextsPath() string {
	if path := cmp.Or(t.configPath, t.vars[envPrefix+"CONFIG"]); path != "" {
		return path
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return filepath.Join(".fanoutctl", "config.yaml") // nobody has a home here
	}
	return filepath.Join(dir, "fanoutctl", "config.yaml")
}

// credentials are what the settings say about security.
func (t *tool) credentials() ([]client.Option, error) {
	s := t.settings
	var opts []client.Option
	encrypted := s.CAFile != "" || s.CertFile != "" || s.ServerName != ""
	if s.TLS != "" {
		on, err := strconv.ParseBool(s.TLS)
		if err != nil {
			return nil, usagef("tls: must be true or false, not %q", s.TLS)
		}
		if !on && encrypted {
			return nil, usagef("tls is false, but ca-file, cert-file or server-name are set")
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
	if token := t.vars[envPrefix+"TOKEN"]; token != "" && t.flags.TokenFile == "" {
		return append(opts, client.WithToken(token)), nil
	}
	if s.TokenFile != "" {
		// A mistake is told at once. A command that runs for months sends what is in
		// the file then.
		text, err := os.ReadFile(s.TokenFile)
		if err != nil {
			return nil, usageError{fmt.Errorf("read the token: %w", err)}
		}
		if len(bytes.TrimSpace(text)) == 0 {
			return nil, usagef("read the token: %s is empty", s.TokenFile)
		}
		opts = append(opts, client.WithTokenFile(s.TokenFile))
	}
	return opts, nil
}

func tlsConfig(s connection) (*tls.Config, error) {
	config := &tls.Config{ServerName: s.ServerName}
	if s.CAFile != "" {
		text, err := os.ReadFile(s.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read the certificate authorities: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no certificate", s.CAFile)
		}
	}
	if (s.CertFile == "") != (s.KeyFile == "") {
		return nil, errors.New("cert-file and key-file must be set together")
	}
	if s.CertFile != "" {
		// A mistake is told at once; the client reads them for each connection.
		if _, err := tls.LoadX509KeyPair(s.CertFile, s.KeyFile); err != nil {
			return nil, fmt.Errorf("read the certificate: %w", err)
		}
	}
	return config, nil
}
