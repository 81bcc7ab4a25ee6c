package client

import (
	"context"
	"errors"
	"slices"
	"testing"
)

// The lookup function stands for DNS, which a test cannot control.
func TestServersOfATarget(t *testing.T) {
	t.Parallel()
	dns := map[string][]string{
		"one.test":    {"192.0.2.1"},
		"both.test":   {"2001:db8::1", "192.0.2.1"},
		"three.test":  {"192.0.2.3", "2001:db8::1", "192.0.2.1", "2001:db8::3", "192.0.2.2", "2001:db8::2"},
		"double.test": {"2001:db8::2", "2001:db8::1", "192.0.2.1"},
		"localhost":   {"127.0.0.1", "127.0.0.2"},
	}
	lookup := func(_ context.Context, host string) ([]string, error) {
		if found, ok := dns[host]; ok {
			return slices.Clone(found), nil
		}
		return nil, errors.New("no such host")
	}
	for text, want := range map[string][]string{
		"a.test:1":                    {"a.test:1"},
		"b.test:1, a.test:2":          {"b.test:1", "a.test:2"},
		"a.test:1,a.test:1":           {"a.test:1"},
		"one.test:1":                  {"one.test:1"},
		"both.test:1":                 {"both.test:1"},
		"three.test:1":                {"192.0.2.1:1", "192.0.2.2:1", "192.0.2.3:1"},
		"dns:///three.test:1":         {"192.0.2.1:1", "192.0.2.2:1", "192.0.2.3:1"},
		"double.test:1,192.0.2.9:1":   {"[2001:db8::1]:1", "[2001:db8::2]:1", "192.0.2.9:1"},
		"localhost:1":                 {"localhost:1"},
		"unix:///run/f.sock":          {"unix:///run/f.sock"},
		"unix:f.sock":                 {"unix:f.sock"},
		"xds:///three.test":           {"xds:///three.test"},
		"passthrough:///three.test:1": {"passthrough:///three.test:1"},
	} {
		to, err := parseTarget(text)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, one := range to.each(t.Context(), lookup) {
			got = append(got, one.address)
			if one.target.local != to.local {
				t.Errorf("%s: %s: got local %v, want %v as for the target", text, one.address, one.target.local, to.local)
			}
			if to.members() == nil && one.target.uri != text {
				t.Errorf("%s: got URI %s, want the target itself", text, one.target.uri)
			}
			for _, e := range one.target.list {
				if e.name != "three.test" && e.name != "double.test" {
					t.Errorf("%s: got certificate name %q for %s, want the DNS name", text, e.name, e.address)
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}
