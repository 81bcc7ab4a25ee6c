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

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"

	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/internal/yamlfile"
)

const docs = "../../docs/reference/configuration.md"

// The documentation lists all settings with their defaults, and no others.
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
	known := []string{configFlag, "cluster", "resources"}
	sources(&c).VisitAll(func(f *pflag.Flag) {
		known = append(known, f.Name)
		byDefault := strings.Trim(f.DefValue, "[]")
		if got, ok := documented[f.Name]; !ok || got != byDefault {
			t.Errorf("%s: got documented default %q, want %q", f.Name, got, byDefault)
		}
	})
	for name := range documented {
		if !slices.Contains(known, name) {
			t.Errorf("documented setting %s does not exist", name)
		}
	}
}

// docs/reference/limits.md has the default of each limit.
func TestLimitsAreDocumentedWithTheirDefaults(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\|.*\\| `([a-z-]+)` \\| (.*?) \\|").FindAllStringSubmatch(string(text), -1) {
		documented[row[1]] = strings.NewReplacer(",", "", " ", "", "off", "0").Replace(row[2])
	}
	c := config.Defaults()
	sources(&c).VisitAll(func(f *pflag.Flag) {
		got, ok := documented[f.Name]
		isLimit := strings.HasPrefix(f.Name, "max-") && !strings.HasSuffix(f.Name, "-burst")
		if isLimit && !ok || ok && got != f.DefValue {
			t.Errorf("%s: got documented default %q, want %q", f.Name, got, f.DefValue)
		}
		delete(documented, f.Name)
	})
	for name := range documented {
		t.Errorf("documented limit %s does not exist", name)
	}
}

// The documentation lists all exit statuses, and no others.
func TestExitStatusesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/tasks/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "| exit status |")
	table, _, _ := strings.Cut(rest, "\n\n")
	var documented []string
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+) \|`).FindAllStringSubmatch(table, -1) {
		documented = append(documented, row[1])
	}
	var all []string
	for _, code := range []int{exitOK, exitFailed, exitUsage, exitForced} {
		all = append(all, fmt.Sprint(code))
	}
	if !slices.Equal(documented, all) {
		t.Errorf("got documented exit statuses %v, want %v", documented, all)
	}
}

// Every setting is a key of the configuration file, and vice versa.
func TestFileHasEverySetting(t *testing.T) {
	out, err := yamlfile.Encode(config.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	var keys map[string]any
	if err := yaml.Load(out, &keys); err != nil {
		t.Fatal(err)
	}
	delete(keys, "resources")
	c := config.Defaults()
	sources(&c).VisitAll(func(f *pflag.Flag) {
		if _, ok := keys[f.Name]; !ok {
			t.Errorf("%s cannot be set in the file", f.Name)
		}
		delete(keys, f.Name)
	})
	for key := range keys {
		t.Errorf("%s can be set only in the file", key)
	}
}

func TestDocumentedConfigurationIsValid(t *testing.T) {
	text, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```yaml\n")
	example, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("no example found")
	}
	c, _, err := config.ReadFile(docs, []byte(example))
	if err != nil {
		t.Fatal(err)
	}
	if problems := c.Problems(); len(problems) > 0 {
		t.Error(problems)
	}
	if len(c.Resources) != 3 || c.Resources[1].Window.MaxSize != 128*config.MiB || !c.Resources[1].Fields[0].Indexed {
		t.Errorf("got resources %+v", c.Resources)
	}
}

// The configuration in docs/from-etcd.md is valid.
func TestConfigurationForExistingDataIsValid(t *testing.T) {
	const page = "../../docs/from-etcd.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```yaml\n")
	example, _, _ := strings.Cut(rest, "```")
	c, _, err := config.ReadFile(page, []byte(example))
	if err != nil {
		t.Fatal(err)
	}
	if problems := c.Problems(); len(problems) > 0 {
		t.Error(problems)
	}
	if len(c.Resources) != 1 || c.Resources[0].Prefix != "/config/" || len(c.EtcdEndpoints) != 1 {
		t.Errorf("got %+v", c)
	}
}

// The settings in docs/tasks/protect.md are valid together, and its commands work.
func TestDocumentedSecurityExamplesWork(t *testing.T) {
	const page = "../../docs/tasks/protect.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string][]string{}
	for _, block := range regexp.MustCompile("(?s)```([a-z]+)\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		if strings.HasPrefix(block[2], "# policy.yaml\n") {
			continue // see TestDocumentedPolicyAnswersAsDocumented
		}
		blocks[block[1]] = append(blocks[block[1]], block[2])
	}
	if len(blocks["yaml"]) < 3 || len(blocks["sh"]) < 1 {
		t.Fatalf("got blocks %q, want yaml and sh", blocks)
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

// The commands in docs/tasks/certificates.md work one after another.
func TestDocumentedCertificatesWork(t *testing.T) {
	text, err := os.ReadFile("../../docs/tasks/certificates.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	commands := regexp.MustCompile("(?m)^```sh\n(.*)\n```$").FindAllStringSubmatch(string(text), -1)
	if len(commands) < 7 {
		t.Errorf("got %d commands, want at least 7", len(commands))
	}
	for _, c := range commands {
		cmd := rootCommand(nil)
		var out strings.Builder
		cmd.SetOut(&out)
		cmd.SetArgs(strings.Fields(c[1])[1:])
		if err := cmd.ExecuteContext(t.Context()); err != nil || out.Len() == 0 {
			t.Errorf("%s: %q, %v", c[1], out.String(), err)
		}
	}
}

// The documentation lists all keys of a resource with their defaults, and no others.
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
	r.Fields, r.History = []config.Field{{}}, config.NewHistory()
	known := settings("", reflect.ValueOf(r))
	known["fields"], known["history"] = "", ""
	if diff := cmp.Diff(known, documented); diff != "" {
		t.Errorf("-defaults +documented:\n%s", diff)
	}
}

// The documentation lists all keys of a cluster with their defaults, and no others.
func TestClusterIsDocumented(t *testing.T) {
	text, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "## Cluster")
	table, _, _ := strings.Cut(rest, "\n## ")
	documented := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| (.*?) ?\\|").FindAllStringSubmatch(table, -1) {
		documented[row[1]] = strings.Trim(row[2], "`")
	}
	known := settings("", reflect.ValueOf(*config.NewCluster()))
	known["members"] = ""
	if diff := cmp.Diff(known, documented); diff != "" {
		t.Errorf("-defaults +documented:\n%s", diff)
	}
}

// settings returns the default values of a struct's fields, by key in the file.
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
		case reflect.Pointer:
			maps.Copy(all, settings(path+key+".", f.Elem()))
		case reflect.Slice:
			maps.Copy(all, settings(path+key+"[].", f.Index(0)))
		default:
			all[path+key] = fmt.Sprint(f)
		}
	}
	return all
}

// The policy in the documentation is valid, and answers as documented.
func TestDocumentedPolicyAnswersAsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/tasks/protect.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Authorization\n")
	_, rest, _ := strings.Cut(section, "# policy.yaml\n")
	example, rest, _ := strings.Cut(rest, "```")
	_, rest, _ = strings.Cut(rest, "```console\n")
	session, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("no example found")
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
		t.Errorf("got %d commands, want at least 5", commands)
	}
}
