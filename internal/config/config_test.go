package config_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/selector"
	"github.com/fanoutd/fanoutd/internal/yamlfile"
)

// read parses a file and returns its problems, one per line.
func read(t *testing.T, text string) (config.Config, string) {
	t.Helper()
	c, f, err := config.ReadFile("f", []byte(text))
	if err != nil {
		return c, err.Error()
	}
	return c, f.Locate(c.Problems()).Error()
}

func TestDefaultsAreValid(t *testing.T) {
	c := config.Defaults()
	if problems := c.Problems(); len(problems) > 0 {
		t.Error(problems)
	}
	for name, text := range map[string]string{
		"an empty file":    "",
		"an empty mapping": "{}",
		"a comment":        "# nothing",
		"null":             "null",
		"a resource":       "resources: [{name: config, history: {}}]",
	} {
		if got, problems := read(t, text); problems != "" || !cmp.Equal(got, c, asIfConfigured) {
			t.Errorf("%s differs from the defaults, %s:\n%s", name, problems, cmp.Diff(c, got, asIfConfigured))
		}
	}
}

// asIfConfigured ignores whether a history is configured or implied.
var asIfConfigured = cmpopts.IgnoreFields(config.History{}, "Implied")

// Without configured resources, only a server with an embedded etcd keeps a history.
func TestHistoryIsImpliedWithAnEmbeddedEtcd(t *testing.T) {
	for text, want := range map[string]bool{
		"":                            true,
		"etcd-endpoints: [a:1]":       false,
		"resources: [{name: config}]": false,
		"resources: [{name: config, history: {}}]":                          true,
		"{etcd-endpoints: [a:1], resources: [{name: config, history: {}}]}": true,
	} {
		c, problems := read(t, text)
		if c.Resolve(); problems != "" || c.KeepsHistory() != want {
			t.Errorf("%q: got a history: %v, want %v %s", text, c.KeepsHistory(), want, problems)
		}
	}
}

// The history of a resource overlaps no other resource.
func TestHistoryHasAPlaceOfItsOwn(t *testing.T) {
	_, problems := read(t, "resources: [{name: a, history: {}}, {name: b, prefix: '/fanoutd/a#history/x/'}]")
	if !strings.Contains(problems, "resources[0].history") || !strings.Contains(problems, "overlaps") {
		t.Errorf("got %q", problems)
	}
	_, problems = read(t, "resources: [{name: a, history: {versions: 1, max-age: 1s, max-bytes: 1}}]")
	for _, setting := range []string{"history.versions", "history.max-age", "history.max-bytes"} {
		if !strings.Contains(problems, setting) {
			t.Errorf("got %q, want a problem of %s", problems, setting)
		}
	}
}

// A key without a value is refused, because it would be read as zero instead of the default.
func TestMissingValuesAreRefused(t *testing.T) {
	const text = `listen:
writes: null
resources:
  - name: a
    cache: ~
    window:
      # max-events: 5
  -
`
	_, problems := read(t, text)
	want := `f:1:8: missing value
f:2:9: missing value
f:5:12: missing value
f:6:12: missing value
f:8:4: missing value`
	if problems != want {
		t.Errorf("got\n%s\nwant\n%s", problems, want)
	}
}

// An unquoted address such as *:7420 is a common mistake, because a star begins a YAML alias.
func TestUnquotedStarIsExplained(t *testing.T) {
	for text, want := range map[string]string{
		"listen: *:7420": `f:1:9: unknown anchor ':7420' referenced; quote values that begin with "*"`,
		"listen: *":      `f:1:10: want a name here; quote values that begin with "*" or "&"`,
		"listen: @x":     `f:1:9: a value cannot begin with this character; quote it, and indent with spaces instead of tabs`,
	} {
		if _, problems := read(t, text); problems != want {
			t.Errorf("%s: got\n%s\nwant\n%s", text, problems, want)
		}
	}
}

// The defaults of a resource depend on its other settings.
func TestResourceDefaults(t *testing.T) {
	for text, want := range map[string]func(*config.Resource){
		"{name: a}":                              func(*config.Resource) {},
		"{name: a, codec: json}":                 func(r *config.Resource) { r.Codec, r.LabelsPath = "json", "metadata.labels" },
		"{name: a, codec: json, labels-path: x}": func(r *config.Resource) { r.Codec, r.LabelsPath = "json", "x" },
		"{name: a, window: {max-events: 10}}":    func(r *config.Resource) { r.Window.MaxEvents, r.Window.MinEvents = 10, 10 },
		"{name: a, window: {max-events: 50000}}": func(r *config.Resource) { r.Window.MaxEvents = 50_000 },
		"{name: a, window: {min-events: 7}}":     func(r *config.Resource) { r.Window.MinEvents = 7 },
		"{name: a, cache: off}":                  func(r *config.Resource) { r.Cache = false },
		"{name: a, cache: true, prefix: /b/}":    func(r *config.Resource) { r.Prefix = "/b/" },
		"{name: a, fields: [{name: metadata.name, path: y}]}": func(r *config.Resource) {
			r.Fields = []config.Field{{Name: "metadata.name", Path: "y"}}
		},
		"{name: a, fields: [{name: x, path: y}]}":  func(r *config.Resource) { r.Fields = []config.Field{{Name: "x", Path: "y"}} },
		"{name: a, max-tombstones: 5, codec: raw}": func(r *config.Resource) { r.MaxTombstones, r.Codec = 5, "raw" },
		"{name: a, window: {freshness: 1h, max-size: 1MiB}}": func(r *config.Resource) {
			r.Window.Freshness, r.Window.MaxSize = config.Duration(3_600_000_000_000), config.MiB
		},
	} {
		r := config.NewResource("a")
		want(&r)
		got, problems := read(t, "resources: ["+text+"]")
		if problems != "" {
			t.Errorf("%s: %s", text, problems)
		}
		if diff := cmp.Diff([]config.Resource{r}, got.Resources); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// The names of built-in fields are reserved.
func TestBuiltInFieldNamesAreReserved(t *testing.T) {
	for _, name := range []string{selector.KeyField, selector.NameField} {
		_, problems := read(t, "resources: [{name: a, fields: [{name: "+name+", path: x}]}]")
		if !strings.Contains(problems, "is a built-in field") {
			t.Errorf("%s: %s", name, problems)
		}
	}
}

func TestNumberOfFieldsIsLimited(t *testing.T) {
	resource := func(n int) string {
		var b strings.Builder
		b.WriteString("resources:\n  - name: a\n    fields:\n")
		for i := range n {
			fmt.Fprintf(&b, "      - {name: f%d, path: x}\n", i)
		}
		return b.String()
	}
	if _, problems := read(t, resource(64)); problems != "" {
		t.Error(problems)
	}
	if _, problems := read(t, resource(65)); problems != "f:4:7: resources[0].fields: has 65 fields, the limit is 64" {
		t.Error(problems)
	}
}

const routes = `resources:
  - name: routes
    codec: protobuf
    descriptor-set: route.binpb
    message: acme.v1.Route
    fields:
      - {name: region, path: region}
      - {name: port, path: backend.port, indexed: true}
`

// Paths are compared with the message type once it is known.
func TestProtobufPathsAreChecked(t *testing.T) {
	c, problems := read(t, routes)
	if problems != "" {
		t.Error(problems)
	}
	if _, err := c.Resources[0].Schema(); err == nil {
		t.Error("Schema succeeded without descriptors")
	}
	set, err := os.ReadFile("../object/testdata/route.binpb")
	if err != nil {
		t.Fatal(err)
	}
	c.Resources[0].Descriptors = set
	if problems := c.Problems(); len(problems) > 0 {
		t.Error(problems)
	}
	schema, err := c.Resources[0].Schema()
	if err != nil {
		t.Fatal(err)
	}
	codec, err := object.NewCodec(c.Resources[0].Codec, schema)
	if err != nil {
		t.Fatal(err)
	}
	got, err := codec.Decode([]byte("\x12\x02eu\x3a\x02\x10\x50"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"eu", "80"}, got.Fields); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]object.Field{{Name: "region", Path: "region"}, {Name: "port", Path: "backend.port", Indexed: true}}, schema.Fields); diff != "" {
		t.Error(diff)
	}

	c.Resources[0].Message = "acme.v1.Backend"
	want := `resources[0].fields[0].path: "region": acme.v1.Backend has no field "region", it has host_name, port, fallback
resources[0].fields[1].path: "backend.port": acme.v1.Backend has no field "backend", it has host_name, port, fallback`
	if got := c.Problems().Error(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Any file is either refused with positions in the file, or read, printed and read again with
// the same result.
func FuzzFile(f *testing.F) {
	for _, s := range []string{
		"", "listen: :1\n", "resources:\n", "resources: []", "resources: [null]", "resources: [{name: a}, {name: a}]", "resources: [[]]",
		"listen: a\n---\nlisten: b", "a\n---\n", "\n...\n", "x: &x 1\nlisten: *x", "<<: {listen: a}", "- a", "\xff", "a: b: c", "? a", "listen: !!binary aGk=",
		"etcd-endpoints: [a:1, http://b:2]\netcd-password: secret\n", "max-value-size: 1.5KiB\nshutdown-grace: 61s\nwrites: false",
		"resources:\n  - &r {name: a, codec: json}\n  - {<<: *r, name: b, prefix: /b/}\n",
		"resources: [{name: a, window: {min-events: 1, max-events: 0, max-size: 1, freshness: 1s}, cache: off, max-tombstones: 1}]",
		"resources: [{name: a, codec: protobuf, fields: [{name: x}, {path: y, indexed: true}, null]}]",
		routes,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, file, err := config.ReadFile("f", data)
		if err != nil {
			problems, ok := errors.AsType[config.Problems](err)
			if !ok || len(problems) == 0 {
				t.Fatalf("%q: %v", data, err)
			}
			for _, p := range problems {
				if p.Message == "" || p.Origin != "f" {
					t.Errorf("%q: %+v", data, p)
				}
			}
			return
		}
		problems := file.Locate(c.Problems())
		for _, p := range problems {
			if p.Origin == "" && !strings.Contains(p.Key, "[") {
				continue // a missing key has no position
			}
			if p.Origin != "f" || p.Column < 1 {
				t.Fatalf("%q: problem without a position: %+v", data, p)
			}
			if p.Line < 1 || p.Line > len(data)+1 {
				t.Errorf("%q: position outside of the file: %+v", data, p)
			}
		}
		if len(problems) > 0 {
			return
		}
		for _, r := range c.Resources {
			if r.Codec == "protobuf" {
				continue // there are no descriptors
			}
			schema, err := r.Schema()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := object.NewCodec(r.Codec, schema); err != nil {
				t.Errorf("%q: %v", data, err)
			}
		}
		if c.EtcdPassword != "" {
			return // the password is not printed
		}
		printed, err := yamlfile.Encode(c)
		if err != nil {
			t.Fatal(err)
		}
		again, _, err := config.ReadFile("printed", printed)
		if err != nil {
			t.Fatalf("%q is printed as %q: %v", data, printed, err)
		}
		if diff := cmp.Diff(c, again, cmpopts.EquateEmpty(), asIfConfigured); diff != "" {
			t.Errorf("%q is printed as %q, -read +printed and read:\n%s", data, printed, diff)
		}
	})
}
