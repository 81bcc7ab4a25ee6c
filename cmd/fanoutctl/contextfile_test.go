package main

import (
	"path/filepath"
	"slices"
	"testing"
)

// A change of a context keeps its other settings, and what becomes the current context is never one that
// does not exist.
func TestContextFileKeepsWhatIsNotChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fanoutctl", "config.yaml")
	f, err := readContexts(path)
	if err != nil {
		t.Fatal(err)
	}
	f.set("prod", connection{Server: "a:1", TokenFile: "/token"})
	f.set("dev", connection{Server: "b:1"})
	if done := f.set("prod", connection{Server: "c:1", TLS: "true"}); done != "changed" || f.Current != "prod" {
		t.Errorf("%s, and %q is the current context", done, f.Current)
	}
	if err := f.write(path); err != nil {
		t.Fatal(err)
	}
	if f, err = readContexts(path); err != nil {
		t.Fatal(err)
	}
	want := connection{Server: "c:1", TLS: "true", TokenFile: "/token"}
	if c, err := f.get(""); err != nil || c.Name != "prod" || c.Connection != want {
		t.Errorf("got %+v, %v", c, err)
	}
	if !slices.Equal(f.names(), []string{"dev", "prod"}) {
		t.Errorf("got the contexts %v", f.names())
	}
	for name, change := range map[string]func() error{
		"use": func() error { return f.use("other") }, "remove": func() error { return f.remove("other") },
		"get": func() error { _, err := f.get("other"); return err },
	} {
		if err := change(); err == nil || f.Current != "prod" {
			t.Errorf("%s: got %v, and %q is the current context", name, err, f.Current)
		}
	}
	if err := f.remove("dev"); err != nil || f.Current != "prod" {
		t.Errorf("another context: got %v, and %q is the current context", err, f.Current)
	}
	if err := f.remove("prod"); err != nil || f.Current != "" {
		t.Errorf("got %v, and %q is the current context", err, f.Current)
	}
	if c, err := f.get(""); err != nil || c.Name != "" {
		t.Errorf("without a current context: got %+v, %v", c, err)
	}
}
