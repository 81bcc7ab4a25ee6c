// Package contexts keeps what fanoutctl has to know of servers in a file: for each
// of them, by a name that people choose, its address and the credentials for it.
// One of them is the current one.
package contexts

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/google/renameio/v2"
)

// Settings are how a server is reached. What is empty is not said.
type Settings struct {
	// Server is one address as host:port, several with commas between them, or a
	// gRPC URI.
	Server string `yaml:"server,omitempty" json:"server,omitempty"`
	// TLS asks for TLS although nothing else here implies it: "true" or "false".
	TLS string `yaml:"tls,omitempty" json:"tls,omitempty"`
	// CAFile has the certificate authorities (PEM) instead of the system's.
	CAFile string `yaml:"ca-file,omitempty" json:"caFile,omitempty"`
	// CertFile and KeyFile are the certificate that is shown to the server.
	CertFile string `yaml:"cert-file,omitempty" json:"certFile,omitempty"`
	KeyFile  string `yaml:"key-file,omitempty" json:"keyFile,omitempty"`
	// ServerName is what the certificate must be for instead of the host.
	ServerName string `yaml:"server-name,omitempty" json:"serverName,omitempty"`
	// TokenFile has the token that is sent with each request.
	TokenFile string `yaml:"token-file,omitempty" json:"tokenFile,omitempty"`
}

// Over returns s where it says something and else below.
func (s Settings) Over(below Settings) Settings {
	return Settings{
		Server:     cmp.Or(s.Server, below.Server),
		TLS:        cmp.Or(s.TLS, below.TLS),
		CAFile:     cmp.Or(s.CAFile, below.CAFile),
		CertFile:   cmp.Or(s.CertFile, below.CertFile),
		KeyFile:    cmp.Or(s.KeyFile, below.KeyFile),
		ServerName: cmp.Or(s.ServerName, below.ServerName),
		TokenFile:  cmp.Or(s.TokenFile, below.TokenFile),
	}
}

// Context is a named way to a server.
type Context struct {
	Name     string `yaml:"name"`
	Settings `yaml:",inline"`
}

// File is what the file has.
type File struct {
	Current  string    `yaml:"current,omitempty"`
	Contexts []Context `yaml:"contexts,omitempty"`
}

// ErrUnknown is the error for a name that is not in the file.
var ErrUnknown = errors.New("there is no such context")

// Read reads the file. A file that is not there is an empty one.
func Read(path string) (*File, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &File{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the contexts: %w", err)
	}
	f := &File{}
	if len(bytes.TrimSpace(text)) > 0 {
		if err := yaml.UnmarshalWithOptions(text, f, yaml.Strict()); err != nil {
			// The library says the place in its first line and draws it below.
			first, _, _ := strings.Cut(yaml.FormatError(err, false, false), "\n")
			return nil, fmt.Errorf("read the contexts in %s: %s", path, first)
		}
	}
	return f, nil
}

// Write replaces the file, at once or not at all. Others cannot read it: it says
// where credentials are.
func (f *File) Write(path string) error {
	slices.SortFunc(f.Contexts, func(a, b Context) int { return strings.Compare(a.Name, b.Name) })
	text, err := yaml.MarshalWithOptions(f, yaml.IndentSequence(true))
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = renameio.WriteFile(path, text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the contexts: %w", err)
	}
	return nil
}

// Get returns a context by name, or the current one for the empty name. There may
// be no current one, which is no error. A name that is not there is [ErrUnknown].
func (f *File) Get(name string) (Context, error) {
	name = cmp.Or(name, f.Current)
	if name == "" {
		return Context{}, nil
	}
	if i := f.index(name); i >= 0 {
		return f.Contexts[i], nil
	}
	return Context{}, fmt.Errorf("context %q: %w", name, ErrUnknown)
}

// Set adds a context, or lays settings over those that it has. The first context
// becomes the current one.
func (f *File) Set(name string, s Settings) {
	if i := f.index(name); i >= 0 {
		f.Contexts[i].Settings = s.Over(f.Contexts[i].Settings)
		return
	}
	f.Contexts = append(f.Contexts, Context{name, s})
	if len(f.Contexts) == 1 {
		f.Current = name
	}
}

// Use makes a context the current one. The empty name means none.
func (f *File) Use(name string) error {
	if name != "" && f.index(name) < 0 {
		return fmt.Errorf("context %q: %w", name, ErrUnknown)
	}
	f.Current = name
	return nil
}

// Delete removes a context.
func (f *File) Delete(name string) error {
	i := f.index(name)
	if i < 0 {
		return fmt.Errorf("context %q: %w", name, ErrUnknown)
	}
	f.Contexts = slices.Delete(f.Contexts, i, i+1)
	if f.Current == name {
		f.Current = ""
	}
	return nil
}

func (f *File) index(name string) int {
	return slices.IndexFunc(f.Contexts, func(c Context) bool { return c.Name == name })
}
