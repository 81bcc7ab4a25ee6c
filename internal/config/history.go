package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/fanoutd/fanoutd/internal/history"
)

// History limits the history of a resource.
type History struct {
	Versions int      `yaml:"versions"`  // of one key; default: 100
	MaxAge   Duration `yaml:"max-age"`   // default: 90 days
	MaxBytes Size     `yaml:"max-bytes"` // of the whole resource; default: 256 MiB

	// TTL records objects with a time to live, too. They are often written again and again.
	TTL bool `yaml:"ttl"`

	// Implied means that nobody has asked for the history.
	Implied bool `yaml:"-"`
}

// NewHistory returns the default limits.
func NewHistory() *History {
	return &History{Versions: 100, MaxAge: Duration(90 * 24 * time.Hour), MaxBytes: 256 * MiB}
}

// UnmarshalYAML is called by the YAML library. It starts from the defaults.
func (h *History) UnmarshalYAML(decode func(any) error) error {
	type plain History // does not have this method
	*h = *NewHistory()
	return decode((*plain)(h))
}

// defaultResources are the resources of a server whose configuration has none.
func defaultResources() []Resource {
	r := NewResource("config")
	r.History = NewHistory()
	r.History.Implied = true
	return []Resource{r}
}

// Resolve sets what depends on several settings: without configured resources, only an embedded etcd keeps
// a history, because its keys in another etcd need rights and space there.
func (c *Config) Resolve() {
	for i := range c.Resources {
		if h := c.Resources[i].History; h != nil && h.Implied && len(c.EtcdEndpoints) > 0 {
			c.Resources[i].History = nil
		}
	}
}

// KeepsHistory reports whether any resource has a history.
func (c *Config) KeepsHistory() bool {
	for i := range c.Resources {
		if c.Resources[i].History != nil {
			return true
		}
	}
	return false
}

// history validates the history of the resource at an index, and the place of its records in etcd.
func (v *validator) history(path string, resources []Resource, at int) {
	r := &resources[at]
	if r.History == nil {
		return
	}
	path += "history"
	between(v, path+".versions", r.History.Versions, 2, 10_000)
	between(v, path+".max-age", r.History.MaxAge, Duration(time.Minute), Duration(10*365*24*time.Hour))
	between(v, path+".max-bytes", r.History.MaxBytes, MiB, 64*GiB)
	records := history.Prefix(r.Prefix)
	for j, other := range resources {
		places := map[string]string{fmt.Sprintf("%q of resources[%d]", other.Prefix, j): other.Prefix}
		if other.History != nil && j < at {
			places[fmt.Sprintf("the history of resources[%d]", j)] = history.Prefix(other.Prefix)
		}
		for name, prefix := range places {
			if j != at && (strings.HasPrefix(records, prefix) || strings.HasPrefix(prefix, records)) {
				v.add(path, "is kept below %q, which overlaps with %s", records, name)
			}
		}
	}
}
