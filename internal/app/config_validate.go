package app

import (
	"fmt"
	"strings"
)

// Validate returns nil or [Problems]: everything that is wrong with the
// configuration.
func (c Config) Validate() error { return c.problems(nil).orNil() }

func (c Config) problems(from origins) Problems {
	v := validator{from: from}
	v.settings("", Settings(), valuesOf(c))
	for i, endpoint := range c.Etcd.Endpoints {
		if err := checkEndpoint(endpoint); err != nil {
			v.add(fmt.Sprintf("etcd.endpoints[%d]", i), "%v", err)
		}
	}
	v.etcd(c.Etcd)
	v.resources(c.Resources)
	return v.problems.sorted()
}

type validator struct {
	from     origins
	problems Problems
}

func (v *validator) add(key, format string, args ...any) {
	v.problems = append(v.problems, Problem{v.from.of(key), key, fmt.Sprintf(format, args...)})
}

// settings checks each value by itself.
func (v *validator) settings(path string, settings []Setting, values map[string]any) {
	for _, s := range settings {
		if problem := s.problem(values[s.Key]); problem != "" {
			v.add(path+s.Key, "%s", problem)
		}
	}
}

// etcd checks what the settings of an external etcd say together.
func (v *validator) etcd(c EtcdConfig) {
	tls := []struct{ key, value string }{
		{"etcd.ca-file", c.CAFile},
		{"etcd.cert-file", c.CertFile},
		{"etcd.key-file", c.KeyFile},
		{"etcd.server-name", c.ServerName},
	}
	login := []struct{ key, value string }{
		{"etcd.username", c.Username},
		{"etcd.password", c.Password},
		{"etcd.password-file", c.PasswordFile},
	}
	if len(c.Endpoints) == 0 {
		// Without this, a forgotten or mistyped list of endpoints would start an
		// empty embedded etcd.
		for _, s := range append(tls, login...) {
			if s.value != "" {
				v.add(s.key, "is set, but there are no etcd.endpoints")
			}
		}
		return
	}
	for _, s := range tls {
		if i := firstWithoutTLS(c.Endpoints); s.value != "" && i >= 0 {
			v.add(s.key, "is set, but endpoint %q does not use TLS, write https://", c.Endpoints[i])
		}
	}
	if c.CertFile != "" && c.KeyFile == "" {
		v.add("etcd.cert-file", "is set, but etcd.key-file is not")
	}
	if c.KeyFile != "" && c.CertFile == "" {
		v.add("etcd.key-file", "is set, but etcd.cert-file is not")
	}
	hasPassword := c.Password != "" || c.PasswordFile != ""
	if c.Username != "" && !hasPassword {
		v.add("etcd.username", "is set, but neither etcd.password nor etcd.password-file is")
	}
	if c.Username == "" && hasPassword {
		v.add("etcd.password", "is set, but etcd.username is not")
	}
}

// firstWithoutTLS returns the index of an endpoint that asks for no TLS, or -1.
func firstWithoutTLS(endpoints []string) int {
	for i, e := range endpoints {
		if !strings.HasPrefix(e, "https://") {
			return i
		}
	}
	return -1
}

func (v *validator) resources(resources []ResourceConfig) {
	if len(resources) == 0 {
		v.add("resources", "there must be at least one")
	}
	for i, r := range resources {
		path := fmt.Sprintf("resources[%d].", i)
		v.settings(path, resourceSettings(), valuesOf(r))
		for j, other := range resources[:i] {
			switch {
			case r.Name == other.Name:
				if r.Name != "" {
					v.add(path+"name", "%q is the name of resources[%d] too", r.Name, j)
				}
			case strings.HasPrefix(r.Prefix, other.Prefix), strings.HasPrefix(other.Prefix, r.Prefix):
				v.add(path+"prefix", "%q overlaps with %q of resources[%d]", r.Prefix, other.Prefix, j)
			}
		}
	}
}
