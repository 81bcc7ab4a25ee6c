package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/spf13/pflag"

	"github.com/fanoutd/fanoutd/internal/config"
)

const docs = "../../docs/configuration.md"

// Every setting is documented, with its default, and nothing else is.
func TestSettingsAreDocumented(t *testing.T) {
	text, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	settings, _, _ := strings.Cut(string(text), "## Resources")
	documented := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| (.*?) ?\\|").FindAllStringSubmatch(settings, -1) {
		documented[row[1]] = strings.Trim(row[2], "`")
	}
	c := config.Defaults()
	known := []string{configFlag, "resources"}
	sources(&c).VisitAll(func(f *pflag.Flag) {
		known = append(known, f.Name)
		byDefault := strings.Trim(f.DefValue, "[]")
		if got, ok := documented[f.Name]; !ok || got != byDefault {
			t.Errorf("%s has default %q, documented is %q", f.Name, byDefault, got)
		}
	})
	for name := range documented {
		if !slices.Contains(known, name) {
			t.Errorf("there is no setting %s", name)
		}
	}
}

// Every setting is a key of the file, and the example in the documentation is one.
func TestFileHasEverySetting(t *testing.T) {
	out, err := yaml.Marshal(config.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	var keys map[string]any
	if err := yaml.Unmarshal(out, &keys); err != nil {
		t.Fatal(err)
	}
	delete(keys, "resources")
	c := config.Defaults()
	sources(&c).VisitAll(func(f *pflag.Flag) {
		if _, ok := keys[f.Name]; !ok {
			t.Errorf("the file has no %s", f.Name)
		}
		delete(keys, f.Name)
	})
	for key := range keys {
		t.Errorf("%s can only be set in the file", key)
	}
}

func TestExampleInTheDocumentation(t *testing.T) {
	text, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```yaml\n")
	example, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("there is no example")
	}
	c, _, err := config.ReadFile(docs, []byte(example))
	if err != nil {
		t.Fatal(err)
	}
	if problems := c.Problems(); len(problems) > 0 {
		t.Error(problems)
	}
	if len(c.Resources) != 2 || c.Resources[1].Window.MaxSize != 128*config.MiB {
		t.Errorf("the example is read as %+v", c.Resources)
	}
}
