package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fanoutd/fanoutd/client/localfile"
	"github.com/fanoutd/fanoutd/internal/yamlfile"
)

// connection contains the settings for reaching a server. An empty field is not set.
type connection struct {
	// Server is host:port, a comma-separated list of these, or a gRPC URI.
	Server string `yaml:"server,omitempty" json:"server,omitempty"`
	// TLS is "true" or "false". If it is not set, the other fields and the address decide.
	TLS string `yaml:"tls,omitempty" json:"tls,omitempty"`
	// CAFile holds the certificate authorities (PEM) to trust instead of the system's.
	CAFile string `yaml:"ca-file,omitempty" json:"caFile,omitempty"`
	// CertFile and KeyFile are the client certificate.
	CertFile string `yaml:"cert-file,omitempty" json:"certFile,omitempty"`
	KeyFile  string `yaml:"key-file,omitempty" json:"keyFile,omitempty"`
	// ServerName is the name to expect in the server's certificate instead of the host.
	ServerName string `yaml:"server-name,omitempty" json:"serverName,omitempty"`
	// TokenFile holds the bearer token for each request.
	TokenFile string `yaml:"token-file,omitempty" json:"tokenFile,omitempty"`
}

// or returns c with its empty fields taken from fallback.
func (c connection) or(fallback connection) connection {
	for _, s := range settings {
		*s.value(&c) = cmp.Or(*s.value(&c), *s.value(&fallback))
	}
	return c
}

// namedContext is a named server with its credentials.
type namedContext struct {
	Name       string     `yaml:"name"`
	Connection connection `yaml:",inline"`
}

// contextFile is the content of the context file.
type contextFile struct {
	Current  string         `yaml:"current,omitempty"`
	Contexts []namedContext `yaml:"contexts,omitempty"`
}

// readContexts reads the context file. A missing file counts as empty.
func readContexts(path string) (*contextFile, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &contextFile{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read contexts: %w", err)
	}
	f, file := &contextFile{}, yamlfile.Open(path, text)
	if file.Root != nil {
		file.Decode(file.Root, f)
	}
	if err := file.Err(); err != nil {
		return nil, fmt.Errorf("cannot read contexts: %w", err)
	}
	return f, nil
}

// write replaces the file atomically. Only the owner can read it, because it names the
// files that hold credentials.
func (f *contextFile) write(path string) error {
	slices.SortFunc(f.Contexts, func(a, b namedContext) int { return strings.Compare(a.Name, b.Name) })
	text, err := yamlfile.Encode(f)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = localfile.Replace(path, text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("cannot write contexts: %w", err)
	}
	return nil
}

// get returns the named context, or the current one if name is empty. It returns the zero
// context if name is empty and there is no current context.
func (f *contextFile) get(name string) (namedContext, error) {
	name = cmp.Or(name, f.Current)
	if name == "" {
		return namedContext{}, nil
	}
	i, err := f.find(name)
	if err != nil {
		return namedContext{}, err
	}
	return f.Contexts[i], nil
}

// set adds a context, or updates the fields of an existing context that are set in c. The
// first context becomes the current one. It returns what was done.
func (f *contextFile) set(name string, c connection) (done string) {
	if i, err := f.find(name); err == nil {
		f.Contexts[i].Connection = c.or(f.Contexts[i].Connection)
		return "changed"
	}
	f.Contexts = append(f.Contexts, namedContext{name, c})
	if len(f.Contexts) == 1 {
		f.Current = name
	}
	return "created"
}

// describeCurrent returns a sentence about the current context, after a space.
func (f *contextFile) describeCurrent() string {
	if f.Current == "" {
		return " There is no current context."
	}
	return fmt.Sprintf(" The current context is %q.", f.Current)
}

// use makes the named context the current one.
func (f *contextFile) use(name string) error {
	if _, err := f.find(name); err != nil && name != "" {
		return err
	}
	f.Current = name
	return nil
}

// remove deletes the named context.
func (f *contextFile) remove(name string) error {
	i, err := f.find(name)
	if err != nil {
		return err
	}
	f.Contexts = slices.Delete(f.Contexts, i, i+1)
	if f.Current == name {
		f.Current = ""
	}
	return nil
}

// find returns the index of the named context.
func (f *contextFile) find(name string) (int, error) {
	i := slices.IndexFunc(f.Contexts, func(c namedContext) bool { return c.Name == name })
	if i < 0 {
		return 0, fmt.Errorf("context %q does not exist", name)
	}
	return i, nil
}

// names returns the names of all contexts.
func (f *contextFile) names() []string {
	var names []string
	for _, c := range f.Contexts {
		names = append(names, c.Name)
	}
	slices.Sort(names)
	return names
}
