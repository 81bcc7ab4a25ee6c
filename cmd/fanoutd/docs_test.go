package main

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
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
	if len(c.Resources) != 3 || c.Resources[1].Window.MaxSize != 128*config.MiB || !c.Resources[1].Fields[0].Indexed {
		t.Errorf("the example is read as %+v", c.Resources)
	}
}

// The settings in docs/security.md are good, together, and its commands work.
func TestExamplesOfSecurity(t *testing.T) {
	const page = "../../docs/security.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	callers, _, _ := strings.Cut(string(text), "\n## Encryption at rest\n") // which has tests of its own
	blocks := map[string][]string{}
	for _, block := range regexp.MustCompile("(?s)```([a-z]+)\n(.*?)```").FindAllStringSubmatch(callers, -1) {
		if strings.HasPrefix(block[2], "# policy.yaml\n") {
			continue // see TestPolicyInTheDocumentation
		}
		blocks[block[1]] = append(blocks[block[1]], block[2])
	}
	if len(blocks["yaml"]) < 3 || len(blocks["sh"]) < 1 {
		t.Fatalf("there are no examples: %q", blocks)
	}
	c, _, err := config.ReadFile(page, []byte(strings.Join(blocks["yaml"], "")))
	if err != nil {
		t.Fatal(err)
	}
	if problems := c.Problems(); len(problems) > 0 {
		t.Error(problems)
	}
	for _, command := range blocks["sh"] {
		cmd := rootCommand(nil)
		var out, errs strings.Builder
		cmd.SetOut(&out)
		cmd.SetErr(&errs)
		cmd.SetArgs(strings.Fields(command)[1:])
		if err := cmd.ExecuteContext(t.Context()); err != nil || out.Len() == 0 {
			t.Errorf("%s: %q, %v", command, errs.String(), err)
		}
	}
}

// Every key of a resource is documented, with its default, and nothing else is.
func TestResourcesAreDocumented(t *testing.T) {
	text, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "## Resources")
	table, _, _ := strings.Cut(rest, "\n## ")
	documented := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z.\\[\\]-]+)` \\| (.*?) ?\\|").FindAllStringSubmatch(table, -1) {
		documented[row[1]] = strings.Trim(row[2], "`")
	}
	r := config.NewResource("NAME")
	r.Name = ""
	r.Fields = []config.Field{{}}
	known := settings("", reflect.ValueOf(r))
	known["fields"] = ""
	if diff := cmp.Diff(known, documented); diff != "" {
		t.Errorf("-defaults +documented:\n%s", diff)
	}
}

// settings returns what a struct has in the file, by key.
func settings(path string, v reflect.Value) map[string]string {
	all := map[string]string{}
	for i := range v.NumField() {
		key, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		if key == "-" {
			continue
		}
		switch f := v.Field(i); f.Kind() {
		case reflect.Struct:
			maps.Copy(all, settings(path+key+".", f))
		case reflect.Slice:
			maps.Copy(all, settings(path+key+"[].", f.Index(0)))
		default:
			all[path+key] = fmt.Sprint(f)
		}
	}
	return all
}

// The policy in the documentation is one, and allows what the documentation says.
func TestPolicyInTheDocumentation(t *testing.T) {
	text, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Authorization\n")
	_, rest, _ := strings.Cut(section, "# policy.yaml\n")
	example, rest, _ := strings.Cut(rest, "```")
	_, rest, _ = strings.Cut(rest, "```console\n")
	session, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("there is no example")
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("policy.yaml", []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	commands := 0
	for entry := range strings.SplitSeq(strings.TrimPrefix(session, "$ "), "\n$ ") {
		command, want, _ := strings.Cut(strings.TrimSpace(entry)+"\n", "\n")
		var stdout, stderr strings.Builder
		run(t.Context(), strings.Fields(command)[1:], nil, &stdout, &stderr)
		if stdout.String() != want || stderr.String() != "" {
			t.Errorf("%s: got %q and %q, want %q", command, &stdout, &stderr, want)
		}
		commands++
	}
	if commands < 5 {
		t.Errorf("only %d commands were found", commands)
	}
}
